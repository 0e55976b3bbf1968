"""Builds a connector from its parts and runs it."""

import asyncio
import os
import platform
import signal
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from artel.connector.audit_log import AuditLog
from artel.connector.calls import Calls
from artel.connector.commands import NamedCommand, NamedCommands
from artel.connector.connector import Connector
from artel.connector.decisions import EXPIRE_SECONDS, Decider, OpenQuestion, UserAnswer
from artel.connector.errors import AlreadyConnected, Deadline, Disconnected, FolderUnsuitable
from artel.connector.file_names import FileNameSearch
from artel.connector.file_reader import FileReader
from artel.connector.file_search import FileSearcher
from artel.connector.file_writer import FileWriter
from artel.connector.grants import Grants
from artel.connector.journal import Journal
from artel.connector.remote_settings import RemoteSettings
from artel.connector.rules import Rules
from artel.connector.screen import Screen
from artel.connector.state_folder import LEAVE_SIGNAL, STDIN_VARIABLE, StateFolder, parent_pid
from artel.connector.undo_store import UndoStore
from artel.contract.connector import (
    CALLS,
    GUIDANCE,
    MAX_COMMAND_CHARACTERS,
    PROTOCOL,
    WRITING_METHODS,
    CallResult,
    Decided,
    ExtendCall,
    Hello,
    Mode,
)
from artel.errors import OtherConnector
from artel.paths.beneath import Beneath
from artel.paths.errors import PathError

TAKE_OVER_SECONDS = 15.0  # the other connector finishes its running calls first
TAKE_OVER_POLL_SECONDS = 0.05
MAX_MACHINE_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """The options of `artel connect`; `token` is called for every new connection."""

    server: str
    token: Callable[[], str]
    user_id: int
    project_id: int
    folder: Path
    mode: Mode
    commands: tuple[NamedCommand, ...] = ()
    take_over: bool = False
    is_fixed: bool = False  # the server may only make the mode stricter


async def serve(options: ConnectOptions, screen: Screen) -> None:
    """Serve a folder until a signal arrives; raise if the connector can't go on."""
    with ExitStack() as stack:
        state = StateFolder.of(options.server, options.project_id, options.folder)
        await acquire(state, stack, take_over=options.take_over and parent_pid() is None)
        stack.callback(screen.end)
        try:
            files = stack.enter_context(Beneath(options.folder.resolve()))
        except OSError as error:
            raise FolderUnsuitable(f"{options.folder} can't be connected: {error.strerror}") from None
        await _Service(options, screen, state, files, stack).run()


async def acquire(state: StateFolder, stack: ExitStack, *, take_over: bool) -> None:
    """Lock the state folder; with `take_over` signal the connector that holds the lock to end, and wait for it.

    Retry the signal until it is delivered: a connector that has just started may not have written its process id yet.
    """
    deadline = asyncio.get_running_loop().time() + TAKE_OVER_SECONDS
    is_signalled = False
    while True:
        try:
            stack.enter_context(state.connector_lock())
        except AlreadyConnected:
            is_signalled = is_signalled or (take_over and state.signal_holder_to_leave())
            if not take_over or asyncio.get_running_loop().time() > deadline:
                raise
        else:
            return
        await asyncio.sleep(TAKE_OVER_POLL_SECONDS)


class _Service:
    """One running connector and its parts."""

    def __init__(
        self, options: ConnectOptions, screen: Screen, state: StateFolder, files: Beneath, stack: ExitStack
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._screen = screen
        journal = Journal(state.path / "journal.jsonl", files)
        stack.callback(journal.close)
        with state.change_lock():
            journal.remove_temporary_files()
        rules, grants = Rules(files), Grants(state.path / "grants.json")
        self._decider = Decider(
            options.mode,
            grants,
            show_question=lambda question: self._loop.call_soon_threadsafe(self._ask, question),
            hide_question=lambda question: self._loop.call_soon_threadsafe(screen.settle, question),
        )
        commands = NamedCommands(list(options.commands), state, files, self._decider, grants, journal)
        undo_store = UndoStore(state.path / "undo")
        reader, searcher = FileReader(files, rules), FileSearcher(files, rules)
        writer = FileWriter(
            state, files, rules, self._decider, grants, journal, undo_store, lambda: self._connector.diff_bytes
        )
        settings = RemoteSettings(
            self._decider,
            has_terminal=screen.can_ask,
            is_fixed=options.is_fixed,
            on_change=lambda mode: self._loop.call_soon_threadsafe(self._change_mode, mode),
        )
        methods: dict[str, Callable[[Any, Deadline], CallResult]] = {
            "workspace/read": reader.read,
            "workspace/stat": reader.stat,
            "workspace/list": reader.list,
            "workspace/search": searcher.search,
            "workspace/run": commands.run,
            "workspace/extend": self._extend,
            "workspace/settings": settings.change,
            "workspace/grants": grants.entries,
            "workspace/revoke": grants.revoke_by_key,
            "workspace/complete": FileNameSearch(files, rules).complete,
            "workspace/compare": writer.compare,
            **dict.fromkeys(WRITING_METHODS, writer.carry_out),
        }
        audit = AuditLog(state.path / "audit.jsonl")
        calls = Calls(options.user_id, methods, audit, screen.show, self._decider.settle)
        stack.callback(calls.close)
        stack.callback(commands.stop)
        stack.callback(searcher.stop)
        self._connector = Connector(
            options.server,
            options.token,
            _hello(options, state, files),
            calls,
            screen.say,
            undelivered=lambda: [_decided(question, answer) for question, answer in self._decider.answers()],
        )
        self._sending: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        self._screen.begin(self._take)
        serving = asyncio.ensure_future(self._connector.run())
        is_taken_over = False

        def leave() -> None:
            nonlocal is_taken_over
            is_taken_over = True
            serving.cancel()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._loop.add_signal_handler(number, serving.cancel)
        self._loop.add_signal_handler(LEAVE_SIGNAL, leave)
        if os.environ.get(STDIN_VARIABLE):
            self._loop.add_reader(0, serving.cancel)  # nothing is ever written there: readable means closed
        try:
            await serving
        except asyncio.CancelledError:
            pass
        except Disconnected:
            self._screen.say("Disconnected on the page. To connect the folder again, run `artel connect`.")
        if is_taken_over:
            back = "" if parent_pid() is None else " This one comes back when that one ends."
            raise OtherConnector(f"Another `artel connect` has taken over this folder.{back}")

    def _ask(self, question: OpenQuestion) -> None:
        self._screen.ask(question)
        self._loop.call_later(EXPIRE_SECONDS, self._settle_expired, question)

    def _settle_expired(self, question: OpenQuestion) -> None:
        """Stop asking in the terminal, unless the question was extended."""
        left = self._decider.seconds_left(question.ask_id)
        if left > 0:
            self._loop.call_later(left, self._settle_expired, question)
        else:
            self._screen.settle(question)

    def _extend(self, call: ExtendCall, _deadline: Deadline) -> CallResult:
        self._decider.extend(call.ask_id, call.seconds)
        return CallResult(success=True)

    def _change_mode(self, mode: Mode) -> None:
        self._connector.change_mode(mode)
        self._screen.change_mode(mode)

    def _take(self, ask_id: str, answer: UserAnswer) -> bool:
        question = self._decider.answer(ask_id, answer)
        if question is None:
            return False
        task = asyncio.ensure_future(self._connector.decide(_decided(question, answer)))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)
        return True


def _hello(options: ConnectOptions, state: StateFolder, files: Beneath) -> Hello:
    features = [method.removeprefix("workspace/") for method in CALLS]
    with suppress(PathError):
        features += [GUIDANCE] if files.stat(GUIDANCE).type == "file" else []
    return Hello(
        protocol=PROTOCOL,
        connector_id=state.connector_id,
        user_id=options.user_id,
        project_id=options.project_id,
        workspace_name=(state.workspace.name or "/")[:200],
        read_only=options.mode == "read-only",
        features=features,
        mode=options.mode,
        commands={command.name: command.line[:MAX_COMMAND_CHARACTERS] for command in options.commands},
        take_over=options.take_over,
        machine=platform.node()[:MAX_MACHINE_CHARACTERS] or None,
    )


def _decided(question: OpenQuestion, answer: UserAnswer) -> Decided:
    decision = "approve" if answer.approved else "reject"
    return Decided.model_validate({"ask_id": question.ask_id, "decision": decision, "feedback": answer.feedback})
