"""`artel doctor`: checks every configured part and suggests fixes."""

import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import typer

from artel.cli.command_line import AsJson, ExitCode
from artel.cli.output import json_text, say
from artel.errors import ArtelError
from artel.server_checks import (
    ADD_A_MODEL,
    DEADLINE_SECONDS,
    CheckResult,
    check_data_folder,
    check_host_names,
    check_memory,
    check_models,
    check_services,
    check_token_secret,
)

if TYPE_CHECKING:
    from artel.settings import Settings

MAX_PROJECTS = 10  # whose connector is checked
MAX_MODELS = 5  # that are named
SECTIONS = {"server": "The server you use", "machine": "This machine, if you run a server here"}


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
            if account.get("demo"):
                yield CheckResult("its models", "warning", *ADD_A_MODEL)
            else:
                yield CheckResult("its models", "ok", _models(client.call("GET", "/my/models")))
            for project in client.all_items("/my/projects")[:MAX_PROJECTS]:
                connector = client.call("GET", f"/my/projects/{project['id']}/connector")
                workspace = f"{connector['workspace_name']} ({connector['mode']})"
                folder = workspace if connector["online"] else "no folder connected"
                yield CheckResult("project", "ok", f"{project['id']} ({project['name']}): {folder}")
    except ArtelError as error:
        yield CheckResult("account", "warning", error.detail, f"artel login --server {url}")


def _models(answer: Mapping[str, Any]) -> str:
    """Return the models of a server in words: the default ones, and the first of those that agents can be given."""
    names = [model["id"] for model in answer["items"]]
    others = f" and {len(names) - MAX_MODELS} more" if len(names) > MAX_MODELS else ""
    listed = f"; listed: {', '.join(names[:MAX_MODELS])}{others}" if names else ""
    return f"{answer['default_model']} for new agents, {answer['planner_model']} for plans{listed}"


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
    yield check_data_folder(settings)
    yield _port(settings)
    yield from check_host_names(settings)
    yield from asyncio.run(check_services(settings))
    stored = asyncio.run(_stored_providers(settings))
    yield check_models(BrainRouter(os.environ).describe(), stored)
    yield check_memory(settings)
    yield from check_token_secret(settings)


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


async def _stored_providers(settings: "Settings") -> list[str]:
    """Return the names of the providers that administrators have added; the database itself is checked elsewhere."""
    import asyncio

    from artel.db import schema
    from artel.db.engine import open_database
    from artel.model_providers.repository import read_stored

    if settings.sqlite_file is not None and not settings.sqlite_file.exists():
        return []
    database = open_database(settings)
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            if (await database.read(schema.current_revision) or "") < schema.HEAD:
                return []
            return [f"{provider.name} (stored)" for provider in (await database.read(read_stored)).providers]
    except (ArtelError, TimeoutError):
        return []
    finally:
        await database.close()
