"""Hints between processes that share a PostgreSQL database, by LISTEN and NOTIFY, where there is no RabbitMQ.

They are sent after the commit on a connection of their own, many at once: a transaction with NOTIFY would hold a lock
of the whole database during its commit, so that no two could commit at the same time. They are encrypted, because
every role that may connect to the database can listen to them, and send some.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import AsyncConnection

from artel.bus.bus import Hint, HintCallback
from artel.bus.hints import HintDispatcher, PendingHints
from artel.db.engine import CONNECT_OPTIONS
from artel.events.hint_cipher import HintCipher, NotAuthentic
from artel.logs import get_logger
from artel.retry import Backoff

CHANNEL = "artel_hints"
LISTEN = "LISTEN artel_hints"
APPLICATION = "artel hints"  # the name of the connections that listen
HELLO = "hello"  # sent when a process begins to listen; a forged one only makes the others send hints
PART_BYTES = 5_850  # PostgreSQL limits a payload to 8,000 bytes; this is without the encryption and Base64
MAX_PARTS = 10  # of a hint; longer ones are not sent
MAX_KEY_BYTES = MAX_PARTS * PART_BYTES - 500  # the kind is added
COUNT_SECONDS = 10.0
BACKOFF = Backoff(0.1, 5.0)
MISSED = Hint("missed", "postgres ")  # in the form of `Signals`: a process that sent it, and no ids
_SEND = "SELECT pg_notify(%s, part) FROM unnest(%s::text[]) AS part"
_COUNT = (
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND datname = current_database() AND pid <> %s"
)
_OWN_NUMBER = "SELECT pg_backend_pid()"  # a pooler tells clients another

log = get_logger(__name__)


class PostgresHints:
    """The hints of one process. They may be lost: after a reconnection a hint `missed` says that some may have been."""

    max_hint_bytes = MAX_KEY_BYTES

    def __init__(self, url: str, secret: str) -> None:
        """Store the address of the database, and the secret that all processes share."""
        self._url = url
        self._cipher = HintCipher(secret)
        self._dispatcher = HintDispatcher()
        self._pending = PendingHints()
        self._is_pending = asyncio.Event()
        self._has_others = False
        self._is_listening = True  # until it fails
        self._listener = 0  # what PostgreSQL calls the connection that listens
        self._sender = 0  # and the one that sends
        self._parts: dict[int, list[bytes]] = {}  # of a hint that is being received, by sender
        self._refused = 0
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
            self._listener = await _own_number(connection)
            await connection.execute(LISTEN)
            self._parts.clear()
            await self._count_others(connection)
            await connection.execute(_SEND, (CHANNEL, [HELLO]))  # the others count again
            self._is_listening = True
            self._dispatcher.dispatch(MISSED)
            async for notice in connection.notifies():
                if notice.pid not in (self._listener, self._sender):
                    self._receive(notice.pid, notice.payload)

    def _receive(self, sender: int, payload: str) -> None:
        if payload == HELLO:
            self._has_others = True
            return
        try:
            part = self._cipher.decrypt(payload, sender)
        except NotAuthentic:
            if not self._refused:
                advice = "Is ARTEL_JWT_SECRET the same for all processes? If so, another role of the database sent it."
                log.warning("hint_refused", problem=f"It was not encrypted with this server's secret. {advice}")
            self._refused += 1
            return
        position, count = part[:2]
        if position == 0:
            self._parts[sender] = []
        parts = self._parts.setdefault(sender, [])
        parts.append(part[2:])
        if position == count - 1:
            del self._parts[sender]
            if len(parts) == count:  # else this process began to listen in the middle
                kind, _, key = b"".join(parts).decode(errors="surrogatepass").partition(" ")
                self._dispatcher.dispatch(Hint(kind, key))

    async def _send(self) -> None:
        async with await self._connect("artel hints sender") as connection:
            self._sender = await _own_number(connection)
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
        """Return the payloads of a hint: parts that begin with their position and number, encrypted."""
        data = f"{hint.kind} {hint.key}".encode(errors="surrogatepass")
        parts = [data[start : start + PART_BYTES] for start in range(0, len(data), PART_BYTES)]
        if len(parts) > MAX_PARTS:
            log.debug("hint_too_long", kind=hint.kind)
            return []
        headers = (bytes((position, len(parts))) for position in range(len(parts)))
        return [self._cipher.encrypt(header + part, self._sender) for header, part in zip(headers, parts, strict=True)]

    async def _count_others(self, connection: "AsyncConnection[Any]") -> None:
        row = await (await connection.execute(_COUNT, (APPLICATION, self._listener))).fetchone()
        self._has_others = row is not None and row[0] > 0

    async def _connect(self, name: str) -> "AsyncConnection[Any]":
        return await AsyncConnection.connect(self._url, autocommit=True, application_name=name, **CONNECT_OPTIONS)


async def _own_number(connection: "AsyncConnection[Any]") -> int:
    """Return what PostgreSQL calls a connection, also in its notifications."""
    row = await (await connection.execute(_OWN_NUMBER)).fetchone()
    number: int = row[0] if row else 0
    return number
