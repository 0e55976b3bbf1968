"""What a turn looks like while it goes on: the answer as it is written, who works, how it ended."""

import sys
from typing import TYPE_CHECKING, TextIO

from artel.cli.plain_text import PlainText, plain
from artel.cli.status_line import StatusLine

if TYPE_CHECKING:
    from artel.client.conversation import Conversation
    from artel.client.turn import Answer, Turn

BEGINS_AGAIN = "[the answer begins again]"


class AnswerPrinter:
    """Prints an answer as it grows; one that turns out to be another is printed again from its beginning."""

    def __init__(self, write: TextIO) -> None:
        self._out = write
        self._plain = PlainText()
        self._source = ""
        self._clean = ""
        self._printed = ""

    @property
    def at_line_start(self) -> bool:
        """Whether the next character would begin a line."""
        return self._printed[-1:] in ("", "\n")

    def show(self, answer: "Answer") -> None:
        """Print what is new in the answer."""
        if not answer.text.startswith(self._source):
            self._plain, self._source, self._clean = PlainText(), "", ""
        self._clean += self._plain.feed(answer.text[len(self._source) :])
        self._source = answer.text
        if self._clean.startswith(self._printed):
            self._write(self._clean[len(self._printed) :])
        elif answer.complete or not self._printed.startswith(self._clean):  # else it may grow to be the same again
            self._end_line()
            self._write(f"{BEGINS_AGAIN}\n{self._clean}")
        else:
            return
        self._printed = self._clean

    def finish(self) -> None:
        """End the last line."""
        self._end_line()

    def _end_line(self) -> None:
        if not self.at_line_start:
            self._write("\n")
            self._printed = ""

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


class ChatScreen:
    """Shows one turn of a conversation on standard output, and on standard error what is no answer."""

    def __init__(
        self,
        conversation: "Conversation",
        status: StatusLine,
        *,
        direct: bool,
        live: bool,
        named: bool = False,
        silent: bool = False,
    ) -> None:
        self._conversation = conversation
        self._direct = direct  # an agent is spoken to, not the orchestrator
        self._status = status
        self._live = live  # a terminal: print while it is written
        self._silent = silent  # somebody else prints the answer
        self._named = named  # say before each answer whose it is
        self._printer = AnswerPrinter(sys.stdout)
        self._begun = False
        self._asked: str | None = None

    def show(self, turn: "Turn") -> None:
        """Show what the last event has changed."""
        if turn.approval is not None:
            self._ask(turn.approval)
        if turn.answer.text and not self._silent and (turn.answer.complete or (self._live and self._knows_who(turn))):
            self._status.clear()
            self._begin(turn)
            self._printer.show(turn.answer)
        if self._status.enabled and not turn.ended and self._printer.at_line_start:
            self._status.wait_for(self._what_happens(turn))

    def end(self, turn: "Turn") -> None:
        """Finish the answer; say on standard error how a turn ended that did not end well."""
        self._status.clear()
        self._printer.finish()
        if turn.status == "cancelled":
            self.note("[cancelled]")
        elif not turn.succeeded:
            self.note(f"artel: {turn.error or f'The turn ended as {turn.status}.'}")

    def leave(self) -> None:
        """Take the status line away when the turn is left before its end."""
        self._status.clear()
        self._printer.finish()

    def note(self, text: str) -> None:
        """Say something that is not part of an answer."""
        self._status.clear()
        sys.stderr.write(plain(text) + "\n")
        sys.stderr.flush()

    def _knows_who(self, turn: "Turn") -> bool:
        """Say whether the answer can be given its name: pieces of it may overtake the event that tells who writes."""
        return not (self._named and self._direct) or turn.agent_id is not None

    def _begin(self, turn: "Turn") -> None:
        if self._named and not self._begun:
            sys.stdout.write(f"{plain(self._who(turn))}:\n")
        self._begun = True

    def _ask(self, approval: dict[str, object]) -> None:
        number = str(approval.get("approval_id"))
        if number == self._asked:
            return
        self._asked = number
        what = f"use {approval['tool']}" if approval.get("tool") else "carry out a plan"
        self.note(f"Waiting for your approval to {what} ({number}). Decide in the browser, or over HTTP.")

    def _what_happens(self, turn: "Turn") -> str:
        if turn.approval is not None:
            return "waits for your approval"
        if not turn.phase:
            return "sending"
        return plain(f"{self._who(turn)} {turn.phase}")

    def _who(self, turn: "Turn") -> str:
        if turn.agent_id is not None:
            return self._conversation.agent_name(turn.agent_id)
        return "the agent" if self._direct else "orchestrator"
