"""What every worker space of a process shares."""

from dataclasses import dataclass, field

from artel.agent_memory.service import Memories
from artel.brain.brain import Brain
from artel.connector_gateway.relay import Relay
from artel.db.engine import Database
from artel.events.hub import EventHub
from artel.events.signals import Signals
from artel.spaces.agent_cache import MAX_CACHED, SharedCache
from artel.spaces.chat_figures import ChatFigures
from artel.spaces.project_events import ProjectEventWriter
from artel.task_workspaces.service import TaskWorkspaces
from artel.task_workspaces.storage_quota import StorageQuota
from artel.tools.policy import ToolCalls
from artel.turns.waiters import TurnWaiters


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """How long things may take, in seconds."""

    without_progress: float = 30.0
    task: float = 600.0
    idle_space: float = 3600.0
    drain: float = 30.0
    lease: float = 10.0
    beyond_repair: float = 600.0


@dataclass(frozen=True, slots=True)
class AlertLimits:
    """From when on something is worth an alert."""

    error_rate: float = 0.5
    queued_tasks: int = 50
    uptime: float = 168 * 3600.0  # seconds


@dataclass(frozen=True, slots=True)
class FamilyLimits:
    """How large a family may become: generations below an agent of the team, children of one, agents of a project."""

    depth: int = 3
    children: int = 10
    agents: int = 100


@dataclass(frozen=True, slots=True)
class SpaceServices:
    """Collaborators of worker spaces."""

    database: Database
    brain: Brain
    memories: Memories
    shared_cache: SharedCache
    hub: EventHub
    signals: Signals
    turn_waiters: TurnWaiters
    project_events: ProjectEventWriter
    relay: Relay
    figures: ChatFigures
    workspaces: TaskWorkspaces
    storage: StorageQuota
    limits: TimeLimits = field(default_factory=TimeLimits)
    alerts: AlertLimits = field(default_factory=AlertLimits)
    cached_agents: int = MAX_CACHED
    fallback_model: str | None = None
    max_context_tokens: int = 8_000  # of what an agent is sent, its tools included
    user_monthly_micros: int | None = None  # what a user may spend in a month, unless an administrator has set it
    is_demo: bool = False  # nobody asks a model, and nothing costs anything
    families: FamilyLimits = field(default_factory=FamilyLimits)
    tool_calls: ToolCalls = field(default_factory=dict)
