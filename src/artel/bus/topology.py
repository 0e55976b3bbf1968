"""The names on the bus: exchanges, keys, queues, and which keys a pattern takes. Pure functions."""

import re
from typing import Literal

from artel.bus.bus import InvalidKey

MAIN_EXCHANGE = "mindbus.main"
DEAD_LETTER_EXCHANGE = "mindbus.dlx"
DEAD_LETTER_QUEUE = "mindbus.dead_letters"
DEAD_LETTER_LOG_QUEUE = "mindbus.dead_letters.log"
HINT_EXCHANGE = "artel.internal"

MAX_KEY_BYTES = 255
_WORD = re.compile(r"[^\s.*#\x00-\x1f\x7f]+")
_RESERVED_ACTIONS = frozenset({"any", "all"})  # cmd.{name}.any would be cmd.{type}.any of a type with this name

Signal = Literal["stop", "pause", "resume", "shutdown", "config"]


def word(name: str) -> str:
    """Make one word of a key out of a name: `_` stands for `.`."""
    made = name.replace(".", "_")
    if not _WORD.fullmatch(made):
        raise InvalidKey(f"{name!r} can't be part of a key: it is empty, or has spaces, * or #.")
    return made


def command_key(name: str, action: str) -> str:
    """The key of a command to one node."""
    if word(action) in _RESERVED_ACTIONS:
        raise InvalidKey(f"{action!r} can't be the name of an action.")
    return f"cmd.{word(name)}.{word(action)}"


def any_key(node_type: str) -> str:
    """The key of a command that one node of a type takes."""
    return f"cmd.{word(node_type)}.any"


def all_key(node_type: str) -> str:
    """The key of a command that every node of a type takes."""
    return f"cmd.{word(node_type)}.all"


def event_key(topic: str, event_type: str) -> str:
    """The key of an event."""
    return f"evt.{word(topic)}.{word(event_type)}"


def control_key(target: str, signal: Signal) -> str:
    """The key of a signal to a node, to a type of nodes, or to `all`."""
    return f"ctl.{word(target)}.{signal}"


def commands_of(name: str) -> str:
    """The pattern of every command to one node."""
    return f"cmd.{word(name)}.*"


def signals_to(target: str) -> str:
    """The pattern of every signal to a node, to a type of nodes, or to `all`."""
    return f"ctl.{word(target)}.*"


def command_queue(name: str) -> str:
    """The queue of one node's commands."""
    return f"mindbus.cmd.{word(name)}"


def shared_queue(node_type: str) -> str:
    """The queue that all nodes of a type take their commands from."""
    return f"mindbus.cmd.{word(node_type)}.any"


def control_queue(name: str) -> str:
    """The queue of the signals to one node."""
    return f"mindbus.ctl.{word(name)}"


def event_queue(reader: str) -> str:
    """The queue of the events that one reader follows."""
    return f"mindbus.evt.{word(reader)}"


def reply_queue(reader: str) -> str:
    """The queue of the replies to one reader."""
    return f"mindbus.reply.{word(reader)}"


def lock_queue(queue: str) -> str:
    """The queue that nobody reads: whoever has declared it holds the exclusive name of another."""
    return f"{queue}.lock"


def check_key(key: str) -> str:
    """Return the key, if messages can be sent with it."""
    return _check(key, wildcards=False)


def check_pattern(pattern: str) -> str:
    """Return the pattern, if a queue can be bound with it."""
    return _check(pattern, wildcards=True)


def _check(key: str, *, wildcards: bool) -> str:
    words = key.split(".")
    if len(key.encode(errors="replace")) > MAX_KEY_BYTES:
        raise InvalidKey(f"The key {key[:40]!r}... has more than {MAX_KEY_BYTES} bytes.")
    if not all(_WORD.fullmatch(each) or (wildcards and each in {"*", "#"}) for each in words):
        raise InvalidKey(
            f"{key!r} is no key: it needs words with dots between, without spaces{'' if wildcards else ', * or #'}."
        )
    return key


def matches(pattern: str, key: str) -> bool:
    """Return whether a pattern takes a key: `*` stands for one word, `#` for any number of words, also none."""
    wanted, words = pattern.split("."), key.split(".")
    at = taken = 0
    hash_at = hash_took = -1
    while taken < len(words):
        if at < len(wanted) and wanted[at] == "#":
            hash_at, hash_took = at, taken
            at += 1
        elif at < len(wanted) and wanted[at] in {"*", words[taken]}:
            at += 1
            taken += 1
        elif hash_at >= 0:  # let the last # take one word more, and try the rest again
            hash_took += 1
            at, taken = hash_at + 1, hash_took
        else:
            return False
    return all(rest == "#" for rest in wanted[at:])
