"""`artel doctor`: checks every configured part and suggests fixes."""

import os
import socket
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from artel.cli.command_line import AsJson, ExitCode
from artel.cli.output import json_text, say
from artel.errors import ArtelError

if TYPE_CHECKING:
    from artel.settings import Settings

DEADLINE_SECONDS = 10
MAX_PROJECTS = 10  # whose connector is checked
ADD_A_MODEL = "none is configured, the demo brain answers", "docs/how-to/models.md explains how to add one"
SECTIONS = {"server": "The server you use", "machine": "This machine, if you run a server here"}


@dataclass(frozen=True, slots=True)
class CheckResult:
    part: str
    verdict: Literal["ok", "warning", "failed"]
    detail: str
    advice: str = ""
    section: str = "machine"  # or "server": the server of the login


def doctor(as_json: AsJson = False) -> None:
    """Check the server you use and the server setup on this machine, and suggest fixes."""
    sections = {"server": _check_server(), "machine": _check_machine()}
    results = [replace(result, section=section) for section in sections for result in sections[section]]
    if as_json:
        typer.echo(json_text([asdict(result) for result in results]))
    for section, title in SECTIONS.items() if not as_json else ():
        typer.echo(title)
        for result in results:
            if result.section == section:
                say(f"  {result.verdict:8} {result.part:14} {result.detail}", below=26)
                if result.advice:
                    say(f"{'':25} → {result.advice}", below=28)
    if any(result.verdict == "failed" for result in results):
        raise typer.Exit(ExitCode.FAILED)


def _check_server() -> Iterator[CheckResult]:
    """Check the server that the other commands use. A server that is not running is a warning, not a failure."""
    from artel.client.api_client import ApiClient
    from artel.client.credentials import Credentials

    credentials = Credentials.load()
    url = credentials.server(None)
    try:
        with ApiClient(url) as client:
            version = client.call("GET", "/healthz")["version"]
    except (ArtelError, KeyError, TypeError) as error:
        detail = error.detail if isinstance(error, ArtelError) else f"{url} is not an Artel server"
        yield CheckResult("server", "warning", detail, "artel up starts one, artel login chooses another")
        return
    yield CheckResult("server", "ok", f"{url}, version {version}")
    try:
        with ApiClient(url, credentials.token(url)) as client:
            account = client.call("GET", "/auth/me")
            role = ", administrator" if account["is_admin"] else ""
            yield CheckResult("account", "ok", f"{account['email'] or account['user_id']}{role}")
            configured = CheckResult("its models", "ok", "configured")
            yield CheckResult("its models", "warning", *ADD_A_MODEL) if account.get("demo") else configured
            for project in client.all_items("/my/projects")[:MAX_PROJECTS]:
                connector = client.call("GET", f"/my/projects/{project['id']}/connector")
                workspace = f"{connector['workspace_name']} ({connector['mode']})"
                folder = workspace if connector["online"] else "no folder connected"
                yield CheckResult("project", "ok", f"{project['id']} ({project['name']}): {folder}")
    except ArtelError as error:
        yield CheckResult("account", "warning", error.detail, f"artel login --server {url}")


def _check_machine() -> Iterator[CheckResult]:
    import asyncio

    from artel.brain.router import BrainRouter
    from artel.logs import configure_logs
    from artel.settings import load_settings, unknown_variables

    for name in unknown_variables(os.environ):
        yield CheckResult(name, "warning", "is not a setting of Artel", "docs/reference/settings.md lists them")
    try:
        settings = load_settings()
    except ArtelError as error:
        yield CheckResult("settings", "failed", error.detail, "fix it in the environment or in artel.yaml")
        return
    configure_logs(settings.log_format, "error")
    yield CheckResult("settings", "ok", "read")
    yield _data_folder(settings)
    yield _port(settings)
    if settings.hosts is None:
        advice = 'set ARTEL_ALLOWED_HOSTS to the host names of this server, like ["artel.example.org"]'
        yield CheckResult("host names", "warning", "requests with any host name are accepted", advice)
    yield from asyncio.run(_services(settings))
    brain = BrainRouter(os.environ).describe()
    names = [f"{item.name} ({item.address})" if item.address else item.name for item in brain.providers]
    configured = CheckResult("models", "ok", ", ".join(names))
    yield CheckResult("models", "warning", *ADD_A_MODEL) if brain.mode == "demo" else configured
    yield _memory(settings)
    if not settings.is_embedded and settings.jwt_secret is None:
        advice = "set ARTEL_JWT_SECRET to the same value on every server that shares the database"
        yield CheckResult("tokens", "warning", "the secret is in this machine's data folder", advice)


def _data_folder(settings: "Settings") -> CheckResult:
    folder = settings.data_dir
    if not folder.exists():
        return CheckResult("data folder", "ok", f"{folder} will be created on first start")
    if not os.access(folder, os.W_OK | os.X_OK):
        return CheckResult("data folder", "failed", f"{folder} can't be written to", "set ARTEL_DATA_DIR to another")
    secret = folder / "jwt_secret"
    for file in (secret, settings.sqlite_file):
        is_open = file is not None and file.exists() and _is_open_to_others(file)
        if file and is_open and (file == secret or _is_open_to_others(file.parent)):
            return CheckResult("data folder", "failed", f"others can read {file}", f"chmod 600 {file}")
    return CheckResult("data folder", "ok", str(folder))


def _is_open_to_others(path: Path) -> bool:
    return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)


def _port(settings: "Settings") -> CheckResult:
    family, address = socket.AF_INET6 if ":" in settings.host else socket.AF_INET, f"{settings.host}:{settings.port}"
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as failure:
            advice = "fine if Artel is running; else set ARTEL_PORT to another"
            return CheckResult("address", "warning", f"{address}: {failure.strerror}", advice)
    return CheckResult("address", "ok", f"{address} is free")


def _memory(settings: "Settings") -> CheckResult:
    from artel.vector_index.providers import make_embedder, make_store

    try:
        embedder = make_embedder(settings)
        make_store(settings, embedder)  # opens no connection, but raises if something is missing
    except ArtelError as error:
        return CheckResult("memory", "failed", error.detail, "then check ARTEL_MEMORY_PROVIDER and ARTEL_EMBEDDING_…")
    is_in_process = settings.memory_provider == "qdrant" and not settings.qdrant_url
    name = f"{settings.memory_provider}{', in the process' if is_in_process else ''}"
    if is_in_process and not settings.is_embedded:
        advice = "set ARTEL_QDRANT_URL if several servers share the database"
        return CheckResult("memory", "warning", f"{name}, which is for one process", advice)
    if embedder.dimensions:
        return CheckResult("memory", "ok", f"{name}, embeddings by {embedder.name}")
    advice = "to search memories by meaning, run: artel memory install-embeddings"
    return CheckResult("memory", "warning", f"{name}, keyword search only", advice)


async def _services(settings: "Settings") -> list[CheckResult]:
    import asyncio

    from pydantic import SecretStr

    from artel.settings import without_password

    parts = [
        ("database", SecretStr(settings.sqlalchemy_url), "ARTEL_DATABASE_URL"),
        ("bus", settings.bus_url, "ARTEL_BUS_URL"),
        ("cache", settings.redis_url, "ARTEL_REDIS_URL"),
        ("vectors", settings.qdrant_url, "ARTEL_QDRANT_URL"),
        ("issuer", settings.jwks_url, "ARTEL_JWKS_URL"),
    ]
    results = []
    for part, secret, variable in parts:
        if secret is None:
            continue
        url = secret.get_secret_value()
        address = without_password(url)
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                reply = await (_check_database(settings) if part == "database" else _check_service(part, url))
            results.append(CheckResult(part, "ok", f"{address}: {reply}"))
        except ArtelError as error:
            results.append(CheckResult(part, "failed", f"{address}: {error.detail}", f"then check {variable}"))
        except TimeoutError:
            results.append(CheckResult(part, "failed", f"{address}: no answer", f"is it running? check {variable}"))
        except Exception as failure:  # noqa: BLE001 - report whatever a client library raises
            detail = f"{address}: {type(failure).__name__}"
            results.append(CheckResult(part, "failed", detail, f"is it running, and is {variable} right?"))
    return results


async def _check_database(settings: "Settings") -> str:
    from artel.container import open_database
    from artel.db import schema

    file = settings.sqlite_file
    if file is not None and not file.exists():
        return "will be created on first start"
    database = open_database(settings)
    try:
        revision = await database.read(schema.current_revision)
        if settings.is_embedded and (revision is None or revision < schema.HEAD):
            return f"answers, schema {revision or 'none'}, will be upgraded on the next start"
        revision = await database.read(schema.require_usable)
    finally:
        await database.close()
    return f"answers, schema {revision}"


async def _check_service(part: str, url: str) -> str:
    match part:
        case "bus":
            import aio_pika

            connection = await aio_pika.connect(url, timeout=DEADLINE_SECONDS)
            await connection.close()
        case "cache":
            import redis.asyncio

            async with redis.asyncio.from_url(url, socket_connect_timeout=5) as cache:
                await cache.ping()
        case "vectors":
            import httpx

            async with httpx.AsyncClient(timeout=5) as client:
                response = await client.get(f"{url.rstrip('/')}/readyz")
                response.raise_for_status()
        case "issuer":
            from artel.auth.jwks import KeySet

            return f"publishes {await KeySet(url).fetch()} keys"
    return "answers"
