"""Errors of task workspaces, in addition to those of paths."""

from artel.paths.errors import PathError, WriteFailed


class WorkspaceNotAssigned(PathError):
    """Neither the agent nor any ancestor has a task workspace."""

    code = "workspace_not_assigned"

    def __init__(self) -> None:
        super().__init__("There is no task workspace for this agent")


class ChangedSinceRead(WriteFailed):
    """Another agent has changed the file since this agent last read it."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} was changed by another agent since you last read it. Read it again, then write.")


class QuotaExceeded(WriteFailed):
    """The write would exceed the quota of the task workspace."""


class WorkspaceBusy(WriteFailed):
    """The lock was not free within the timeout."""

    def __init__(self) -> None:
        super().__init__("The task workspace is busy. Try again.")
