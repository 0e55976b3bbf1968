"""A task of a node that waits for tools of the worker space, or for a person, as the worker space holds it."""

from pydantic import BaseModel, ConfigDict, ValidationError

from artel.contract.node_messages import MAX_STATE_CHARACTERS, SpaceTool
from artel.contract.parked_run import ParkedState
from artel.errors import ArtelError, Kind

VERSION = 1


class StateInvalid(ArtelError, kind=Kind.INVALID, code="state_invalid"):
    """The state of a `continue` can't be used."""


class StateTooLarge(ArtelError, kind=Kind.TOO_MANY, code="state_too_large"):
    """A task has grown too large to be handed to the worker space."""


class PendingCall(BaseModel, defer_build=True):
    """A tool call without a result; `approval_hash` is that of its tool and arguments if a person must approve it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    approval_hash: str | None = None


class SavedTask(BaseModel, defer_build=True):
    """Everything that any node of the same agent needs to go on with a task."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    version: int = VERSION
    agent_type: str
    tenant: str
    action: str
    capability: str | None = None  # None: the agent answers as itself
    task_id: str = ""  # of the command that began it, whose work folder the tools go on to use
    tools: tuple[SpaceTool, ...] = ()
    pending: tuple[PendingCall, ...]
    seconds: float = 0.0  # that it has run
    state: ParkedState

    def to_text(self) -> str:
        """Return the state for the worker space; raise StateTooLarge."""
        text = self.model_dump_json(exclude_defaults=True)
        if len(text) > MAX_STATE_CHARACTERS:
            raise StateTooLarge(
                f"The task has grown to {len(text)} characters, and {MAX_STATE_CHARACTERS} can be handed over. "
                "Give it less text, or fewer tools that return much."
            )
        return text

    @classmethod
    def from_text(cls, text: str, *, agent_type: str, tenant: str) -> "SavedTask":
        """Return the task of a state; raise StateInvalid if it is none, or of another agent or tenant."""
        if len(text) > MAX_STATE_CHARACTERS:
            raise StateInvalid(f"The state has {len(text)} characters; at most {MAX_STATE_CHARACTERS} are allowed.")
        try:
            saved = cls.model_validate_json(text)
        except ValidationError as problem:
            where = ".".join(str(step) for step in problem.errors()[0]["loc"]) or "the document"
            raise StateInvalid(f"The state can't be read: {where} is wrong. Send it as the node sent it.") from None
        if saved.version > VERSION:
            raise StateInvalid("The state is of a newer version. Send it to a node of that version.")
        if saved.agent_type != agent_type or saved.tenant != tenant:
            raise StateInvalid("The state is of another agent, or of another user or project.")
        return saved
