"""Parsing of connector messages within limits."""

import re
from typing import Any

from pydantic_core import from_json

LARGE_CHARACTERS = 100_000  # larger messages are parsed on a thread
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


class Misbehaved(Exception):
    """The connector violated the protocol."""


def read_message(text: str, structure: int) -> dict[str, Any]:
    """Parse a JSON-RPC message; raise Misbehaved if it is invalid or has too much structure."""
    if len(text) > structure and not _is_simple(text, structure):
        raise Misbehaved("it sent a message with too many objects and numbers")
    try:
        message = from_json(text, allow_inf_nan=False)
    except (ValueError, RecursionError):
        raise Misbehaved("it sent invalid JSON") from None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise Misbehaved("it sent a message that is not JSON-RPC 2.0")
    return message


def _is_simple(text: str, structure: int) -> bool:
    """Return whether at most `structure` characters are outside of strings.

    Parsing 24 MB of `{},{},…` takes 600 MB of memory and can't be interrupted.
    """
    outside, end = 0, 0
    while (start := text.find('"', end)) >= 0:
        string = _STRING.match(text, start)
        outside += start - end + 2
        if string is None or outside > structure:
            return False
        end = string.end()
    return outside + len(text) - end <= structure
