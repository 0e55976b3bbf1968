"""A tokenizer's vocabulary in 2 to 4 MB, where tiktoken takes 24 to 50, for texts of ordinary length.

Counts exactly as tiktoken does. The vocabulary is a hash table of 64-bit integers: the upper bits hold a token's hash,
the lower ones its rank. Two tokens are confused if 46 bits of their hashes are the same, which doesn't happen.
"""

from array import array
from binascii import a2b_base64
from functools import lru_cache
from pathlib import Path

RANK_BITS = 18  # ranks are below 262,143
_RANK = (1 << RANK_BITS) - 1
_HASH = (1 << 64) - 1
_NONE = 1 << RANK_BITS  # higher than every rank

MAX_WORD_BYTES = 128  # merging takes quadratic time
REMEMBERED_WORDS = 4_096


class TooLong(Exception):
    """A text has a word that takes too long to count."""


class Vocabulary:
    """Counts the tokens of texts."""

    def __init__(self, file: Path, pattern: str) -> None:
        """Read a file of tiktoken's format; the pattern splits texts into words.

        Raise ImportError if the library for its patterns is missing, OSError or ValueError if the file can't be used.
        """
        import regex  # type: ignore[import-untyped]  # lazy, because most commands count nothing

        with file.open("rb") as lines:
            size = sum(1 for _ in lines)
        self._last_slot = (1 << (2 * size).bit_length()) - 1
        self._table = array("Q", bytes(8 * (self._last_slot + 1)))
        with file.open("rb") as lines:
            for line in lines:
                token, rank = line.split()
                self._add(a2b_base64(token), int(rank))
        self._words = regex.compile(pattern).findall
        self._word_tokens = lru_cache(REMEMBERED_WORDS)(self._count_word)

    def count(self, text: str) -> int:
        """Return the number of tokens; raise TooLong if another tokenizer should count them."""
        return sum(map(self._word_tokens, self._words(text)))

    def _add(self, token: bytes, rank: int) -> None:
        if not 0 <= rank < _RANK:
            raise ValueError(f"rank {rank} is too high")
        hashed = hash(token) & _HASH
        slot = hashed & self._last_slot
        while self._table[slot]:
            slot = (slot + 1) & self._last_slot
        self._table[slot] = (hashed & ~_RANK) | (rank + 1)  # 0 is an empty slot

    def _rank(self, token: bytes) -> int:
        """Return the rank of a token, _NONE if there is no such token."""
        hashed = hash(token) & _HASH
        slot = hashed & self._last_slot
        while entry := self._table[slot]:
            if entry >> RANK_BITS == hashed >> RANK_BITS:
                return (entry & _RANK) - 1
            slot = (slot + 1) & self._last_slot
        return _NONE

    def _count_word(self, word: str) -> int:
        """Return the number of tokens after merging adjacent ones, the lowest rank first, as long as possible."""
        text = word.encode(errors="replace")
        if self._rank(text) != _NONE:
            return 1
        if len(text) > MAX_WORD_BYTES:
            raise TooLong
        tokens = [text[index : index + 1] for index in range(len(text))]
        ranks = [self._rank(text[index : index + 2]) for index in range(len(text) - 1)]  # of each token and the next
        while ranks and (lowest := min(ranks)) != _NONE:
            index = ranks.index(lowest)
            tokens[index] += tokens.pop(index + 1)
            del ranks[index]
            if index < len(ranks):
                ranks[index] = self._rank(tokens[index] + tokens[index + 1])
            if index:
                ranks[index - 1] = self._rank(tokens[index - 1] + tokens[index])
        return len(tokens)
