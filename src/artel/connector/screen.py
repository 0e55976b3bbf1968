"""What a connector shows to the user, and where it asks; the command line has one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from artel.connector.questions import Answer, Question

# Takes the user's answer to a question by its id; says whether the question was still open.
TakeAnswer = Callable[[str, Answer], bool]


@dataclass(frozen=True, slots=True)
class Report:
    """What an agent wanted, and what came of it: `ok`, or the code of the refusal."""

    method: str
    name: str
    agent: str
    outcome: str
    error: str | None = None

    @property
    def is_ok(self) -> bool:
        """Whether it was carried out."""
        return self.outcome in ("ok", "unchanged")


class Screen(Protocol):
    """Shows what happens. Everything is called in the event loop's thread."""

    def begin(self, take: TakeAnswer) -> None:
        """Begin to listen for answers."""

    def say(self, sentence: str) -> None:
        """Show something about the connection."""

    def show(self, report: Report) -> None:
        """Show a call."""

    def ask(self, question: Question) -> None:
        """Ask the user."""

    def settle(self, question: Question) -> None:
        """Stop asking: the question was answered elsewhere, or is too old."""

    def end(self) -> None:
        """Leave the terminal as it should be for what is printed next."""
