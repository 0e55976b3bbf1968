"""The choice of the best-matching agent for a request, without a model."""

import re
from collections.abc import Sequence
from typing import Protocol, TypeVar

AT_CAPACITY = "at_capacity"

_WORD = re.compile(r"\w{3,}")


class Described(Protocol):
    """An agent with a name and a description."""

    @property
    def name(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def about(self) -> str: ...
    @property
    def capabilities(self) -> Sequence[str]: ...
    @property
    def status(self) -> str: ...


D = TypeVar("D", bound=Described)


def best_agent(text: str, agents: Sequence[D]) -> D:
    """Return the best-matching agent: by name, then capabilities, then words of its description; else the first.

    Among equal matches a free agent is preferred to one at capacity.
    """
    wanted = _words(text)

    def fit(agent: D) -> tuple[bool, int, int, bool]:
        named = agent.name in text or agent.name.removeprefix("agent_") in wanted
        able = sum(capability.lower() in text.lower() for capability in agent.capabilities)
        described = len(wanted & _words(" ".join([agent.role, agent.about, *agent.capabilities])))
        return named, able, described, agent.status != AT_CAPACITY

    return max(agents, key=fit)


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}
