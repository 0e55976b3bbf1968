"""A node as the registry knows it."""

from dataclasses import dataclass
from datetime import datetime

from artel.contract.passport import NOT_READY_SECONDS, OFFLINE_SECONDS, NodeState, Passport


@dataclass(frozen=True, slots=True)
class RegisteredNode:
    """A node; `epoch` grows with each instance of its name, so that what an older one says can be refused."""

    name: str
    uid: str
    epoch: int
    passport: Passport
    heartbeat_at: datetime
    heartbeat_age: float  # seconds, by the clock of the database
    registered_at: datetime | None = None
    chosen_at: datetime | None = None  # for its last task
    open_commands: int = 0  # that worker spaces sent and it has not answered
    is_gone: bool = False  # it has deregistered

    @property
    def node_type(self) -> str:
        """The type of the node."""
        return self.passport.metadata.node_type

    @property
    def state(self) -> NodeState:
        """How the node is, by the age of its heartbeat."""
        if self.heartbeat_age < NOT_READY_SECONDS:
            return NodeState.ALIVE
        return NodeState.NOT_READY if self.heartbeat_age < OFFLINE_SECONDS else NodeState.OFFLINE

    @property
    def takes_tasks(self) -> bool:
        """Whether the node is alive and ready: neither paused nor draining, and in possession of its lock."""
        return self.state is NodeState.ALIVE and self.passport.status.is_ready and not self.is_gone

    @property
    def is_paused(self) -> bool:
        """Whether the node is there and goes on later: an operator paused it, or it has lost its lock for now."""
        status, is_there = self.passport.status, self.state is NodeState.ALIVE and not self.is_gone
        return is_there and not self.takes_tasks and not status.is_blocked and status.phase in ("Running", "Paused")

    @property
    def tasks(self) -> int:
        """How many tasks it has: those that it reports, or those that it was sent since."""
        return max(len(self.passport.status.current_tasks), self.open_commands)

    @property
    def load(self) -> float:
        """The share of its task slots that are in use; above 1 if tasks wait for it."""
        return self.tasks / self.passport.spec.max_concurrent_tasks

    @property
    def capabilities(self) -> frozenset[str]:
        """The names of its capabilities."""
        return frozenset(capability.name for capability in self.passport.spec.capabilities)
