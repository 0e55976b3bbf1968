"""The tokenizer of artel-embed-1: the most probable sequence of pieces of each word.

It reads the file of the library `tokenizers` and returns the same ids in a sixth of its memory (10 MB).
"""

import json
import math
import re
import unicodedata
from functools import lru_cache
from itertools import groupby
from pathlib import Path

PAD, UNKNOWN = "<pad>", "<unk>"
SPACE = "▁"  # begins each word
UNKNOWN_PENALTY = 10.0
CAPITAL_SIGMA, SIGMA = "\u03a3", "\u03c3"  # `lower` has another sigma for the end of a word; the vocabulary does not
MAX_CHARACTERS = 4_000  # of a text, before and after normalization: more than 254 tokens have
CACHED_WORDS = 4_096
MAX_CACHED_CHARACTERS = 64

_SPECIAL = re.compile(f"({PAD}|{UNKNOWN})")
_WHITESPACE = re.compile(r"[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
_WORD = re.compile(f"{SPACE}?[^{SPACE}]*")
# Not `\w`, which in Python has all numbers but no marks.
_LETTERS = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nl", "Pc"})
_LETTERS_IN_CIRCLES = frozenset(map(chr, (*range(0x1F150, 0x1F16A), *range(0x1F170, 0x1F18A))))


class Unigram:
    """A vocabulary of pieces with their log probabilities."""

    def __init__(self, file: Path) -> None:
        pieces = json.loads(file.read_bytes())["model"]["vocab"]
        self._ids = {piece: index for index, (piece, _) in enumerate(pieces)}
        self._scores = [score for _, score in pieces]
        self._unknown = self._ids[UNKNOWN]
        self._unknown_score = min(self._scores) - UNKNOWN_PENALTY
        self._longest = max(map(len, self._ids))
        self._ids_of_short = lru_cache(CACHED_WORDS)(self._ids_of)

    def encode(self, text: str, limit: int) -> list[int]:
        """Return the ids of the first `limit` tokens of a text."""
        ids: list[int] = []
        for part in _SPECIAL.split(text[:MAX_CHARACTERS]):
            if part in (PAD, UNKNOWN):
                ids.append(self._ids[part])
                continue
            for word in words_of(part):
                ids += self._ids_of_short(word) if len(word) <= MAX_CACHED_CHARACTERS else self._ids_of(word)
                if len(ids) >= limit:
                    return ids[:limit]
        return ids[:limit]

    def _ids_of(self, word: str) -> tuple[int, ...]:
        """Return the ids of the most probable pieces of a word (Viterbi); adjacent unknown characters are one."""
        ids, scores, longest = self._ids, self._scores, self._longest
        best = [0.0, *[-math.inf] * len(word)]  # score of the best pieces up to a position
        begins, last = [0] * (len(word) + 1), [0] * (len(word) + 1)  # of the last piece: its begin and id
        for begin in range(len(word)):
            before = best[begin]
            for end in range(begin + 1, min(begin + longest, len(word)) + 1):
                index = ids.get(word[begin:end])
                if index is not None:
                    score = before + scores[index]
                elif end == begin + 1:
                    index, score = self._unknown, before + self._unknown_score
                else:
                    continue
                if score > best[end]:
                    best[end], begins[end], last[end] = score, begin, index
        found, end = [], len(word)
        while end:
            found.append(last[end])
            end = begins[end]
        found.reverse()
        return tuple(index for index, group in groupby(found) for _ in (range(1) if index == self._unknown else group))


def words_of(text: str) -> list[str]:
    """Return the normalized words of a text; digits, punctuation and symbols are words of their own."""
    text = unicodedata.normalize("NFKC", text)[:MAX_CHARACTERS]
    text = _WHITESPACE.sub(" ", text.replace(CAPITAL_SIGMA, SIGMA).lower()).replace(" ", SPACE)
    if not text:
        return []
    if not text.startswith(SPACE):
        text = SPACE + text
    words: list[str] = []
    for word in _WORD.findall(text):
        for is_alone, letters in groupby(word, _stands_alone):
            run = "".join(letters)
            words += run if is_alone else [run]
    return words


@lru_cache(8_192)
def _stands_alone(character: str) -> bool:
    if character == SPACE:
        return False
    is_letter = unicodedata.category(character) in _LETTERS or character in _LETTERS_IN_CIRCLES
    return character == "_" or not is_letter
