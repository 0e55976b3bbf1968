"""The interface between a connector and the terminal that shows calls and asks the user."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from artel.connector.decisions import OpenQuestion, UserAnswer
from artel.contract.connector import Mode

# Called with a question's id and the user's answer; returns whether the question was still open.
TakeAnswer = Callable[[str, UserAnswer], bool]


@dataclass(frozen=True, slots=True)
class Report:
    """A call and its outcome: `ok`, `unchanged`, or the code of the refusal."""

    method: str
    name: str
    agent: str
    outcome: str
    error: str | None = None

    @property
    def is_ok(self) -> bool:
        return self.outcome in ("ok", "unchanged")


class Screen(Protocol):
    """Shows calls and asks questions; all methods are called in the event loop's thread."""

    @property
    def can_ask(self) -> bool: ...  # whether the user can answer questions here
    def begin(self, take: TakeAnswer) -> None: ...  # start to listen for answers
    def change_mode(self, mode: Mode) -> None: ...  # show another mode, and ask as it says from now on
    def say(self, sentence: str) -> None: ...  # show a message about the connection
    def show(self, report: Report) -> None: ...  # show a call
    def ask(self, question: OpenQuestion) -> None: ...  # ask the user
    def settle(self, question: OpenQuestion) -> None: ...  # stop asking: answered elsewhere, or expired
    def end(self) -> None: ...  # restore the terminal
