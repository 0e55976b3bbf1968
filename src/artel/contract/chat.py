"""What the chat takes and answers over HTTP."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from artel.contract.http import MAX_ID, Answer, Request, Session

MAX_CONTENT_CHARACTERS = 200_000
Content = Annotated[
    str,
    # Something that can be seen, and nothing that a database can't hold.
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
        default=None, description="The same key answers the same turn.", examples=["b2c9e3f0"]
    )


class Fork(Request):
    """Where to begin another session from."""

    message_id: Annotated[str, Field(max_length=64)] = Field(
        description="The last message that the new session has.", examples=["019a8f0e-5b1c-7c3e-9f60-0d8d3f6a1b2c"]
    )


class ContextItem(Answer):
    """Something that the agent was reminded of."""

    memory_id: str
    type: str = Field(examples=["conversation"])
    content: str
    score: float = Field(examples=[0.83])


class Usage(Answer):
    """What a turn has cost."""

    model: str = Field(examples=["gpt-4"])
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = Field(default=0.0, description="Null when a price is not known.")
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
    """The turn goes on; its events tell the rest."""

    session_id: str
    turn_id: str
    workflow_id: str | None = None
    approval_id: str | None = None
    mode: str = Field(examples=["orchestrated"])
    status: str = Field(examples=["queued"])


class ChatMessage(Answer):
    """A message of a session's history."""

    id: str
    number: int = Field(description="Its place in the session's order of time.", examples=[1])
    turn_id: str | None
    role: str = Field(description="user, assistant, or system for the note of a failure.", examples=["assistant"])
    content: str
    agent_id: int | None
    agent: str | None = Field(examples=["agent_coder"])
    status: str = Field(
        description="ok; failed for the note of a failure; cut_off for the part of an answer that was written before"
        " it ended early; retried for what was sent again later. Later prompts have only what is ok.",
        examples=["ok"],
    )
    error_code: str | None = Field(description="Why there is no answer, or only a part of it.", examples=["timeout"])
    retry_of: str | None = Field(description="The turn whose message was sent again with this one.")
    tokens: int
    timestamp: datetime


class SessionWithMessages(Session):
    """A session with its latest messages, oldest of them first."""

    last_event: int = Field(description="The number of its newest event.", examples=[7])
    messages: list[ChatMessage]


class TurnState(Answer):
    """Where a turn stands."""

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
    retry_of: str | None = Field(description="The turn whose message was sent again with this one.")


class Found(Answer):
    """A message or a session that was searched for."""

    kind: Literal["message", "session"]
    session_id: str
    project_id: int
    message_id: str | None
    role: str | None
    text: str = Field(description="The message around the words, or the session's title.")
    timestamp: datetime
