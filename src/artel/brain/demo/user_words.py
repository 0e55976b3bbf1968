"""The user's own words in messages that Artel has extended for an agent, and the plain commands in them.

The rules of the demo brain read nothing else: no results of other tasks, and no prompts.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from artel.brain.brain import Message, ToolCall, ToolSchema

Language = Literal["en", "ru", "zh"]

MAX_CHARACTERS = 4_000  # of a message that the rules read
# What follows the description in the message of a task; plans/task_run.py writes it.
_PART, _WHOLE = "\n\nThe user's request, of which this is a part:\n", "\n\nThe user's request:\n"
_AROUND = (
    _PART,
    _WHOLE,
    "\n\nThe user adds, for every part of the work: ",
    "\n\nWhat others have found out for you, as ",
)
_CHINESE, _RUSSIAN = re.compile(r"[\u4e00-\u9fff]"), re.compile("[\u0400-\u04ff]")
MAX_COMMAND_CHARACTERS = 2000

_POLITE = r"(?:(?:@[\w-]{1,63}|task:|please|now|ok|okay|and|then|can you|could you|would you),?\s+)*"
_FILE = r"(?:the\s+)?(?:file\s+)?(?P<path>\S+)(?:\s+file)?"
_COMMANDS = r"(?:ls|pwd|cat|echo|date|uname|git|python3?|pytest|make|npm|node|go|cargo)\b"
_QUOTES = "`\"'“”«»"
_FILE_NAME = re.compile(
    r"(?i)(?:[^.\n]*+\.)++(?=\w*[a-z])\w++|[^/\n]*+/.*|readme|license|changelog|makefile|dockerfile|todo"
)


@dataclass(frozen=True, slots=True)
class DemoConversation:
    """A conversation whose user messages hold only the user's own words."""

    messages: tuple[Message, ...]
    last: str  # the last user message, or the task of a plan
    is_part: bool  # whether `last` is one task of several
    results: tuple[str, ...]  # tool results after `last`


def parse_conversation(messages: Sequence[Message]) -> DemoConversation:
    """Return the conversation with only the user's own words in user messages."""
    last = max((index for index, message in enumerate(messages) if message.role == "user"), default=-1)
    text = messages[last].content if last >= 0 else ""
    return DemoConversation(
        tuple(
            replace(message, content=user_words(message.content)) if message.role == "user" else message
            for message in messages
        ),
        user_words(text),
        _PART in text,
        tuple(message.content for message in messages[last + 1 :] if message.role == "tool"),
    )


def user_words(text: str) -> str:
    """Return the user's request, or the task of a plan that was divided into several."""
    start = text.find(_WHOLE)
    if start >= 0 and _PART not in text:
        text = text[start + len(_WHOLE) :]
    end = min((found for mark in _AROUND if (found := text.find(mark)) >= 0), default=len(text))
    return text[: min(end, MAX_CHARACTERS)].strip()


def language_of(text: str) -> Language:
    """Return the language of a text, judged by its script."""
    if _CHINESE.search(text):
        return "zh"
    return "ru" if _RUSSIAN.search(text) else "en"


_WEB_SEARCH = (
    r"(?:search|google)\s+(?:the\s+)?(?:web|internet)(?:\s+for|:)?\s+(?:(?:research|find out)\s+)?(?P<query>.+)"
)
_LIST, _READ, _WRITE = "tool_list_directory list_files", "tool_read_file read_file", "tool_write_file write_file"
# The tools that carry out a command, the best first, and its wording.
_PATTERNS = tuple(
    (tools.split(), re.compile(rf"(?i){_POLITE}(?:{words})\s*"))
    for tools, words in (
        (
            _LIST,
            (
                r"(?:list|show)(?:\s+me)?(?:\s+(?:all|the|my))*\s+(?:files?|folder|directory)"
                r"(?:\s+(?:in|of|under)\s+(?P<folder>\S+))?[.!?]*"
            ),
        ),
        (_LIST, r"(?:what|which)\s+files\s+(?:are\s+(?:there|here)|do\s+(?:i|we|you)\s+have|can\s+you\s+see)\?*|ls"),
        ("web_search", _WEB_SEARCH),
        (
            "web_fetch",
            (
                r"(?:(?:fetch|open|read|get|visit|summari[sz]e)\s+(?:the\s+page\s+)?)?"
                r"(?P<url>https?://\S++)(?:\s++.*+)?"
            ),
        ),
        ("tool_search_files", r"(?:search|grep|look)\s+(?:(?:the|my|all)\s+files\s+)?for\s+(?P<query>.+)"),
        ("tool_search_files", r"(?:search|grep)\s+(?P<query>\S+)|find\s+(?P<text>\S+)\s+in\s+(?:the|my|all)\s+files"),
        ("memory_write", r"remember(?:\s+that)?[:,]?\s+(?P<content>.+)"),
        ("memory_read", r"what\s+do\s+you\s+(?:remember|know)\s+about\s+(?P<query>.+)"),
        (_WRITE, r"(?:write|save|put)\s+(?P<content>.+)\s+(?:to|into|in)\s+" + _FILE),
        (_WRITE, r"(?:create|make|write)\s+" + _FILE + r"\s+(?:with|containing|saying)\s+(?P<content>.+)"),
        ("tool_delete_file", r"(?:delete|remove)\s+" + _FILE),
        ("tool_run_command", r"(?:run|execute)\s+`(?P<command>[^`]+)`[.!?]*"),
        ("tool_run_command", rf"(?:run|execute)\s+(?P<command>{_COMMANDS}.*)"),
        (_READ, r"(?:read|open|show|print|display|cat)(?:\s+me)?\s+" + _FILE),
    )
)

# Parameters of tools whose names differ from those in the patterns.
_PARAMETERS = {"folder": "path", "text": "query", "command": "name"}


def wanted_call(text: str, tools: tuple[ToolSchema, ...], call_id: str) -> ToolCall | None:
    """Return the tool call for the command in a text, if one of the tools can carry it out."""
    names, values = _parse(text)
    offered = {tool.name for tool in tools}
    name = next((name for name in names if name in offered), None)
    arguments = {_PARAMETERS.get(group, group): value for group, value in values.items()}
    return ToolCall(call_id, name, json.dumps(arguments, ensure_ascii=False)) if name else None


def tools_for(text: str) -> list[str]:
    """Return the names of the tools that carry out the command in a text, the best first."""
    return _parse(text)[0]


def missing_tool(text: str, tools: tuple[ToolSchema, ...]) -> str | None:
    """Return the tool that the command in a text needs, if the agent has no tool for it."""
    names = tools_for(text)
    if not names or names[0].startswith("memory_") or any(tool.name in names for tool in tools):
        return None
    return names[0]


def _parse(text: str) -> tuple[list[str], dict[str, str]]:
    """Return the tools for the command in a text, and the values in it; nothing if it is no command."""
    # Only the first line: below it a task may hold results of other tasks, which are no commands.
    line = text.strip().partition("\n")[0]
    if len(line) <= MAX_COMMAND_CHARACTERS:
        for tools, words in _PATTERNS:
            found = words.fullmatch(line)
            if found:
                values = {name: _bare(name, value) for name, value in found.groupdict().items() if value}
                if "path" not in values or _FILE_NAME.fullmatch(values["path"]):
                    return tools, values
    return [], {}


def _bare(name: str, value: str) -> str:
    """Return a value without quotation marks and without the punctuation of the sentence."""
    value = value.strip()
    if name != "content":
        value = value.rstrip(".!?,;:") or value
    return value.strip(_QUOTES) or value


def read_json(text: str) -> Any:
    """Return the value of a JSON document, None if the text is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
