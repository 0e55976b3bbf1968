"""Run a direct message, a plan and a relayed file call, and print the modules and functions that each passes.

`make walk` prints them; `scripts/walk.py --write` also updates the lists in docs/architecture.md. The server runs in
this process on its embedded defaults, with a scripted model; the connector runs in a process of its own.
"""

import argparse
import asyncio
import contextvars
import dis
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from aiohttp import web

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
PAGE = ROOT / "docs" / "architecture.md"
sys.path.insert(0, str(ROOT))

from tests.model_server import ModelRequest, ModelServer, Say, Tool  # noqa: E402 - needs sys.path from the line above
from tests.people import Person, close_clients  # noqa: E402 - needs sys.path from the line above

# Authentication, database and plain data: listed, but not counted.
UNCOUNTED = ("artel.auth", "artel.db", "artel.contract", "artel.errors", "artel.ids", "artel.kill_points", "artel.logs")
# Periodic work of an idle server, and titles, which wait for idle agents: left out with all that they call, also on
# database threads.
BACKGROUND = {
    "artel.poller:Poller._run",
    "artel.agent_memory.indexer:Indexer.run",
    "artel.events.project_log:ProjectEventWriter._write",
    "artel.connector.connector:Connector._keep_alive",
    "artel.sessions.titles:Titles._run",
}
# Work that background tasks may start: back in the walk.
FOREGROUND = {"artel.runs.host:Host._drain"}
SPACE_CLASS = "WorkerSpace"
MODEL_CLIENTS = "artel.brain."
REQUESTS = "artel.api.http_protocol"  # creates the tasks of requests
WAIT_SECONDS = 30.0
START_SECONDS = 5.0

T = TypeVar("T")

_task: contextvars.ContextVar["asyncio.Task[Any] | None"] = contextvars.ContextVar("task", default=None)
_in_background = contextvars.ContextVar("in_background", default=False)


@dataclass(frozen=True, slots=True)
class Function:
    """What the tracer knows of a code object of ours."""

    module: str
    name: str
    start: int  # offset of the instruction at which a call begins; later ones resume a coroutine
    yields: frozenset[int]

    @property
    def full_name(self) -> str:
        return f"{self.module}:{self.name}"

    @classmethod
    def of(cls, code: CodeType) -> "Function | None":
        """Return the description of a function of ours; None for other code, module bodies and comprehensions."""
        path = Path(code.co_filename)
        if not path.is_relative_to(SOURCE) or code.co_name.startswith("<"):
            return None
        relative = path.relative_to(SOURCE).with_suffix("")
        module = ".".join(relative.parts).removesuffix(".__init__")
        instructions = list(dis.get_instructions(code))
        start = next((i.offset for i in instructions if i.opname == "RESUME"), -1)
        # A generator is left at each yield: when it is dropped instead of exhausted, nothing tells that it returned.
        is_generator = code.co_flags & inspect.CO_GENERATOR
        yields = frozenset(i.offset for i in instructions if i.opname == "YIELD_VALUE" and not is_generator)
        return cls(module, code.co_qualname.split(".<locals>")[0], start, yields)


@dataclass(frozen=True, slots=True)
class Chain:
    """The call stack of a model call."""

    modules: list[str]  # counted ones, each time that the stack enters one
    ran: int  # counted modules of which anything ran before


@dataclass
class Walk:
    """The functions that one way passes, by module, in order of first entry."""

    title: str
    functions: dict[str, dict[str, None]] = field(default_factory=dict)
    entries: Counter[str] = field(default_factory=Counter)
    next_chain: str | None = (
        "The call chain to the model"  # what the call stack of the next model call is; None: ignored
    )
    chains: dict[str, Chain] = field(default_factory=dict)  # by that name

    @property
    def counted(self) -> list[str]:
        """The modules beyond authentication, database and plain data."""
        return [module for module in self.functions if not _is_uncounted(module)]

    @property
    def space_methods(self) -> list[str]:
        """The methods of WorkerSpace that were called."""
        names = (name for names in self.functions.values() for name in names)
        return [name for name in names if name.startswith(f"{SPACE_CLASS}.")]

    def entered_again(self, module: str) -> int:
        """Return how often the module was called again after all of its functions had returned."""
        return max(0, self.entries[module] - 1)

    def summary(self) -> str:
        """Return the figures of the walk."""
        again = sum(self.entered_again(module) > 0 for module in self.counted)
        methods = ", ".join(name.removeprefix(f"{SPACE_CLASS}.") for name in self.space_methods)
        space = f"{len(self.space_methods)} methods of {SPACE_CLASS}{f' ({methods})' if methods else ''}"
        packages = len({module.split(".")[1] for module in self.counted})
        modules = f"{len(self.counted)} modules of {packages} packages"
        return f"{modules}; {again} are entered again after they were left; {space}."

    def chain_texts(self, mark: str = "") -> Iterator[str]:
        """Yield each call chain to the model, each file between marks."""
        for title, chain in self.chains.items():
            modules = list(dict.fromkeys(chain.modules))
            files = ", ".join(f"{mark}{_file(module)}{mark}" for module in modules)
            again = [f"{mark}{_file(module)}{mark}" for module in modules if chain.modules.count(module) > 1]
            left = (
                f"It enters again what it left: {', '.join(again)}." if again else "It enters none again that it left."
            )
            ran = f"{chain.ran} modules ran before this call, most of which had returned."
            yield f"{title} has {len(modules)} modules: {files}. {left} {ran}"

    def rows(self) -> Iterator[tuple[str, str, list[str], int]]:
        """Yield number, file, functions and repeated entries of every module."""
        number = 0
        for module, names in self.functions.items():
            is_counted = not _is_uncounted(module)
            number += is_counted
            shown = list(dict.fromkeys(name.removesuffix(".__init__") for name in names))
            yield str(number) if is_counted else "-", _file(module), shown, self.entered_again(module)

    def text(self) -> str:
        """Return the walk for the terminal."""
        lines = [f"== {self.title}", self.summary(), *self.chain_texts()]
        for number, file, names, again in self.rows():
            lines.append(f"{number:>4} {file}{f'  (again: {again})' if again else ''}: {', '.join(names)}")
        return "\n".join(lines)

    def markdown(self) -> str:
        """Return the walk as a table, without private functions where there are public ones."""
        lines = [self.summary(), "", *(f"{text}\n" for text in self.chain_texts("`"))]
        lines += ["| | file | functions | entered again |", "|---|---|---|---|"]
        for number, file, names, again in self.rows():
            functions = ", ".join(f"`{name}`" for name in _public(names) or names)
            lines.append(f"| {number} | `{file}` | {functions} | {again or ''} |")
        return "\n".join(lines)


class Tracer:
    """Records calls of our functions in all threads.

    A function is entered when it is called, not when its coroutine goes on. A module is left when all of its functions
    that were called since `follow` began have returned.
    """

    def __init__(self) -> None:
        self._by_code: dict[CodeType, Function | None] = {}
        self._active: Counter[str] = Counter()
        self._frames: set[int] = set()
        self._lock = threading.Lock()
        self._is_following = False
        self._walk: Walk | None = None
        self._chains: WeakKeyDictionary[asyncio.Task[Any], list[str]] = WeakKeyDictionary()

    def install(self) -> None:
        """Trace this thread and those that are started from now on."""
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def follow(self) -> None:
        """Begin to follow which modules are left, without a record."""
        with self._lock:
            self._active.clear()
            self._frames.clear()
            self._is_following = True

    def record(self, walk: Walk) -> None:
        """Record calls from now on."""
        if not self._is_following:
            self.follow()
        self._walk = walk

    def stop(self) -> None:
        """Record nothing more."""
        self._walk, self._is_following = None, False

    def make_task(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, T] | Generator[Any, None, T],
        **options: Any,
    ) -> asyncio.Task[T]:
        """Create a task of an event loop; remember the call stack that leads to it.

        A task that a callback creates follows the task in whose context the callback was registered: a turn is taken
        by its host when the transaction of the request has been committed.
        """
        context = options.pop("context", None) or contextvars.copy_context()
        task: asyncio.Task[T] = asyncio.Task(coroutine, loop=loop, context=context, **options)
        modules = self._modules(reversed([frame.f_code for frame, _ in traceback.walk_stack(None)]))
        creator = _task.get()
        if creator is not None and REQUESTS not in modules:
            is_running = asyncio.current_task() is creator
            waiting = [] if is_running else self._modules(_awaited(creator.get_coro()))
            self._chains[task] = self._chains.get(creator, []) + waiting + modules
        context.run(_task.set, task)
        return task

    def model_called(self, loop: asyncio.AbstractEventLoop) -> None:
        """Note that the model was called, and the call stack of the task that waits for it, if the walk wants it."""
        if self._walk is None or self._walk.next_chain is None:
            return
        for task in asyncio.all_tasks(loop):
            functions = self._functions(_awaited(task.get_coro()))
            modules = [function.module for function in functions]
            is_background = any(function.full_name in BACKGROUND for function in functions)
            if any(module.startswith(MODEL_CLIENTS) for module in modules) and not is_background:
                whole = [module for module in self._chains.get(task, []) + modules if not _is_uncounted(module)]
                chain = Chain([module for module, _ in groupby(whole)], len(self._walk.counted))
                self._walk.chains[self._walk.next_chain] = chain
                self._walk.next_chain = None
                return

    def _modules(self, codes: Iterable[CodeType]) -> list[str]:
        return [function.module for function in self._functions(codes)]

    def _functions(self, codes: Iterable[CodeType]) -> list[Function]:
        """Return our functions among these, in order."""
        return [function for function in map(self._function, codes) if function is not None]

    def _function(self, code: CodeType) -> Function | None:
        return self._by_code[code] if code in self._by_code else self._by_code.setdefault(code, Function.of(code))

    def _profile(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event not in {"call", "return"}:
            return
        function = self._function(frame.f_code)
        if function is None:
            return
        if event == "call" and frame.f_lasti <= function.start:
            self._called(frame, function)
        elif event == "return" and frame.f_lasti not in function.yields:
            self._returned(frame, function)

    def _called(self, frame: FrameType, function: Function) -> None:
        if function.full_name in BACKGROUND or function.full_name in FOREGROUND:
            _in_background.set(function.full_name in BACKGROUND)
        if not self._is_following or _in_background.get():
            return
        with self._lock:
            if self._walk is not None:
                self._walk.functions.setdefault(function.module, {})[function.name] = None
                self._walk.entries[function.module] += self._active[function.module] == 0
            self._active[function.module] += 1
            self._frames.add(id(frame))

    def _returned(self, frame: FrameType, function: Function) -> None:
        with self._lock:
            if id(frame) in self._frames:
                self._frames.remove(id(frame))
                self._active[function.module] -= 1


def _awaited(coroutine: Any) -> Iterator[CodeType]:
    """Yield the code of a suspended coroutine and of those that it waits for, outermost first."""
    while inspect.iscoroutine(coroutine):
        yield coroutine.cr_code
        coroutine = coroutine.cr_await


def _public(names: list[str]) -> list[str]:
    return [name for name in names if not re.search(r"(^|\.)_(?!_)", name)]


def _is_uncounted(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in UNCOUNTED)


def _file(module: str) -> str:
    path = SOURCE / Path(*module.split("."))
    return str((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).relative_to(SOURCE / "artel"))


class ScriptedModel:
    """A model that answers messages, plans two tasks, and reads a file when the message asks for it."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        self.server_loop: asyncio.AbstractEventLoop
        self.file_call: Walk | None = None

    async def __call__(self, request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
        if self.file_call is None:
            self.tracer.model_called(self.server_loop)
        if request.schema_name == "plan":
            plan = [
                {"id": "1", "agent": "agent_researcher", "description": "Collect the facts.", "depends_on": []},
                {"id": "2", "agent": "agent_writer", "description": "Write them down.", "depends_on": ["1"]},
            ]
            return await Say(json.dumps({"tasks": plan}))(request, http)
        if self.file_call is None:
            return await Say("Here you are.")(request, http)
        if request.body["messages"][-1]["role"] == "tool":
            self.tracer.stop()  # the result of the call has reached the model
            return await Say("It says hello.")(request, http)
        response = await Say(tools=[Tool("tool_read_file", json.dumps({"path": "hello.txt"}))])(request, http)
        self.tracer.record(self.file_call)
        return response


class Client:
    """Sends the requests of the walks, in a thread that is not traced."""

    def __init__(
        self, url: str, folder: Path, tracer: Tracer, model: ScriptedModel, is_busy: Callable[[], bool]
    ) -> None:
        self._folder = folder
        self._url = url
        self._tracer = tracer
        self._model = model
        self._is_busy = is_busy
        self._person = Person.register(url)
        self._project: int = self._person.project()["id"]
        self._session = self._person.session(self._project)

    def walk(self) -> dict[str, Walk]:
        """Walk every way once, after a first message that loads modules, worker space and agents."""
        self._person.say(self._session, "Hello.")
        self._settle()
        walks = {"direct": self._direct_message(), "plan": self._plan()}
        return walks | dict(zip(("file", "connector"), self._file_call(), strict=True))

    def _direct_message(self) -> Walk:
        walk = Walk("A direct message, from the HTTP request to the stored answer")
        self._tracer.record(walk)
        self._person.say(self._session, "What is new?")
        self._settle()
        self._tracer.stop()
        return walk

    def _plan(self) -> Walk:
        settings = {"plans": {"approve_from_tasks": 1, "approve_over_usd": 0.1}}
        self._person.http.patch(f"/my/projects/{self._project}", json={"settings": settings}).raise_for_status()
        self._settle()
        walk = Walk("A plan of two tasks: planned, priced, approved, carried out, merged")
        self._tracer.record(walk)
        accepted = self._person.post(self._session, "Find it and write it down.", None, {"Prefer": "wait=30"}).json()
        walk.next_chain = "After the approval, the call chain to the model of the first task"
        decision = {"decision": "approve"}
        confirmed = self._person.http.post(f"/my/approvals/{accepted['approval_id']}/confirm", json=decision)
        confirmed.raise_for_status()
        deadline = time.monotonic() + START_SECONDS
        while not self._is_busy() and time.monotonic() < deadline:  # the host has not found the approved plan yet
            time.sleep(0.005)
        self._settle()
        self._tracer.stop()
        workflow = self._person.get(f"/my/workflows/{accepted['workflow_id']}")
        assert workflow["status"] == "completed", workflow  # noqa: S101
        return walk

    def _file_call(self) -> tuple[Walk, Walk]:
        with self._connector() as connector:
            _until(lambda: bool(self._person.get(f"/my/projects/{self._project}/connector")["online"]))
            self._person.say(self._session, "Are you connected?")  # so that the walk is not the first call
            self._settle()
            connector.record()
            self._model.file_call = server = Walk("A relayed file call, on the server")
            self._tracer.follow()
            self._person.say(self._session, "What does hello.txt say?")
            self._settle()
            return server, connector.recorded()

    @contextmanager
    def _connector(self) -> "Iterator[ConnectorProcess]":
        workspace = self._folder / "workspace"
        workspace.mkdir()
        (workspace / "hello.txt").write_text("Hello.\n")
        environment = os.environ | {"ARTEL_TOKEN": self._person.token, "ARTEL_SERVER": self._url}
        connector = ConnectorProcess(self._folder / "connector.json", workspace, self._project, environment)
        try:
            yield connector
        finally:
            connector.stop()

    def _settle(self) -> None:
        """Wait until no turn runs and what follows the last one is done."""
        _until(lambda: not self._is_busy())
        time.sleep(0.3)


class ConnectorProcess:
    """`artel connect` in a process of its own, traced by this script."""

    def __init__(self, report: Path, workspace: Path, project_id: int, environment: dict[str, str]) -> None:
        self._report = report
        arguments = ["connect", str(workspace), "--project", str(project_id), "--read-only"]
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--connector", str(report), *arguments],
            env=environment,
            stdout=subprocess.DEVNULL,
        )

    def record(self) -> None:
        """Let the process record calls from now on."""
        self._process.send_signal(signal.SIGUSR2)
        _until(self._report.exists)

    def stop(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.wait(WAIT_SECONDS)

    def recorded(self) -> Walk:
        """Stop the record and return it."""
        self._process.send_signal(signal.SIGUSR2)
        _until(lambda: self._report.stat().st_size > 0)
        recorded = json.loads(self._report.read_text())
        functions = {module: dict.fromkeys(names) for module, names in recorded["functions"].items()}
        return Walk("A relayed file call, in the connector", functions, Counter(recorded["entries"]))


def _until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_true():
        if time.monotonic() > deadline:
            raise TimeoutError("The walk does not go on.")
        time.sleep(0.02)


def run_connector(report: Path, arguments: list[str]) -> None:
    """Run the command line with these arguments; record calls between two SIGUSR2 and write them to the report."""
    walk, tracer = Walk(""), Tracer()
    tracer.install()

    def start_or_stop(_number: int, _frame: FrameType | None) -> None:
        if not report.exists():
            tracer.record(walk)
            report.touch()
            return
        tracer.stop()
        functions = {module: list(names) for module, names in walk.functions.items()}
        written = report.with_suffix(".new")
        written.write_text(json.dumps({"functions": functions, "entries": walk.entries}))
        written.replace(report)

    signal.signal(signal.SIGUSR2, start_or_stop)
    sys.argv = ["artel", *arguments]
    from artel.cli.main import main as run_artel

    try:
        run_artel()
    finally:
        sys.setprofile(None)


def run_walks() -> dict[str, Walk]:
    """Start server and model, walk every way, and stop them."""
    with tempfile.TemporaryDirectory(prefix="artel-walk-") as name:
        folder = Path(name)
        for variable in [variable for variable in os.environ if variable.startswith("ARTEL_")]:
            del os.environ[variable]
        os.environ["ARTEL_CONFIG_DIR"] = str(folder / "config")
        model_server = ModelServer()
        with model_server.running_in_thread():
            os.environ |= {"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": model_server.url}
            return _serve(folder, model_server)


def _serve(folder: Path, model_server: ModelServer) -> dict[str, Walk]:
    from artel.api.server import serve
    from artel.container import Container
    from artel.logs import configure_logs
    from artel.settings import load_settings

    tracer = Tracer()
    model_server.default = model = ScriptedModel(tracer)
    configure_logs("json", "error")
    settings = load_settings(data_dir=folder / "data", port=0, registration_open=True, models_unpriced=["*"])
    walks: dict[str, Walk] = {}
    failures: list[BaseException] = []

    async def run() -> None:
        model.server_loop = asyncio.get_running_loop()
        model.server_loop.set_task_factory(tracer.make_task)
        container = await Container.open(settings)

        def send(url: str) -> None:
            sys.setprofile(None)
            try:
                walks.update(Client(url, folder, tracer, model, container.is_busy).walk())
            except BaseException as failure:  # noqa: BLE001 - raised again in the main thread
                failures.append(failure)
            finally:
                close_clients()
                os.kill(os.getpid(), signal.SIGTERM)

        try:
            await serve(container, lambda url: threading.Thread(target=send, args=(url,)).start())
        finally:
            await container.close()

    tracer.install()
    try:
        asyncio.run(run())
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    if failures:
        raise failures[0]
    return walks


def updated_page(text: str, walks: dict[str, Walk]) -> str:
    """Return the page with new lists between its markers."""
    for name, walk in walks.items():
        begin, end = f"<!-- walk {name} -->\n", f"<!-- end of walk {name} -->"
        before, _, rest = text.partition(begin)
        _, marker, after = rest.partition(end)
        if not marker:
            raise ValueError(f"{PAGE} has no markers for the walk {name!r}.")
        text = f"{before}{begin}\n{walk.markdown()}\n\n{end}{after}"
    return text


def main() -> None:
    """Print the walks; with `--write` update the page."""
    if sys.argv[1:2] == ["--connector"]:
        run_connector(Path(sys.argv[2]), sys.argv[3:])
        return
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--write", action="store_true", help="update docs/architecture.md")
    chosen = options.parse_args()
    walks = run_walks()
    print("Modules without a number (authentication, database, plain data) are not counted.\n")
    print("\n\n".join(walk.text() for walk in walks.values()))
    if chosen.write:
        PAGE.write_text(updated_page(PAGE.read_text(), walks))


if __name__ == "__main__":
    main()
