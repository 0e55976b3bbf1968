"""Transactions on turns: accept a message, add, start, write events. The lock on the session's row orders them."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sqlalchemy import Connection

from artel import kill_points
from artel.agents.repository import AgentRepository
from artel.attachments.repository import AttachmentRepository, StoredAttachment
from artel.auth.principal import Principal
from artel.budgets.month import Month, effective_limit, month_for
from artel.contract.events import (
    AgentStatusChanged,
    DirectAgentCall,
    EventData,
    MessageCreated,
)
from artel.contract.http import PageRequest
from artel.db.rows import Later
from artel.db.tx import Tx
from artel.errors import AgentQueueFull, AttachmentInvalid, IdempotencyKeyReused, ImagesNotSupported, SessionBusy
from artel.events.session_log import SessionLog
from artel.projects.repository import ProjectRepository
from artel.sessions.message_repository import MessageRepository, StoredMessage
from artel.sessions.repository import SessionRepository
from artel.sessions.transactions import DEFAULT_TITLE
from artel.settings import MAX_AGENTS
from artel.text import one_line
from artel.turns.repository import TurnRepository, Unfinished
from artel.turns.turn import Mode, Turn, TurnStatus

MAX_UNFINISHED = 11  # one runs, ten wait
MAX_WAITING_FOR_AGENT = 100
TITLE_CHARACTERS = 60
MAX_IMAGE_BYTES = 20 * 1024 * 1024  # of one message
_TO_DO = (
    "Choose a model that takes images, remove the images, or ask the operator to allow this model "
    "(setting models_with_images)."
)

# Raises if an agent of a project can't take a message now.
Gate = Callable[[int, int], None]
# Stores what else belongs to an accepted turn.
Also = Callable[[Tx, Turn], object]


class TurnOver(Exception):
    """The turn was started or finished by another process, or others come first. Nothing was written."""

    is_agents_fault = False


@dataclass(frozen=True, slots=True)
class NewAttachments:
    """The files of a message: uploaded ones by their ids, and those of the message that is sent again."""

    takes_images: Callable[[str], bool]  # whether a model does
    ids: tuple[str, ...] = ()
    sent_again: tuple[StoredAttachment, ...] = ()


@dataclass(frozen=True, slots=True)
class NewTurn:
    """A message to accept; its ids are made before the transaction, so that a retry inserts the same rows."""

    turn_id: str
    message_id: str
    content: str
    tokens: int
    target: str | None
    idempotency_key: str | None = None
    retry_of: str | None = None  # the turn whose message is sent again
    attachments: NewAttachments | None = None
    sets_recipient: bool = True  # whether the next message goes to the same agent by default

    @property
    def mode(self) -> Mode:
        """Direct with an agent, orchestrated without."""
        return Mode.ORCHESTRATED if self.target is None else Mode.DIRECT

    @property
    def request_hash(self) -> str:
        """Tells requests with the same idempotency key apart."""
        repeated = [] if self.retry_of is None else [self.retry_of]
        attached = [list(self.attachments.ids)] if self.attachments and self.attachments.ids else []
        return hashlib.sha256(json.dumps([self.content, self.target, *repeated, *attached]).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class AgentAtWork:
    """The agent of a turn, and its status before and after."""

    id: int
    name: str
    old_status: str
    new_status: str

    @property
    def change(self) -> AgentStatusChanged:
        return AgentStatusChanged(agent_id=self.id, old_status=self.old_status, new_status=self.new_status)


@dataclass(frozen=True, slots=True)
class Started:
    """What a turn starts with: the conversation, the version of the project's agents, the budget."""

    messages: list[StoredMessage]
    config_version: int
    month: Month | None = None  # if the project or its user has a monthly limit
    memory_version: int | None = None  # of the agent's memory, if it is searched


@dataclass(frozen=True, slots=True)
class QueuedTurn:
    """A turn to run, with the text of its message; a hint after it was accepted."""

    principal: Principal
    turn: Turn
    text: str

    @property
    def ids(self) -> tuple[int, str, str]:
        return self.principal.user_id, self.turn.session_id, self.turn.id


@kill_points.transaction("turn.accept")
def accept_message(
    tx: Tx, session_id: str, new: NewTurn, gate: Gate = lambda *_: None, also: Also | None = None
) -> Turn:
    """Store a message and its turn; return the earlier turn of the same request if its key was used before.

    `also` stores what else belongs to a new turn.
    """
    turns = TurnRepository(tx)
    log = SessionLog(tx, session_id, 0 if new.idempotency_key else 1, wait=False)
    find_agent = None if new.target is None else AgentRepository(tx).named(session_id, new.target)
    unfinished, project_id = turns.count_unfinished(session_id), log.project_id
    if new.idempotency_key is not None and (earlier := turns.by_key(session_id, new.idempotency_key)):
        turn, request_hash = earlier
        if request_hash != new.request_hash:
            raise IdempotencyKeyReused("This idempotency key was used for another message. Use a new one.")
        return turn
    agent_id = None
    if find_agent is not None:
        agent_id = find_agent()
        gate(project_id, agent_id)
    ids = new.turn_id, session_id, project_id
    turn = Turn(*ids, log.first, new.mode, agent_id, TurnStatus.QUEUED, datetime.now(UTC), retry_of=new.retry_of)
    _add_turn(tx, turn, unfinished(), new.request_hash, new.idempotency_key)
    messages = MessageRepository(tx)
    if new.retry_of is not None:
        messages.supersede(session_id, new.retry_of)
    attached = _attach(tx, turn, new.message_id, new.attachments) if new.attachments else ()
    named = new.message_id, turn.number, turn.number, turn.id
    question = StoredMessage(*named, "user", new.content, new.tokens, turn.created_at, retry_of=new.retry_of)
    messages.add(turn.project_id, session_id, replace(question, attachments=attached))
    if also is not None:
        also(tx, turn)
    log.write(
        new.turn_id,
        MessageCreated(
            message_id=new.message_id,
            role="user",
            content=new.content,
            retry_of=new.retry_of,
            attachments=[file.dump() for file in attached],
        ),
    )
    if log.first == 1:
        SessionRepository(tx).begin(session_id, words_of(new.content), DEFAULT_TITLE, agent_id)
    elif new.sets_recipient and log.session.recipient_id != agent_id:
        SessionRepository(tx).address(session_id, agent_id)
    log.note_state()
    tx.after_commit(QueuedTurn(tx.principal, turn, new.content))
    return turn


def _attach(tx: Tx, turn: Turn, message_id: str, new: NewAttachments) -> tuple[StoredAttachment, ...]:
    """Assign files to a message and return them; raise if nobody could look at its images."""
    claimed = AttachmentRepository(tx).claim(turn.session_id, new.ids, message_id) if new.ids else ()
    files = (*new.sent_again, *claimed)
    images = [file for file in files if file.kind == "image"]
    if sum(image.size for image in images) > MAX_IMAGE_BYTES:
        raise AttachmentInvalid(
            f"The images of a message may have {MAX_IMAGE_BYTES // 1024**2} MB together. Send some in a message of "
            "their own, or make them smaller."
        )
    if images:
        _require_images(tx, turn, new.takes_images)
    return files


def _require_images(tx: Tx, turn: Turn, takes_images: Callable[[str], bool]) -> None:
    """Raise ImagesNotSupported unless the agent of a turn, or one of the orchestrator's agents, can look at images."""
    agents = AgentRepository(tx)
    if turn.agent_id is None:
        team = agents.page(turn.project_id, PageRequest(MAX_AGENTS))
        if team and not any(agent.runtime != "node" and takes_images(agent.model) for agent in team):
            models = ", ".join(dict.fromkeys(agent.model for agent in team))
            raise ImagesNotSupported(
                f"No agent of this project has a model that is known to take images (models: {one_line(models, 200)}). "
                f"{_TO_DO}"
            )
        return
    agent = agents.get(turn.project_id, turn.agent_id)
    if agent.runtime == "node":
        raise ImagesNotSupported(
            f"{agent.name} runs on a node, and nodes get texts only. Send the image to another agent, or describe it."
        )
    if not takes_images(agent.model):
        raise ImagesNotSupported(f"{agent.model}, the model of {agent.name}, is not known to take images. {_TO_DO}")


def add_turn(tx: Tx, turn: Turn, request_hash: str, key: str | None = None) -> Turn:
    """Add a turn and return it; raise if too many wait in the session or for the agent."""
    return _add_turn(tx, turn, TurnRepository(tx).count_unfinished(turn.session_id)(), request_hash, key)


def _add_turn(tx: Tx, turn: Turn, unfinished: Unfinished, request_hash: str, key: str | None) -> Turn:
    if unfinished.of_session >= MAX_UNFINISHED:
        raise SessionBusy("Ten messages are waiting in this session. Wait for an answer.", retry_after=5)
    for_agent = 0 if turn.agent_id is None else unfinished.queued.get(turn.agent_id, 0)
    if for_agent >= MAX_WAITING_FOR_AGENT and turn.status is TurnStatus.QUEUED:
        raise AgentQueueFull(
            f"{MAX_WAITING_FOR_AGENT} tasks are waiting for this agent. Try again in a moment.", retry_after=5
        )
    TurnRepository(tx).add(turn, key, request_hash)
    return turn


def was_accepted(connection: Connection, principal: Principal, session_id: str, key: str) -> bool:
    """Return whether a message with this idempotency key was accepted."""
    return TurnRepository(connection, principal).by_key(session_id, key) is not None


@kill_points.transaction("turn.start")
def start_turn(
    tx: Tx,
    turn: Turn,
    agent: AgentAtWork | None,
    history: int,
    default_user_micros: int | None = None,
    *,
    recalls: bool = False,
) -> Started:
    """Mark the turn as running and return its context; raise TurnOver if it is not the session's next queued turn.

    `recalls`: the agent searches its memory, whose version is returned too.
    """
    happened: list[EventData] = []
    if agent is not None:
        began = [] if turn.parked else [DirectAgentCall(agent_id=agent.id, task_id=turn.id)]
        happened = [*began, agent.change]
    log = SessionLog(tx, turn.session_id, len(happened), wait=False)
    started = TurnRepository(tx).start(turn.session_id, turn.id)
    conversation, settings = _read_conversation(tx, turn, history), ProjectRepository(tx).settings(turn.project_id)
    version = AgentRepository(tx).memory_version(turn.project_id, agent.id) if agent and recalls else None
    _ = log.session  # raises if it is gone
    if not started():
        raise TurnOver
    if happened:
        log.write(turn.id, *happened)
    effective, own = settings()
    month = month_for(tx, turn.project_id, effective, effective_limit(own, default_user_micros))
    return Started(conversation(), tx.agents_version, month, version() if version else None)


def _read_conversation(tx: Tx, turn: Turn, history: int) -> Later[list[StoredMessage]]:
    """Read the last messages up to a turn; if it goes on with an answer, those up to that answer."""
    messages = MessageRepository(tx)
    if turn.continues is None:
        return messages.conversation(turn.session_id, turn.number, history)
    cut_off = messages.get(turn.session_id, turn.continues)
    before = messages.conversation(turn.session_id, cut_off.turn_number, history)
    return lambda: [*before(), cut_off]


def note_events(tx: Tx, turn: Turn, happened: Sequence[EventData]) -> None:
    """Write events of a running turn; raise TurnOver if it is finished."""
    log = SessionLog(tx, turn.session_id, len(happened))
    if TurnRepository(tx).get(turn.session_id, turn.id).status.is_terminal:
        raise TurnOver
    log.write(turn.id, *happened)


def words_of(content: str) -> str:
    """Return the title of a session after its first message."""
    begin = content[: 10 * TITLE_CHARACTERS]
    printable = "".join(letter if letter.isprintable() else " " for letter in begin)
    return one_line(printable, TITLE_CHARACTERS) or DEFAULT_TITLE
