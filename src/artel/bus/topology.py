"""Names of exchanges, queues and routing keys, and the matching of keys with binding patterns."""

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
_RESERVED_ACTIONS = frozenset({"any", "all"})  # cmd.{name}.any would be cmd.{type}.any for a type of the same name

Signal = Literal["stop", "pause", "resume", "shutdown", "config"]


def word(name: str) -> str:
    """Return a name as one word of a routing key, with `_` for `.`."""
    escaped = name.replace(".", "_")
    if not _WORD.fullmatch(escaped):
        raise InvalidKey(f"{name!r} can't be part of a key: it is empty, or has spaces, * or #.")
    return escaped


def command_key(name: str, action: str) -> str:
    """Return the key of a command to one node."""
    if word(action) in _RESERVED_ACTIONS:
        raise InvalidKey(f"{action!r} can't be the name of an action.")
    return f"cmd.{word(name)}.{word(action)}"


def any_key(node_type: str) -> str:
    """Return the key of a command that one node of a type receives."""
    return f"cmd.{word(node_type)}.any"


def all_key(node_type: str) -> str:
    """Return the key of a command that every node of a type receives."""
    return f"cmd.{word(node_type)}.all"


def event_key(topic: str, event_type: str) -> str:
    """Return the key of an event."""
    return f"evt.{word(topic)}.{word(event_type)}"


def control_key(target: str, signal: Signal) -> str:
    """Return the key of a signal to a node, a type of nodes, or `all`."""
    return f"ctl.{word(target)}.{signal}"


def commands_of(name: str) -> str:
    """Return the pattern that matches every command to one node."""
    return f"cmd.{word(name)}.*"


def signals_to(target: str) -> str:
    """Return the pattern that matches every signal to a node, a type of nodes, or `all`."""
    return f"ctl.{word(target)}.*"


def command_queue(name: str) -> str:
    """Return the name of the queue of one node's commands."""
    return f"mindbus.cmd.{word(name)}"


def shared_queue(node_type: str) -> str:
    """Return the name of the command queue that all nodes of a type share."""
    return f"mindbus.cmd.{word(node_type)}.any"


def control_queue(name: str, instance: str) -> str:
    """Return the name of the queue of signals to one instance of a node."""
    return f"mindbus.ctl.{word(name)}.{word(instance)}"


def event_queue(subscriber: str) -> str:
    """Return the name of one subscriber's event queue."""
    return f"mindbus.evt.{word(subscriber)}"


def tenants_queue(name: str) -> str:
    """Return the name of the queue in which a node hears of deleted projects."""
    return event_queue(f"tenants_{name}")


def reply_queue(requester: str) -> str:
    """Return the name of one requester's reply queue."""
    return f"mindbus.reply.{word(requester)}"


def lock_queue(queue: str) -> str:
    """Return the name of the unused queue whose declaration is the lock on an exclusive queue."""
    return f"{queue}.lock"


def check_lock_name(name: str) -> str:
    """Return the name; raise InvalidKey if it can't be the name of a lock."""
    if name.startswith("amq."):
        raise InvalidKey(f"{name!r} can't be the name of a lock: RabbitMQ reserves names that begin with amq.")
    return check_key(name)


def check_key(key: str, *, wildcards: bool = False) -> str:
    """Return the key; raise InvalidKey if messages can't be sent with it, or queues bound to it with wildcards."""
    words = key.split(".")
    if len(key.encode(errors="replace")) > MAX_KEY_BYTES:
        raise InvalidKey(f"The key {key[:40]!r}... has more than {MAX_KEY_BYTES} bytes.")
    if not all(_WORD.fullmatch(each) or (wildcards and each in {"*", "#"}) for each in words):
        raise InvalidKey(
            f"{key!r} is not a valid key: use words separated by dots, without spaces{'' if wildcards else ', * or #'}."
        )
    return key


def matches(pattern: str, key: str) -> bool:
    """Return whether a pattern matches a key: `*` matches one word, `#` any number of words, including none."""
    parts, words = pattern.split("."), key.split(".")
    part = matched = 0
    last_hash = hash_end = -1
    while matched < len(words):
        if part < len(parts) and parts[part] == "#":
            last_hash, hash_end = part, matched
            part += 1
        elif part < len(parts) and parts[part] in {"*", words[matched]}:
            part += 1
            matched += 1
        elif last_hash >= 0:  # backtrack: let the last # match one word more
            hash_end += 1
            part, matched = last_hash + 1, hash_end
        else:
            return False
    return all(rest == "#" for rest in parts[part:])
