"""Decides whether a write, a command, a deletion or an undo may be carried out: by mode, by grant, or by the user."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from artel.connector.errors import CallRefused
from artel.connector.grants import Grant, Grants
from artel.connector.questions import EXPIRE_SECONDS, Answer, Kind, Question, Questions, Subject
from artel.contract.connector import Approval

Mode = Literal["read-only", "yes", "terminal", "browser", "both"]
MODE_WORDS: dict[Mode, str] = {
    "read-only": "read only",
    "yes": "all plain writes are let through",
    "terminal": "asks here before each write",
    "browser": "asks in the browser before each write",
    "both": "asks here and in the browser before each write",
}
_GERUNDS: dict[Kind, str] = {"write": "writing to", "run": "running", "delete": "deleting", "undo": "undoing"}


@dataclass(frozen=True, slots=True)
class Proposal:
    """Something to decide, with what the user is shown and the grant that they are offered."""

    subject: Subject
    agent: str
    shown: str
    offer: Grant | None
    is_granted: bool
    old_sha256: str | None = None
    warning: str = ""  # about what can't be undone: the user is asked despite grants, and no grant is offered
    notice: str = ""  # about hidden characters in the part that is not shown


class Decider:
    """Decides proposals by the mode that the connector was started in."""

    def __init__(
        self,
        mode: Mode,
        grants: Grants,
        questions: Questions,
        show_question: Callable[[Question], None],
        hide_question: Callable[[Question], None],
    ) -> None:
        self.mode: Mode = mode
        self._grants = grants
        self._questions = questions
        self._show_question = show_question
        self._hide_question = hide_question

    def require_not_read_only(self) -> None:
        """Raise CallRefused in mode read-only."""
        if self.mode == "read-only":
            raise CallRefused("read_only", "The user has connected the workspace read-only.")

    def decide(self, proposal: Proposal, approval: Approval | None) -> str | None:
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
            question = self._questions.close(proposal.subject)
            self._grant(proposal.offer, approval.holds)
            if question is None:
                return None
            self._hide_question(question)
            return question.old_sha256
        if answered is None:
            raise self._ask(proposal)
        question, answer = answered
        if not answer.approved:
            feedback = f" and said: {answer.feedback}" if answer.feedback else ""
            raise CallRefused("refused", f"The user said no to {_describe(proposal.subject)}{feedback}")
        return question.old_sha256

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
            self._grant(question.offer, answer.holds)
        return question

    def settle(self, ask_id: str) -> None:
        """Withdraw a question that was answered elsewhere or whose caller has gone."""
        question = self._questions.close_by_id(ask_id)
        if question is not None:
            self._hide_question(question)

    def _grant(self, offer: Grant | None, holds: str) -> None:
        if offer is not None and holds != "once":
            self._grants.add(offer, always=holds == "always")

    def _ask(self, proposal: Proposal) -> CallRefused:
        """Ask the user, unless an open question is about the same; return the refusal with the question's details."""
        stale = self._questions.close_stale(proposal.subject, proposal.old_sha256)
        if stale is not None:
            self._hide_question(stale)
        question, is_new = self._questions.ask(
            proposal.subject,
            proposal.agent,
            proposal.shown,
            proposal.offer,
            proposal.old_sha256,
            proposal.warning,
            proposal.notice,
        )
        if is_new:
            self._show_question(question)
        return CallRefused(
            "asks",
            f"The user is asked about {_describe(proposal.subject)}",
            ask_id=question.ask_id,
            diff=question.diff,
            grant=proposal.offer.text if proposal.offer else None,
            old_sha256=question.old_sha256,
            new_sha256=question.subject.sha256,
            warning=question.warning or None,
            notice=question.notice or None,
            expires_seconds=EXPIRE_SECONDS,
        )


def _describe(subject: Subject) -> str:
    return f"{_GERUNDS[subject.kind]} {subject.name}"
