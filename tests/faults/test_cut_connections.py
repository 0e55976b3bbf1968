"""The connection of a connector, cut at every point of a write: written once, never partially, and no run hangs.

`make faults` cuts at each point 100 times; the usual run does it a few times.
"""

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from tests.actors.coder_user import CoderUser
from tests.deadlines import eventually
from tests.depth import by_depth
from tests.folders import Folder, connected_folder
from tests.model_server import ModelServer
from tests.people import Person
from tests.running import Server

# What is tested has nothing to do with the database.
pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True, scope="session")

CUTS = by_depth(2, 5 * int(os.environ.get("KILLS_PER_POINT", "1")))
CUTS_PER_PROJECT = 50  # sixty calls in a minute are all that the agents of a project may make
# Only an answer to the edit has a hash: the greeting of a connector that has just come back is left alone.
CALL, ANSWER = b'"workspace/edit"', b'"sha256"'
# What is let through of the message at which the line is cut: of the call, or of the answer.
POINTS = {
    "before the call": (CALL, 0.0),
    "in the call": (CALL, 0.5),
    "after the call": (CALL, 1.0),
    "before the answer": (ANSWER, 0.0),
    "in the answer": (ANSWER, 0.5),
    "after the answer": (ANSWER, 1.0),
}


class Scissors:
    """A proxy that cuts a connection in the middle of a certain message."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._armed: tuple[bytes, float] | None = None
        self.cuts = 0
        self.url = ""

    def arm(self, mark: bytes, share: float) -> None:
        """Cut at the next message with the mark after this part of it."""
        self._armed = mark, share

    @contextmanager
    def running(self) -> Iterator["Scissors"]:
        """Run the proxy in a thread."""
        loop, stopped, ready = asyncio.new_event_loop(), asyncio.Event(), threading.Event()

        async def serve() -> None:
            server = await asyncio.start_server(self._take, "127.0.0.1", 0)
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            ready.set()
            await stopped.wait()
            server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), name="scissors")
        thread.start()
        assert ready.wait(10)
        try:
            yield self
        finally:
            loop.call_soon_threadsafe(stopped.set)
            thread.join(10)
            loop.close()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        ways = [asyncio.ensure_future(self._pass(reader, back)), asyncio.ensure_future(self._pass(there, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in (writer, back):
                end.transport.abort()
            for way in ways:
                way.cancel()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 20):
                if self._armed and self._mark_in(data):
                    _, share = self._armed
                    self._armed = None
                    self.cuts += 1
                    writer.write(data[: int(len(data) * share)])
                    with suppress(OSError):
                        await writer.drain()
                    return
                writer.write(data)
                await writer.drain()

    def _mark_in(self, data: bytes) -> bool:
        """Find the mark; frames of a client are masked with the key before them."""
        assert self._armed is not None
        mark = self._armed[0]
        if mark in data:
            return True
        return any(mark in _unmasked(data, at) for at in (2, 4, 10))


def _unmasked(data: bytes, at: int) -> bytes:
    key, masked = data[at : at + 4], data[at + 4 :]
    return bytes(byte ^ key[place % 4] for place, byte in enumerate(masked)) if len(key) == 4 else b""


@pytest.fixture
def scissors(chat_server: Server) -> Iterator[Scissors]:
    with Scissors(int(chat_server.url.rsplit(":", 1)[1])).running() as scissors:
        yield scissors


def _another_line(folder: Folder, before: str | None) -> str | None:
    since = folder.online_since()
    return since if since != before else None


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("point", POINTS)
def test_write_with_cut_connection_happens_once(
    chat_server: Server, scissors: Scissors, model: ModelServer, mark: str, tmp_path: Path, point: str
) -> None:
    for first in range(0, CUTS, CUTS_PER_PROJECT):
        person = Person.register(chat_server.url)
        project_id, home = person.project()["id"], tmp_path / str(first)
        with connected_folder(home, person, project_id, "--yes", server=scissors.url) as folder:
            line: str | None = None
            for number in range(first, min(first + CUTS_PER_PROJECT, CUTS)):
                line = eventually(partial(_another_line, folder, line))  # the server has seen the cut
                _write_once(CoderUser(person, project_id, model, f"{mark}n{number}x"), folder, scissors, point)
                assert scissors.cuts == number + 1
        [state] = Path(folder.env["ARTEL_CONFIG_DIR"], "connectors").iterdir()
        lines = (state / "journal.jsonl").read_text().splitlines()
        entries = [json.loads(line) for line in lines if line.strip()]
        started = [entry["call_id"] for entry in entries if entry.get("is_started") and "result" not in entry]
        assert len(started) == len(set(started))


def _write_once(user: CoderUser, folder: Folder, scissors: Scissors, point: str) -> None:
    """Edit a file while the line is cut, and check that it was edited once."""
    text = "long " * 200
    path = folder.path / f"file{scissors.cuts}.txt"
    path.write_text("old")
    user.script(("tool_edit_file", {"path": path.name, "old": "old", "new": f"old {text}"}))
    scissors.arm(*POINTS[point])
    turn = user.ask(headers={"Prefer": "respond-async"})
    assert user.ended(turn["turn_id"], 60)["status"] == "completed"  # not stuck
    [heard] = user.heard()
    assert heard["success"], heard
    assert path.read_text() == f"old {text}", "not once"
