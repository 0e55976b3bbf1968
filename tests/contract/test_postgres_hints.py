"""Hints between processes by LISTEN and NOTIFY of a real PostgreSQL."""

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncIterator, Callable

import psycopg
import pytest
from structlog.testing import capture_logs

from artel.auth.principal import Principal
from artel.bus.bus import Hint
from artel.contract.events import StoredEvent
from artel.events.hint_cipher import HintCipher
from artel.events.hub import AnswerKey, EventHub
from artel.events.postgres_hints import APPLICATION, MAX_KEY_BYTES, MISSED, PostgresHints
from artel.events.signals import Signals
from tests.services import until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.req("OPS-01.3"),
    pytest.mark.parametrize("backend", ["postgres"], indirect=True, scope="session"),
]

WAIT_SECONDS = 60
SECRET = "a secret that all processes share"


async def no_events(*_: object) -> list[StoredEvent]:
    return []


class Process:
    """A process with hints, and what it received."""

    def __init__(self, url: str, secret: str = SECRET) -> None:
        self.hints = PostgresHints(url, secret)
        self.received: list[Hint] = []
        self._arrived = asyncio.Event()
        self.hints.on_hint(self._receive)
        self.hints.start()

    def _receive(self, hint: Hint) -> None:
        self.received.append(hint)
        self._arrived.set()

    async def wait_for(self, hint: Hint, count: int = 1) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while self.received.count(hint) < count:
                self._arrived.clear()
                await self._arrived.wait()


@pytest.fixture(scope="module")
def url(new_database: Callable[..., str]) -> str:
    return new_database()


@pytest.fixture
async def pair(url: str) -> AsyncIterator[tuple[Process, Process]]:
    first, second = Process(url), Process(url)
    for process in (first, second):
        await process.wait_for(MISSED)
    # A process learns of the others when they begin to listen.
    assert await asyncio.to_thread(until, lambda: first.hints._has_others and second.hints._has_others, WAIT_SECONDS)
    yield first, second
    for process in (first, second):
        await process.hints.close()


async def test_hints_reach_the_other_process_in_order_and_not_the_sender(pair: tuple[Process, Process]) -> None:
    first, second = pair
    sent = [Hint("session", f"origin {number}") for number in range(50)]

    for hint in sent:
        first.hints.send_hint(hint)
    await second.wait_for(sent[-1])

    assert second.received == [MISSED, *sent]
    assert first.received == [MISSED]


@pytest.mark.parametrize("text", ["x" * 50_000, "ж" * 15_000, "🙂" * 10_000], ids=["ascii", "cyrillic", "emoji"])
async def test_long_hint_arrives_whole_and_a_longer_one_not_at_all(pair: tuple[Process, Process], text: str) -> None:
    first, second = pair
    long, last = Hint("written", text), Hint("work", "origin 1")

    first.hints.send_hint(Hint("written", text * 10))
    first.hints.send_hint(long)
    first.hints.send_hint(Hint("written", f"{text[:-1]}y"))  # its first parts are equal
    first.hints.send_hint(last)
    await second.wait_for(last)

    assert second.received == [MISSED, long, Hint("written", f"{text[:-1]}y"), last]


@pytest.mark.parametrize("character", ["x", "ж", "🙂", "\n", "\ud83d"])
async def test_answer_of_any_script_is_seen_in_the_other_process_until_it_is_too_long(
    pair: tuple[Process, Process], character: str
) -> None:
    first, second = pair
    signals = Signals(EventHub(no_events), EventHub(no_events), first.hints)
    text = character * (
        MAX_KEY_BYTES // len(json.dumps(character, ensure_ascii=False)[1:-1].encode(errors="surrogatepass"))
    )
    key, last = AnswerKey(Principal(1), "session", "message", None, "turn"), Hint("work", "origin 1")
    too_long = AnswerKey(Principal(1), "session", "other message", None, "turn")

    with capture_logs() as logs:
        signals.write_answer(too_long, text)
        signals.write_answer(key, text[:-300])
    first.hints.send_hint(last)
    await second.wait_for(last)

    assert [log["event"] for log in logs] == ["hint_too_long"]
    [_, written, _] = second.received
    assert json.loads(written.key.partition(" ")[2]) == [1, "session", "message", None, 1, text[:-300], "turn"]


async def test_other_roles_of_the_database_can_neither_read_hints_nor_send_any(
    pair: tuple[Process, Process], url: str
) -> None:
    first, second = pair
    written, last = Hint("written", "origin the secret answer"), Hint("work", "origin 1")
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("DROP ROLE IF EXISTS stranger")
        admin.execute("CREATE ROLE stranger LOGIN")
    stranger = psycopg.connect(url, autocommit=True, user="stranger")
    stranger.execute("LISTEN artel_hints")

    first.hints.send_hint(written)
    await second.wait_for(written)
    [heard] = [notice.payload for notice in stranger.notifies(timeout=WAIT_SECONDS, stop_after=1)]
    assert b"secret" not in b64decode(heard)

    with capture_logs() as logs:
        sealed_by_another = HintCipher("another secret").encrypt(b"\0\1settings ", stranger.info.backend_pid)
        for payload in (heard, sealed_by_another, '1.:["settings","origin "]', "", "ж", "AAAA"):
            stranger.execute("SELECT pg_notify('artel_hints', %s)", (payload,))
        stranger.close()
        first.hints.send_hint(last)
        await second.wait_for(last)
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("DROP ROLE stranger")

    assert second.received == [MISSED, written, last]
    assert [log["event"] for log in logs if log["event"] == "hint_refused"] == ["hint_refused"] * 2  # once per process


async def test_process_whose_listener_is_lost_sends_to_the_others(pair: tuple[Process, Process], url: str) -> None:
    first, second = pair
    listener = next(task for task in first.hints._tasks if task.get_name() == "hints-listen")
    listener.cancel()
    await asyncio.gather(listener, return_exceptions=True)

    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:

        def is_gone() -> bool:
            with psycopg.connect(url) as admin:
                found = admin.execute("SELECT FROM pg_stat_activity WHERE pid = %s", (first.hints._listener,))
                return found.fetchone() is None

        assert await asyncio.to_thread(until, is_gone, WAIT_SECONDS)
        await first.hints._count_others(connection)
    hint = Hint("work", "origin 1")
    first.hints.send_hint(hint)
    await second.wait_for(hint)


async def test_lost_connection_is_replaced_and_what_was_missed_is_looked_for(
    pair: tuple[Process, Process], url: str
) -> None:
    first, second = pair
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name LIKE %s AND datname = current_database()",
            (f"{APPLICATION}%",),
        )

    await second.wait_for(MISSED, 2)
    await first.wait_for(MISSED, 2)
    hint = Hint("work", "origin 2")

    async def is_received() -> None:
        while hint not in second.received:  # the sender may not have noticed yet that its connection is lost
            first.hints.send_hint(hint)
            await asyncio.sleep(0.05)

    await asyncio.wait_for(is_received(), WAIT_SECONDS)


async def test_single_process_sends_nothing(url: str) -> None:
    alone = Process(url)
    await alone.wait_for(MISSED)

    alone.hints.send_hint(Hint("work", "origin 3"))

    assert alone.hints._pending.take() == []
    await alone.hints.close()
