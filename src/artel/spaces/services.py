"""The services and limits that all worker spaces of a process share."""

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
    """Time limits, in seconds."""

    without_progress: float = 30.0
    task: float = 600.0
    idle_space: float = 3600.0
    drain: float = 30.0
    lease: float = 10.0
    beyond_repair: float = 600.0


@dataclass(frozen=True, slots=True)
class AlertLimits:
    """Thresholds of alerts."""

    error_rate: float = 0.5
    queued_tasks: int = 50
    uptime: float = 168 * 3600.0  # seconds


@dataclass(frozen=True, slots=True)
class FamilyLimits:
    """Limits of families: generations below a team agent, children per agent, agents per project."""

    depth: int = 3
    children: int = 10
    agents: int = 100


@dataclass(frozen=True, slots=True)
class SpaceServices:
    """The services of worker spaces."""

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
    max_context_tokens: int = 8_000  # of a prompt, tool schemas included
    user_monthly_micros: int | None = None  # the default monthly limit of a user
    is_demo: bool = False  # the demo brain answers, and nothing costs money
    families: FamilyLimits = field(default_factory=FamilyLimits)
    tool_calls: ToolCalls = field(default_factory=dict)
