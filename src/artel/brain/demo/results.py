"""Summaries of tool results. They are only quoted, never read as commands."""

import json
from collections.abc import Iterable
from typing import Any

from artel.brain.brain import Message, ToolCall
from artel.text import one_line

SHOWN_ENTRIES = 12
SHOWN_LINES = 8
SHOWN_CHARACTERS = 400

# Keys under which a result holds its data.
_WRAPPERS = ("data", "result", "output", "entries", "files", "matches", "items", "content")


def summary(messages: tuple[Message, ...], results: list[Message]) -> str:
    """Return a summary of the results of the last tool calls."""
    calls = {call.id: call for message in messages for call in message.tool_calls}
    return "\n\n".join(_describe(calls.get(result.tool_call_id or ""), result.content) for result in results)


def _describe(call: ToolCall | None, content: str) -> str:
    name = call.name if call else "the tool"
    data, error = _unwrap(content)
    if error is not None:
        return f"That did not work. {name} says: {one_line(error, SHOWN_CHARACTERS)}"
    subject = _subject(call)
    if "list" in name:
        return _describe_list(subject, data)
    if "search" in name:
        return _describe_search(subject, data)
    if "write" in name or "edit" in name:
        return f"Done: {subject or 'it'} is written."
    if "delete" in name:
        return f"Done: {subject or 'it'} is gone."
    return _describe_text(subject or name, data)


def _unwrap(content: str) -> tuple[Any, str | None]:
    """Return the data of a result, and its error if it has one."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return content, None
    while isinstance(value, dict):
        error = value.get("error")
        if error or value.get("success") is False:
            return None, error if isinstance(error, str) else json.dumps(error or "it failed", ensure_ascii=False)
        inner = next((key for key in _WRAPPERS if key in value), None)
        if inner is None:
            break
        value = value[inner]
    return value, None


def _subject(call: ToolCall | None) -> str:
    """Return the subject of a call: a path, a pattern or a command."""
    try:
        arguments = json.loads(call.arguments) if call else {}
    except ValueError:
        return ""
    if not isinstance(arguments, dict):
        return ""
    values = (arguments.get("path") if "content" in arguments else None, *arguments.values())
    return next((one_line(str(value), 80) for value in values if value), "")


def _describe_list(subject: str, data: Any) -> str:
    names = _lines(data)
    where = "the folder" if subject in ("", ".") else subject
    if not names:
        return f"There is nothing in {where} yet."
    return f"In {where} I see {_counted(len(names), 'entry', 'entries')}:\n{_bullets(names)}"


def _describe_search(subject: str, data: Any) -> str:
    lines = _lines(data)
    if not lines:
        return f"Nothing found for “{subject}”."
    return f"“{subject}” is found {_counted(len(lines), 'time', 'times')}:\n{_bullets(lines)}"


def _describe_text(subject: str, data: Any) -> str:
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    lines = text.splitlines()
    if not text.strip():
        return f"{subject} is empty."
    beginning = "\n".join(lines[:SHOWN_LINES])
    ending = "\n…" if len(lines) > SHOWN_LINES or len(beginning) > SHOWN_CHARACTERS else ""
    quoted = "\n".join(f"> {line}" for line in (beginning[:SHOWN_CHARACTERS] + ending).splitlines())
    return f"{subject} has {_counted(len(lines), 'line', 'lines')}. It begins:\n{quoted}"


def _lines(data: Any) -> list[str]:
    if isinstance(data, str):
        return [line for line in data.splitlines() if line.strip()]
    if isinstance(data, dict):
        return [f"{key}: {value}" for key, value in data.items()]
    return [_entry(item) for item in data] if isinstance(data, Iterable) else [str(data)]


def _entry(item: Any) -> str:
    if not isinstance(item, dict):
        return str(item)
    name = next((str(item[key]) for key in ("path", "name", "file") if item.get(key)), json.dumps(item))
    line, text = item.get("line") or item.get("line_number"), item.get("text") or item.get("snippet")
    return f"{name}{f':{line}' if line else ''}{f' {text}' if text else ''}"


def _bullets(lines: list[str]) -> str:
    shown = [f"- {one_line(line, 100)}" for line in lines[:SHOWN_ENTRIES]]
    if len(lines) > SHOWN_ENTRIES:
        shown.append(f"- … and {len(lines) - SHOWN_ENTRIES} more")
    return "\n".join(shown)


def _counted(number: int, singular: str, plural: str) -> str:
    return f"{number} {singular if number == 1 else plural}"
