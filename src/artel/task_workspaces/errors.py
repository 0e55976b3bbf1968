"""What goes wrong in a task workspace beyond what is wrong with a path."""

from artel.paths.errors import PathError, WriteFailed


class WorkspaceNotAssigned(PathError):
    """Nobody on the way up from the agent has a task workspace."""

    code = "workspace_not_assigned"

    def __init__(self) -> None:
        super().__init__("There is no task workspace for this agent")


class ChangedUnseen(WriteFailed):
    """Another member of the family has changed the file since the agent last read it."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} was changed by another agent since you last read it. Read it again, then write.")


class QuotaReached(WriteFailed):
    """The task workspace would hold more than it may."""


class Busy(WriteFailed):
    """Others have been writing all the time."""

    def __init__(self) -> None:
        super().__init__("The task workspace is busy. Try again.")
