"""Prices and context windows of models, from the file that LiteLLM ships, read without importing LiteLLM.

Discounts for cached input are ignored, so the computed cost is an upper bound.
"""

import asyncio
import importlib.util
import json
import re
import threading
from pathlib import Path
from typing import Any, NamedTuple

_FILE = "model_prices_and_context_window_backup.json"
# Self-hosted servers: calls are free.
LOCAL_PROVIDERS = frozenset({"ollama", "ollama_chat", "lm_studio", "hosted_vllm"})
DEMO = "demo"  # the demo brain, which uses no model
_DAY = re.compile(r"-(20\d\d-?\d\d-?\d\d|[01]\d[0-3]\d)$")  # as in gpt-4o-2024-08-06 and gpt-4-0613


class Price(NamedTuple):
    """Dollars per token, the maximum number of input and output tokens, and what kind of model it is."""

    input: float | None
    output: float | None
    window: int | None
    max_output: int | None = None
    takes_images: bool | None = None
    mode: str | None = None  # chat, embedding, image_generation, …
    provider: str | None = None


_lock = threading.Lock()
_map: dict[str, Price] | None = None


def cost(model: str, input_tokens: int, output_tokens: int) -> float | None:
    """Return the price in dollars; 0 for local models, None for unknown ones."""
    if is_local(model) or model == DEMO:
        return 0.0
    price = _find(model)
    if price is None or price.input is None or price.output is None:
        return None
    return input_tokens * price.input + output_tokens * price.output


def is_local(model: str) -> bool:
    """Return whether a model runs on a self-hosted server, whose calls are free."""
    return model.partition("/")[0] in LOCAL_PROVIDERS


def is_known(model: str) -> bool:
    """Return whether the price of a model is known; a provider's price of 0 does not count, because it may change."""
    return is_local(model) or (model != DEMO and bool(cost(model, 1_000_000, 1_000_000)))


def window(model: str) -> int | None:
    """Return the maximum number of input tokens of a model, None if unknown."""
    price = _find(model)
    return price.window if price else None


def find(model: str) -> Price | None:
    """Return what is known about a model; None if nothing is."""
    return _find(model)


def takes_images(model: str) -> bool | None:
    """Return whether a model takes images as input; None if unknown."""
    price = _find(model)
    return price.takes_images if price else None


def is_chat(model: str) -> bool:
    """Return whether a model can chat, as far as is known: embeddings, speech and image models can't."""
    price = _find(model)
    return price is None or price.mode in (None, "chat", "responses", "completion")


def chat_models(provider: str) -> list[str]:
    """Return the names of a provider's chat models that the file lists, without snapshots of a day."""
    prices = _map if _map is not None else _loaded()
    names = [name for name, price in prices.items() if price.provider == provider and price.mode == "chat"]
    return [name for name in names if not name.startswith("ft:") and not _DAY.search(name)]


async def load() -> None:
    """Read the price file (30 ms) in a thread, so that later lookups don't block the event loop."""
    if _map is None:
        await asyncio.to_thread(_loaded)


def litellm_file(name: str) -> Path:
    """Return the path of a file that LiteLLM ships; raise FileNotFoundError if LiteLLM is not installed."""
    found = importlib.util.find_spec("litellm")
    if found is None or not found.submodule_search_locations:
        raise FileNotFoundError(name)
    return Path(found.submodule_search_locations[0]) / name


def _find(model: str) -> Price | None:
    prices = _map if _map is not None else _loaded()
    names = [model]  # under which the file may list the model, the most exact first
    while "/" in names[-1]:
        names.append(names[-1].partition("/")[2])
    if names[-1].startswith("ft:"):  # ft:BASE:ORGANISATION::ID costs what ft:BASE costs
        names.append(":".join(names[-1].split(":")[:2]))
    return next((prices[name] for name in names if name in prices), None)


def _loaded() -> dict[str, Price]:
    global _map  # noqa: PLW0603 - read on first use, because most commands need no prices
    with _lock:
        if _map is None:
            _map = _read()
        return _map


def _read() -> dict[str, Price]:
    try:
        text = litellm_file(_FILE).read_text(encoding="utf-8")
    except OSError:
        return {}
    entries = json.loads(text, object_hook=_price)
    return {name: price for name, price in entries.items() if name != "sample_spec" and isinstance(price, Price)}


def _price(entry: dict[str, Any]) -> Price | dict[str, Any]:
    """Return what is used of a model's entry; called while the file is parsed, which keeps little of it in memory."""
    if "litellm_provider" not in entry:
        return entry
    return Price(
        entry.get("input_cost_per_token"),
        entry.get("output_cost_per_token"),
        entry.get("max_input_tokens") or entry.get("max_tokens"),
        entry.get("max_output_tokens"),
        entry.get("supports_vision"),
        entry.get("mode"),
        entry.get("litellm_provider"),
    )
