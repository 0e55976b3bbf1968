"""Request and response bodies of the chat."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from artel.contract.http import MAX_ID, Answer, Request, Session

MAX_CONTENT_CHARACTERS = 200_000
Content = Annotated[
    str,
    # At least one visible character, and no NUL, which databases can't store.
    Field(min_length=1, max_length=MAX_CONTENT_CHARACTERS, pattern=r"^[^\x00]*[^\s\x00][^\x00]*$"),
]
TargetName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]
TargetId = Annotated[int, Field(ge=0, le=MAX_ID)]
IdempotencyKey = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[\x20-\x7e]+$")]


class NewMessage(Request):
    """A message to an agent, or without `target_agent` to the orchestrator."""

    content: Content = Field(examples=["What does this project do?"])
    target_agent: TargetName | TargetId | None = Field(
        default=None, description="Name, name without `agent_`, or id of an agent.", examples=["coder"]
    )
    idempotency_key: IdempotencyKey | None = Field(
        default=None, description="A repeated request with the same key returns the same turn.", examples=["b2c9e3f0"]
    )


class Fork(Request):
    """Message at which to fork a session."""

    message_id: Annotated[str, Field(max_length=64)] = Field(
        description="Last message of the new session.", examples=["019a8f0e-5b1c-7c3e-9f60-0d8d3f6a1b2c"]
    )


class ContextItem(Answer):
    """A memory that was added to the agent's prompt."""

    memory_id: str
    type: str = Field(examples=["conversation"])
    content: str
    score: float = Field(examples=[0.83])


class Usage(Answer):
    """Tokens and cost of a turn."""

    model: str = Field(examples=["gpt-4"])
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = Field(default=0.0, description="Null if a price is unknown.")
    calls: int = 0


class MessageResponse(Answer):
    """An agent's answer."""

    session_id: str
    turn_id: str
    message_id: str
    mode: str = Field(examples=["direct"])
    agent_id: int | None = Field(examples=[2])
    agent: str | None = Field(examples=["agent_coder"])
    content: str
    context: list[ContextItem]
    usage: Usage
    duration_ms: int = Field(examples=[812])


class MessageAccepted(Answer):
    """The turn was accepted; its events report the progress."""

    session_id: str
    turn_id: str
    workflow_id: str | None = None
    approval_id: str | None = None
    mode: str = Field(examples=["orchestrated"])
    status: str = Field(examples=["queued"])


class ChatMessage(Answer):
    """A message of a session's history."""

    id: str
    number: int = Field(description="Position in the session.", examples=[1])
    turn_id: str | None
    role: str = Field(description="user, assistant, or system for a failure notice.", examples=["assistant"])
    content: str
    agent_id: int | None
    agent: str | None = Field(examples=["agent_coder"])
    status: str = Field(
        description="ok; failed for a failure notice; cut_off for a partial answer; retried for messages that were sent"
        " again later. Later prompts contain only messages with status ok.",
        examples=["ok"],
    )
    error_code: str | None = Field(description="Why the answer is missing or incomplete.", examples=["timeout"])
    retry_of: str | None = Field(description="Turn whose message was sent again.")
    tokens: int
    timestamp: datetime


class SessionWithMessages(Session):
    """A session with its latest messages, oldest first."""

    last_event: int = Field(description="Number of the newest event.", examples=[7])
    messages: list[ChatMessage]


class TurnState(Answer):
    """State of a turn."""

    id: str
    session_id: str
    mode: str = Field(examples=["direct"])
    agent_id: int | None
    status: str = Field(examples=["completed"])
    error_code: str | None
    error: str | None
    usage: Usage | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    duration_ms: int
    retry_of: str | None = Field(description="Turn whose message was sent again.")


class Found(Answer):
    """A search result: a message or a session."""

    kind: Literal["message", "session"]
    session_id: str
    project_id: int
    message_id: str | None
    role: str | None
    text: str = Field(description="Excerpt of the message around the match, or the session's title.")
    timestamp: datetime
