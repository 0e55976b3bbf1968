"""Prices, windows and token counts equal those of LiteLLM and tiktoken, without importing LiteLLM or network access."""

import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import regex  # type: ignore[import-untyped]
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from artel.brain import prices, tokens
from artel.brain.prices import cost, window
from artel.brain.tokens import PIECE_CHARACTERS, count_tokens, encoding_of
from artel.brain.vocabulary import _NONE, MAX_WORD_BYTES, Vocabulary

TEXTS = {
    "English": "The quick brown fox jumps over the lazy dog. " * 20,
    "Russian": "Съешь же ещё этих мягких французских булок. " * 20,
    "Chinese": "敏捷的棕色狐狸跳过了懒狗。" * 20,
    "code": "def f(x: int) -> int:\n    return x ** 2  # square\n\n" * 20,
    "emoji": "😀👩‍👩‍👧‍👦 " * 20,
}


@pytest.fixture(autouse=True)
def _vocabularies_from_the_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    found = importlib.util.find_spec("litellm")
    assert found
    assert found.submodule_search_locations
    folder = Path(found.submodule_search_locations[0]) / "litellm_core_utils" / "tokenizers"
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(folder))  # for tiktoken, the reference


def test_prices_are_per_token() -> None:
    assert cost("gpt-4", 1000, 100) == pytest.approx(1000 * 3e-5 + 100 * 6e-5)
    assert cost("gpt-4o", 0, 0) == 0
    assert window("gpt-4") == 8192
    assert window("gpt-4o") == 128_000


@pytest.mark.parametrize(
    ("model", "other"),
    [
        ("openai/gpt-4o", "gpt-4o"),
        ("anthropic/claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("ft:gpt-4o-2024-08-06:acme::abc123", "ft:gpt-4o-2024-08-06"),
    ],
)
def test_all_names_of_a_model_have_the_same_price(model: str, other: str) -> None:
    assert cost(model, 10, 10) == cost(other, 10, 10) != 0
    assert cost(model, 10, 10) is not None
    assert window(model) == window(other) is not None


@pytest.mark.parametrize("model", ["ollama/llama3:8b", "ollama_chat/x", "lm_studio/qwen", "hosted_vllm/a/b", "demo"])
def test_local_models_are_free(model: str) -> None:
    assert cost(model, 1000, 1000) == 0


@pytest.mark.parametrize("model", ["nobodys-model", "", "/", "a/b/c", "sample_spec"])
def test_unknown_models_have_no_price_and_no_window(model: str) -> None:
    assert cost(model, 1, 1) is None
    assert window(model) is None


def test_every_price_and_window_is_a_number() -> None:
    everything = prices._loaded()

    assert len(everything) > 1000
    for name, price in everything.items():
        assert price.input is None or (isinstance(price.input, int | float) and price.input >= 0), name
        assert price.output is None or (isinstance(price.output, int | float) and price.output >= 0), name
        assert price.window is None or (isinstance(price.window, int | float) and price.window >= 0), name


def test_without_litellm_no_price_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)

    assert prices._read() == {}


def test_tokens_and_prices_need_neither_litellm_nor_the_network() -> None:
    program = """
import json, socket, sys
socket.socket.connect = socket.create_connection = None
from artel.brain.prices import cost
from artel.brain.tokens import count_tokens
print(json.dumps([count_tokens("hello world"), cost("gpt-4", 1, 1), "litellm" in sys.modules]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert json.loads(done.stdout) == [2, pytest.approx(9e-5), False]


@pytest.mark.parametrize("name", ["cl100k_base", "o200k_base"])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_token_counts_equal_those_of_tiktoken(name: str, text: str) -> None:
    model = "gpt-4o" if name == "o200k_base" else "gpt-4"

    assert count_tokens(text, model) == len(tiktoken.get_encoding(name).encode_ordinary(text))


@given(st.text() | st.text("aeiost .,\n's'LL19éжи中 ", max_size=200), st.sampled_from(["gpt-4", "gpt-4o"]))
def test_token_count_of_any_text_equals_that_of_tiktoken(text: str, model: str) -> None:
    assert count_tokens(text, model) == len(tiktoken.get_encoding(encoding_of(model)).encode_ordinary(text))


@pytest.mark.parametrize("name", ["cl100k_base", "o200k_base"])
def test_each_token_of_a_vocabulary_is_found_with_its_rank(name: str) -> None:
    vocabulary = Vocabulary(tokens._file(name), "")
    ranks = [vocabulary._rank(token) for token in tiktoken.get_encoding(name)._mergeable_ranks]

    assert ranks == list(tiktoken.get_encoding(name)._mergeable_ranks.values())
    assert vocabulary._rank(b"no such token") == vocabulary._rank(b"") == _NONE


SHORT_TEXTS = """
import sys
from artel.brain.tokens import count_tokens
print(count_tokens("hello world " * 1_000), "tiktoken" in sys.modules)
print(count_tokens("x" * 200), "tiktoken" in sys.modules)
"""


def test_texts_of_ordinary_length_need_no_tiktoken() -> None:
    done = subprocess.run([sys.executable, "-c", SHORT_TEXTS], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.splitlines() == ["2001 False", "25 True"]


PARTS = ["a", "é", "红", "𠀀", "1", "½", "_", "-", "\u0301", "กำ", "😀", " ", "\n"]
COUNTED = """
import asyncio, sys, threading
from artel.brain import tokens

threads = []
count = tokens.count_tokens

def counted(text):
    threads.append(threading.current_thread() is threading.main_thread())
    return count(text)

tokens.count_tokens = counted

async def main():
    for text in ["hello", "hello", "短い" * 20, "x" * 200, "y" * 200, "hello world " * 400]:
        assert await tokens.count_in_background(text) == count(text)

asyncio.run(main())
print(threads, "tiktoken" in sys.modules)
"""


@pytest.mark.req("AGT-03.2")
def test_the_event_loop_counts_only_what_is_short_and_loads_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", COUNTED], capture_output=True, text=True, check=True, timeout=60)

    # The first loads the vocabulary, the third may load tiktoken and the fourth does, the last is long.
    assert done.stdout.strip() == "[False, True, False, False, True, False] True"


@settings(max_examples=300, deadline=None)
@given(parts=st.lists(st.tuples(st.sampled_from(PARTS), st.integers(1, 140)), max_size=6))
def test_text_with_a_long_word_is_not_counted_on_the_event_loop(parts: list[tuple[str, int]]) -> None:
    text = "".join(part * times for part, times in parts)
    words = regex.findall(tokens._CL100K_PATTERN, text)

    is_long = any(len(word.encode()) > MAX_WORD_BYTES for word in words)
    assert not is_long or tokens._MAYBE_LONG_WORD.search(text)


@pytest.mark.parametrize("text", ["<|endoftext|>", "<|im_start|>system<|im_end|>", "\ud800 alone", "\x00\x01"])
def test_special_tokens_are_counted_as_plain_text(text: str) -> None:
    assert count_tokens(text) > 1


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        (None, "cl100k_base"),
        ("gpt-4", "cl100k_base"),
        ("gpt-4-turbo", "cl100k_base"),
        ("gpt-3.5-turbo", "cl100k_base"),
        ("anthropic/claude-sonnet-4-5", "cl100k_base"),
        ("ollama/llama3", "cl100k_base"),
        ("gpt-4o-mini", "o200k_base"),
        ("openai/gpt-4.1", "o200k_base"),
        ("gpt-5.2", "o200k_base"),
        ("o1", "o200k_base"),
        ("o3-mini", "o200k_base"),
    ],
)
def test_each_model_has_its_vocabulary(model: str | None, encoding: str) -> None:
    assert encoding_of(model) == encoding
    if model in ("gpt-4", "gpt-4-turbo", "gpt-3.5-turbo", "gpt-4o-mini", "o1", "o3-mini"):
        assert tiktoken.encoding_name_for_model(model) == encoding


@pytest.mark.parametrize("character", ["a", " ", "\n", "=", "語", "😀"])
def test_a_megabyte_is_counted_in_a_second_or_two(character: str) -> None:
    count_tokens("")
    text = character * (1_000_000 // len(character.encode()))
    began = time.process_time()

    counted = count_tokens(text)

    assert time.process_time() - began < 2
    assert 0 < counted <= len(text.encode())


def test_counting_in_pieces_is_close_to_counting_at_once() -> None:
    text = TEXTS["English"] * 100
    assert len(text) > 5 * PIECE_CHARACTERS

    exact = len(tiktoken.get_encoding("cl100k_base").encode_ordinary(text))

    assert exact <= count_tokens(text) <= exact + 2 * (len(text) // PIECE_CHARACTERS)


def test_without_a_vocabulary_a_token_is_four_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_counters", {})
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)

    assert [count_tokens(text) for text in ("", "a", "abcd", "abcde", "ёж", "\ud800")] == [0, 1, 1, 2, 1, 1]


def test_a_vocabulary_is_read_once_however_many_threads_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_counters", {})
    reads, together = [], threading.Barrier(8)

    def counting_read(file: Path, pattern: str) -> Vocabulary:
        reads.append(file)
        return Vocabulary(file, pattern)

    def count(_number: int) -> int:
        together.wait(10)
        return count_tokens("hello world")

    monkeypatch.setattr(tokens, "Vocabulary", counting_read)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(count, range(8))) == [2] * 8
    assert len(reads) == 1
