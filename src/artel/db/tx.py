"""A transaction of a user, as the functions that write rows see it."""

from dataclasses import dataclass, field

from sqlalchemy import Connection

from artel.auth.principal import Principal
from artel.db.rows import Later


@dataclass(frozen=True, slots=True)
class Lease:
    """A host's lease of a worker space; `epoch` is the fencing token. An embedded server has none."""

    project_id: int
    owner: str
    epoch: int


@dataclass(slots=True)
class Tx:
    """One attempt of a transaction; a retry gets a new one, so that only committed changes are announced."""

    connection: Connection
    principal: Principal
    lease: Lease | None = None
    held: Later[int] | None = None  # reads the version of the leased space's agents, or raises LeaseLost
    hints: list[object] = field(default_factory=list)

    @property
    def agents_version(self) -> int:
        """The version of the leased space's agents, read under its lock; 0 without a lease."""
        return 0 if self.held is None else self.held()

    def after_commit(self, hint: object) -> None:
        """Send a hint to the handlers of its class after the commit, once."""
        if hint not in self.hints:
            self.hints.append(hint)
