"""`artel up`, `artel serve`."""

import gc
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from artel import __version__
from artel.cli.command_line import AsJson, NoFolder, ReadOnly
from artel.cli.output import say, visible
from artel.errors import ArtelError

if TYPE_CHECKING:
    from artel.auth.accounts import AccountRow
    from artel.cli.connector_process import ConnectorLogin
    from artel.container import Container

Port = Annotated[int | None, typer.Option(help="Port to listen on; 0 chooses a free one.  [default: 8700]")]
DataDir = Annotated[Path | None, typer.Option(help="Where the server stores its files.")]
NodesDir = Annotated[
    Path | None, typer.Option("--nodes", help="A folder with agent files (*.yaml) to run as nodes in this server.")
]


def up(
    port: Port = None,
    data_dir: DataDir = None,
    folder: Annotated[
        Path | None, typer.Option(help="The folder that agents may work in.  [default: the current one]")
    ] = None,
    no_folder: NoFolder = False,
    read_only: ReadOnly = False,
    run: Annotated[
        list[str] | None,
        typer.Option("--run", metavar="NAME='COMMAND'", help="A command that agents may run; repeat for more."),
    ] = None,
    nodes: NodesDir = None,
    as_json: AsJson = False,
) -> None:
    """Start Artel on this machine for you and this folder, and print a login link."""
    options = [*(["--read-only"] if read_only else []), *(f"--run={command}" for command in run or ())]
    serve_folder = partial(_serve_folder, folder=folder, no_folder=no_folder, options=options, as_json=as_json)
    _run(serve_folder, is_personal=True, host="127.0.0.1", port=port, data_dir=data_dir, nodes_dir=nodes)


async def _serve_folder(
    container: "Container", *, folder: Path | None, no_folder: bool, options: list[str], as_json: bool
) -> None:
    """Serve the local account, and connect a folder to its default project when the server is ready."""
    from artel.api.server import serve as run_server
    from artel.auth.accounts import ensure_local_account
    from artel.auth.logins import Device, LoginKind, make_code
    from artel.auth.throttle import network_key
    from artel.cli.connector_process import ConnectorTarget, OwnConnector, folder_problem
    from artel.connector_gateway.repository import find_connector
    from artel.projects.transactions import ensure_default_project

    account = await container.database.run(ensure_local_account)
    database = container.database.of(account.principal)
    project = await database.run(ensure_default_project, container.project_rules)
    login = await container.login.begin(account, Device(LoginKind.CLI, "artel up", network_key("127.0.0.1")))
    token = container.login.token_of(login)
    code = await database.run(make_code, login.expires_at, login.proof)
    workspace = folder or Path.cwd()
    problem = "--no-folder" if no_folder else folder_problem(workspace, container.folder.path)
    if folder is not None and problem is not None:
        raise typer.BadParameter(f"{folder} can't be connected: {problem}")
    connector = OwnConnector(workspace, options, quiet=as_json)

    async def is_free() -> bool:
        return await container.database.read(find_connector, account.principal, project.id) is None

    def ready(url: str) -> None:
        is_current = _remember(url, token)
        holder = None
        if problem is None:
            login_connector = partial(_connector_login, container, account)
            holder = connector.start(ConnectorTarget(url, project.id, login_connector, is_free))
        link = f"{url}/#code={code}"
        if as_json:
            typer.echo(json.dumps({"url": url, "link": link, "token": token, "project_id": project.id}))
            return
        brain, demo = container.brain.describe(), "none yet, the demo brain answers (add one: artel models add)"
        rows = {
            "Open": link,
            "Project": f"{visible(project.name, keep='')} ({project.id})",
            "API": f"{url}/docs",
            "Data": str(container.folder.path),
            "Folder": visible(_folder(workspace, problem, holder), keep=""),
            "Models": demo if brain.mode == "demo" else ", ".join(provider.name for provider in brain.providers),
            **({"Nodes": ", ".join(container.node_names)} if container.node_names else {}),
            "Talk": "artel chat, in another terminal",
        }
        say(f"\n  Artel {__version__} is ready.\n")
        for name, value in rows.items():
            say(f"  {name:9} {value}", below=12)
        new_link = "artel link" if is_current else f"artel link --server {url}"
        say(f"\n  The link works once, within a minute. For a new one: {new_link}. Ctrl-C stops Artel.\n")

    try:
        await run_server(container, ready)
    finally:
        await connector.stop()


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.  [default: 127.0.0.1]")] = None,
    port: Port = None,
    role: Annotated[
        str | None, typer.Option(help="What this process does: api, host or all (PostgreSQL).  [default: all]")
    ] = None,
    workers: Annotated[
        int,
        typer.Option(min=1, max=64, help="Number of processes that serve this port (PostgreSQL and Qdrant)."),
    ] = 1,
    nodes: NodesDir = None,
    as_json: AsJson = False,
    worker: Annotated[int | None, typer.Option(hidden=True, help="The number of this worker.")] = None,
    listener: Annotated[int | None, typer.Option(hidden=True, help="The socket that a worker inherits.")] = None,
) -> None:
    """Start a server for several users.

    SIGTERM and Ctrl-C stop it. Exit codes: 0 stopped, 2 a mistake in the settings, 5 the address or the database is in
    use, 6 a service is not reachable. With --workers a worker that ends is started again. If that fails eight times
    in a row, all end with its exit code; if one does not stop within 20 seconds, it is killed, and the code is 1.
    """
    overrides: dict[str, Any] = {"host": host, "port": port, "role": role, "nodes_dir": nodes}
    if worker is not None and listener is not None:
        _run(partial(_serve_as_worker, descriptor=listener), worker=worker, **overrides)
    elif workers > 1:
        _run_workers(workers, as_json=as_json, **overrides)
    else:
        _run(partial(_serve_alone, as_json=as_json), **overrides)


async def _serve_alone(container: "Container", *, as_json: bool) -> None:
    from artel.api.server import serve as run_server

    def ready(url: str) -> None:
        typer.echo(json.dumps({"url": url}) if as_json else f"Artel {__version__} is ready at {url}")

    await run_server(container, ready)


async def _serve_as_worker(container: "Container", *, descriptor: int) -> None:
    from artel.api.server import serve as run_server
    from artel.cli.workers import ParentLink, inherited_listener

    link = ParentLink()
    await run_server(container, lambda _url: link.ready(), inherited_listener(descriptor))


def _run_workers(count: int, *, as_json: bool, **overrides: Any) -> None:
    """Run the parent of several workers."""
    import asyncio

    from artel.api.listener import listen, url_of
    from artel.cli.workers import make_workers, require_shareable
    from artel.logs import configure_logs
    from artel.settings import load_settings

    settings = load_settings(**overrides)
    configure_logs(settings.log_format, settings.log_level)
    require_shareable(settings)
    listener = listen(settings.host, settings.port)
    url = url_of(settings.host, listener)

    def ready() -> None:
        text = f"Artel {__version__} is ready at {url} with {count} workers"
        typer.echo(json.dumps({"url": url, "workers": count}) if as_json else text)

    exit_code = asyncio.run(make_workers(settings, count, listener).run(ready))
    raise typer.Exit(exit_code)


@asynccontextmanager
async def _connector_login(container: "Container", account: "AccountRow") -> "AsyncIterator[ConnectorLogin]":
    """Begin a login for the connector of `artel up`, and end it afterwards; the user sees it among their logins."""
    from artel.auth.logins import Device, LoginKind, revoke_login
    from artel.auth.throttle import network_key
    from artel.cli.connector_process import ConnectorLogin

    device = Device(LoginKind.CLI, "artel up, connected folder", network_key("127.0.0.1"))
    login = await container.login.begin(account, device)
    try:
        yield ConnectorLogin(container.login.token_of(login), login.expires_at)
    finally:
        with suppress(ArtelError):  # ended by the user already, or the database is not reachable: then it expires
            await container.database.of(account.principal).run(revoke_login, login.login_id or "")


def _folder(folder: Path, problem: str | None, holder: str | None) -> str:
    if holder is not None:
        return f"{folder} waits until {holder} ends"
    if problem is None:
        return f"{folder} (agents ask before they write)"
    if problem == "--no-folder":
        return "none (--no-folder)"
    return f"none: {problem}. Start `artel up` in a project's folder, or run: artel connect DIR"


def _remember(url: str, token: str) -> bool:
    """Store the login of the command line; return whether this server is now the current one."""
    from artel.client.credentials import Credentials, is_loopback

    credentials = Credentials.load()
    is_current = credentials.current is None or is_loopback(credentials.current)  # do not replace one elsewhere
    try:
        credentials.remember(url, token, make_current=is_current)
    except OSError as failure:
        say(f"artel: the command line is not logged in ({failure.strerror}: {credentials.path})", err=True)
    return is_current


def _run(
    run: "Callable[[Container], Coroutine[Any, Any, None]]",
    *,
    is_personal: bool = False,
    worker: int | None = None,
    **overrides: Any,
) -> None:
    """Run a server.

    A personal server has other defaults: it logs only warnings, registration is closed, and models without a known
    price are allowed, because its only user pays for them.
    """
    # Imported here because the server takes 0.5 s to import, which `artel --help` should not need.
    import asyncio

    import uvloop

    from artel.memory_tuning import return_freed_memory

    return_freed_memory()
    gc.disable()  # during startup: almost all objects created then stay alive
    from artel.container import Container
    from artel.logs import configure_logs
    from artel.settings import load_settings

    settings = load_settings(**overrides)
    is_level_set = "log_level" in settings.model_fields_set
    configure_logs(settings.log_format, "warning" if is_personal and not is_level_set else settings.log_level, worker)
    if is_personal:
        personal = {"registration_open": False, "models_unpriced": ["*"]}
        unset = {name: value for name, value in personal.items() if getattr(settings, name) is None}
        settings = settings.model_copy(update=unset)

    async def run_container() -> None:
        container = await Container.open(settings)
        try:
            await run(container)
        finally:
            await container.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run_container())
