"""Which tool a plain wish asks for."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from artel.brain.brain import ToolCall, ToolSchema

MAX_WISH_CHARACTERS = 2000

_POLITE = r"(?:(?:task:|please|now|ok|okay|and|then|can you|could you|would you),?\s+)*"
_FILE = r"(?:the\s+)?(?:file\s+)?(?P<path>\S+)(?:\s+file)?"
_COMMANDS = r"(?:ls|pwd|cat|echo|date|uname|git|python3?|pytest|make|npm|node|go|cargo)\b"
_QUOTES = "`\"'“”«»"
_NAMED_LIKE_A_FILE = re.compile(
    r"(?i)(?:[^.\n]*+\.)++(?=\w*[a-z])\w++|[^/\n]*+/.*|readme|license|changelog|makefile|dockerfile|todo"
)


@dataclass(frozen=True, slots=True)
class _Wish:
    """A way of asking, and the tools that fulfil it, the best first."""

    tools: tuple[str, ...]
    words: re.Pattern[str]


def _wish(tools: str, words: str) -> _Wish:
    return _Wish(tuple(tools.split()), re.compile(rf"(?i){_POLITE}(?:{words})\s*"))


_LIST, _READ, _WRITE = "tool_list_directory list_files", "tool_read_file read_file", "tool_write_file write_file"
_WISHES = (
    _wish(
        _LIST,
        r"(?:list|show)(?:\s+me)?(?:\s+(?:all|the|my))*\s+(?:files?|folder|directory)"
        r"(?:\s+(?:in|of|under)\s+(?P<folder>\S+))?[.!?]*",
    ),
    _wish(_LIST, r"(?:what|which)\s+files\s+(?:are\s+(?:there|here)|do\s+(?:i|we|you)\s+have|can\s+you\s+see)\?*|ls"),
    _wish("web_search", r"(?:search|google)\s+(?:the\s+)?(?:web|internet)\s+(?:for\s+)?(?P<query>.+)"),
    _wish("web_fetch", r"(?:fetch|open|read|get)\s+(?P<url>https?://\S+)"),
    _wish("tool_search_files", r"(?:search|grep|look)\s+(?:(?:the|my|all)\s+files\s+)?for\s+(?P<query>.+)"),
    _wish("tool_search_files", r"(?:search|grep)\s+(?P<query>\S+)|find\s+(?P<text>\S+)\s+in\s+(?:the|my|all)\s+files"),
    _wish("memory_write", r"remember(?:\s+that)?[:,]?\s+(?P<content>.+)"),
    _wish("memory_read", r"what\s+do\s+you\s+(?:remember|know)\s+about\s+(?P<query>.+)"),
    _wish(_WRITE, r"(?:write|save|put)\s+(?P<content>.+)\s+(?:to|into|in)\s+" + _FILE),
    _wish(_WRITE, r"(?:create|make)\s+" + _FILE + r"\s+(?:with|containing|saying)\s+(?P<content>.+)"),
    _wish("tool_delete_file", r"(?:delete|remove)\s+" + _FILE),
    _wish("tool_run_command", r"(?:run|execute)\s+`(?P<command>[^`]+)`[.!?]*"),
    _wish("tool_run_command", rf"(?:run|execute)\s+(?P<command>{_COMMANDS}.*)"),
    _wish(_READ, r"(?:read|open|show|print|display|cat)(?:\s+me)?\s+" + _FILE),
)

# What a tool may call the thing that was asked for.
_NAMES = {
    "folder": ("path", "directory", "dir", "folder"),
    "path": ("path", "file_path", "file", "filename", "name"),
    "content": ("content", "text", "data", "body"),
    "query": ("query", "pattern", "text", "q", "regex"),
    "text": ("query", "pattern", "text", "q", "regex"),
    "command": ("command", "cmd", "name"),
    "url": ("url", "uri"),
}


def wanted_call(text: str, tools: tuple[ToolSchema, ...], call_id: str) -> ToolCall | None:
    """Return the call that the text asks for, if one of the tools can do it."""
    offered = {tool.name: tool for tool in tools}
    wish = _understood(text)
    if wish is None:
        return None
    names, said = wish
    tool = next((offered[name] for name in names if name in offered), None)
    return ToolCall(call_id, tool.name, _arguments(tool, said)) if tool else None


def tools_for(text: str) -> tuple[str, ...]:
    """Return the names of the tools that can do what the text plainly asks for, the best first."""
    wish = _understood(text)
    return wish[0] if wish else ()


def missing_tool(text: str, tools: tuple[ToolSchema, ...]) -> str | None:
    """Return the tool that the text asks for, when none that can do it is offered."""
    wish = _understood(text)
    if wish is None or wish[0][0].startswith("memory_") or any(tool.name in wish[0] for tool in tools):
        return None
    return wish[0][0]


def _understood(text: str) -> tuple[tuple[str, ...], dict[str, str]] | None:
    # Only the first line: what a task brings along from others comes below it, and is no wish of the user.
    line = text.strip().partition("\n")[0]
    if len(line) > MAX_WISH_CHARACTERS:
        return None
    for wish in _WISHES:
        found = wish.words.fullmatch(line)
        if found:
            said = {name: _bare(name, value) for name, value in found.groupdict().items() if value}
            if "path" not in said or _NAMED_LIKE_A_FILE.fullmatch(said["path"]):
                return wish.tools, said
    return None


def _bare(name: str, value: str) -> str:
    """Return what was said without quotation marks, and without the full stop of the sentence."""
    value = value.strip()
    if name != "content":
        value = value.rstrip(".!?,;:") or value
    return value.strip(_QUOTES) or value


def _arguments(tool: ToolSchema, said: Mapping[str, str]) -> str:
    properties = tool.parameters.get("properties")
    known = properties if isinstance(properties, dict) else {}
    arguments: dict[str, str] = {}
    for what, value in said.items():
        names = _NAMES[what]
        arguments[next((name for name in names if name in known), names[0])] = value
    required = tool.parameters.get("required")
    if isinstance(required, list) and "path" in required:
        arguments.setdefault("path", ".")
    return json.dumps(arguments, ensure_ascii=False)
