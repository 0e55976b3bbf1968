"""The services and settings that all worker spaces of a process share."""

from dataclasses import dataclass, field

from artel.agent_memory.service import Memories
from artel.brain.router import BrainRouter
from artel.budgets.money import micros
from artel.connector_gateway.relay import Relay
from artel.db.engine import Database
from artel.events.hub import EventHub
from artel.events.project_log import ProjectEventWriter
from artel.events.signals import Signals
from artel.registry.node_client import NodeClient
from artel.settings import Settings
from artel.spaces.agent_cache import SharedCache
from artel.spaces.figures import ChatFigures
from artel.task_workspaces.service import TaskWorkspaces
from artel.task_workspaces.storage_quota import StorageQuota
from artel.tools.policy import ToolCalls
from artel.tools.web import WebTools
from artel.turns.waiters import TurnWaiters


@dataclass(frozen=True, slots=True)
class SpaceServices:
    """The services of worker spaces."""

    settings: Settings
    database: Database
    brain: BrainRouter
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
    web: WebTools
    nodes: NodeClient
    tool_calls: ToolCalls = field(default_factory=dict)

    @property
    def is_demo(self) -> bool:
        """Whether the demo brain answers, and nothing costs money."""
        return not self.brain.configured

    @property
    def planner_model(self) -> str:
        """The model that plans, as it is chosen now."""
        return self.brain.planner_model

    @property
    def user_monthly_micros(self) -> int | None:
        limit = self.settings.user_monthly_budget_usd
        return None if limit is None else micros(limit)
