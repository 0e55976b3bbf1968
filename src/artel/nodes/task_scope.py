"""The task that the tools of a node work for, and its tenant."""

from dataclasses import dataclass

from artel.contract.envelope import CommandContext


@dataclass(frozen=True, slots=True)
class TaskScope:
    """A task of a user's project; a command that names neither, of a client without a worker space, has no tenant."""

    task_id: str
    user_id: int | None = None
    project_id: int | None = None

    @classmethod
    def of(cls, task_id: str, context: CommandContext | None) -> "TaskScope":
        """Return the scope of a command."""
        return cls(task_id, context.user_id, context.project_id) if context else cls(task_id)

    @property
    def tenant(self) -> str:
        """The name of the tenant, for folders and collections; the same for all commands without one."""
        if self.user_id is None:
            return "no_user"
        return f"user{self.user_id}_project{'' if self.project_id is None else self.project_id}"

    @property
    def key(self) -> tuple[int, int]:
        """The tenant as a key of limits."""
        user, project = self.user_id, self.project_id
        return (-1 if user is None else user, -1 if project is None else project)
