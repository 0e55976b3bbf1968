"""Shared fixtures: services, databases, running Artel servers, users."""

import importlib
import itertools
import os
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy
import structlog
from hypothesis import settings

from artel.logs import forget_used_loggers
from tests import running
from tests.connecting import Connecting, connecting
from tests.depth import IS_DEEP, by_depth
from tests.model_server import ByMark, ModelServer
from tests.nursery import Nursery
from tests.people import Person, close_clients
from tests.requirements import RequirementIndex, RequirementReport, mark_properties
from tests.running import Server, artel, clean_environment, stop_all
from tests.services import ServiceRun

# No deadlines: durations are measured by `make bench`, because tests may run on a busy machine. `make test` tries the
# same cases every time, so that a change fails for its own faults only; `make test-deep` tries new ones.
settings.register_profile("artel", deadline=None, derandomize=not IS_DEEP, max_examples=by_depth(20, 100))
settings.load_profile("artel")

JWT_SECRET = "a-secret-of-the-tests-that-is-long-enough"

# Tests connect to this machine only: thousands of HTTP clients load this one certificate instead of a bundle of 140,
# which takes 25 ms of CPU each time. Child processes inherit it.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("one_certificate.pem"))

_services = pytest.StashKey[ServiceRun]()
_numbers = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tests-by-requirement", metavar="FILE", help="write the tests of each requirement id")


def pytest_configure(config: pytest.Config) -> None:
    if path := config.getoption("--tests-by-requirement"):
        config.pluginmanager.register(RequirementIndex(Path(path)))
    worker = getattr(config, "workerinput", None)
    if worker:
        config.stash[_services] = ServiceRun.join(Path(worker["services"]))
    else:
        config.stash[_services] = ServiceRun.create()
        config.pluginmanager.register(RequirementReport(config.rootpath))


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Let each worker of a whole run import its share of the files first: otherwise each one compiles all of them."""
    worker = getattr(session.config, "workerinput", None)
    if worker and session.config.args == session.config.getini("testpaths"):
        number, workers = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
        files = sorted(Path(__file__).parent.rglob("test_*.py"))
        for path in files[number::workers]:
            importlib.import_module(".".join(path.relative_to(session.config.rootpath).with_suffix("").parts))


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """Use three more workers than cores: tests wait for a third of their time, and each worker has its own servers."""
    return (yield) + 3


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from tests.scheduling import ByFile

    return ByFile(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["services"] = str(node.config.stash[_services].folder)


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.stash[_services].stop()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mark_properties(items, config.rootpath)
    if not IS_DEEP:
        selected: list[pytest.Item] = []
        deselected: list[pytest.Item] = []
        for item in items:
            is_repeated = item.get_closest_marker("any_database") and _backend_of(item) == "postgres"
            (deselected if is_repeated else selected).append(item)
        items[:] = selected
        config.hook.pytest_deselected(items=deselected)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Drop what a passed test printed: nobody reads it, and it would be sent from the worker to the main process."""
    report = yield
    if report.passed:
        report.sections.clear()
    return report


def _backend_of(item: pytest.Item) -> str | None:
    """Return the database of a test that is parametrized with both."""
    call = getattr(item, "callspec", None)
    return call.params.get("backend") if call else None


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def _nursery() -> Iterator[None]:
    running.nursery = Nursery()
    yield
    running.nursery.close()
    running.nursery = None


@pytest.fixture
def started_for_real(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the processes of a test without the nursery, like a user does."""
    monkeypatch.setattr(running, "nursery", None)


@pytest.fixture(scope="session")
def services(pytestconfig: pytest.Config) -> ServiceRun:
    return pytestconfig.stash[_services]


@pytest.fixture(scope="session")
def chromium(services: ServiceRun) -> str:
    return services.chromium()


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def new_database(backend: str, services: ServiceRun, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Create an empty database and return its URL."""

    def make(template: str = "template1") -> str:
        if backend == "sqlite":
            return f"sqlite:///{tmp_path_factory.mktemp('database')}/artel.db"
        name = f"test_{os.getpid()}_{next(_numbers)}"
        with psycopg.connect(services.postgres(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return services.postgres().rsplit("/", 1)[0] + f"/{name}"

    return make


@pytest.fixture(scope="session")
def upgraded_database(
    backend: str, new_database: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], str]:
    """Create a database with the current schema and return its URL; a server with SQLite upgrades its own."""
    if backend == "sqlite":
        return new_database
    template = new_database()
    env = clean_environment(tmp_path_factory.mktemp("upgrade"), ARTEL_DATABASE_URL=template)
    upgraded = artel("db", "upgrade", env=env)
    assert upgraded.returncode == 0, upgraded.stderr
    return lambda: new_database(template.rsplit("/", 1)[1])


StartServer = Callable[..., Server]


@pytest.fixture(scope="session")
def start_shared_server(
    upgraded_database: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StartServer]:
    """Start a server that the tests of a file share, by default on a new database."""
    started: list[Server] = []

    def start(**variables: str) -> Server:
        folder = tmp_path_factory.mktemp("server")
        database = variables.pop("ARTEL_DATABASE_URL", None) or upgraded_database()
        env = clean_environment(folder, ARTEL_DATABASE_URL=database, ARTEL_JWT_SECRET=JWT_SECRET, **variables)
        started.append(Server.start(folder, env))
        _servers_of_a_file.append(started[-1])
        return started[-1]

    yield start
    stop_all(started)


_servers_of_a_file: list[Server] = []


@pytest.fixture(scope="module", autouse=True)
def _end_servers_of_a_file() -> Iterator[None]:
    """Kill the servers of a file after its tests, because an idle server takes half a percent of a core."""
    yield
    for server in _servers_of_a_file:
        if server.process.poll() is None:
            server.kill()
    _servers_of_a_file.clear()


def _for_all_files(server: Server) -> Server:
    """Let a server run until the last test of its database."""
    _servers_of_a_file.remove(server)
    return server


@pytest.fixture
def start_server(start_shared_server: StartServer) -> Iterator[StartServer]:
    """Start a server for one test, by default on a new database."""
    started: list[Server] = []

    def start(**variables: str) -> Server:
        started.append(start_shared_server(**variables))
        return started[-1]

    yield start
    for server in started:
        if server.process.poll() is None:
            server.kill()


@pytest.fixture(scope="session")
def server(start_shared_server: StartServer) -> Server:
    """A server that tests share; tests that need their own settings or state start another."""
    return _for_all_files(start_shared_server())


Rows = Callable[..., list[Any]]


@pytest.fixture
def rows(server: Server) -> Iterator[Rows]:
    """Read rows directly from the server's database."""
    engine = sqlalchemy.create_engine(server.env["ARTEL_DATABASE_URL"].replace("postgresql:", "postgresql+psycopg:"))

    def read(statement: str, **values: Any) -> list[Any]:
        with engine.connect() as connection:
            return list(connection.execute(sqlalchemy.text(statement), values))

    yield read
    engine.dispose()


Write = Callable[..., None]


@pytest.fixture
def write(server: Server) -> Iterator[Write]:
    """Write rows directly to the server's database."""
    engine = sqlalchemy.create_engine(server.env["ARTEL_DATABASE_URL"].replace("postgresql:", "postgresql+psycopg:"))

    def execute(statement: str, **values: Any) -> None:
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text(statement), values)

    yield execute
    engine.dispose()


@pytest.fixture(scope="session")
def model() -> Iterator[ModelServer]:
    """A model that echoes; `script[mark]` defines its behaviour for messages that contain the mark."""
    with ModelServer(ByMark()).running_in_thread() as running:
        yield running


@pytest.fixture(scope="session")
def script(model: ModelServer) -> ByMark:
    assert isinstance(model.default, ByMark)
    return model.default


@pytest.fixture
def mark() -> str:
    """A unique word for the messages of a test."""
    return f"mark{uuid.uuid4().hex[:12]}"


def with_model(model: ModelServer) -> dict[str, str]:
    """Return the settings of a server whose agents use the model."""
    return {"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": model.url}


@pytest.fixture(scope="session")
def chat_server(start_shared_server: StartServer, model: ModelServer) -> Server:
    """A server that tests share, whose agents use the scripted model."""
    return _for_all_files(start_shared_server(**with_model(model)))


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Connecting]:
    """A folder and a scripted server, for `artel connect`."""
    with connecting(tmp_path) as made:
        yield made


@pytest.fixture(autouse=True)
def _clients_are_closed() -> Iterator[None]:
    yield
    close_clients()


@pytest.fixture(autouse=True)
def _logs_are_restored() -> Iterator[None]:
    """Undo what a test configured in this process, as a command of `artel` does that runs here."""
    yield
    if structlog.is_configured():
        structlog.reset_defaults()
        forget_used_loggers()


@pytest.fixture
def person(server: Server) -> Person:
    return Person.register(server.url)


@pytest.fixture
def other(server: Server) -> Person:
    return Person.register(server.url)
