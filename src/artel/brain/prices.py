"""What models cost and how much they can take, from the map that LiteLLM ships, read without importing LiteLLM.

Prices are those of plain input and output; what a provider takes off for cached input is not counted, so a cost is
rather too high than too low.
"""

import asyncio
import importlib.util
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

_FILE = "model_prices_and_context_window_backup.json"
# Servers that people run themselves: nobody sends a bill.
LOCAL_PROVIDERS = frozenset({"ollama", "ollama_chat", "lm_studio", "hosted_vllm"})
DEMO = "demo"  # rules, no model


class Price(NamedTuple):
    """Dollars per token, and the most tokens of input."""

    input: float | None
    output: float | None
    window: int | None


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
    """Return whether a model runs on a server of one's own, which nobody sends a bill for."""
    return model.partition("/")[0] in LOCAL_PROVIDERS


def is_known(model: str) -> bool:
    """Return whether it is known what a model costs. That others give one away for nothing may end any day."""
    return is_local(model) or (model != DEMO and bool(cost(model, 1_000_000, 1_000_000)))


def window(model: str) -> int | None:
    """Return how many tokens of input the model takes, None when that is unknown."""
    price = _find(model)
    return price.window if price else None


async def load() -> None:
    """Read the map now (30 ms), off the event loop, so that later questions are answered at once."""
    if _map is None:
        await asyncio.to_thread(_loaded)


def _find(model: str) -> Price | None:
    prices = _map if _map is not None else _loaded()
    return next((prices[name] for name in _names(model) if name in prices), None)


def _names(model: str) -> Iterator[str]:
    """Return the names under which the map may have the model, the most exact first."""
    yield model
    while "/" in model:
        model = model.partition("/")[2]
        yield model
    if model.startswith("ft:"):  # ft:BASE:ORGANISATION::ID costs what ft:BASE costs
        yield ":".join(model.split(":")[:2])


def _loaded() -> dict[str, Price]:
    global _map  # noqa: PLW0603 - a constant that is read late, because most commands need no prices
    with _lock:
        if _map is None:
            _map = _read()
        return _map


def _read() -> dict[str, Price]:
    found = importlib.util.find_spec("litellm")
    if found is None or not found.submodule_search_locations:
        return {}
    try:
        text = (Path(found.submodule_search_locations[0]) / _FILE).read_text(encoding="utf-8")
    except OSError:
        return {}
    return {name: _price(entry) for name, entry in json.loads(text).items() if name != "sample_spec"}


def _price(entry: dict[str, Any]) -> Price:
    return Price(
        entry.get("input_cost_per_token"),
        entry.get("output_cost_per_token"),
        entry.get("max_input_tokens") or entry.get("max_tokens"),
    )
