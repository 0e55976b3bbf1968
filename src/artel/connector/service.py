"""Puts a connector together and runs it."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from artel.connector.audit_log import AuditLog
from artel.connector.calls import Calls
from artel.connector.commands import Commands, NamedCommand
from artel.connector.connector import Connector
from artel.connector.decisions import Decider, Mode
from artel.connector.errors import AlreadyConnected, FolderUnsuitable, OtherConnector
from artel.connector.file_reader import Reader
from artel.connector.file_search import Searcher
from artel.connector.file_writer import Writer
from artel.connector.grants import Grants
from artel.connector.idempotency import Once
from artel.connector.journal import Journal
from artel.connector.questions import EXPIRE_SECONDS, Answer, Question, Questions
from artel.connector.rules import Rules
from artel.connector.screen import Screen
from artel.connector.state_folder import LEAVE_SIGNAL, STDIN_VARIABLE, StateFolder, parent_pid
from artel.connector.undo_store import UndoStore
from artel.connector.workspace import Workspace
from artel.contract.connector import CALLS, GUIDANCE, MAX_COMMAND_CHARACTERS, PROTOCOL, Decided, Hello
from artel.paths.beneath import Beneath
from artel.paths.errors import PathError

TAKE_OVER_SECONDS = 15.0  # a connector that is asked to end finishes the calls it has begun
TAKE_OVER_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Order:
    """What the user wants to be served, and how. The token is asked for whenever a line is opened."""

    server: str
    token: Callable[[], str]
    user_id: int
    project_id: int
    folder: Path
    mode: Mode
    commands: tuple[NamedCommand, ...] = ()
    take_over: bool = False


async def serve(order: Order, screen: Screen) -> None:
    """Serve a folder until the user has enough, or there is a reason to end, which is raised."""
    with ExitStack() as stack:
        state = StateFolder.of(order.server, order.project_id, order.folder)
        await hold(state, stack, take_over=order.take_over and parent_pid() is None)
        stack.callback(screen.end)
        files = stack.enter_context(_opened(order.folder))
        await _Service(order, screen, state, files, stack).run()


async def hold(state: StateFolder, stack: ExitStack, *, take_over: bool) -> None:
    """Become the only connector with this state; with `take_over` the one that is running is asked to end first.

    One that has only just begun may not have written its number down yet: then we look again until it has.
    """
    deadline = asyncio.get_running_loop().time() + TAKE_OVER_SECONDS
    is_asked = False
    while True:
        try:
            stack.enter_context(state.held())
        except AlreadyConnected:
            is_asked = is_asked or (take_over and state.ask_holder_to_leave())
            if not take_over or asyncio.get_running_loop().time() > deadline:
                raise
        else:
            return
        await asyncio.sleep(TAKE_OVER_POLL_SECONDS)


class _Service:
    """The parts of one connector."""

    def __init__(self, order: Order, screen: Screen, state: StateFolder, files: Beneath, stack: ExitStack) -> None:
        self._loop = asyncio.get_running_loop()
        self._screen = screen
        journal = Journal(state.path / "journal.jsonl")
        stack.callback(journal.close)
        once = Once(files, journal)
        with state.changing():
            once.tidy()
        rules, grants = Rules(files), Grants(state.path / "grants.json")
        self._questions = Questions()
        self._decider = Decider(order.mode, grants, self._questions, self._soon(self._ask), self._soon(screen.settle))
        commands = Commands(list(order.commands), state, files, self._decider, grants, once)
        kept = UndoStore(state.path / "undo")
        searcher = Searcher(files, rules)
        workspace = Workspace(
            order.user_id,
            Reader(files, rules),
            searcher,
            Writer(state, files, rules, self._decider, grants, once, kept),
            commands,
        )
        calls = Calls(workspace, AuditLog(state.path / "audit.jsonl"), screen.show, self._decider.settle)
        stack.callback(calls.close)
        stack.callback(commands.stop)
        stack.callback(searcher.stop)
        self._connector = Connector(
            order.server, order.token, _hello(order, state), calls, screen.say, self._undelivered
        )
        self._telling: set[asyncio.Task[None]] = set()
        self._is_taken_over = False

    async def run(self) -> None:
        """Serve until a signal comes."""
        self._screen.begin(self._take)
        serving = asyncio.ensure_future(self._connector.run())
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._loop.add_signal_handler(number, serving.cancel)
        self._loop.add_signal_handler(LEAVE_SIGNAL, self._leave, serving)
        if os.environ.get(STDIN_VARIABLE):
            self._loop.add_reader(0, serving.cancel)  # nobody writes there: it is the end
        with suppress(asyncio.CancelledError):
            await serving
        if self._is_taken_over:
            back = "" if parent_pid() is None else " This one comes back when that one ends."
            raise OtherConnector(f"Another `artel connect` has taken over this folder.{back}")

    def _leave(self, serving: "asyncio.Future[NoReturn]") -> None:
        self._is_taken_over = True
        serving.cancel()

    def _soon(self, show: Callable[[Question], None]) -> Callable[[Question], None]:
        """Return what does the same from another thread."""

        def show_soon(question: Question) -> None:
            self._loop.call_soon_threadsafe(show, question)

        return show_soon

    def _ask(self, question: Question) -> None:
        self._screen.ask(question)
        self._loop.call_later(EXPIRE_SECONDS, self._screen.settle, question)

    def _take(self, ask_id: str, answer: Answer) -> bool:
        question = self._decider.answer(ask_id, answer)
        if question is None:
            return False
        task = asyncio.ensure_future(self._connector.decide(_decided(question, answer)))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)
        return True

    def _undelivered(self) -> list[Decided]:
        return [_decided(question, answer) for question, answer in self._questions.answers()]


def _opened(folder: Path) -> Beneath:
    try:
        return Beneath(folder.resolve())
    except OSError as error:
        raise FolderUnsuitable(f"{folder} can't be connected: {error.strerror}") from None


def _hello(order: Order, state: StateFolder) -> Hello:
    return Hello(
        protocol=PROTOCOL,
        connector_id=state.connector_id,
        user_id=order.user_id,
        project_id=order.project_id,
        workspace_name=(state.workspace.name or "/")[:200],
        read_only=order.mode == "read-only",
        features=[*(method.removeprefix("workspace/") for method in CALLS), *_guidance(order.folder)],
        mode=order.mode,
        commands={command.name: command.line[:MAX_COMMAND_CHARACTERS] for command in order.commands},
        take_over=order.take_over,
    )


def _guidance(folder: Path) -> list[str]:
    """Return whether the folder has guidance for agents."""
    with _opened(folder) as files:
        try:
            return [GUIDANCE] if files.stat(GUIDANCE).type == "file" else []
        except PathError:
            return []


def _decided(question: Question, answer: Answer) -> Decided:
    decision = "approve" if answer.approved else "reject"
    return Decided.model_validate({"ask_id": question.ask_id, "decision": decision, "feedback": answer.feedback})
