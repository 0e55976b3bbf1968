"""Decides whether a write, a command, a deletion, an undo or a redo may be carried out: by mode, grant, or the user.

A question to the user, and its answer, are bound to exactly what was shown.
"""

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from artel.connector.errors import CallRefused
from artel.connector.grants import Grant, Grants
from artel.contract.connector import MAX_QUESTION_SECONDS, Holds, Mode, UserApproval

EXPIRE_SECONDS = 300.0
MAX_OPEN = 50
MODE_WORDS: dict[Mode, str] = {
    "read-only": "read only",
    "yes": "all plain writes are let through",
    "terminal": "asks here before each write",
    "browser": "asks in the browser before each write",
    "both": "asks here and in the browser before each write",
}
Kind = Literal["write", "run", "delete", "undo", "redo", "change"]
_GERUNDS: dict[Kind, str] = {
    "write": "writing to",
    "run": "running",
    "delete": "deleting",
    "undo": "undoing",
    "redo": "redoing",
    "change": "changing",
}


@dataclass(frozen=True, slots=True)
class Subject:
    """What a question is about: a file and its new content, a command line, changes to undo or redo, or another mode.

    An answer holds only for the turn that asked: the same change in another turn is another question.
    """

    kind: Kind
    name: str
    sha256: str
    turn_id: str = ""


@dataclass(frozen=True, slots=True)
class ProposedAction:
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
class OpenQuestion:
    """An action that the user is asked about."""

    ask_id: str
    proposal: ProposedAction
    expires: float = field(compare=False)  # the user can extend it


@dataclass(frozen=True, slots=True)
class UserAnswer:
    approved: bool
    holds: Holds = "once"
    feedback: str = ""


@dataclass(frozen=True, slots=True)
class Allowed:
    """That an action may be done: the hash that the file must still have, and whether nobody was asked about it."""

    sha256: str | None = None
    is_unasked: bool = False


class Decider:
    """Decides by the mode of the connector, and by the user's answers; thread-safe.

    Holds the open questions and the answers that no call has taken yet; the first answer to a question counts.
    """

    def __init__(
        self,
        mode: Mode,
        grants: Grants,
        show_question: Callable[[OpenQuestion], object],
        hide_question: Callable[[OpenQuestion], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._mode: Mode = mode
        self._grants = grants
        self._show_question = show_question
        self._hide_question = hide_question
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[Subject, OpenQuestion] = {}
        self._answered: dict[Subject, tuple[OpenQuestion, UserAnswer]] = {}

    @property
    def mode(self) -> Mode:
        return self._mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        """Change the mode; calls that were decided already are carried out."""
        self._mode = mode

    def require_not_read_only(self) -> None:
        if self._mode == "read-only":
            raise CallRefused("read_only", "The user has connected the workspace read-only.")

    def decide(self, proposal: ProposedAction, approval: UserApproval | None) -> Allowed:
        """Return how the action is allowed; raise CallRefused if it is not, or not yet, allowed.

        An approval that was given for other contents does not count: the user is asked again.
        """
        mode = self._mode  # once: it may change meanwhile
        self.require_not_read_only()
        subject = proposal.subject
        is_stale = approval is not None and not approval.is_for(proposal.old_sha256, subject.sha256)
        is_let_through = (mode == "yes" and subject.kind == "write") or proposal.is_granted
        if is_let_through and not proposal.warning and not is_stale:
            return Allowed(is_unasked=True)
        shown = self._take_answer(subject)
        if shown is not None:
            return Allowed(shown.proposal.old_sha256)
        if approval is None or mode == "terminal" or is_stale:
            raise self._ask(proposal)
        with self._lock:
            question = self._open.pop(subject, None)
        if question is not None:
            self._hide_question(question)
        self._grant(proposal.offer, approval.holds)
        return Allowed(None if question is None else question.proposal.old_sha256)

    def confirm(self, proposal: ProposedAction) -> Allowed:
        """Decide an action that always needs an approval at the server and can't be granted.

        In mode terminal the user is asked there too; else the server's approval is enough.
        """
        self.require_not_read_only()
        if self._mode != "terminal":
            return Allowed()
        return self.decide(replace(proposal, offer=None, is_granted=False), None)

    def consent(self, proposal: ProposedAction) -> None:
        """Return if the user has said yes at the terminal, whatever the mode; else ask there: raise CallRefused."""
        if self._take_answer(proposal.subject) is None:
            raise self._ask(proposal)

    def extend(self, ask_id: str, seconds: float) -> None:
        """Keep a question open for at least so long from now; raise CallRefused if it is not open."""
        with self._lock:
            self._expire()
            question = self._pop_open(ask_id)
            if question is None:
                raise CallRefused("no_question", "The question was answered already, or its time is over.")
            expires = max(question.expires, self._clock() + min(seconds, MAX_QUESTION_SECONDS))
            self._open[question.proposal.subject] = replace(question, expires=expires)

    def seconds_left(self, ask_id: str) -> float:
        """Return how long a question stays open; 0 if it is not open."""
        with self._lock:
            self._expire()
            return max((q.expires - self._clock() for q in self._open.values() if q.ask_id == ask_id), default=0.0)

    def answer(self, ask_id: str, answer: UserAnswer) -> OpenQuestion | None:
        """Store the user's answer; return its question, None if that was answered already or has expired."""
        with self._lock:
            self._expire()
            question = self._pop_open(ask_id)
            if question is None:
                return None
            self._answered[question.proposal.subject] = question, answer
        if answer.approved:
            self._grant(question.proposal.offer, answer.holds)
        return question

    def settle(self, ask_id: str) -> None:
        """Withdraw a question that was answered elsewhere or whose caller has gone; also drop an answer to it."""
        with self._lock:
            self._answered = {
                subject: answered for subject, answered in self._answered.items() if answered[0].ask_id != ask_id
            }
            question = self._pop_open(ask_id)
        if question is not None:
            self._hide_question(question)

    def answers(self) -> list[tuple[OpenQuestion, UserAnswer]]:
        """Return the answers that no call has taken yet, to be sent again after reconnecting."""
        with self._lock:
            self._expire()
            return list(self._answered.values())

    def _take_answer(self, subject: Subject) -> OpenQuestion | None:
        """Return the question if the user said yes, None if there is no answer; raise CallRefused if they said no."""
        with self._lock:
            self._expire()
            answered = self._answered.pop(subject, None)
        if answered is None:
            return None
        question, answer = answered
        if not answer.approved:
            feedback = f" and said: {answer.feedback}" if answer.feedback else ""
            raise CallRefused("refused", f"The user said no to {_describe(subject)}{feedback}")
        return question

    def _ask(self, proposal: ProposedAction) -> CallRefused:
        """Ask the user, unless an open question is about the same; return the refusal with the question's details."""
        subject = proposal.subject
        with self._lock:
            question = self._open.get(subject)
            if question is not None and question.proposal.old_sha256 != proposal.old_sha256:
                self._hide_question(self._open.pop(subject))  # the file has changed since it was shown
            self._expire()
            question = self._open.get(subject)
            if question is None:
                if len(self._open) >= MAX_OPEN:
                    raise CallRefused("refused", "Too many questions to the user are open. Wait for answers first.")
                question = OpenQuestion(secrets.token_hex(8), proposal, self._clock() + EXPIRE_SECONDS)
                self._open[subject] = question
                self._show_question(question)
        shown = question.proposal
        return CallRefused(
            "asks",
            f"The user is asked about {_describe(subject)}",
            ask_id=question.ask_id,
            diff=shown.shown,
            grant=proposal.offer.text if proposal.offer else None,
            old_sha256=shown.old_sha256,
            new_sha256=shown.subject.sha256,
            warning=shown.warning or None,
            notice=shown.notice or None,
            expires_seconds=EXPIRE_SECONDS,
            where=self._mode,
        )

    def _grant(self, offer: Grant | None, holds: Holds) -> None:
        if offer is not None and holds != "once":
            self._grants.add(offer, always=holds == "always")

    def _pop_open(self, ask_id: str) -> OpenQuestion | None:
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


def _describe(subject: Subject) -> str:
    return f"{_GERUNDS[subject.kind]} {subject.name}"
