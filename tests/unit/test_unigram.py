"""The tokenizer of artel-embed-1, compared with the library that its file was made for."""

from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from artel.vector_index.artel_embed import FOLDER, MAX_TOKENS
from artel.vector_index.unigram import MAX_CHARACTERS, Unigram, words_of

FILE = FOLDER / "tokenizer.json"
DOCS = Path(__file__).parents[2] / "docs"
LETTERS = "abcdeghinorstuzABΣςßéàбвгдежзикЖЩ中文字如何在生产环境あカ한국어שלום"
OTHERS = "0129²½①٣ \t\n\u00a0\u3000\u200b\u200d\u0301\u0308.,;:!?-_—'\"()[]{}<>/\\@#$%&*+=|~^`«»“”€№▁ⒶⅣﬁﷺ🅰🅐😀👍🏽"


@lru_cache
def ours() -> Unigram:
    return Unigram(FILE)


@lru_cache
def theirs() -> Tokenizer:
    return Tokenizer.from_file(str(FILE))


def ids(text: str) -> list[int]:
    return list(theirs().encode(text, add_special_tokens=False).ids)


@given(st.one_of(st.text(LETTERS + OTHERS, max_size=60), st.text(LETTERS, max_size=60)))
@example("Straße <pad> and <unk>, İstanbul ΣΊΣΥΦΟΣ")
@example("\u0300 leading mark")
def test_any_text_has_the_same_ids(text: str) -> None:
    assert ours().encode(text, MAX_CHARACTERS) == ids(text)


def test_pages_have_the_same_ids_up_to_the_limit() -> None:
    for page in DOCS.rglob("*.md"):
        for paragraph in page.read_text().split("\n\n"):
            text = paragraph[:MAX_CHARACTERS]
            assert ours().encode(text, MAX_TOKENS) == ids(text)[:MAX_TOKENS], text


@pytest.mark.parametrize("letter", ["a", "中", "ﷺ", "<pad>", "▁", "\u0301\u0323"])
def test_long_words_are_cut(letter: str) -> None:
    words = words_of(letter * 100_000)

    assert sum(map(len, words)) <= MAX_CHARACTERS + 1  # the mark at the beginning
    assert len(ours().encode(letter * 100_000, MAX_TOKENS)) <= MAX_TOKENS
