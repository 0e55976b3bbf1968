"""Protocol between server and connector: JSON-RPC 2.0 over a WebSocket (subprotocol `artel.connector.v1`).

The connector starts with `hello`. Then the server sends requests (`workspace/read` …) and the connector responds.
There are two notifications with the same fields: `workspace/decided` (connector to server: the user has answered a
question at the connector) and `workspace/answered` (server to connector: a question was answered elsewhere, stop
asking). Unknown fields are ignored, for compatibility between versions.
"""

from typing import Annotated, Any, ClassVar, Literal, NotRequired, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, model_validator
from typing_extensions import TypedDict

from artel.text import storable

PROTOCOL = "artel.connector.v1"
GUIDANCE = "AGENTS.md"  # file name, and name of the feature of a connector whose folder contains it
PING_SECONDS = 10.0
DEAD_SECONDS = 30.0
MAX_FRAME_BYTES = 24_000_000  # a file of ten million bytes with JSON escapes
MAX_HELLO_BYTES = 65_536
MAX_ERROR_CHARACTERS = 10_000
MAX_ENTRIES = 10_000  # in a listing or an undo; the connector has the same limit
MAX_MATCHES = 1_000
MAX_CONTENT_BYTES = 10_000_000
MAX_COMMAND_CHARACTERS = 1_000
OLD_DIFF_BYTES, DIFF_BYTES = 90_000, 200_000  # that older servers accept, and this one
MAX_DIFF_CHARACTERS = DIFF_BYTES + 200  # with the line that says that it is cut
MAX_QUESTION_SECONDS = 86_400.0  # that a question can be kept open, from now
MAX_GRANTS = 400  # of a session and lasting ones together
MAX_COMPLETIONS = 100
MAX_COMPLETED_CHARACTERS = 200

# WebSocket close codes of the server.
CLOSE_REFUSED = 4400  # invalid hello, or the project was deleted
CLOSE_LOGIN_OVER = 4401  # the token is no longer valid; reconnect with another
CLOSE_OTHER_CONNECTOR = 4409  # another connector serves the project
CLOSE_TAKEN_OVER = 4410  # another connector has taken over; do not reconnect
CLOSE_DISCONNECTED = 4411  # the user has disconnected the folder on the page; do not reconnect
CLOSE_MISBEHAVED = 4413  # too many or too large messages, or not JSON-RPC
CLOSE_TRY_LATER = 1013  # the server is busy (standard WebSocket code)

# Error codes of a call; `error` is the message.
Code = Literal[
    "path_traversal_blocked",
    "invalid_path",
    "file_not_found",
    "permission_denied",
    "read_failed",
    "write_failed",
    "file_changed",
    "not_unique",  # the text to edit occurs more than once or not at all
    "workspace_gone",
    "wrong_user",
    "old_epoch",
    "read_only",
    "asks",  # the user is being asked; `ask_id` identifies the question
    "refused",  # by the user or a rule at the connector
    "approval_needed",  # the call needs an approval and has none
    "no_command",
    "no_grant",
    "no_question",  # it was answered, or has expired
    "too_late",
    "unknown",  # the connection broke; whether the call was executed is unknown
    "failed",
    # Set by the server.
    "offline",
    "timed_out",
]
Holds = Literal["once", "session", "always"]
# Where plain writes are approved, and all modes of a connector ("yes": plain writes need no approval).
Ask = Literal["terminal", "browser", "both"]
Mode = Literal["read-only", "yes", "terminal", "browser", "both"]
CommandName = Annotated[str, Field(min_length=1, max_length=63)]
Command = Annotated[str, Field(max_length=MAX_COMMAND_CHARACTERS)]
Globs = Annotated[list[Annotated[str, Field(max_length=1_000)]], Field(max_length=1_000)]


class _Message(BaseModel, defer_build=True):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Hello(_Message):
    """First message of a connector: its identity, user and project."""

    protocol: str
    connector_id: str = Field(min_length=8, max_length=64)
    user_id: int
    project_id: int
    workspace_name: str = Field(min_length=1, max_length=200)
    read_only: bool = False
    features: Annotated[list[Annotated[str, Field(max_length=50)]], Field(max_length=20)] = []
    # How plain writes are approved, the named commands, and whether to replace another connector.
    mode: Mode = "terminal"
    commands: Annotated[dict[CommandName, Command], Field(max_length=50)] = {}
    take_over: bool = False
    machine: Annotated[str, Field(max_length=200), AfterValidator(storable)] | None = None  # name of the computer


class Welcome(_Message):
    """The server's answer to `hello`."""

    ping_seconds: float = PING_SECONDS
    diff_bytes: int = OLD_DIFF_BYTES  # the longest diff that the server accepts


class UserApproval(_Message):
    """The user's approval of exactly this call, in the browser or through the API.

    The hashes are of the file that the user was shown ("" if there was none) and of its new content.
    """

    id: str
    holds: Holds = "once"
    old_sha256: str | None = None
    new_sha256: str | None = None

    def is_for(self, old_sha256: str | None, new_sha256: str) -> bool:
        """Return whether the approval covers this change; a missing hash matches any."""
        return self.old_sha256 in (None, old_sha256) and self.new_sha256 in (None, new_sha256)


class Call(_Message):
    """Common fields of calls. `call_id` is also the id of the JSON-RPC request."""

    call_id: str
    user_id: int
    epoch: int = 0
    timeout_ms: int = Field(gt=0)  # counted from receipt; the relay sets what is left of it
    turn_id: str = ""
    agent: str = ""
    approval: UserApproval | None = None
    # The project's rules for this tool. The server checks the requested path, the connector also the resolved one.
    # Connectors that don't know these fields ignore them.
    allowed_paths: Globs = []
    denied_paths: Globs = []


class CallFields(TypedDict):
    """The fields that identify a call, for the constructors of its subclasses."""

    call_id: str
    user_id: int
    epoch: int
    timeout_ms: int
    turn_id: NotRequired[str]
    agent: NotRequired[str]


class ReadCall(Call):
    """`workspace/read`: read a file, or a range of lines with `first_line` and `lines`."""

    path: str
    first_line: int | None = None
    lines: int | None = None


class WriteCall(Call):
    """`workspace/write`: write a whole file. `if_match` is its expected SHA-256; "" means that it must not exist."""

    path: str
    content: str
    create_dirs: bool = False
    if_match: str | None = None


class EditCall(Call):
    """`workspace/edit`: replace a text that occurs exactly once in the file."""

    path: str
    old: str
    new: str
    if_match: str | None = None


class ListCall(Call):
    """`workspace/list`: list a folder; `pattern` is a glob for names."""

    path: str = "."
    recursive: bool = False
    pattern: str | None = None


class SearchCall(Call):
    """`workspace/search`: find lines that contain a text or match a regular expression."""

    query: str
    path: str = "."
    pattern: str | None = None
    regex: bool = False
    most: int = 100


class StatCall(Call):
    """`workspace/stat`: describe a path; `with_sha256` adds the hash of a file unless it is too large."""

    path: str
    with_sha256: bool = False


class DeleteCall(Call):
    """`workspace/delete`: delete a file; needs an approval."""

    path: str
    if_match: str | None = None


class RunCall(Call):
    """`workspace/run`: run one of the user's named commands."""

    name: str


class UndoCall(Call):
    """`workspace/undo`: undo a turn's changes, or those of one file; `again` repeats an earlier undo.

    A file that was changed since stays, unless `if_match` is the SHA-256 that it has now ("" if there is no file).
    """

    of_turn: str | None = None
    path: str | None = None
    again: bool = True
    if_match: str | None = None


class RedoCall(Call):
    """`workspace/redo`: redo what was undone of a turn, or of one of its files."""

    of_turn: str
    path: str | None = None


class CompareCall(Call):
    """`workspace/compare`: show what the undo of a file would change now, also if it was changed since."""

    of_turn: str
    path: str


class ExtendCall(Call):
    """`workspace/extend`: keep a question open for longer."""

    ask_id: str
    seconds: float = Field(gt=0, le=MAX_QUESTION_SECONDS)  # from receipt


class SettingsCall(Call):
    """`workspace/settings`: change where writes are approved, or whether the folder is read-only.

    The connector decides: it refuses, or asks at its terminal, what would allow more than the options that it was
    started with.
    """

    ask: Ask | None = None
    read_only: bool | None = None


class GrantsCall(Call):
    """`workspace/grants`: list the user's grants."""


class RevokeCall(Call):
    """`workspace/revoke`: revoke a grant."""

    grant_id: str


class CompleteCall(Call):
    """`workspace/complete`: find files and folders whose path contains a text, best matches first."""

    query: str = Field(max_length=MAX_COMPLETED_CHARACTERS)
    most: int = Field(20, ge=1, le=MAX_COMPLETIONS)


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
    "workspace/redo": RedoCall,
    "workspace/compare": CompareCall,
    "workspace/extend": ExtendCall,
    "workspace/settings": SettingsCall,
    "workspace/grants": GrantsCall,
    "workspace/revoke": RevokeCall,
    "workspace/complete": CompleteCall,
}
# Those that the file writer carries out, and all after whose lost answer it is unknown whether something was changed.
WRITING_METHODS = ("workspace/write", "workspace/edit", "workspace/delete", "workspace/undo", "workspace/redo")
MUTATING_METHODS = frozenset({*WRITING_METHODS, "workspace/run"})


class CallResult(_Message):
    """Result of a call, as a connector sends it. Further fields depend on the method; a failed call has `error`."""

    model_config = ConfigDict(extra="allow", frozen=True)

    success: bool
    error: str | None = None
    code: Code | None = None


_Error = Annotated[
    str, BeforeValidator(lambda error: error[:MAX_ERROR_CHARACTERS] if isinstance(error, str) else error)
]
_Line = Annotated[str, Field(max_length=200)]
_Path = Annotated[str, Field(max_length=2_000)]
_Number = Annotated[int, Field(ge=-(2**63), lt=2**63)]


class FileEntry(TypedDict):
    """An entry of a folder."""

    path: _Path
    type: _Line
    size: _Number
    modified: _Line


class PathEntry(TypedDict):
    """An entry of which only the path is given."""

    path: _Path


class MatchEntry(TypedDict):
    """A matching line."""

    path: _Path
    line: _Number
    text: Annotated[str, Field(max_length=2_000)]


class UndoneEntry(TypedDict):
    """Result of an undo for one file."""

    path: _Path
    turn_id: _Line
    outcome: Literal["restored", "removed", "changed_since", "not_kept", "failed"]


class CallAnswer(CallResult):
    """A connector's result as the server parses it: known fields of bounded size. Any result may be `asks`."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    needed: ClassVar[str | None] = None  # field that a successful result must have
    characters: ClassVar[int] = 512_000  # maximum length
    structure: ClassVar[int] = 10_000  # maximum length outside of strings: it becomes objects in memory

    error: _Error | None = None
    ask_id: _Line | None = None
    diff: Annotated[str, Field(max_length=MAX_DIFF_CHARACTERS)] | None = None
    grant: Annotated[str, Field(max_length=5_000)] | None = None
    old_sha256: _Line | None = None
    new_sha256: _Line | None = None
    warning: Annotated[str, Field(max_length=1_000)] | None = None
    notice: Annotated[str, Field(max_length=1_000)] | None = None
    expires_seconds: float | None = None
    where: _Line | None = None  # where the user is asked; set by the server if the connector is older

    def document(self) -> dict[str, JsonValue]:
        """Return what the connector sent, for models and people to read: all fields but `success`, `error`, `code`."""
        names = self.model_fields_set - CallResult.model_fields.keys()
        fields = {name: getattr(self, name) for name in type(self).model_fields if name in names}
        return {name: value for name, value in fields.items() if value is not None}

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.success and self.needed is not None and getattr(self, self.needed) is None:
            raise ValueError(f"{self.needed} is missing")
        return self


class ReadAnswer(CallAnswer):
    """Content of a file or of some of its lines."""

    needed = "content"
    characters = MAX_FRAME_BYTES

    content: Annotated[str, Field(max_length=MAX_CONTENT_BYTES)] | None = None
    size: _Number | None = None
    sha256: _Line | None = None
    modified: _Line | None = None
    first_line: _Number | None = None
    total_lines: _Number | None = None
    is_cut: bool | None = None
    is_binary: bool | None = None


class StatAnswer(CallAnswer):
    """Description of a path."""

    path: _Path | None = None
    type: _Line | None = None
    size: _Number | None = None
    modified: _Line | None = None
    sha256: _Line | None = None


class ListAnswer(CallAnswer):
    """Entries of a folder."""

    needed = "files"
    characters = 5_000_000
    structure = 1_000_000

    files: Annotated[list[FileEntry], Field(max_length=MAX_ENTRIES, fail_fast=True)] | None = None
    is_cut: bool | None = None
    left_out: Annotated[list[PathEntry], Field(max_length=MAX_ENTRIES, fail_fast=True)] | None = None
    unreadable: Annotated[list[PathEntry], Field(max_length=MAX_ENTRIES, fail_fast=True)] | None = None


class SearchAnswer(CallAnswer):
    """Matching lines."""

    needed = "matches"
    characters = 5_000_000
    structure = 200_000

    matches: Annotated[list[MatchEntry], Field(max_length=MAX_MATCHES, fail_fast=True)] | None = None
    files_searched: _Number | None = None
    is_cut: bool | None = None
    cut_by: _Line | None = None


class WriteAnswer(CallAnswer):
    """A file that was written, edited or deleted, with its diff; `unchanged` if it already had this content.

    `holds` is set if nobody was asked: "session" or "always" because of `grant`, "yes" because of the mode.
    """

    size: _Number | None = None
    sha256: _Line | None = None
    timestamp: _Line | None = None
    is_new: bool | None = None
    unchanged: bool | None = None
    holds: _Line | None = None


class RunAnswer(CallAnswer):
    """Output of a command."""

    name: _Line | None = None
    output: Annotated[str, Field(max_length=100_000)] | None = None
    is_cut: bool | None = None
    exit_code: _Number | None = None


class UndoAnswer(CallAnswer):
    """Result of an undo or redo per file."""

    characters = 5_000_000
    structure = 1_000_000

    files: Annotated[list[UndoneEntry], Field(max_length=MAX_ENTRIES, fail_fast=True)] | None = None


class CompareAnswer(CallAnswer):
    """The diff from a file as it is now to what an undo puts back; `sha256` is that of the file now."""

    needed = "diff"

    sha256: _Line | None = None


class SettingsAnswer(CallAnswer):
    """The mode of a connector after a change."""

    needed = "mode"

    mode: Mode | None = None


class GrantEntry(TypedDict):
    """A grant: `name` is a glob of paths, or a command line; `since` is None for one of an older version."""

    id: _Line
    kind: Literal["write", "run"]
    name: _Path
    since: _Line | None
    lasts: Literal["session", "always"]


class GrantsAnswer(CallAnswer):
    """The user's grants."""

    needed = "grants"
    characters = 2_000_000
    structure = 100_000

    grants: Annotated[list[GrantEntry], Field(max_length=MAX_GRANTS, fail_fast=True)] | None = None


class NameEntry(TypedDict):
    """A file or a folder, of which only the name is given."""

    path: _Path
    type: Literal["file", "directory"]


class CompleteAnswer(CallAnswer):
    """Files and folders whose path contains a text."""

    needed = "files"
    structure = 100_000

    files: Annotated[list[NameEntry], Field(max_length=MAX_COMPLETIONS, fail_fast=True)] | None = None
    is_cut: bool | None = None


ANSWERS: dict[str, type[CallAnswer]] = {
    "workspace/read": ReadAnswer,
    "workspace/stat": StatAnswer,
    "workspace/list": ListAnswer,
    "workspace/search": SearchAnswer,
    "workspace/write": WriteAnswer,
    "workspace/edit": WriteAnswer,
    "workspace/delete": WriteAnswer,
    "workspace/run": RunAnswer,
    "workspace/undo": UndoAnswer,
    "workspace/redo": UndoAnswer,
    "workspace/compare": CompareAnswer,
    "workspace/extend": CallAnswer,
    "workspace/settings": SettingsAnswer,
    "workspace/grants": GrantsAnswer,
    "workspace/revoke": CallAnswer,
    "workspace/complete": CompleteAnswer,
}


def lost_for_good(verb: str, size: int) -> str:
    """Return the warning about a file that is unreadable or too large to be shown and backed up."""
    return f"Would {verb} {size:,} bytes that are not shown and can't be undone."


DECIDED, ANSWERED = "workspace/decided", "workspace/answered"
DISCONNECT = "disconnect"  # between server processes only: close the connection


class Decided(_Message):
    """The user's decision on a question of an `asks` result."""

    ask_id: str
    decision: Literal["approve", "reject"]
    feedback: str = ""


def request(method: str, call: BaseModel, request_id: str) -> dict[str, JsonValue]:
    """Return a JSON-RPC request."""
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": call.model_dump(mode="json")}


def answer(request_id: Any, result: BaseModel) -> dict[str, JsonValue]:
    """Return a JSON-RPC response."""
    return {"jsonrpc": "2.0", "id": request_id, "result": result.model_dump(mode="json", exclude_none=True)}


def refusal(request_id: Any, code: int, message: str) -> dict[str, JsonValue]:
    """Return a JSON-RPC error."""
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}
