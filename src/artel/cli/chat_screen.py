"""The terminal output of a turn: its answer while it is written, its progress, its questions and its result."""

import shutil
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

from artel.cli.output import is_smart_terminal, visible
from artel.cli.plan_screen import RETRY, PlanScreen, cost_summary, how_to_decide, money
from artel.cli.questions import PlanQuestion, ToolQuestion, can_ask, deadline, is_cost_increase
from artel.errors import ArtelError
from artel.text import one_line

if TYPE_CHECKING:
    from artel.cli.markdown_screen import MarkdownPrinter
    from artel.client.conversation import Conversation
    from artel.client.plan import PlanView
    from artel.client.turn import StreamedAnswer, TurnView

RESTARTED = "[the answer starts again]"
DELAY_SECONDS = 1.0
CLEAR = "\r\x1b[K"
RESERVED = 14  # columns for the dots before the text and the seconds after it


class StatusLine:
    """Shows its text after a second without output; shows nothing without a terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._lock = threading.Lock()
        self._text = ""
        self._started = 0.0
        self._drawn = ""
        self._wake = threading.Event()
        self.enabled = self._stream.isatty()
        if self.enabled:
            threading.Thread(target=self._run, name="status-line", daemon=True).start()

    def wait_for(self, text: str) -> None:
        """Set the text, which is shown after a second without output."""
        with self._lock:
            if not self._text:
                self._started = time.monotonic()
            self._text = text
        self._wake.set()

    def clear(self) -> None:
        """Remove the line, before something is printed."""
        with self._lock:
            self._text = ""
            self._wake.clear()
            if self._drawn:
                self._write(CLEAR)
                self._drawn = ""

    def _run(self) -> None:
        while True:
            self._wake.wait()
            with self._lock:
                seconds = time.monotonic() - self._started
                most = max(RESERVED, shutil.get_terminal_size().columns - RESERVED)
                text = one_line(self._text, most)  # only one line can be removed
                line = f"{CLEAR}\x1b[2m… {text} ({seconds:.0f} s)\x1b[0m"
                if self._text and seconds >= DELAY_SECONDS and line != self._drawn:
                    self._write(line)
                    self._drawn = line
            time.sleep(0.2)

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # the terminal was closed: the next print fails
            self._stream.write(text)
            self._stream.flush()


class AnswerPrinter:
    """Prints an answer as it grows; prints it again from the start if its beginning changes."""

    def __init__(self, write: TextIO) -> None:
        self._out = write
        self._source = ""
        self._clean = ""
        self._printed = ""
        self._tool_calls = 0  # made when the text last grew
        self.at_line_start = True  # whether the next character is the first of a line

    def show(self, answer: "StreamedAnswer") -> None:
        if not answer.text.startswith(self._source):
            self._source = self._clean = ""
        last = self._source[-1:]  # how a character is shown may depend on the one before it
        self._clean += visible(last + answer.text[len(self._source) :])[len(visible(last)) :]
        self._source = answer.text
        if self._clean.startswith(self._printed):
            self._write(self._clean[len(self._printed) :])
        elif answer.complete or not self._printed.startswith(self._clean):  # else it may grow to the same text again
            self.end_line()
            is_next = answer.tool_calls != self._tool_calls  # text before a tool call is not replaced
            self._write(self._clean if is_next else f"{RESTARTED}\n{self._clean}")
        else:
            return
        if self._clean != self._printed:
            self._tool_calls = answer.tool_calls
        self._printed = self._clean

    def end_line(self) -> None:
        if not self.at_line_start:
            self._write("\n")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
        self.at_line_start = text.endswith("\n") if text else self.at_line_start


def _printer(*, is_smart: bool) -> "AnswerPrinter | MarkdownPrinter":
    if not is_smart:
        return AnswerPrinter(sys.stdout)
    from artel.cli.markdown_screen import MarkdownPrinter  # rich is slow to import

    return MarkdownPrinter()


def print_name(name: str, *, is_smart: bool) -> None:
    """Print the name of the author of the text that follows."""
    if not is_smart:
        sys.stdout.write(f"{visible(name, keep='')}:\n")
        return
    from artel.cli.markdown_screen import print_text  # rich is slow to import

    print_text(visible(name, keep=""), "bold cyan")


class ChatScreen:
    """Shows one turn: the answer on standard output, everything else on standard error."""

    def __init__(
        self,
        conversation: "Conversation",
        status: StatusLine,
        *,
        direct: bool,
        in_chat: bool = False,
        silent: bool = False,
    ) -> None:
        self._conversation = conversation
        self._direct = direct  # the message is for an agent, not the orchestrator
        self._status = status
        self.live = sys.stdout.isatty()  # print the answer while it is written
        self._silent = silent  # the caller prints the answer
        self._is_in_chat = in_chat  # print the author above the answer, and mention slash commands
        self._asks = can_ask() and not silent
        self._is_smart = is_smart_terminal()
        self._printer = _printer(is_smart=self._is_smart)
        self._has_name = False
        self._asked_id: str | None = None
        self._plans = PlanScreen(self.note, watched=status.enabled)

    def show(self, turn: "TurnView") -> None:
        """Show what the last event changed; ask the user about a pending approval and wait for the answer."""
        if turn.plan is not None:
            self._plans.show(turn.plan)
        if turn.approval is not None:
            self._ask(turn, turn.approval)
        if turn.answer.text and not self._silent and (turn.answer.complete or self._can_stream(turn)):
            self._status.clear()
            if self._is_in_chat and not self._has_name:
                print_name(self._author(turn), is_smart=self._is_smart)
                self._has_name = True
            self._printer.show(turn.answer)
        if self._status.enabled and not turn.ended and self._printer.at_line_start:
            self._status.wait_for(self._progress(turn))

    def end(self, turn: "TurnView") -> None:
        """Finish the answer; print an error if the turn failed, and the cost of a plan."""
        self.leave()
        if turn.status == "cancelled":
            self.note("[cancelled]", "dim")
        elif not turn.succeeded:
            again = f" To send it again: {RETRY}" if self._is_in_chat and not self._plans.was_shown else ""
            self.note(f"artel: {turn.error or f'The turn ended as {turn.status}.'}{again}")
        if turn.plan is not None and self._plans.was_shown:
            with suppress(ArtelError):  # an answer must not fail because of its cost
                workflow = self._conversation.api.call("GET", f"/my/workflows/{turn.plan.workflow_id}")
                self.note(cost_summary(workflow, is_in_chat=self._is_in_chat), "dim")

    def leave(self) -> None:
        """Remove the status line, and end the line of an unfinished answer."""
        self._status.clear()
        self._printer.end_line()

    def note(self, text: str, style: str = "", *, wrap: bool = True) -> None:
        """Print a text that is not part of the answer, on standard error."""
        self.leave()
        if self._is_smart and sys.stderr.isatty():
            from artel.cli.markdown_screen import print_text

            print_text(text, style, stderr=True, wrap=wrap)
        else:
            sys.stderr.write(visible(text) + "\n")
            sys.stderr.flush()

    def _can_stream(self, turn: "TurnView") -> bool:
        """Return whether to show a partial answer: deltas may overtake the events that name its author."""
        if not self.live:
            return False
        if turn.plan is not None and not turn.plan.is_single:
            return turn.plan.is_over
        needs_name = self._is_in_chat and (self._direct or turn.plan is not None)
        return turn.agent_id is not None or not needs_name

    def _ask(self, turn: "TurnView", request: dict[str, Any]) -> None:
        """Ask about an approval once; if the user can't answer here, print how to decide."""
        approval_id = str(request.get("approval_id"))
        if approval_id == self._asked_id:
            return
        self._asked_id = approval_id
        if request.get("tool"):
            subject = f"{request['tool']} ({approval_id})"
            if self._asks:
                agent_id = request.get("agent_id")
                agent = "An agent" if agent_id is None else self._conversation.agent_name(agent_id)
                ToolQuestion(self._conversation, request, agent, self.note).ask()
        elif turn.plan is not None:
            subject = f"a plan ({approval_id}) {deadline(request)}"
            self._show_plan(turn.plan, request)
            if self._asks:
                PlanQuestion(self._conversation, request, turn.plan, self.note).ask()
        else:
            return
        if not self._asks:
            self.note(f"Waiting for your approval of {subject}. {how_to_decide(approval_id)}")

    def _show_plan(self, plan: "PlanView", request: dict[str, Any]) -> None:
        details = request["details"]
        if is_cost_increase(request):
            agreed, spent, needed = (money(details[name]) for name in ("agreed_cost", "spent", "estimated_cost"))
            self.note(f"The plan will cost more than agreed: {agreed} agreed, {spent} spent, {needed} needed in total.")
        else:
            self._plans.show_whole(plan, details.get("changed") or ())
        if (left := details.get("month_left")) is not None:
            self.note(f"Only {money(left)} of the project's monthly budget is left: the plan may end incomplete.")

    def _progress(self, turn: "TurnView") -> str:
        if turn.approval is not None:
            return "waits for your approval"
        if not turn.phase:
            return "sending"
        if turn.plan is not None and not turn.is_planning and (progress := self._plans.progress(turn.plan)):
            return visible(progress)
        return visible(f"{self._author(turn)} {turn.phase}")

    def _author(self, turn: "TurnView") -> str:
        if turn.agent_id is not None:
            return self._conversation.agent_name(turn.agent_id)
        return "the agent" if self._direct else "orchestrator"
