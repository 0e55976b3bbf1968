"""Counts tokens with OpenAI's tokenizers, without network access and without importing LiteLLM.

The vocabularies are those that LiteLLM ships. They are read here, because tiktoken would delete a damaged file and
download another. Models of other vendors are counted as if they were GPT-4, which is close. Where the files or the
libraries are missing, a token is assumed to be four bytes.
"""

import asyncio
import hashlib
import re
import threading
from binascii import a2b_base64
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from artel.brain.prices import litellm_file
from artel.brain.vocabulary import TooLong, Vocabulary

# Long texts are counted in pieces, because long runs of one character take more than linear time.
PIECE_CHARACTERS = 16_384
BYTES_PER_TOKEN = 4
REMEMBERED_CHARACTERS = 4_000
INLINE_BYTES = 4_000  # longer texts take the event loop more than a few milliseconds
_MAYBE_LONG_WORD = re.compile(r"\w{30}|[\W_]{30}")  # every word that is too long for a vocabulary has this

_O200K_MODELS = re.compile(r"(gpt-4o|gpt-4\.[1-9]|gpt-[5-9]|chatgpt-4o|o[1-9](-|$)|gpt-oss)")
_OPENAI_MODELS = re.compile(r"(ft:)?(gpt-|chatgpt-|o[1-9](-|$))")
_CL100K_PATTERN = (
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"""
    r"""|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
)
_O200K_PATTERN = "|".join(
    (
        r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
        r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
        r"""\p{N}{1,3}""",
        r""" ?[^\s\p{L}\p{N}]+[\r\n/]*""",
        r"""\s*[\r\n]+""",
        r"""\s+(?!\S)""",
        r"""\s+""",
    )
)
_PATTERNS = {"cl100k_base": _CL100K_PATTERN, "o200k_base": _O200K_PATTERN}

Counter = Callable[[str], int]
T = TypeVar("T")

_lock = threading.Lock()
_counters: dict[str, Counter] = {}
_long_counters: dict[str, Counter] = {}


def count_tokens(text: str, model: str | None = None) -> int:
    """Return the number of tokens of a text, by default for GPT-4. The first call reads a vocabulary (0.1 s)."""
    name = encoding_of(model)
    if len(text) <= REMEMBERED_CHARACTERS:  # prompts are counted repeatedly
        return _remembered(name, text)
    return _counted(name, text)


async def count_in_background(text: str) -> int:
    """Return the number of tokens for GPT-4; in a thread, unless the text is short and needs nothing to be loaded."""
    return await run_counting(lambda: count_tokens(text), text)


async def run_counting(work: Callable[[], T], *texts: str) -> T:
    """Return the result of work that counts the tokens of these texts for GPT-4, in a thread if one is long."""
    return work() if all(map(_is_quick, texts)) else await asyncio.to_thread(work)


def _is_quick(text: str) -> bool:
    """Return whether a text is short and counting it loads nothing."""
    name = encoding_of(None)
    if name not in _counters or len(text) > INLINE_BYTES or len(text.encode(errors="replace")) > INLINE_BYTES:
        return False
    return name in _long_counters or _MAYBE_LONG_WORD.search(text) is None


@lru_cache(maxsize=1_024)
def _remembered(name: str, text: str) -> int:
    return _counted(name, text)


def _counted(name: str, text: str) -> int:
    if len(text) <= PIECE_CHARACTERS:
        counter = _counters.get(name) or _loaded(_counters, _counter, name)
        return counter(text)
    counter = _long_counter(name)
    return sum(counter(text[start : start + PIECE_CHARACTERS]) for start in range(0, len(text), PIECE_CHARACTERS))


def is_ready(model: str | None = None) -> bool:
    """Return whether the model's vocabulary is loaded."""
    return encoding_of(model) in _counters


def is_exact(model: str) -> bool:
    """Return whether the vocabulary is the model's own."""
    return bool(_OPENAI_MODELS.match(model.rpartition("/")[2]))


def encoding_of(model: str | None) -> str:
    """Return the name of the vocabulary that a model uses."""
    if model and _O200K_MODELS.match(model.rpartition("/")[2]):
        return "o200k_base"
    return "cl100k_base"


def _loaded(counters: dict[str, Counter], make: Callable[[str], Counter], name: str) -> Counter:
    with _lock:
        if name not in counters:
            counters[name] = make(name)
        return counters[name]


def _counter(name: str) -> Counter:
    """Return a counter of texts of ordinary length."""
    try:
        vocabulary = Vocabulary(_file(name), _PATTERNS[name])
    except (ImportError, OSError, ValueError):
        return _count_bytes

    def count(text: str) -> int:
        try:
            return vocabulary.count(text)
        except (TooLong, UnicodeEncodeError):
            return _long_counter(name)(text)

    return count


def _long_counter(name: str) -> Counter:
    return _long_counters.get(name) or _loaded(_long_counters, _tiktoken_counter, name)


def _tiktoken_counter(name: str) -> Counter:
    """Return a counter that is faster for long texts but takes 24 MB or more."""
    try:
        from tiktoken import Encoding  # a late import, because few texts are that long

        lines = _file(name).read_bytes().splitlines()
        ranks = {a2b_base64(token): int(rank) for token, rank in (line.split() for line in lines)}
    except (ImportError, OSError, ValueError):
        return _count_bytes
    # No special tokens, so that no user text is treated as one.
    encoding = Encoding(name, pat_str=_PATTERNS[name], mergeable_ranks=ranks, special_tokens={})
    ranks.clear()  # the encoding has its own copy: saves 18 MB
    return lambda text: len(encoding.encode_ordinary(text))


def _count_bytes(text: str) -> int:
    return -(-len(text.encode(errors="replace")) // BYTES_PER_TOKEN)


def _file(name: str) -> Path:
    # The files are named as in tiktoken's cache.
    url = f"https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"
    file = hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()
    return litellm_file(f"litellm_core_utils/tokenizers/{file}")
