"""Request and response bodies of the chat: messages, turns, workflows and the timeline of a session."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from artel.contract.http import MAX_ID, RequestBody, ResponseBody, Session, unset

MAX_CONTENT_CHARACTERS = 200_000
Content = Annotated[
    str,
    # At least one visible character, and no NUL, which databases can't store.
    Field(min_length=1, max_length=MAX_CONTENT_CHARACTERS, pattern=r"^[^\x00]*[^\s\x00][^\x00]*$"),
]
TargetName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]
TargetId = Annotated[int, Field(ge=0, le=MAX_ID)]
TimelineKind = Literal["message", "tool_call", "approval", "plan", "file_change", "notice"]
IdempotencyKey = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[\x20-\x7e]+$")]
Rating = Literal["good", "bad"]


AttachmentId = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[0-9a-zA-Z-]+$")]
MAX_ATTACHMENTS = 10  # of one message


class Attachment(ResponseBody):
    """A file that was attached to a message, or uploaded for one."""

    id: str
    name: str = Field(examples=["notes.txt"])
    media_type: str = Field(description="Found in the content.", examples=["text/plain"])
    size: int = Field(description="Bytes.", examples=[1234])
    kind: Literal["text", "image"]
    lines: int | None = Field(default=None, description="Of a text.", examples=[120])
    width: int | None = Field(default=None, description="Of an image, in pixels.")
    height: int | None = Field(default=None, description="Of an image, in pixels.")


class NewMessage(RequestBody):
    """A message to an agent, or without `target_agent` to the orchestrator."""

    content: Content = Field(examples=["What does this project do?"])
    target_agent: TargetName | TargetId | None = Field(
        default=None, description="Name, name without `agent_`, or id of an agent.", examples=["coder"]
    )
    idempotency_key: IdempotencyKey | None = Field(
        default=None, description="A repeated request with the same key returns the same turn.", examples=["b2c9e3f0"]
    )
    attachments: Annotated[list[AttachmentId], Field(max_length=MAX_ATTACHMENTS)] = Field(
        default=[], description="Ids of files that were uploaded to this session and not sent yet.", examples=[[]]
    )

    @field_validator("attachments")
    @classmethod
    def _each_once(cls, ids: list[str]) -> list[str]:
        if len(set(ids)) < len(ids):
            raise ValueError("name each attachment once")
        return ids


class Retry(RequestBody):
    """What to send instead of the earlier message; omitted fields are those of the earlier turn."""

    content: Content = Field(default_factory=unset, examples=["What does this project do, in one sentence?"])
    target_agent: TargetName | TargetId | None = Field(
        default_factory=unset,
        description="Name, name without `agent_`, or id of an agent; null for the orchestrator.",
        examples=["coder"],
    )


class MessageChanges(RequestBody):
    """The new content of a queued message."""

    content: Content = Field(examples=["What does this project do, in one sentence?"])


class Fork(RequestBody):
    """Message at which to fork a session."""

    message_id: Annotated[str, Field(max_length=64)] = Field(
        description="Last message of the new session.", examples=["019a8f0e-5b1c-7c3e-9f60-0d8d3f6a1b2c"]
    )


class NewFeedback(RequestBody):
    """Feedback on an answer; it replaces earlier feedback on the same answer."""

    rating: Rating = Field(examples=["good"])
    comment: Annotated[str, Field(max_length=2_000, pattern=r"^[^\x00]*$")] = Field(
        default="", description="What was good or bad about it.", examples=["Short and to the point."]
    )


class Feedback(ResponseBody):
    """Your feedback on an answer."""

    rating: Rating
    comment: str


class ContextItem(ResponseBody):
    """A memory that was added to the agent's prompt."""

    memory_id: str
    type: str = Field(examples=["conversation"])
    content: str
    score: float = Field(examples=[0.83])


class TurnContext(ResponseBody):
    """The memories that were added to the prompt of a turn, as they were then."""

    items: list[ContextItem]


class UsageShown(ResponseBody):
    """Tokens and cost of a turn."""

    model: str = Field(examples=["gpt-4"])
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = Field(default=0.0, description="Null if a price is unknown.")
    calls: int = 0


class AnswerUsage(ResponseBody):
    """Tokens and cost of the turn of an answer."""

    model: str = Field(examples=["gpt-4"])
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = Field(default=0.0, description="Null if a price is unknown.")


class MessageResponse(ResponseBody):
    """An agent's answer."""

    session_id: str
    turn_id: str
    message_id: str
    mode: str = Field(examples=["direct"])
    agent_id: int | None = Field(examples=[2])
    agent: str | None = Field(examples=["agent_coder"])
    content: str
    context: list[ContextItem]
    usage: UsageShown
    duration_ms: int = Field(examples=[812])


class MessageAccepted(ResponseBody):
    """The turn was accepted; its events report the progress."""

    session_id: str
    turn_id: str
    workflow_id: str | None = None
    approval_id: str | None = None
    mode: str = Field(examples=["orchestrated"])
    status: str = Field(examples=["queued"])


class ChatMessage(ResponseBody):
    """A message of a session's history."""

    id: str
    number: int = Field(description="Position in the session.", examples=[1])
    turn_id: str | None
    role: str = Field(description="user, assistant, or system for a failure notice.", examples=["assistant"])
    content: str
    agent_id: int | None
    agent: str | None = Field(examples=["agent_coder"])
    status: str = Field(
        description="ok; failed for a failure notice; cut_off for a partial answer; continued for a partial answer that"
        " a later message goes on from; retried for messages that were sent again later. Later prompts contain only"
        " messages with status ok or continued.",
        examples=["ok"],
    )
    error_code: str | None = Field(description="Why the answer is missing or incomplete.", examples=["timeout"])
    retry_of: str | None = Field(description="Turn whose message was sent again.")
    continues: str | None = Field(default=None, description="Cut-off message that this answer goes on from.")
    tokens: int
    feedback: Feedback | None = Field(default=None, description="Your feedback on this answer.")
    attachments: list[Attachment] = Field(default=[], description="Files that were attached, in order.")
    usage: AnswerUsage | None = Field(default=None, description="Tokens and cost of the turn, on answers.")
    duration_ms: int | None = Field(
        default=None, description="From the acceptance to the end of the turn, on answers.", examples=[812]
    )
    context: int | None = Field(default=None, description="Number of memories in the prompt, on answers.", examples=[2])
    timestamp: datetime


class SessionWithMessages(Session):
    """A session with its latest messages, oldest first."""

    last_event: int = Field(description="Number of the newest event.", examples=[7])
    messages: list[ChatMessage]


class TurnState(ResponseBody):
    """State of a turn."""

    id: str
    session_id: str
    mode: str = Field(examples=["direct"])
    agent_id: int | None
    status: str = Field(examples=["completed"])
    error_code: str | None
    error: str | None
    usage: UsageShown | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    duration_ms: int
    retry_of: str | None = Field(description="Turn whose message was sent again.")
    continues: str | None = Field(default=None, description="Cut-off message that it goes on from.")


class Failure(ResponseBody):
    """The last turn of a session, if it failed or ran out of time."""

    turn_id: str
    session_id: str
    session_title: str = Field(examples=["A new landing page"])
    project_id: int
    project_name: str | None = Field(examples=["Website"])
    agent: str | None = Field(description="Name of the agent; null for the orchestrator.", examples=["agent_coder"])
    status: str = Field(examples=["failed"], description="failed or timeout.")
    error_code: str | None = Field(examples=["model_unavailable"])
    error: str | None = Field(description="What happened; cut if it is long.")
    failed_at: datetime


class Found(ResponseBody):
    """A search result: a message or a session."""

    kind: Literal["message", "session"]
    session_id: str
    project_id: int
    message_id: str | None
    role: str | None
    title: str = Field(description="Title of the session.", examples=["A new landing page"])
    text: str = Field(description="Excerpt of the message around the match, or the session's title.")
    timestamp: datetime


class WorkflowTaskState(ResponseBody):
    """A task of a workflow; costs are in dollars, null if a price is unknown."""

    id: str = Field(examples=["1"])
    agent: str = Field(examples=["agent_coder"])
    agent_id: int | None
    description: str
    depends_on: list[str]
    status: str = Field(examples=["completed"])
    attempts: int
    estimated_cost: float | None
    cost: float | None
    result: str | None
    error: str | None
    error_code: str | None
    started_at: datetime | None
    finished_at: datetime | None
    refused: bool = Field(
        False, description="Whether a call was refused, or not answered in time: the task has a result without it."
    )


class WorkflowState(ResponseBody):
    """A request to the orchestrator: its plan, cost, status and answer."""

    id: str
    project_id: int
    session_id: str
    turn_id: str
    status: str = Field(examples=["completed"])
    request: str
    instruction: str
    plan_id: str | None
    planned_by: str | None = Field(
        examples=["model"], description="model, cache, fallback, user, only_agent or one_agent."
    )
    tasks: list[WorkflowTaskState]
    estimated_cost: float | None = Field(description="Expected cost; null if a price is unknown.")
    estimated_cost_low: float | None
    estimated_cost_high: float | None
    estimated_duration: float | None
    agreed_cost: float | None = Field(description="Approved maximum cost.")
    cost: float | None = Field(description="Actual cost, including planning and merging.")
    approval_id: str | None = Field(None, description="Pending approval, if the workflow waits for you.")
    answer: str | None
    error: str | None
    error_code: str | None
    graph: str | None = Field(description="The plan as a Mermaid flowchart.")
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class ToolCallResult(ResponseBody):
    """What is shown of the result of a tool call."""

    text: str = Field(description="Its beginning: at most 2,000 characters; of lists the first 50 entries, by line.")
    is_cut: bool
    count: int | None = Field(description="Entries of a list: hits, files, pages or memories.", examples=[12])
    exit_code: int | None = Field(description="Of a command.", examples=[0])


class TimelineToolCall(ResponseBody):
    """A tool call that changed no file of the user."""

    agent_id: int | None
    agent: str = Field(examples=["agent_coder"])
    tool: str = Field(examples=["tool_read_file"])
    arguments: dict[str, Any] = Field(description="Long values are shortened; contents are stored as size and hash.")
    status: str = Field(description="sent, done, unchanged, failed, refused, unknown or cancelled", examples=["done"])
    error: str | None
    approval_id: str | None
    workflow_id: str | None = Field(description="Null if it was not for a task of a plan.")
    task_id: str | None = Field(examples=["1"])
    result: ToolCallResult | None = Field(description="Null if it has none, or an older server made the call.")


class TimelineApproval(ResponseBody):
    """An approval and the user's decision."""

    kind: str = Field(description="tool, plan or budget", examples=["tool"])
    agent_id: int | None
    tool: str = Field(examples=["tool_write_file"])
    arguments: dict[str, Any] = Field(description="Long values are shortened.")
    details: dict[str, Any] = Field(
        description="Details shown to the user, such as the diff; long values are shortened."
    )
    risk: str
    status: str = Field(description="pending, approved, used, rejected, expired or withdrawn", examples=["used"])
    holds: str | None = Field(description="How long similar writes were approved.")
    feedback: str | None
    where: str | None = Field(description="Where the user was asked: terminal, browser or both.")
    expires_at: datetime
    decided_at: datetime | None


class TimelinePlan(ResponseBody):
    """A plan of the orchestrator."""

    workflow_id: str
    status: str = Field(examples=["completed"])
    tasks: int = Field(examples=[3])
    tasks_done: int = Field(examples=[3])
    tasks_refused: int = Field(0, description="Tasks with a call that was refused, or not answered in time.")
    error_code: str | None = Field(description="Why it ended so.", examples=["approval_timeout"])
    cost: float | None = Field(description="In dollars; null if a price is unknown.")
    started_at: datetime | None
    finished_at: datetime | None


class FileOutcome(ResponseBody):
    """Result of an undo or redo for one file."""

    path: str
    outcome: str = Field(examples=["restored"])


class TimelineFileChange(ResponseBody):
    """A change of a user's file by an agent, or its undo or redo by the user."""

    agent: str = Field(description="Empty for an undo by the user.", examples=["agent_coder"])
    action: Literal["write", "edit", "delete", "undo", "redo"]
    path: str | None = Field(description="Null if all changes of the turn were undone.", examples=["src/app.py"])
    status: str = Field(description="done; for an undo or redo also sent, failed, refused, unknown", examples=["done"])
    added: int | None = Field(description="Number of lines, if a diff is stored.")
    removed: int | None = Field(description="Number of lines, if a diff is stored.")
    has_diff: bool = Field(description="Whether `GET /my/projects/{project_id}/changes/{id}` has the diff.")
    holds: str | None = Field(
        description="How it was allowed: once, session or always; yes if the folder was connected with `--yes`. Null "
        "if the connector is older, and for an undo or redo.",
        examples=["session"],
    )
    undone: bool = Field(description="Whether the change is undone now.")
    files: list[FileOutcome] = Field(description="For an undo or redo: the result per file.")
    approval_id: str | None
    workflow_id: str | None = Field(description="Null if it was not for a task of a plan.")
    task_id: str | None = Field(examples=["1"])


class TimelineNotice(ResponseBody):
    """Why an answer is missing or incomplete."""

    code: str | None = Field(
        description="interrupted, cancelled, timeout, budget_exceeded, account_budget_exceeded, …",
        examples=["cancelled"],
    )


class TimelineItem(ResponseBody):
    """An entry of the timeline; the field with the name of its kind has the details."""

    id: str
    kind: TimelineKind
    at: datetime
    turn_id: str | None
    text: str = Field(description="Description of the entry.", examples=["agent_coder wrote src/app.py."])
    message: ChatMessage | None = None
    tool_call: TimelineToolCall | None = None
    approval: TimelineApproval | None = None
    plan: TimelinePlan | None = None
    file_change: TimelineFileChange | None = None
    notice: TimelineNotice | None = None
