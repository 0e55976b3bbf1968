"""Decides whether a write, a command, a deletion or an undo may be carried out: by mode, by grant, or by the user.

A question to the user, and its answer, are bound to exactly what was shown.
"""

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from artel.connector.errors import CallRefused
from artel.connector.grants import Grant, Grants
from artel.contract.connector import CallApproval, Holds

EXPIRE_SECONDS = 300.0
MAX_OPEN = 50
Mode = Literal["read-only", "yes", "terminal", "browser", "both"]
MODE_WORDS: dict[Mode, str] = {
    "read-only": "read only",
    "yes": "all plain writes are let through",
    "terminal": "asks here before each write",
    "browser": "asks in the browser before each write",
    "both": "asks here and in the browser before each write",
}
Kind = Literal["write", "run", "delete", "undo"]
_GERUNDS: dict[Kind, str] = {"write": "writing to", "run": "running", "delete": "deleting", "undo": "undoing"}


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
class Proposal:
    """Something to decide, with what the user is shown and the grant that they are offered."""

    subject: Subject
    agent: str
    shown: str
    offer: Grant | None
    is_granted: bool
    old_sha256: str | None = None  # of the file as shown
    warning: str = ""  # about what can't be undone: the user is asked despite grants, and no grant is offered
    notice: str = ""  # about hidden characters in the part that is not shown


@dataclass(frozen=True, slots=True)
class Question:
    """A proposal that the user is asked about."""

    ask_id: str
    proposal: Proposal
    expires: float


@dataclass(frozen=True, slots=True)
class Answer:
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

    def ask(self, proposal: Proposal) -> tuple[Question, bool]:
        """Return the open question about a subject, and whether it is new."""
        with self._lock:
            self._expire()
            existing = self._open.get(proposal.subject)
            if existing is not None:
                return existing, False
            if len(self._open) >= MAX_OPEN:
                raise CallRefused("refused", "Too many questions to the user are open. Wait for answers first.")
            question = Question(secrets.token_hex(8), proposal, self._clock() + EXPIRE_SECONDS)
            self._open[proposal.subject] = question
            return question, True

    def answer(self, ask_id: str, answer: Answer) -> Question | None:
        """Store the user's answer and return its question; None if the question is no longer open."""
        with self._lock:
            self._expire()
            question = self._pop_open(ask_id)
            if question is not None:
                self._answered[question.proposal.subject] = question, answer
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

    def close_stale(self, proposal: Proposal) -> Question | None:
        """Remove and return the open question about a file that has changed since it was shown."""
        with self._lock:
            question = self._open.get(proposal.subject)
            is_stale = question is not None and question.proposal.old_sha256 != proposal.old_sha256
            return self._open.pop(proposal.subject) if is_stale else None

    def close_by_id(self, ask_id: str) -> Question | None:
        """Remove and return the open question with an id; also drop an answer to it."""
        with self._lock:
            self._answered = {
                subject: answered for subject, answered in self._answered.items() if answered[0].ask_id != ask_id
            }
            return self._pop_open(ask_id)

    def answers(self) -> list[tuple[Question, Answer]]:
        """Return the answers that no call has taken yet, to be sent again after reconnecting."""
        with self._lock:
            self._expire()
            return list(self._answered.values())

    def _pop_open(self, ask_id: str) -> Question | None:
        subject = next((subject for subject, question in self._open.items() if question.ask_id == ask_id), None)
        return None if subject is None else self._open.pop(subject)

    def _expire(self) -> None:
        now = self._clock()
        self._open = {subject: question for subject, question in self._open.items() if question.expires > now}
        self._answered = {
            subject: answered
            for subject, answered in self._answered.items()
            if answered[0].expires + EXPIRE_SECONDS > now
        }


class Decider:
    """Decides proposals by the mode that the connector was started in."""

    def __init__(
        self,
        mode: Mode,
        grants: Grants,
        questions: Questions,
        show_question: Callable[[Question], object],
        hide_question: Callable[[Question], object],
    ) -> None:
        self.mode: Mode = mode
        self._grants = grants
        self._questions = questions
        self._show_question = show_question
        self._hide_question = hide_question

    def require_not_read_only(self) -> None:
        if self.mode == "read-only":
            raise CallRefused("read_only", "The user has connected the workspace read-only.")

    def decide(self, proposal: Proposal, approval: CallApproval | None) -> str | None:
        """Return the hash that the file must still have; raise CallRefused if the proposal is not, or not yet, allowed.

        An approval that was given for other contents does not count: the user is asked again.
        """
        self.require_not_read_only()
        is_stale = approval is not None and not approval.is_for(proposal.old_sha256, proposal.subject.sha256)
        is_let_through = (self.mode == "yes" and proposal.subject.kind == "write") or proposal.is_granted
        if is_let_through and not proposal.warning and not is_stale:
            return None
        answered = self._questions.take(proposal.subject)
        if answered is None and approval is not None and self.mode != "terminal" and not is_stale:
            question = self._hide(self._questions.close(proposal.subject))
            self._grant(proposal.offer, approval.holds)
            return None if question is None else question.proposal.old_sha256
        if answered is None:
            raise self._ask(proposal)
        question, answer = answered
        if not answer.approved:
            feedback = f" and said: {answer.feedback}" if answer.feedback else ""
            raise CallRefused("refused", f"The user said no to {_describe(proposal.subject)}{feedback}")
        return question.proposal.old_sha256

    def confirm(self, proposal: Proposal) -> str | None:
        """Decide a proposal that always needs an approval at the server and can't be granted.

        In mode terminal the user is asked there too; else the server's approval is enough.
        """
        self.require_not_read_only()
        return self.decide(replace(proposal, offer=None, is_granted=False), None) if self.mode == "terminal" else None

    def answer(self, ask_id: str, answer: Answer) -> Question | None:
        """Store the user's answer; return its question, None if that was answered already or has expired."""
        question = self._questions.answer(ask_id, answer)
        if question is not None and answer.approved:
            self._grant(question.proposal.offer, answer.holds)
        return question

    def settle(self, ask_id: str) -> None:
        """Withdraw a question that was answered elsewhere or whose caller has gone."""
        self._hide(self._questions.close_by_id(ask_id))

    def _hide(self, question: Question | None) -> Question | None:
        if question is not None:
            self._hide_question(question)
        return question

    def _grant(self, offer: Grant | None, holds: Holds) -> None:
        if offer is not None and holds != "once":
            self._grants.add(offer, always=holds == "always")

    def _ask(self, proposal: Proposal) -> CallRefused:
        """Ask the user, unless an open question is about the same; return the refusal with the question's details."""
        self._hide(self._questions.close_stale(proposal))
        question, is_new = self._questions.ask(proposal)
        if is_new:
            self._show_question(question)
        shown = question.proposal
        return CallRefused(
            "asks",
            f"The user is asked about {_describe(proposal.subject)}",
            ask_id=question.ask_id,
            diff=shown.shown,
            grant=proposal.offer.text if proposal.offer else None,
            old_sha256=shown.old_sha256,
            new_sha256=shown.subject.sha256,
            warning=shown.warning or None,
            notice=shown.notice or None,
            expires_seconds=EXPIRE_SECONDS,
        )


def _describe(subject: Subject) -> str:
    return f"{_GERUNDS[subject.kind]} {subject.name}"
