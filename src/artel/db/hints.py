"""Hints that transactions send after the commit. A lost hint only costs time: everyone also polls."""

from dataclasses import dataclass
from typing import Literal

from artel.contract.events import ApprovalRequired


@dataclass(frozen=True, slots=True)
class SessionHasEvents:
    """A session has new events, or was deleted."""

    session_id: str


@dataclass(frozen=True, slots=True)
class SessionListChanged:
    """What a list shows of a session changed: it was created, renamed, started to work, waits, ended or was deleted."""

    user_id: int
    project_id: int
    session_id: str


@dataclass(frozen=True, slots=True)
class TitleWanted:
    """A session that is named after its first message got an answer, so that a model can make a title."""

    user_id: int
    session_id: str
    turn_id: str


@dataclass(frozen=True, slots=True)
class ProjectChanged:
    """The stream of a project has new events."""

    project_id: int


@dataclass(frozen=True, slots=True)
class WorkWaiting:
    """A project has a queued turn that no host was given."""

    project_id: int


@dataclass(frozen=True, slots=True)
class TurnStopped:
    """A turn was ended by somebody else than its runner."""

    turn_id: str


@dataclass(frozen=True, slots=True)
class TurnParked:
    """A turn waits for the user."""

    turn_id: str


@dataclass(frozen=True, slots=True)
class ApprovalRequested:
    """A run waits for the user's approval, which everyone who follows the project is shown."""

    user_id: int
    project_id: int
    event: ApprovalRequired


@dataclass(frozen=True, slots=True)
class QuestionOver:
    """A question to the user needs no answer any more; the connector that shows it too stops asking."""

    user_id: int
    project_id: int
    ask_id: str


@dataclass(frozen=True, slots=True)
class CallWaiting:
    """A process has stored a call for another one."""

    project_id: int


@dataclass(frozen=True, slots=True)
class AgentsChanged:
    """Agents of a project were changed or deleted."""

    project_id: int
    agent_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AgentListChanged:
    """What a list shows of a project's agents changed."""

    user_id: int
    project_id: int
    agent_ids: tuple[int, ...]
    change: Literal["created", "changed", "deleted"]


@dataclass(frozen=True, slots=True)
class ProjectDeleted:
    """A project was deleted with its sessions."""

    user_id: int
    project_id: int


@dataclass(frozen=True, slots=True)
class MemoriesChanged:
    """There are memories to index."""


@dataclass(frozen=True, slots=True)
class ServerSettingsChanged:
    """An administrator changed the providers of models or a setting."""
