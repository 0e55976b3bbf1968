"""Feedback of users on answers: stored with the message, and in the memory of the agents that answered."""

from artel.agent_memory.repository import NewMemory
from artel.agent_memory.transactions import replace_memory
from artel.contract.chat import ChatMessage, NewFeedback
from artel.db.tx import Tx
from artel.errors import NotAnAnswer
from artel.events.session_log import SessionLog
from artel.ids import uuid7
from artel.plans.plan import TaskStatus
from artel.plans.repository import TaskRepository, WorkflowRepository
from artel.projects.transactions import get_project
from artel.sessions.answers import shown_messages
from artel.sessions.message_repository import MessageRepository, StoredFeedback, StoredMessage
from artel.text import shorten

QUOTED_CHARACTERS = 1_000  # of the question and of the answer


def rate_answer(tx: Tx, session_id: str, message_id: str, new: NewFeedback) -> ChatMessage:
    """Store or replace the user's feedback on an answer; raise MessageNotFound, or NotAnAnswer for other messages."""
    project_id = SessionLog(tx, session_id).project_id  # the lock of the session orders two ratings of one answer
    messages = MessageRepository(tx)
    message = messages.get(session_id, message_id)
    if message.role != "assistant":
        raise NotAnAnswer("Only answers of agents can be rated. Choose a message with the role assistant.")
    question = messages.question_of(session_id, message.turn_id) if message.turn_id else None
    memory_ids = dict(message.feedback.memories) if message.feedback else {}
    about = {"source": "feedback", "session_id": session_id, "message_id": message_id, "rating": new.rating}
    remembering = {agent.id for agent in get_project(tx.connection, tx.principal, project_id).agents if agent.memory}
    for agent_id in sorted(remembering.intersection(_who_answered(tx, message))):
        memory = NewMemory(
            _text(new, question.content if question else "", message.content),
            "feedback",
            success=new.rating == "good",
            task_id=message.turn_id,
            metadata=about,
            id=memory_ids.setdefault(agent_id, uuid7()),
        )
        replace_memory(tx, project_id, agent_id, memory)
    messages.rate(session_id, message_id, StoredFeedback(**new.model_dump(), memories=memory_ids))
    [rated] = shown_messages(tx.connection, tx.principal, [messages.get(session_id, message_id)])
    return rated


def _text(new: NewFeedback, question: str, answer: str) -> str:
    """Return the memory's content: the rating first, since long memories are cut at their end."""
    parts = [f"The user rated an answer as {new.rating}."]
    if new.comment.strip():
        parts.append(f"Comment: {new.comment.strip()}")
    if question:
        parts.append(f"Question: {shorten(question, QUOTED_CHARACTERS)}")
    parts.append(f"Answer: {shorten(answer, QUOTED_CHARACTERS)}")
    return "\n".join(parts)


def _who_answered(tx: Tx, message: StoredMessage) -> list[int]:
    """Return the agent that answered, or for the merged answer of a plan the agents whose tasks were completed."""
    if message.agent_id is not None:
        return [message.agent_id]
    workflow = WorkflowRepository(tx).of_turn(message.turn_id) if message.turn_id else None
    tasks = TaskRepository(tx).of(workflow.id) if workflow else []
    return [task.agent_id for task in tasks if task.agent_id is not None and task.status is TaskStatus.COMPLETED]
