"""What a turn looks like while it goes on: the answer as it is written, who works, how it ended."""

import sys
from typing import TYPE_CHECKING, Any, TextIO

from artel.cli.plan_question import PlanQuestion, elsewhere, is_about_money, until, what_it_asks
from artel.cli.plan_screen import RETRY, PlanScreen, how_it_went
from artel.cli.plan_text import money
from artel.cli.status_line import StatusLine
from artel.cli.tool_question import ToolQuestion
from artel.cli.typed_lines import is_smart_terminal
from artel.cli.visible_text import visible
from artel.errors import ArtelError

if TYPE_CHECKING:
    from artel.cli.markdown_screen import MarkdownPrinter
    from artel.client.conversation import Conversation
    from artel.client.plan import Plan
    from artel.client.turn import Answer, Turn

BEGINS_AGAIN = "[the answer begins again]"


class AnswerPrinter:
    """Prints an answer as it grows; one that turns out to be another is printed again from its beginning."""

    def __init__(self, write: TextIO) -> None:
        self._out = write
        self._source = ""
        self._clean = ""
        self._printed = ""
        self._tool_calls = 0  # made when the text last grew
        self.at_line_start = True  # whether the next character begins a line

    def show(self, answer: "Answer") -> None:
        """Print what is new in the answer."""
        if not answer.text.startswith(self._source):
            self._source = self._clean = ""
        last = self._source[-1:]  # what a character looks like may depend on the one before it
        self._clean += visible(last + answer.text[len(self._source) :])[len(visible(last)) :]
        self._source = answer.text
        if self._clean.startswith(self._printed):
            self._write(self._clean[len(self._printed) :])
        elif answer.complete or not self._printed.startswith(self._clean):  # else it may grow to be the same again
            self.end_line()
            is_next = answer.tool_calls != self._tool_calls  # what was said before a tool call is no mistake
            self._write(self._clean if is_next else f"{BEGINS_AGAIN}\n{self._clean}")
        else:
            return
        if self._clean != self._printed:
            self._tool_calls = answer.tool_calls
        self._printed = self._clean

    def end_line(self) -> None:
        """End the line, because the answer is over or something else comes; what may follow begins a new one."""
        if not self.at_line_start:
            self._write("\n")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
        self.at_line_start = text.endswith("\n") if text else self.at_line_start


def _printer(*, is_smart: bool) -> "AnswerPrinter | MarkdownPrinter":
    if not is_smart:
        return AnswerPrinter(sys.stdout)
    from artel.cli.markdown_screen import MarkdownPrinter  # here, because rich takes a while to import

    return MarkdownPrinter()


def print_name(name: str, *, is_smart: bool) -> None:
    """Print whose words follow."""
    if not is_smart:
        sys.stdout.write(f"{visible(name, keep='')}:\n")
        return
    from rich.text import Text

    from artel.cli.markdown_screen import console

    console().print(Text(visible(name, keep=""), "bold cyan"))


class ChatScreen:
    """Shows one turn of a conversation on standard output, and on standard error what is no answer."""

    def __init__(
        self,
        conversation: "Conversation",
        status: StatusLine,
        *,
        direct: bool,
        live: bool,
        in_chat: bool = False,
        silent: bool = False,
        asks: bool = False,
    ) -> None:
        self._conversation = conversation
        self._direct = direct  # an agent is spoken to, not the orchestrator
        self._status = status
        self._live = live  # a terminal: print while it is written
        self._silent = silent  # somebody else prints the answer
        self._is_in_chat = in_chat  # each answer has its name above it, and commands can be typed
        self._asks = asks  # somebody is there who can decide about a plan
        self._is_smart = is_smart_terminal()
        self._printer = _printer(is_smart=self._is_smart)
        self._begun = False
        self._asked: str | None = None
        self._plans = PlanScreen(self.note, watched=status.enabled)

    def show(self, turn: "Turn") -> None:
        """Show what the last event has changed; a plan is asked about, and its decision waited for."""
        if turn.plan is not None:
            self._plans.show(turn.plan)
        if turn.approval is not None:
            self._ask(turn, turn.approval)
        if turn.answer.text and not self._silent and (turn.answer.complete or (self._live and self._is_its_time(turn))):
            self._status.clear()
            self._begin(turn)
            self._printer.show(turn.answer)
        if self._status.enabled and not turn.ended and self._printer.at_line_start:
            self._status.wait_for(self._what_happens(turn))

    def end(self, turn: "Turn") -> None:
        """Finish the answer; say on standard error how a turn ended that did not end well."""
        self._status.clear()
        self._printer.end_line()
        if turn.status == "cancelled":
            self.note("[cancelled]", "dim")
        elif not turn.succeeded:
            again = f" To send it again: {RETRY}" if self._is_in_chat and not self._plans.was_shown else ""
            self.note(f"artel: {turn.error or f'The turn ended as {turn.status}.'}{again}")
        if turn.plan is not None and self._plans.was_shown:
            self._tell_cost(turn.plan)

    def leave(self) -> None:
        """Take the status line away when the turn is left before its end."""
        self._status.clear()
        self._printer.end_line()

    def note(self, text: str, style: str = "", *, wrap: bool = True) -> None:
        """Say something that is not part of an answer; in a terminal lines break between words."""
        self._status.clear()
        self._printer.end_line()
        if self._is_smart and sys.stderr.isatty():
            from rich.text import Text

            from artel.cli.markdown_screen import console

            console(stderr=True).print(Text(visible(text), style), soft_wrap=not wrap)
        else:
            sys.stderr.write(visible(text) + "\n")
            sys.stderr.flush()

    def _tell_cost(self, plan: "Plan") -> None:
        try:
            workflow = self._conversation.workflow(plan.workflow_id)
        except ArtelError:  # what it cost is not worth losing an answer for
            return
        self.note(how_it_went(workflow, is_in_chat=self._is_in_chat), "dim")

    def _is_its_time(self, turn: "Turn") -> bool:
        """Return whether the answer can be shown yet: deltas may overtake the events that say who writes it."""
        if turn.plan is not None and not turn.plan.is_single:
            return turn.plan.is_over
        needs_name = self._is_in_chat and (self._direct or turn.plan is not None)
        return turn.agent_id is not None or not needs_name

    def _begin(self, turn: "Turn") -> None:
        if self._is_in_chat and not self._begun:
            print_name(self._who(turn), is_smart=self._is_smart)
        self._begun = True

    def _ask(self, turn: "Turn", approval: dict[str, Any]) -> None:
        number = str(approval.get("approval_id"))
        if number == self._asked:
            return
        self._asked = number
        if approval.get("tool"):
            self._ask_about_tool(approval, number)
        elif turn.plan is not None:
            self._ask_about(turn.plan, approval, number)

    def _ask_about_tool(self, request: dict[str, Any], number: str) -> None:
        if self._asks:
            agent = request.get("agent_id")
            who = self._conversation.agent_name(agent) if agent is not None else "An agent"
            ToolQuestion(self._conversation, request, who, self.note).ask()
        else:
            self.note(f"Waiting for your approval to use {request['tool']} ({number}). {elsewhere(number)}")

    def _ask_about(self, plan: "Plan", request: dict[str, Any], number: str) -> None:
        if is_about_money(request):
            self.note(what_it_asks(request))
        else:
            self._plans.show_whole(plan, request["details"].get("changed") or ())
        if (left := request["details"].get("month_left")) is not None:
            self.note(f"Of the project's month {money(left)} are left: the plan may end partly done.")
        if self._asks:
            PlanQuestion(self._conversation, request, plan, self.note).ask()
        else:
            self.note(
                f"Waiting for your approval to carry out a plan ({number}), {until(request)}. {elsewhere(number)}"
            )

    def _what_happens(self, turn: "Turn") -> str:
        if turn.approval is not None:
            return "waits for your approval"
        if not turn.phase:
            return "sending"
        if turn.plan is not None and not turn.is_planning and (at_work := self._plans.at_work(turn.plan)):
            return visible(at_work)
        return visible(f"{self._who(turn)} {turn.phase}")

    def _who(self, turn: "Turn") -> str:
        if turn.agent_id is not None:
            return self._conversation.agent_name(turn.agent_id)
        return "the agent" if self._direct else "orchestrator"
