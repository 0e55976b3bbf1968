"""What people see of the result of a tool call: its beginning, the number of hits, and the exit code of a command."""

import json
from itertools import islice
from typing import Any

from artel.contract.chat import ToolCallResult
from artel.logs import get_logger
from artel.text import storable
from artel.tools.tool import beginning

MOST_CHARACTERS = 2_000
MOST_ENTRIES = 50
_TEXTS = ("content", "output", "text", "response", "answer")
_LISTS = ("matches", "files")

log = get_logger(__name__)


def first_entries(data: Any) -> Any:
    """Return a result whose lists have no more entries than are shown."""
    if isinstance(data, list):
        return data[:MOST_ENTRIES]
    if isinstance(data, dict):
        return {name: value[:MOST_ENTRIES] if isinstance(value, list) else value for name, value in data.items()}
    return data


def shown_result(data: Any) -> ToolCallResult | None:
    """Return what is shown of the data of a result; None if there are none, or they can't be shown."""
    try:
        return _shown(data)
    except Exception as problem:  # noqa: BLE001 - of foreign code: the data may contain themselves, or raise anything
        log.warning("tool_result_not_shown", error=type(problem).__name__)
        return None


def _shown(data: Any) -> ToolCallResult | None:
    if data in (None, {}, []):
        return None
    exit_code = data.get("exit_code") if isinstance(data, dict) else None
    entries = data if isinstance(data, list) else None
    text: str | None = data if isinstance(data, str) else None
    if isinstance(data, dict):
        entries = next((data[name] for name in _LISTS if isinstance(data.get(name), list)), None)
        text = next((data[name] for name in _TEXTS if isinstance(data.get(name), str)), None)
    if text is None and entries is not None:
        text = "\n".join(_line(entry) for entry in entries[:MOST_ENTRIES])
    elif text is None:
        text = _json(data)
    is_cut = len(text) > MOST_CHARACTERS or (entries is not None and len(entries) > MOST_ENTRIES)
    if isinstance(data, dict):
        is_cut = is_cut or bool(data.get("is_cut") or data.get("cut"))  # by the tool
    return ToolCallResult(
        text=storable(text[:MOST_CHARACTERS]),
        is_cut=is_cut,
        count=None if entries is None else len(entries),
        exit_code=exit_code if isinstance(exit_code, int) else None,
    )


def _line(entry: Any) -> str:
    """Return an entry of a list in one line: a match, a file, or the values of anything else."""
    if not isinstance(entry, dict):
        return str(beginning(entry, MOST_CHARACTERS + 1)[0])[: MOST_CHARACTERS + 1]
    path = entry.get("path")
    if path is not None and "line" in entry:
        return f"{path}:{entry['line']}: {entry.get('text', '')}"[:MOST_CHARACTERS]
    if path is not None:
        return f"{path}/" if entry.get("type") == "directory" else str(path)
    values = (value for value in entry.values() if isinstance(value, str) and value)
    return " · ".join(value[:MOST_CHARACTERS] for value in islice(values, 5))


def _json(data: Any) -> str:
    """Return the beginning of a value as JSON; longer than what is shown if the value is."""
    return json.dumps(beginning(first_entries(data), MOST_CHARACTERS + 1)[0], ensure_ascii=False, default=str)
