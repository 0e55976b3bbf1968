"""Paths of task workspaces for Hypothesis: good ones, and path traversal in many spellings."""

import re

from hypothesis import strategies as st

names = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp"), exclude_characters="/\\:"),
    min_size=1,
    max_size=8,
).filter(lambda name: name not in (".", "..") and not re.fullmatch(r"\.artel-.*\.tmp", name))
paths = st.lists(names, min_size=1, max_size=4).map("/".join)
# Path traversal in many spellings: a component `..`, a leading slash, a drive, backslashes, odd characters.
odd_texts = st.text(st.characters(codec="utf-8") | st.sampled_from("/.\\\x00\u202e"), max_size=12)
traversals = st.one_of(
    st.tuples(st.lists(odd_texts, max_size=3), st.lists(odd_texts, max_size=3)).map(
        lambda around: "/".join([*around[0], "..", *around[1]])
    ),
    odd_texts.map(lambda rest: f"/{rest}"),
    paths.map(lambda rest: f"C:\\{rest}"),
    st.sampled_from(
        ["..", "../", "a/../../b", "..\\x", "/etc/passwd", "//", "a/..", "./../x", "a/b/../../../c", "/\x00"]
    ),
    st.integers(1, 3_000).map(lambda times: "../" * times + "x"),
)
