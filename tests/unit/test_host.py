"""The host of worker spaces when its lease may be over."""

import asyncio
from contextlib import nullcontext
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from artel.auth.principal import Principal
from artel.errors import DatabaseUnavailable
from artel.runs.host import Host
from artel.turns.transactions import QueuedTurn
from artel.turns.turn import Mode, Turn, TurnStatus

pytestmark = pytest.mark.anyio


class OneSpace:
    """The worker spaces of a host: one."""

    def __init__(self) -> None:
        self.space: Any = SimpleNamespace(project_id=1, is_cut_off=False, handling_turn=nullcontext)
        self.all = (self.space,)
        self.dropped: list[int] = []

    async def get(self, *_: object) -> Any:
        return self.space

    def drop(self, project_id: int) -> None:
        self.dropped.append(project_id)


class NoDatabase:
    """A database that can't be reached."""

    async def run(self, *_: object) -> None:
        raise DatabaseUnavailable("The database can't be reached.")

    read = run


@pytest.mark.req("AGT-10.1")
async def test_turns_know_that_their_host_is_cut_off_before_they_are_cancelled() -> None:
    spaces, given_up = OneSpace(), asyncio.Event()
    started, seen = asyncio.Event(), list[bool]()

    async def run_plan(space: Any, _turn: Turn) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(space.is_cut_off)

    services: Any = SimpleNamespace(
        settings=SimpleNamespace(host_lease_seconds=0),
        database=NoDatabase(),
        turn_waiters=SimpleNamespace(give_up=lambda *_: given_up.set()),
    )
    some: Any = spaces
    host = Host(services, some, run_plan, "host")
    turn = Turn("turn", "session", 1, 1, Mode.ORCHESTRATED, None, TurnStatus.QUEUED, datetime.now(UTC))
    host.take(QueuedTurn(Principal(1), turn, "Hi"))
    await started.wait()

    with pytest.raises(DatabaseUnavailable):
        await host._renew()
    await given_up.wait()

    assert (seen, spaces.dropped) == ([True], [1])
