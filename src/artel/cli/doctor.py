"""`artel doctor`: checks every configured part and suggests fixes."""

import os
import socket
import stat
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from artel.cli.command_line import AsJson, ExitCode
from artel.cli.output import json_text, say
from artel.errors import ArtelError

if TYPE_CHECKING:
    from artel.client.api_client import ApiClient
    from artel.settings import Settings

DEADLINE_SECONDS = 10
MAX_PROJECTS = 10  # whose connector is checked


class Verdict(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of the check of one part."""

    part: str
    verdict: Verdict
    detail: str
    advice: str = ""
    section: str = "machine"  # or "server": the server of the login


SECTIONS = {"server": "The server you use", "machine": "This machine, if you run a server here"}


def doctor(as_json: AsJson = False) -> None:
    """Check the server you use and the server setup on this machine, and suggest fixes."""
    findings = [*_examine_server(), *_examine()]
    if as_json:
        typer.echo(json_text([asdict(finding) for finding in findings]))
    else:
        for section, title in SECTIONS.items():
            typer.echo(title)
            for finding in findings:
                if finding.section == section:
                    _print(finding)
    if any(finding.verdict is Verdict.FAILED for finding in findings):
        raise typer.Exit(ExitCode.FAILED)


def _print(finding: Finding) -> None:
    say(f"  {finding.verdict:8} {finding.part:14} {finding.detail}", below=26)
    if finding.advice:
        say(f"{'':25} → {finding.advice}", below=28)


def _examine_server() -> Iterator[Finding]:
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
        yield Finding("server", Verdict.WARNING, detail, "artel up starts one, artel login chooses another", "server")
        return
    yield Finding("server", Verdict.OK, f"{url}, version {version}", section="server")
    try:
        with ApiClient(url, credentials.token(url)) as client:
            yield from _examine_login(client)
    except ArtelError as error:
        yield Finding("account", Verdict.WARNING, error.detail, f"artel login --server {url}", "server")


def _examine_login(client: "ApiClient") -> Iterator[Finding]:
    account = client.call("GET", "/auth/me")
    role = ", administrator" if account["is_admin"] else ""
    yield Finding("account", Verdict.OK, f"{account['email'] or account['user_id']}{role}", section="server")
    if account.get("demo"):
        advice = "docs/how-to/models.md explains how to add one"
        yield Finding("its models", Verdict.WARNING, "none is configured, the demo brain answers", advice, "server")
    else:
        yield Finding("its models", Verdict.OK, "configured", section="server")
    for project in client.all_items("/my/projects")[:MAX_PROJECTS]:
        connector = client.call("GET", f"/my/projects/{project['id']}/connector")
        folder = (
            f"{connector['workspace_name']} ({connector['mode']})" if connector["online"] else "no folder connected"
        )
        yield Finding("project", Verdict.OK, f"{project['id']} ({project['name']}): {folder}", section="server")


def _examine() -> Iterator[Finding]:
    import asyncio

    from artel.logs import configure_logs
    from artel.settings import load_settings, unknown_variables

    for name in unknown_variables(os.environ):
        yield Finding(name, Verdict.WARNING, "is not a setting of Artel", "docs/reference/settings.md lists them")
    try:
        settings = load_settings()
    except ArtelError as error:
        yield Finding("settings", Verdict.FAILED, error.detail, "fix it in the environment or in artel.yaml")
        return
    configure_logs(settings.log_format, "error")
    yield Finding("settings", Verdict.OK, "read")
    yield _data_folder(settings)
    yield _port(settings)
    if settings.hosts is None:
        yield Finding(
            "host names",
            Verdict.WARNING,
            "requests with any host name are accepted",
            'set ARTEL_ALLOWED_HOSTS to the host names of this server, like ["artel.example.org"]',
        )
    yield from asyncio.run(_services(settings))
    yield _models()
    yield _memory(settings)
    if not settings.is_embedded and settings.jwt_secret is None:
        yield Finding(
            "tokens",
            Verdict.WARNING,
            "the secret is in this machine's data folder",
            "set ARTEL_JWT_SECRET to the same value on every server that shares the database",
        )


def _data_folder(settings: "Settings") -> Finding:
    folder = settings.data_dir
    if not folder.exists():
        return Finding("data folder", Verdict.OK, f"{folder} will be created on first start")
    if not os.access(folder, os.W_OK | os.X_OK):
        return Finding("data folder", Verdict.FAILED, f"{folder} can't be written to", "set ARTEL_DATA_DIR to another")
    secret, database = folder / "jwt_secret", settings.sqlite_file
    for file in (secret, database):
        if not file or not file.exists() or not _is_open_to_others(file):
            continue
        if file == secret or _is_open_to_others(file.parent):
            return Finding("data folder", Verdict.FAILED, f"others can read {file}", f"chmod 600 {file}")
    return Finding("data folder", Verdict.OK, str(folder))


def _is_open_to_others(path: Path) -> bool:
    return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)


def _port(settings: "Settings") -> Finding:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as failure:
            detail = f"{settings.host}:{settings.port}: {failure.strerror}"
            return Finding(
                "address", Verdict.WARNING, detail, "fine if Artel is running; else set ARTEL_PORT to another"
            )
    return Finding("address", Verdict.OK, f"{settings.host}:{settings.port} is free")


def _models() -> Finding:
    from artel.brain.router import BrainRouter

    brain = BrainRouter(os.environ).describe()
    if brain.mode == "demo":
        advice = "docs/how-to/models.md explains how to add one"
        return Finding("models", Verdict.WARNING, "none is configured, the demo brain answers", advice)
    names = [f"{item.name} ({item.address})" if item.address else item.name for item in brain.providers]
    return Finding("models", Verdict.OK, ", ".join(names))


def _memory(settings: "Settings") -> Finding:
    from artel.container import memory_settings
    from artel.vector_index.providers import make_embedder, make_store

    chosen = memory_settings(settings)
    try:
        embedder = make_embedder(chosen)
        make_store(chosen, embedder)  # opens no connection, but raises if something is missing
    except ArtelError as error:
        return Finding("memory", Verdict.FAILED, error.detail, "then check ARTEL_MEMORY_PROVIDER and ARTEL_EMBEDDING_…")
    where = "" if settings.qdrant_url or settings.memory_provider != "qdrant" else ", in the process"
    if where and not settings.is_embedded:
        return Finding(
            "memory",
            Verdict.WARNING,
            f"{settings.memory_provider}{where}, which is for one process",
            "set ARTEL_QDRANT_URL if several servers share the database",
        )
    if embedder.dimensions:
        return Finding("memory", Verdict.OK, f"{settings.memory_provider}{where}, embeddings by {embedder.name}")
    return Finding(
        "memory",
        Verdict.WARNING,
        f"{settings.memory_provider}{where}, keyword search only",
        "to search memories by meaning, run: artel memory install-embeddings",
    )


async def _services(settings: "Settings") -> list[Finding]:
    import asyncio

    from pydantic import SecretStr

    from artel.settings import without_password

    parts: list[tuple[str, SecretStr | None, str, Callable[[Settings], Awaitable[str]]]] = [
        ("database", SecretStr(settings.sqlalchemy_url), "ARTEL_DATABASE_URL", _check_database),
        ("bus", settings.bus_url, "ARTEL_BUS_URL", _check_bus),
        ("cache", settings.redis_url, "ARTEL_REDIS_URL", _check_redis),
        ("vectors", settings.qdrant_url, "ARTEL_QDRANT_URL", _check_qdrant),
        ("issuer", settings.jwks_url, "ARTEL_JWKS_URL", _check_issuer),
    ]
    findings = []
    for part, url, variable, check in parts:
        if url is None:
            continue
        address = without_password(url.get_secret_value())
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                findings.append(Finding(part, Verdict.OK, f"{address}: {await check(settings)}"))
        except ArtelError as error:
            findings.append(Finding(part, Verdict.FAILED, f"{address}: {error.detail}", f"then check {variable}"))
        except TimeoutError:
            findings.append(Finding(part, Verdict.FAILED, f"{address}: no answer", f"is it running? check {variable}"))
        except Exception as failure:  # noqa: BLE001 - report whatever a client library raises
            detail = f"{address}: {type(failure).__name__}"
            findings.append(Finding(part, Verdict.FAILED, detail, f"is it running, and is {variable} right?"))
    return findings


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


async def _check_bus(settings: "Settings") -> str:
    import aio_pika

    assert settings.bus_url  # noqa: S101 - only called when it is set
    connection = await aio_pika.connect(settings.bus_url.get_secret_value(), timeout=DEADLINE_SECONDS)
    await connection.close()
    return "answers"


async def _check_redis(settings: "Settings") -> str:
    import redis.asyncio

    assert settings.redis_url  # noqa: S101 - only called when it is set
    client = redis.asyncio.from_url(settings.redis_url.get_secret_value(), socket_connect_timeout=5)
    try:
        await client.ping()
    finally:
        await client.aclose()
    return "answers"


async def _check_qdrant(settings: "Settings") -> str:
    import httpx

    assert settings.qdrant_url  # noqa: S101 - only called when it is set
    async with httpx.AsyncClient(timeout=5) as client:
        response = await client.get(f"{settings.qdrant_url.get_secret_value().rstrip('/')}/readyz")
        response.raise_for_status()
    return "answers"


async def _check_issuer(settings: "Settings") -> str:
    from artel.auth.jwks import KeySet

    assert settings.jwks_url  # noqa: S101 - only called when it is set
    return f"publishes {await KeySet(settings.jwks_url.get_secret_value()).fetch()} keys"
