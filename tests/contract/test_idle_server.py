"""What a server holds and imports: little at the start, and nothing of a session whose turns have ended."""

import json
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from artel.auth.accounts import ensure_local_account
from artel.container import Container
from artel.contract.http import NewSession
from artel.ids import uuid7
from artel.projects.transactions import ensure_default_project
from artel.sessions.transactions import create_session
from artel.settings import Settings

SESSIONS = 12
# Each takes 2 to 200 MB, or a part of the time to start.
LATE = {
    "aio_pika",
    "aiohttp",
    "alembic",
    "cryptography",
    "ddgs",
    "httpx",
    "jwt",
    "langgraph",
    "litellm",
    "numpy",
    "openai",
    "prompt_toolkit",
    "psycopg",
    "qdrant_client",
    "qdrant_edge",
    "redis",
    "regex",
    "rich",
    "safetensors",
    "tiktoken",
    "tokenizers",
    "trafilatura",
}
START = """
import asyncio, json, sys
from pathlib import Path
import artel.cli.main, artel.api.server
from artel.api.app import create_app
from artel.auth.accounts import ensure_local_account
from artel.auth.logins import Device, LoginKind
from artel.container import Container
from artel.logs import configure_logs
from artel.settings import Settings

async def main():
    settings = Settings(data_dir=Path(sys.argv[1]))
    configure_logs("json", "warning")
    container = await Container.open(settings)
    create_app(container)
    started = list(sys.modules)
    account = await container.database.run(ensure_local_account)
    login = await container.login.begin(account, Device(LoginKind.CLI, "test", "127.0.0.1"))
    await container.login.authenticate(container.login.token_of(login))
    print(json.dumps([started, list(sys.modules)]))
    await container.close()

asyncio.run(main())
"""

pytestmark = pytest.mark.anyio


def test_server_starts_and_logs_in_without_what_few_servers_need(tmp_path: Path) -> None:
    command = [sys.executable, "-c", START, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    started, logged_in = json.loads(done.stdout)

    allowed = {"alembic"}  # a new database is migrated
    assert sorted((LATE - allowed) & set(started)) == []
    assert sorted((LATE - allowed) & set(logged_in)) == []


@pytest.mark.any_database
async def test_nothing_of_a_session_stays_in_memory_after_its_turn(tmp_path: Path) -> None:
    container = await Container.open(Settings(data_dir=tmp_path))
    try:
        account = await container.database.run(ensure_local_account)
        user = account.principal
        project = await container.database.of(user).run(ensure_default_project, container.project_rules)
        for _ in range(SESSIONS):
            new = NewSession(project_id=project.id)
            session = await container.database.of(user).run(create_session, uuid7(), new, container.project_rules)
            turn = await container.chat.send(user, session.session_id, "Hello", "agent_coder", None)
            await container.chat.reply(user, turn, 60)

        with anyio.fail_after(30):
            while any(_held(container).values()):  # noqa: ASYNC110 - the end of the last turn is still being announced
                await anyio.sleep(0.01)
    finally:
        await container.close()


def _held(container: Container) -> dict[str, int]:
    """Return how much of sessions and turns each shared object holds."""
    assert container.host is not None
    return {
        "feeds": len(container.hub._feeds),
        "waiters": len(container.turn_waiters._waiting),
        "lanes": len(container.host._lanes),
        "ended turns": len(container.host._ended_since),
    }
