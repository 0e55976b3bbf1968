"""Open questions to the user and their answers, each bound to exactly what was shown."""

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from artel.connector.errors import CallRefused
from artel.connector.grants import Grant
from artel.contract.connector import Holds

EXPIRE_SECONDS = 300.0
MAX_OPEN = 50
Kind = Literal["write", "run", "delete", "undo"]


@dataclass(frozen=True, slots=True)
class Subject:
    """What a question is about: a file and its new content, a command line, or changes to undo.

    An answer holds only for the turn that asked: the same change in another turn is another question.
    """

    kind: Kind
    name: str
    sha256: str
    turn_id: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """A question as it is shown; `offer` is the grant that is offered, `old_sha256` the hash of the file as shown."""

    ask_id: str
    subject: Subject
    agent: str
    diff: str
    offer: Grant | None
    old_sha256: str | None
    expires: float
    warning: str = ""
    notice: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The user's answer to a question."""

    approved: bool
    holds: Holds = "once"
    feedback: str = ""


class Questions:
    """Open questions, and answers that no call has taken yet; the first answer to a question counts."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[Subject, Question] = {}
        self._answered: dict[Subject, tuple[Question, Answer]] = {}

    def ask(
        self,
        subject: Subject,
        agent: str,
        diff: str,
        offer: Grant | None,
        old_sha256: str | None,
        warning: str = "",
        notice: str = "",
    ) -> tuple[Question, bool]:
        """Return the open question about a subject, and whether it is new."""
        with self._lock:
            self._expire()
            existing = self._open.get(subject)
            if existing is not None:
                return existing, False
            if len(self._open) >= MAX_OPEN:
                raise CallRefused("refused", "Too many questions to the user are open. Wait for answers first.")
            expires = self._clock() + EXPIRE_SECONDS
            question = Question(secrets.token_hex(8), subject, agent, diff, offer, old_sha256, expires, warning, notice)
            self._open[subject] = question
            return question, True

    def answer(self, ask_id: str, answer: Answer) -> Question | None:
        """Store the user's answer and return its question; None if the question is no longer open."""
        with self._lock:
            self._expire()
            question = next((question for question in self._open.values() if question.ask_id == ask_id), None)
            if question is not None:
                del self._open[question.subject]
                self._answered[question.subject] = question, answer
            return question

    def take(self, subject: Subject) -> tuple[Question, Answer] | None:
        """Remove and return the answer about a subject."""
        with self._lock:
            self._expire()
            return self._answered.pop(subject, None)

    def close(self, subject: Subject) -> Question | None:
        """Remove and return the open question about a subject."""
        with self._lock:
            return self._open.pop(subject, None)

    def close_stale(self, subject: Subject, old_sha256: str | None) -> Question | None:
        """Remove and return the open question about a file that has changed since it was shown."""
        with self._lock:
            question = self._open.get(subject)
            is_stale = question is not None and question.old_sha256 != old_sha256
            return self._open.pop(subject) if is_stale else None

    def close_by_id(self, ask_id: str) -> Question | None:
        """Remove and return the open question with an id; also drop an answer to it."""
        with self._lock:
            self._answered = {
                subject: (question, answer)
                for subject, (question, answer) in self._answered.items()
                if question.ask_id != ask_id
            }
            subject = next((subject for subject, question in self._open.items() if question.ask_id == ask_id), None)
            return self._open.pop(subject) if subject is not None else None

    def answers(self) -> list[tuple[Question, Answer]]:
        """Return the answers that no call has taken yet, to be sent again after reconnecting."""
        with self._lock:
            self._expire()
            return list(self._answered.values())

    def _expire(self) -> None:
        now = self._clock()
        self._open = {subject: question for subject, question in self._open.items() if question.expires > now}
        self._answered = {
            subject: (question, answer)
            for subject, (question, answer) in self._answered.items()
            if question.expires + EXPIRE_SECONDS > now
        }
