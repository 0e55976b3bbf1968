"""Who lets a write or a command through: nobody, everybody, a grant, or the user who is asked."""

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
_DOING: dict[Kind, str] = {"write": "writing to", "run": "running", "delete": "deleting", "undo": "undoing"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Something to decide: what, for whom, how it is shown, and what of it may be granted for longer."""

    subject: Subject
    agent: str
    shown: str
    offer: Grant | None
    is_granted: bool
    old_sha256: str | None = None
    warning: str = ""  # what is lost for good: then the user is asked, whatever was granted, and nothing is offered
    notice: str = ""  # about hidden characters in what is not shown


class Decider:
    """Decides by the mode that the connector was started in."""

    def __init__(
        self,
        mode: Mode,
        grants: Grants,
        questions: Questions,
        ask: Callable[[Question], None],
        settled: Callable[[Question], None],
    ) -> None:
        self.mode: Mode = mode
        self._grants = grants
        self._questions = questions
        self._ask = ask
        self._settled = settled

    def require_not_read_only(self) -> None:
        """Raise if nothing may be changed."""
        if self.mode == "read-only":
            raise CallRefused("read_only", "The user has connected the workspace for reading only.")

    def decide(self, wanted: Wanted, approval: Approval | None) -> str | None:
        """Return if it may be done now, with the hash that the file must still have; raise if not, or not yet.

        An approval that was given for something else than what would be done now is none: the user is asked anew.
        """
        self.require_not_read_only()
        is_stale = approval is not None and not approval.is_for(wanted.old_sha256, wanted.subject.sha256)
        is_let_through = (self.mode == "yes" and wanted.subject.kind == "write") or wanted.is_granted
        if is_let_through and not wanted.warning and not is_stale:
            return None
        said = self._questions.take(wanted.subject)
        if said is None and approval is not None and self.mode != "terminal" and not is_stale:
            question = self._questions.close(wanted.subject)
            self._hold(wanted.offer, approval.holds)
            if question is None:
                return None
            self._settled(question)
            return question.old_sha256
        if said is None:
            raise self._asked(wanted)
        question, answer = said
        if not answer.approved:
            because = f" and said: {answer.feedback}" if answer.feedback else ""
            raise CallRefused("refused", f"The user said no to {_words(wanted.subject)}{because}")
        return question.old_sha256

    def confirm(self, wanted: Wanted) -> str | None:
        """Decide about what the server has an approval for in any case, and nothing is granted for.

        Whoever wants to be asked in the terminal is asked there too; else the server's word is enough.
        """
        self.require_not_read_only()
        return self.decide(replace(wanted, offer=None, is_granted=False), None) if self.mode == "terminal" else None

    def answer(self, ask_id: str, answer: Answer) -> Question | None:
        """Take what the user said here; None if the question is answered or expired."""
        question = self._questions.answer(ask_id, answer)
        if question is not None and answer.approved:
            self._hold(question.offer, answer.holds)
        return question

    def settle(self, ask_id: str) -> None:
        """Take back a question that the user has answered elsewhere, or that nobody waits for any more."""
        question = self._questions.close_by_id(ask_id)
        if question is not None:
            self._settled(question)

    def _hold(self, offer: Grant | None, holds: str) -> None:
        if offer is not None and holds != "once":
            self._grants.add(offer, always=holds == "always")

    def _asked(self, wanted: Wanted) -> CallRefused:
        stale = self._questions.close_stale(wanted.subject, wanted.old_sha256)
        if stale is not None:
            self._settled(stale)
        question, is_new = self._questions.ask(
            wanted.subject,
            wanted.agent,
            wanted.shown,
            wanted.offer,
            wanted.old_sha256,
            wanted.warning,
            wanted.notice,
        )
        if is_new:
            self._ask(question)
        return CallRefused(
            "asks",
            f"The user is asked about {_words(wanted.subject)}",
            ask_id=question.ask_id,
            diff=question.diff,
            grant=wanted.offer.words if wanted.offer else None,
            old_sha256=question.old_sha256,
            new_sha256=question.subject.sha256,
            warning=question.warning or None,
            notice=question.notice or None,
            expires_seconds=EXPIRE_SECONDS,
        )


def _words(subject: Subject) -> str:
    return f"{_DOING[subject.kind]} {subject.name}"
