"""BM25 as sparse vectors; the same words give the same numbers in every store and process.

A document's vector has the weights of its terms, a query's vector has ones. The engine applies the idf of a term,
because it changes with every memory.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import islice, pairwise

MAX_TOKENS = 10_000  # of a document
MAX_QUERY_TERMS = 64  # every term costs the engine one posting list
MAX_TOKEN_LENGTH = 64
CACHED_DOCUMENTS = 512  # about 10 KB each
SATURATION = 1.2  # BM25's k1
LENGTH_WEIGHT = 0.75  # BM25's b
AVERAGE_LENGTH = 128.0  # tokens; fixed, so that a document's vector doesn't depend on other documents

# Scripts without spaces between words: Thai, Lao, Khmer, Han, Kana, Hangul.
_UNSPACED = (
    "\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
# Python's \w excludes combining vowel signs and accents and would split words at them.
_MARKS = (
    "\u0300-\u036f\u0591-\u05bd\u05bf\u0610-\u061a\u064b-\u065f\u0670"
    "\u0900-\u0963\u0966-\u0dff\u0f00-\u0fff\u1000-\u109f"
)
_RUN = re.compile(rf"(?P<unspaced>[{_UNSPACED}]+)|(?:(?![_{_UNSPACED}])[\w{_MARKS}])+")


@dataclass(frozen=True, slots=True)
class SparseVector:
    """Term numbers in ascending order and their weights."""

    indices: list[int]
    values: list[float]


def tokens(text: str) -> Iterator[str]:
    """Yield the case-folded words of a text; scripts without spaces yield overlapping pairs of characters."""
    for run in _RUN.finditer(unicodedata.normalize("NFKC", text).casefold()):
        word = run.group()
        if run["unspaced"] and len(word) > 1:
            yield from (first + second for first, second in pairwise(word))
        else:
            yield word[:MAX_TOKEN_LENGTH]


def document_vector(text: str) -> SparseVector:
    """Return a document's terms, weighted by frequency and document length."""
    counts = Counter(map(_number, islice(tokens(text), MAX_TOKENS)))
    length = 1 - LENGTH_WEIGHT + LENGTH_WEIGHT * counts.total() / AVERAGE_LENGTH
    indices = sorted(counts)
    values = [counts[index] * (SATURATION + 1) / (counts[index] + SATURATION * length) for index in indices]
    return SparseVector(indices, values)


def query_words(text: str) -> list[str]:
    """Return the distinct words of a query, at most MAX_QUERY_TERMS."""
    return list(islice(dict.fromkeys(islice(tokens(text), MAX_TOKENS)), MAX_QUERY_TERMS))


def word_pattern(spellings: Sequence[str]) -> str | None:
    """Return a regular expression, for Python and PostgreSQL, that finds a whole word in one of its spellings.

    The text may have no underscores. None for scripts without spaces, which have no whole words.
    """
    if re.fullmatch(f"[{_UNSPACED}]+", spellings[0]):
        return None
    # The word is first, because Python finds a literal beginning much faster.
    return "|".join(rf"{word}(?<!\w{word})(?!\w)" for word in map(re.escape, spellings))


def query_vector(text: str) -> SparseVector:
    """Return the distinct terms of a query, at most MAX_QUERY_TERMS."""
    indices = sorted(set(map(_number, query_words(text))))
    return SparseVector(indices, [1.0] * len(indices))


def word_scores(query: str, texts: Iterable[str]) -> list[float]:
    """Return how well each text matches a query by words, without idf; 0 if they share no word."""
    terms = query_vector(query).indices
    return [sum(weights.get(index, 0.0) for index in terms) for weights in map(_weights, texts)]


@lru_cache(maxsize=CACHED_DOCUMENTS)
def _weights(text: str) -> dict[int, float]:
    """Return the weight of each term of a document; the same few documents are asked for until they are indexed."""
    document = document_vector(text)
    return dict(zip(document.indices, document.values, strict=True))


def full_match(query: str, documents: int) -> float:
    """Return about the score of a document that has all words of the query, if hardly another one has them."""
    return len(query_vector(query).indices) * (SATURATION + 1) * idf(max(documents, 1), 1)


def idf(documents: int, with_term: int) -> float:
    """Return the inverse document frequency of a term, by Qdrant's formula."""
    return math.log((documents - with_term + 0.5) / (with_term + 0.5) + 1)


@lru_cache(maxsize=16_384)
def _number(token: str) -> int:
    return int.from_bytes(blake2b(token.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "little")
