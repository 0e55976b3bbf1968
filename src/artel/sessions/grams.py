"""What the index of messages contains of a text: its grams, which are three characters long.

A text contains another one if it does so without regard to case. Then the index has all grams of the shorter text
for the longer one. The reverse need not be true, so whoever finds a message by its grams has to look at its text.

Chinese, Japanese and Korean texts have words of one or two characters: each of these characters is put between two
marks, so that one of them has a gram of its own, and so have two in a row.
"""

import re
from functools import lru_cache
from zlib import crc32

MARK = "\x1f"
LENGTH = 3
MAX_USED = 8  # grams that a query is looked up by, distributed over its text
# Whitespace, control characters and punctuation: a gram with one of them would tell little about a text.
_SEPARATOR = re.compile(r"[\s\x00-/:-@\[-`{-\xbf\u2000-\u206f\u3000-\u303f\uff00-\uff0f\uff1a-\uff20]")
_IDEOGRAPH = re.compile("([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff])")


def folded(text: str) -> str:
    """Return a text as it is compared: without upper case."""
    return text.casefold()


def contains(content: str, folded_text: str) -> bool:
    """Return whether a content contains a folded text."""
    return folded_text in folded(content)


def split_text(text: str) -> str:
    """Return the text whose parts of three characters without a space are the grams of a text."""
    plain = _SEPARATOR.sub(" ", folded(text))
    if plain.isascii():
        return plain
    return _IDEOGRAPH.sub(rf"{MARK}\1{MARK}", plain).replace(MARK + MARK, MARK)


def grams_of(split: str) -> list[str]:
    """Return the distinct grams of a text that was split, in order."""
    every = dict.fromkeys(split[at : at + LENGTH] for at in range(len(split) - LENGTH + 1))
    return [gram for gram in every if " " not in gram]


def used_grams(text: str) -> list[str]:
    """Return the grams that messages with a text are looked up by; none if it is too short."""
    every = grams_of(split_text(text))
    step = -(-len(every) // MAX_USED) or 1
    return every[::step]


@lru_cache(maxsize=50_000)
def number_of(gram: str) -> int:
    """Return the number of a gram, in PostgreSQL's index; few grams share one."""
    return crc32(gram.encode("utf-8", "surrogatepass")) >> 1


def user_number(user_id: int) -> int:
    """Return the number of a user, in PostgreSQL's index, which is no gram's."""
    return -2 * (user_id % 2**30)


def bucket_number(bucket: int) -> int:
    """Return the number of a bucket of messages, in PostgreSQL's index, which is no gram's or user's."""
    return -2 * bucket - 1
