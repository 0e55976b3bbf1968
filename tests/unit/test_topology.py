"""The names of keys and queues on the bus."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from artel.bus import topology
from artel.bus.bus import InvalidKey

words = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=6)
patterns = st.lists(st.sampled_from(["a", "b", "*", "#"]), min_size=1, max_size=6)


def simple_matches(pattern: list[str], key: list[str]) -> bool:
    """Return the same as `matches`, in a slow and simple way."""
    match pattern:
        case []:
            return not key
        case ["#", *rest]:
            return simple_matches(rest, key) or (bool(key) and simple_matches(pattern, key[1:]))
        case [first, *rest]:
            return bool(key) and first in ("*", key[0]) and simple_matches(rest, key[1:])
    raise AssertionError("every list is one of these")


@given(patterns, words)
@example(["#"], ["a"])
@example(["#", "a", "#"], ["a"])
@example(["a", "#", "b", "#", "b"], ["a", "b", "a", "b", "b"])
def test_matches_agrees_with_a_simple_implementation(pattern: list[str], key: list[str]) -> None:
    assert topology.matches(".".join(pattern), ".".join(key)) == simple_matches(pattern, key)


def test_key_and_queue_names() -> None:
    assert topology.command_key("agent.writer", "write_article") == "cmd.agent_writer.write_article"
    assert topology.any_key("writer") == "cmd.writer.any"
    assert topology.all_key("writer") == "cmd.writer.all"
    assert topology.event_key("node", "heartbeat") == "evt.node.heartbeat"
    assert topology.control_key("all", "stop") == "ctl.all.stop"
    assert topology.matches(topology.commands_of("agent.writer"), topology.command_key("agent.writer", "x"))
    assert topology.matches(topology.signals_to("writer"), topology.control_key("writer", "pause"))
    queues = [
        topology.command_queue("writer"),
        topology.shared_queue("writer"),
        topology.control_queue("writer", "1"),
        topology.event_queue("writer"),
        topology.reply_queue("writer"),
    ]
    assert len({*queues, *map(topology.lock_queue, queues)}) == 10


@pytest.mark.parametrize("bad", ["", "a b", "a*", "#", "a\n"])
def test_name_with_reserved_characters_is_refused(bad: str) -> None:
    for make in (topology.any_key, topology.command_queue, lambda each: topology.command_key("a", each)):
        with pytest.raises(InvalidKey):
            make(bad)


@pytest.mark.parametrize("action", ["any", "all"])
def test_reserved_action_names_are_refused(action: str) -> None:
    with pytest.raises(InvalidKey):
        topology.command_key("writer", action)
