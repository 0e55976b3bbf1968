"""Questions to the user that calls wait for, and the answers, each bound to exactly what was shown."""

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
    """What is asked about: a file and the content that it is to have, a command and its words, changes to undo.

    An answer is for the turn that it was asked for: the same thing of another turn is another question.
    """

    kind: Kind
    name: str
    sha256: str
    turn_id: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """A question as it is shown. `offer` is what may be granted for longer; `old_sha256` what the file is now."""

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
    """What the user said."""

    approved: bool
    holds: Holds = "once"
    feedback: str = ""


class Questions:
    """The open questions, and the answers that no call has come for yet. The first answer to a question counts."""

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
        """Return the question about something, and whether it is new; who asks twice asks the same question."""
        with self._lock:
            self._expire()
            known = self._open.get(subject)
            if known is not None:
                return known, False
            if len(self._open) >= MAX_OPEN:
                raise CallRefused("refused", "Too many questions to the user are open. Wait for answers first.")
            expires = self._clock() + EXPIRE_SECONDS
            question = Question(secrets.token_hex(8), subject, agent, diff, offer, old_sha256, expires, warning, notice)
            self._open[subject] = question
            return question, True

    def answer(self, ask_id: str, answer: Answer) -> Question | None:
        """Take the user's answer; None if the question is no longer open."""
        with self._lock:
            self._expire()
            question = next((one for one in self._open.values() if one.ask_id == ask_id), None)
            if question is not None:
                del self._open[question.subject]
                self._answered[question.subject] = question, answer
            return question

    def take(self, subject: Subject) -> tuple[Question, Answer] | None:
        """Return what the user has said about something, once."""
        with self._lock:
            self._expire()
            return self._answered.pop(subject, None)

    def close(self, subject: Subject) -> Question | None:
        """Take back a question that was answered elsewhere."""
        with self._lock:
            return self._open.pop(subject, None)

    def close_stale(self, subject: Subject, old_sha256: str | None) -> Question | None:
        """Take back a question about a file that is no longer what was shown."""
        with self._lock:
            known = self._open.get(subject)
            return self._open.pop(subject) if known is not None and known.old_sha256 != old_sha256 else None

    def close_by_id(self, ask_id: str) -> Question | None:
        """Take back a question by its id, or an answer to it that no call has come for."""
        with self._lock:
            self._answered = {
                subject: (question, answer)
                for subject, (question, answer) in self._answered.items()
                if question.ask_id != ask_id
            }
            subject = next((one.subject for one in self._open.values() if one.ask_id == ask_id), None)
            return self._open.pop(subject) if subject is not None else None

    def answers(self) -> list[tuple[Question, Answer]]:
        """Return what was said and not used yet: a server that comes back has to hear it again."""
        with self._lock:
            self._expire()
            return list(self._answered.values())

    def _expire(self) -> None:
        now = self._clock()
        self._open = {subject: one for subject, one in self._open.items() if one.expires > now}
        self._answered = {
            subject: (question, answer)
            for subject, (question, answer) in self._answered.items()
            if question.expires + EXPIRE_SECONDS > now
        }
