"""Hints between processes that share a PostgreSQL database, by LISTEN and NOTIFY, where there is no RabbitMQ.

They are sent after the commit on a connection of their own, many at once: a transaction with NOTIFY would hold a lock
of the whole database during its commit, so that no two could commit at the same time.
"""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import AsyncConnection

from artel.bus.bus import Hint, HintCallback
from artel.bus.hints import HintDispatcher, PendingHints
from artel.db.engine import CONNECT_OPTIONS
from artel.logs import get_logger
from artel.retry import Backoff

CHANNEL = "artel_hints"
LISTEN = "LISTEN artel_hints"
APPLICATION = "artel hints"  # the name of the connections that listen
PART_BYTES = 7_900  # PostgreSQL limits a payload to 8,000 bytes, and parts are numbered
MAX_PARTS = 10  # of a hint; longer ones are not sent
COUNT_SECONDS = 10.0
BACKOFF = Backoff(0.1, 5.0)
MISSED = Hint("missed", "postgres ")  # in the form of `Signals`: a process that sent it, and no ids
_SEND = "SELECT pg_notify(%s, part) FROM unnest(%s::text[]) AS part"
_COUNT = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND datname = current_database()"

log = get_logger(__name__)


class PostgresHints:
    """The hints of one process. They may be lost: after a reconnection a hint `missed` says that some may have been."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._dispatcher = HintDispatcher()
        self._pending = PendingHints()
        self._is_pending = asyncio.Event()
        self._has_others = False
        self._is_listening = True  # until it fails
        self._sent = 0
        self._sender = 0  # what PostgreSQL calls the connection that sends
        self._parts: dict[int, list[str]] = {}  # of a hint that is being received, by sender
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def connected(self) -> bool:
        """Whether hints of other processes are received, as far as this process knows."""
        return self._is_listening

    def start(self) -> None:
        """Connect, and reconnect whenever the connection is lost."""
        loop = asyncio.get_running_loop()
        for name, run in (("hints-listen", self._listen), ("hints-send", self._send)):
            self._tasks.append(loop.create_task(self._run_again(name, run), name=name))

    def on_hint(self, callback: HintCallback) -> Callable[[], None]:
        """Add a callback for the hints of all processes; return a function that removes it."""
        return self._dispatcher.on_hint(callback)

    def send_hint(self, hint: Hint) -> None:
        """Send a hint to the other processes, if there are any."""
        if self._has_others:
            self._pending.add(hint)
            self._is_pending.set()

    async def close(self) -> None:
        """Close the connections; hints that were not sent are dropped."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._dispatcher.clear()

    async def _run_again(self, name: str, run: Callable[[], Any]) -> None:
        attempt = 0
        while True:
            loop = asyncio.get_running_loop()
            started = loop.time()
            try:
                await run()
            except (psycopg.Error, OSError) as failure:
                log.info("hints_disconnected", task=name, reason=str(failure).strip())
            except Exception:
                log.exception("hints_failed", task=name)
            finally:
                self._is_listening = self._is_listening and name != "hints-listen"
            attempt = 0 if loop.time() - started > BACKOFF.longest else attempt + 1
            await asyncio.sleep(BACKOFF.seconds(attempt))

    async def _listen(self) -> None:
        async with await self._connect(APPLICATION) as connection:
            await connection.execute(LISTEN)
            self._parts.clear()
            await self._count_others(connection)
            await connection.execute(_SEND, (CHANNEL, ["hello"]))  # the others count again
            self._is_listening = True
            self._dispatcher.dispatch(MISSED)
            async for notice in connection.notifies():
                if notice.pid not in (connection.info.backend_pid, self._sender):
                    self._receive(notice.pid, notice.payload)

    def _receive(self, sender: int, payload: str) -> None:
        if payload == "hello":
            self._has_others = True
            return
        position, mark, text = payload.partition(":")
        parts = self._parts.setdefault(sender, [])
        parts.append(text)
        if mark and position.endswith("+") and len(parts) < MAX_PARTS:
            return
        del self._parts[sender]
        try:
            kind, key = json.loads("".join(parts))
            self._dispatcher.dispatch(Hint(str(kind), str(key)))
        except ValueError as failure:  # perhaps sent by another version, or its beginning was missed
            log.info("hint_not_understood", problem=str(failure))

    async def _send(self) -> None:
        async with await self._connect("artel hints sender") as connection:
            self._sender = connection.info.backend_pid
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(COUNT_SECONDS):
                        await self._is_pending.wait()
                self._is_pending.clear()
                if parts := [part for hint in self._pending.take() for part in self._parts_of(hint)]:
                    await connection.execute(_SEND, (CHANNEL, parts))
                else:
                    await self._count_others(connection)

    def _parts_of(self, hint: Hint) -> list[str]:
        """Return the payloads of a hint. Each is numbered, because equal ones are delivered once."""
        text = json.dumps([hint.kind, hint.key], ensure_ascii=False, separators=(",", ":"))
        step = PART_BYTES if text.isascii() else PART_BYTES // 4  # characters, of at most four bytes
        texts = [text[start : start + step] for start in range(0, len(text), step)]
        if len(texts) > MAX_PARTS:
            return []
        parts = []
        for number, part in enumerate(texts, 1):
            self._sent += 1
            parts.append(f"{self._sent}{'+' if number < len(texts) else '.'}:{part}")
        return parts

    async def _count_others(self, connection: "AsyncConnection[Any]") -> None:
        row = await (await connection.execute(_COUNT, (APPLICATION,))).fetchone()
        self._has_others = row is not None and row[0] > 1

    async def _connect(self, name: str) -> "AsyncConnection[Any]":
        return await AsyncConnection.connect(self._url, autocommit=True, application_name=name, **CONNECT_OPTIONS)
