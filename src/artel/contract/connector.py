"""What the server and a connector say to each other: JSON-RPC 2.0 over a WebSocket (subprotocol `artel.connector.v1`).

The connector opens with `hello`. After that the server asks (`workspace/read` …) and the connector answers, with one
exception: `workspace/decided` tells that the user has answered a question at the connector. The other way round
`workspace/answered` tells the connector that a question was answered elsewhere, so that it stops asking. Both are
notifications with the same fields. Unknown fields are ignored: two versions may talk to each other.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, model_validator
from typing_extensions import TypedDict

PROTOCOL = "artel.connector.v1"
GUIDANCE = "AGENTS.md"  # a file, and the feature of a connector whose folder has it
PING_SECONDS = 10.0
DEAD_SECONDS = 30.0
MAX_FRAME_BYTES = 24_000_000  # a file of ten million bytes, with what JSON adds to it
MAX_HELLO_BYTES = 65_536
MAX_ERROR_CHARACTERS = 10_000
MAX_ENTRIES = 10_000  # of a listing or an undo, as the connector itself limits them
MAX_MATCHES = 1_000
MAX_CONTENT_BYTES = 10_000_000
MAX_COMMAND_CHARACTERS = 1_000

# Why a line was closed by the server (WebSocket close codes of our own).
CLOSE_REFUSED = 4400  # the hello is no hello, or says something that is not so; or the project was deleted
CLOSE_LOGIN_OVER = 4401  # the token that the line was opened with is good no more; come back with another
CLOSE_OTHER_CONNECTOR = 4409  # another connector serves the project
CLOSE_TAKEN_OVER = 4410  # another connector has taken over; don't come back
CLOSE_MISBEHAVED = 4413  # too many or too large messages, or no JSON-RPC
CLOSE_TRY_LATER = 1013  # the server can't take it now (a code of WebSocket's own)

Method = Literal[
    "workspace/read",
    "workspace/write",
    "workspace/list",
    "workspace/search",
    "workspace/edit",
    "workspace/delete",
    "workspace/stat",
    "workspace/run",
    "workspace/undo",
]
# What a call may be refused for; `error` says it in words.
Code = Literal[
    "path_traversal_blocked",
    "invalid_path",
    "file_not_found",
    "permission_denied",
    "read_failed",
    "write_failed",
    "file_changed",
    "not_unique",  # an edit whose text is there more than once, or not at all
    "workspace_gone",
    "wrong_user",
    "old_epoch",
    "read_only",
    "asks",  # the user is being asked; `ask_id` says under which name
    "refused",  # the user said no, or a rule at the connector does
    "approval_needed",  # only with an approval of the user's, which the call does not carry
    "no_command",
    "too_late",
    "unknown",  # whether it was done before the line broke can't be told any more
    "failed",
    # Said by the server in the connector's place.
    "offline",
    "timed_out",
]
Ask = Literal["terminal", "browser", "both"]
Holds = Literal["once", "session", "always"]


CommandName = Annotated[str, Field(min_length=1, max_length=63)]
Command = Annotated[str, Field(max_length=MAX_COMMAND_CHARACTERS)]
Globs = Annotated[list[Annotated[str, Field(max_length=1_000)]], Field(max_length=1_000)]


class _Message(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Hello(_Message):
    """Who the connector is, and for whom it works."""

    protocol: str
    connector_id: str = Field(min_length=8, max_length=64)
    user_id: int
    project_id: int
    workspace_name: str = Field(min_length=1, max_length=200)
    read_only: bool = False
    features: Annotated[list[Annotated[str, Field(max_length=50)]], Field(max_length=20)] = []
    # How plain writes are decided ("yes": all are let through), the names of commands, and whether to take over.
    mode: Literal["read-only", "yes", "terminal", "browser", "both"] = "terminal"
    commands: Annotated[dict[CommandName, Command], Field(max_length=50)] = {}
    take_over: bool = False


class Welcome(_Message):
    """The server's answer to `hello`."""

    ping_seconds: float = PING_SECONDS


class Approval(_Message):
    """The user has approved this very call, in the browser or through the API.

    The hashes are those of what they were shown: of the file ("" if there was none), and of what it is to be.
    """

    id: str
    holds: Holds = "once"
    old_sha256: str | None = None
    new_sha256: str | None = None

    def is_for(self, old_sha256: str | None, new_sha256: str) -> bool:
        """Return whether it was given for this change; a hash that it does not have may be any."""
        return self.old_sha256 in (None, old_sha256) and self.new_sha256 in (None, new_sha256)


class Call(_Message):
    """What every call carries. `call_id` is the id of the JSON-RPC request too."""

    call_id: str
    user_id: int
    epoch: int = 0
    timeout_ms: int = Field(gt=0)  # counted from receipt
    turn_id: str = ""
    agent: str = ""
    approval: Approval | None = None
    # The project's rules for this tool. The server has checked the name that was asked for, the connector checks the
    # real one too; one that doesn't know these fields ignores them.
    allowed_paths: Globs = []
    denied_paths: Globs = []


class ReadCall(Call):
    """`workspace/read`: a file; some lines of it with `first_line` and `lines`."""

    path: str
    first_line: int | None = None
    lines: int | None = None


class WriteCall(Call):
    """`workspace/write`: a file as a whole. `if_match` is the SHA-256 that it must have now, "" if it must be new."""

    path: str
    content: str
    create_dirs: bool = False
    if_match: str | None = None


class EditCall(Call):
    """`workspace/edit`: replace a text that is in the file exactly once."""

    path: str
    old: str
    new: str
    if_match: str | None = None


class ListCall(Call):
    """`workspace/list`: what is in a folder; `pattern` is a glob for names."""

    path: str = "."
    recursive: bool = False
    pattern: str | None = None


class SearchCall(Call):
    """`workspace/search`: lines with a text, or that match a regular expression."""

    query: str
    path: str = "."
    pattern: str | None = None
    regex: bool = False
    most: int = 100


class StatCall(Call):
    """`workspace/stat`: what is at a path; `with_sha256` also the hash of a file, if it is not too big."""

    path: str
    with_sha256: bool = False


class DeleteCall(Call):
    """`workspace/delete`: remove a file; only with an approval."""

    path: str
    if_match: str | None = None


class RunCall(Call):
    """`workspace/run`: run a command that the user has named."""

    name: str


class UndoCall(Call):
    """`workspace/undo`: put back what a turn has changed, or one file of it; with `again` what was put back before
    is done again.
    """

    of_turn: str | None = None
    path: str | None = None
    again: bool = True


CALLS: dict[str, type[Call]] = {
    "workspace/read": ReadCall,
    "workspace/write": WriteCall,
    "workspace/edit": EditCall,
    "workspace/list": ListCall,
    "workspace/search": SearchCall,
    "workspace/stat": StatCall,
    "workspace/delete": DeleteCall,
    "workspace/run": RunCall,
    "workspace/undo": UndoCall,
}


class Result(_Message):
    """What came of a call. What else there is depends on the method; a failed call has `error` and `code`."""

    model_config = ConfigDict(extra="allow", frozen=True)

    success: bool
    error: str | None = None
    code: Code | None = None

    @property
    def more(self) -> dict[str, Any]:
        """What it says beyond whether it went well."""
        known = type(self).model_fields
        said = {name: getattr(self, name) for name in known if name in self.model_fields_set and name not in _DEPENDS}
        return {name: value for name, value in {**said, **(self.model_extra or {})}.items() if value is not None}


_DEPENDS = frozenset({"success", "error", "code"})
_Error = Annotated[
    str, BeforeValidator(lambda error: error[:MAX_ERROR_CHARACTERS] if isinstance(error, str) else error)
]
_Line = Annotated[str, Field(max_length=200)]
_Path = Annotated[str, Field(max_length=2_000)]
_Number = Annotated[int, Field(ge=-(2**63), lt=2**63)]


class FileEntry(TypedDict):
    """Something in a folder."""

    path: _Path
    type: _Line
    size: _Number
    modified: _Line


class PathEntry(TypedDict):
    """Something of which only the place is told."""

    path: _Path


class MatchEntry(TypedDict):
    """A line that was found."""

    path: _Path
    line: _Number
    text: Annotated[str, Field(max_length=2_000)]


class UndoneEntry(TypedDict):
    """What became of a file whose change was undone."""

    path: _Path
    turn_id: _Line
    outcome: Literal["restored", "removed", "changed_since", "not_kept", "failed"]


class Answer(Result):
    """What the server takes of a connector's answer: known fields of bounded size. Any answer may be `asks`."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    needed: ClassVar[str | None] = None  # without which a call has not succeeded

    error: _Error | None = None
    ask_id: _Line | None = None
    diff: Annotated[str, Field(max_length=100_000)] | None = None
    grant: Annotated[str, Field(max_length=5_000)] | None = None
    old_sha256: _Line | None = None
    new_sha256: _Line | None = None
    warning: Annotated[str, Field(max_length=1_000)] | None = None
    notice: Annotated[str, Field(max_length=1_000)] | None = None
    expires_seconds: float | None = None
    where: _Line | None = None  # where the user is asked: the server's own word

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.success and self.needed is not None and getattr(self, self.needed) is None:
            raise ValueError(f"{self.needed} is missing")
        return self


class ReadAnswer(Answer):
    """A file, or some lines of it."""

    needed = "content"

    content: Annotated[str, Field(max_length=MAX_CONTENT_BYTES)] | None = None
    size: _Number | None = None
    sha256: _Line | None = None
    modified: _Line | None = None
    first_line: _Number | None = None
    total_lines: _Number | None = None
    is_cut: bool | None = None
    is_binary: bool | None = None


class StatAnswer(Answer):
    """What is at a path."""

    path: _Path | None = None
    type: _Line | None = None
    size: _Number | None = None
    modified: _Line | None = None
    sha256: _Line | None = None


class ListAnswer(Answer):
    """What is in a folder."""

    needed = "files"

    files: Annotated[list[FileEntry], Field(max_length=MAX_ENTRIES, fail_fast=True)] | None = None
    is_cut: bool | None = None
    left_out: Annotated[list[PathEntry], Field(max_length=MAX_ENTRIES, fail_fast=True)] | None = None
    unreadable: Annotated[list[PathEntry], Field(max_length=MAX_ENTRIES, fail_fast=True)] | None = None


class SearchAnswer(Answer):
    """The lines that were found."""

    needed = "matches"

    matches: Annotated[list[MatchEntry], Field(max_length=MAX_MATCHES, fail_fast=True)] | None = None
    files_searched: _Number | None = None
    is_cut: bool | None = None
    cut_by: _Line | None = None


class WriteAnswer(Answer):
    """A file that was written, edited or deleted; `unchanged` if it already had this content."""

    size: _Number | None = None
    sha256: _Line | None = None
    timestamp: _Line | None = None
    is_new: bool | None = None
    unchanged: bool | None = None


class RunAnswer(Answer):
    """What a command has printed."""

    name: _Line | None = None
    output: Annotated[str, Field(max_length=100_000)] | None = None
    is_cut: bool | None = None
    exit_code: _Number | None = None


class UndoAnswer(Answer):
    """What became of each file."""

    files: Annotated[list[UndoneEntry], Field(max_length=MAX_ENTRIES, fail_fast=True)] | None = None


@dataclass(frozen=True, slots=True)
class AnswerLimit:
    """What the answer to a method may be: its fields, its characters, and those of them outside of strings."""

    model: type[Answer]
    characters: int = 512_000
    structure: int = 10_000  # brackets, commas, numbers: what objects in memory are made of


ANSWERS: dict[str, AnswerLimit] = {
    "workspace/read": AnswerLimit(ReadAnswer, characters=MAX_FRAME_BYTES),
    "workspace/stat": AnswerLimit(StatAnswer),
    "workspace/list": AnswerLimit(ListAnswer, characters=5_000_000, structure=1_000_000),
    "workspace/search": AnswerLimit(SearchAnswer, characters=5_000_000, structure=200_000),
    "workspace/write": AnswerLimit(WriteAnswer),
    "workspace/edit": AnswerLimit(WriteAnswer),
    "workspace/delete": AnswerLimit(WriteAnswer),
    "workspace/run": AnswerLimit(RunAnswer),
    "workspace/undo": AnswerLimit(UndoAnswer, characters=5_000_000, structure=1_000_000),
}


class Asks(Result):
    """The answer to a call that the user is asked about; `grant` is what an answer may hold for beyond this call.

    What is asked is bound to the hashes: of the file now ("" if there is none, None if it is too big), and of what it
    is to be (for a command: of the command).
    """

    ask_id: str
    diff: str = ""  # as unified diff, bounded; for a command the command
    grant: str | None = None
    old_sha256: str | None = None
    new_sha256: str | None = None
    warning: str | None = None  # what would be lost for good; such a question has risk `high` and offers no grant
    notice: str | None = None  # about hidden characters in the part of the change that the diff does not show
    expires_seconds: float = 300.0


def lost_for_good(verb: str, size: int) -> str:
    """Return the warning about a file that is too large to be shown and kept, or can't be read."""
    return f"Would {verb} {size:,} bytes that are not shown and can't be undone."


DECIDED, ANSWERED = "workspace/decided", "workspace/answered"


class Decided(_Message):
    """The user has answered a question that a call had answered with `asks`."""

    ask_id: str
    decision: Literal["approve", "reject"]
    feedback: str = ""


class ConnectorState(BaseModel):
    """Whether somebody's folder can be reached, for `GET /my/projects/{id}/connector`."""

    online: bool
    connector_id: str | None = None
    workspace_name: str | None = None
    read_only: bool | None = None
    mode: str | None = None
    commands: list[str] = []
    since: str | None = None


def request(method: str, call: BaseModel, request_id: str) -> dict[str, JsonValue]:
    """Return a JSON-RPC request."""
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": call.model_dump(mode="json")}


def answer(request_id: Any, result: BaseModel) -> dict[str, JsonValue]:
    """Return a JSON-RPC answer."""
    return {"jsonrpc": "2.0", "id": request_id, "result": result.model_dump(mode="json", exclude_none=True)}


def refusal(request_id: Any, code: int, message: str) -> dict[str, JsonValue]:
    """Return a JSON-RPC error."""
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}
