"""Recognises plain commands and the tools that carry them out."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from artel.brain.brain import ToolCall, ToolSchema

MAX_COMMAND_CHARACTERS = 2000

_POLITE = r"(?:(?:task:|please|now|ok|okay|and|then|can you|could you|would you),?\s+)*"
_FILE = r"(?:the\s+)?(?:file\s+)?(?P<path>\S+)(?:\s+file)?"
_COMMANDS = r"(?:ls|pwd|cat|echo|date|uname|git|python3?|pytest|make|npm|node|go|cargo)\b"
_QUOTES = "`\"'“”«»"
_FILE_NAME = re.compile(
    r"(?i)(?:[^.\n]*+\.)++(?=\w*[a-z])\w++|[^/\n]*+/.*|readme|license|changelog|makefile|dockerfile|todo"
)


@dataclass(frozen=True, slots=True)
class _Command:
    """The wording of a command, and the tools that carry it out, the best first."""

    tools: tuple[str, ...]
    words: re.Pattern[str]


def _command(tools: str, words: str) -> _Command:
    return _Command(tuple(tools.split()), re.compile(rf"(?i){_POLITE}(?:{words})\s*"))


_LIST, _READ, _WRITE = "tool_list_directory list_files", "tool_read_file read_file", "tool_write_file write_file"
_PATTERNS = (
    _command(
        _LIST,
        r"(?:list|show)(?:\s+me)?(?:\s+(?:all|the|my))*\s+(?:files?|folder|directory)"
        r"(?:\s+(?:in|of|under)\s+(?P<folder>\S+))?[.!?]*",
    ),
    _command(
        _LIST, r"(?:what|which)\s+files\s+(?:are\s+(?:there|here)|do\s+(?:i|we|you)\s+have|can\s+you\s+see)\?*|ls"
    ),
    _command("web_search", r"(?:search|google)\s+(?:the\s+)?(?:web|internet)\s+(?:for\s+)?(?P<query>.+)"),
    _command("web_fetch", r"(?:fetch|open|read|get)\s+(?P<url>https?://\S+)"),
    _command("tool_search_files", r"(?:search|grep|look)\s+(?:(?:the|my|all)\s+files\s+)?for\s+(?P<query>.+)"),
    _command(
        "tool_search_files", r"(?:search|grep)\s+(?P<query>\S+)|find\s+(?P<text>\S+)\s+in\s+(?:the|my|all)\s+files"
    ),
    _command("memory_write", r"remember(?:\s+that)?[:,]?\s+(?P<content>.+)"),
    _command("memory_read", r"what\s+do\s+you\s+(?:remember|know)\s+about\s+(?P<query>.+)"),
    _command(_WRITE, r"(?:write|save|put)\s+(?P<content>.+)\s+(?:to|into|in)\s+" + _FILE),
    _command(_WRITE, r"(?:create|make)\s+" + _FILE + r"\s+(?:with|containing|saying)\s+(?P<content>.+)"),
    _command("tool_delete_file", r"(?:delete|remove)\s+" + _FILE),
    _command("tool_run_command", r"(?:run|execute)\s+`(?P<command>[^`]+)`[.!?]*"),
    _command("tool_run_command", rf"(?:run|execute)\s+(?P<command>{_COMMANDS}.*)"),
    _command(_READ, r"(?:read|open|show|print|display|cat)(?:\s+me)?\s+" + _FILE),
)

# Names that a tool's parameters may have for the values of a command.
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
    """Return the tool call for the command in a text, if one of the tools can carry it out."""
    offered = {tool.name: tool for tool in tools}
    command = _parse(text)
    if command is None:
        return None
    names, values = command
    tool = next((offered[name] for name in names if name in offered), None)
    return ToolCall(call_id, tool.name, _arguments(tool, values)) if tool else None


def tools_for(text: str) -> tuple[str, ...]:
    """Return the names of the tools that carry out the command in a text, the best first."""
    command = _parse(text)
    return command[0] if command else ()


def missing_tool(text: str, tools: tuple[ToolSchema, ...]) -> str | None:
    """Return the tool that the command in a text needs, if the agent has no tool for it."""
    names = tools_for(text)
    if not names or names[0].startswith("memory_") or any(tool.name in names for tool in tools):
        return None
    return names[0]


def _parse(text: str) -> tuple[tuple[str, ...], dict[str, str]] | None:
    # Only the first line: below it a task may hold results of other tasks, which are no commands.
    line = text.strip().partition("\n")[0]
    if len(line) > MAX_COMMAND_CHARACTERS:
        return None
    for command in _PATTERNS:
        found = command.words.fullmatch(line)
        if found:
            values = {name: _bare(name, value) for name, value in found.groupdict().items() if value}
            if "path" not in values or _FILE_NAME.fullmatch(values["path"]):
                return command.tools, values
    return None


def _bare(name: str, value: str) -> str:
    """Return a value without quotation marks and without the punctuation of the sentence."""
    value = value.strip()
    if name != "content":
        value = value.rstrip(".!?,;:") or value
    return value.strip(_QUOTES) or value


def _arguments(tool: ToolSchema, values: Mapping[str, str]) -> str:
    properties = tool.parameters.get("properties")
    parameters = properties if isinstance(properties, dict) else {}
    arguments: dict[str, str] = {}
    for group, value in values.items():
        names = _NAMES[group]
        arguments[next((name for name in names if name in parameters), names[0])] = value
    required = tool.parameters.get("required")
    if isinstance(required, list) and "path" in required:
        arguments.setdefault("path", ".")
    return json.dumps(arguments, ensure_ascii=False)
