"""Checks of the configured parts of a server, for `artel doctor` and for administrators."""

import os
import stat
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from artel.errors import ArtelError

# What takes long to import is imported where it is used: commands that only print should start fast.
if TYPE_CHECKING:
    from artel.brain.router import BrainDescription
    from artel.db.engine import Database
    from artel.settings import Settings

DEADLINE_SECONDS = 10
ADD_A_MODEL = "none is configured, the demo brain answers", "add one: artel models add ollama, or docs/how-to/models.md"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check found: without credentials, and with what to do."""

    part: str
    verdict: Literal["ok", "warning", "failed"]
    detail: str
    advice: str = ""
    section: str = "machine"  # of `artel doctor`; or "server": the server of the login


def check_data_folder(settings: "Settings") -> CheckResult:
    """Check whether the data folder can be used, and whether its secrets are private."""
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


def check_host_names(settings: "Settings") -> Iterator[CheckResult]:
    """Warn if requests may use any host name."""
    if settings.hosts is None:
        advice = 'set ARTEL_ALLOWED_HOSTS to the host names of this server, like ["artel.example.org"]'
        yield CheckResult("host names", "warning", "requests with any host name are accepted", advice)


def check_token_secret(settings: "Settings") -> Iterator[CheckResult]:
    """Warn if servers that share a database may not share the secret of their tokens."""
    if not settings.is_embedded and settings.jwt_secret is None:
        advice = "set ARTEL_JWT_SECRET to the same value on every server that shares the database"
        yield CheckResult("tokens", "warning", "the secret is in this machine's data folder", advice)


def check_models(brain: "BrainDescription", stored: Sequence[str] = ()) -> CheckResult:
    """Check whether models are configured; `stored` are providers that the brain does not know."""
    names = [f"{item.name} ({item.address})" if item.address else item.name for item in brain.providers]
    configured = CheckResult("models", "ok", ", ".join([*names, *stored]))
    return CheckResult("models", "warning", *ADD_A_MODEL) if brain.mode == "demo" and not stored else configured


def check_memory(settings: "Settings") -> CheckResult:
    """Check the index and the embedder of memories, without opening them."""
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
    if settings.embedding_model == "none":
        return CheckResult("memory", "ok", f"{name}, keyword search only, as configured")
    advice = "to search memories by meaning, run: artel memory install-embeddings, or remove ARTEL_EMBEDDING_MODEL"
    return CheckResult("memory", "warning", f"{name}, keyword search only", advice)


async def check_services(settings: "Settings", database: "Database | None" = None) -> list[CheckResult]:
    """Check whether the configured services answer, all at once; `database` is that of a running server."""
    import asyncio

    from artel.settings import without_password

    urls = [
        ("bus", settings.bus_url, "ARTEL_BUS_URL"),
        ("cache", settings.redis_url, "ARTEL_REDIS_URL"),
        ("vectors", settings.qdrant_url, "ARTEL_QDRANT_URL"),
        ("issuer", settings.jwks_url, "ARTEL_JWKS_URL"),
    ]
    address = without_password(settings.sqlalchemy_url)
    checks = [_result_of("database", address, "ARTEL_DATABASE_URL", _check_database(settings, database))]
    for part, url, variable in urls:
        if url is not None:
            address, answer = without_password(url.get_secret_value()), _check_service(part, url.get_secret_value())
            checks.append(_result_of(part, address, variable, answer))
    return list(await asyncio.gather(*checks))


async def _result_of(part: str, address: str, variable: str, answer: Coroutine[Any, Any, str]) -> CheckResult:
    """Wait for what a service answers; its errors may contain credentials, so that only our own are shown."""
    import asyncio

    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            return CheckResult(part, "ok", f"{address}: {await answer}")
    except ArtelError as error:
        return CheckResult(part, "failed", f"{address}: {error.detail}", f"then check {variable}")
    except TimeoutError:
        return CheckResult(part, "failed", f"{address}: no answer", f"is it running? check {variable}")
    except Exception as failure:  # noqa: BLE001 - report whatever a client library raises
        detail = f"{address}: {type(failure).__name__}"
        return CheckResult(part, "failed", detail, f"is it running, and is {variable} right?")


async def _check_database(settings: "Settings", running: "Database | None") -> str:
    from artel.db import schema
    from artel.db.engine import open_database

    if running is not None:
        return f"answers, schema {await running.read(schema.require_usable)}"
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
            from yarl import URL

            connection = aio_pika.Connection(URL(url))
            try:
                await connection.connect(timeout=DEADLINE_SECONDS)
            finally:
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
