"""Remote calls between server processes: the caller stores a call as a row, and polls it for the callee's answer."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Table, delete, func

from artel.auth.principal import Principal
from artel.contract.process_calls import StoredAnswer
from artel.db.engine import Database
from artel.db.hints import CallWaiting
from artel.db.tenant import TenantRepository
from artel.db.tx import Tx
from artel.errors import ArtelError
from artel.logs import get_logger
from artel.projects.repository import ProjectRepository

POLL_SECONDS = 0.05
POLLS_PER_CHECK = 20
CLEANUP_SECONDS = 60.0
TAKEN = "sent"  # stored as the answer while a call was taken and is not answered yet

log = get_logger(__name__)

A = TypeVar("A", bound=StoredAnswer)
C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class NewCall:
    """A call to be stored; a subclass has the other columns of its table."""

    id: str
    project_id: int


class NoAnswer(Exception):
    """A call was not answered in time, or its callee is gone."""

    def __init__(self, *, is_late: bool, was_taken: bool) -> None:
        super().__init__("the call was not answered")
        self.is_late = is_late
        self.was_taken = was_taken  # if not, it was withdrawn: nothing was or will be done


class CallRepository(TenantRepository):
    """Calls of one user; a subclass names the table, which has at least id, project_id, answer and expires_at."""

    def add(self, call: NewCall, seconds: float) -> None:
        """Store a call; raise ProjectNotFound if there is no such project."""
        ProjectRepository(self.connection, self.tenant).get(call.project_id)
        self._insert_one({**asdict(call), "expires_at": database_time(self.connection) + timedelta(seconds=seconds)})

    def take(self, call_id: str) -> bool:
        """Mark a call as taken; return whether it was there and nobody had taken it."""
        return self._change({"answer": {TAKEN: True}}, self.table.c.id == call_id, self.table.c.answer.is_(None))

    def answer(self, call_id: str, answer: StoredAnswer) -> bool:
        """Store the answer; return whether the caller still waits."""
        return self._change({"answer": answer.dump()}, self.table.c.id == call_id)

    def find_answer(self, call_id: str, answer_type: type[A]) -> A | None:
        """Return the answer, or None if there is none yet."""
        statement = self._select(self.table.c.answer).where(self.table.c.id == call_id)
        answer = self.connection.execute(statement).scalar_one_or_none()
        return None if answer is None or TAKEN in answer else answer_type.model_validate(answer)

    def withdraw(self, call_id: str) -> bool:
        """Delete a call that nobody has taken; return whether there was one."""
        return self._remove(self.table.c.id == call_id, self.table.c.answer.is_(None))

    def remove(self, call_id: str) -> None:
        """Delete a call."""
        self._remove(self.table.c.id == call_id)


class RemoteCalls(Generic[A]):
    """Both sides of the calls in one table: asks other processes, and serves what they ask this one."""

    def __init__(self, database: Database, repository: type[CallRepository], answer_type: type[A]) -> None:
        self._database = database
        self._repository = repository
        self._answer_type = answer_type
        self._serving: dict[str, asyncio.Task[None]] = {}
        self._cleaned_up_at = 0.0

    async def send(self, principal: Principal, call: NewCall, seconds: float) -> None:
        """Store a call whose caller does not wait; it expires after `seconds`."""

        def store(tx: Tx) -> None:
            self._repository(tx).add(call, seconds)
            tx.after_commit(CallWaiting(call.project_id))

        await self._database.of(principal).run(store)

    async def ask(
        self,
        principal: Principal,
        call: NewCall,
        seconds: float,
        is_reachable: Callable[[], Awaitable[bool]] | None = None,
    ) -> A:
        """Store a call and return its answer; raise NoAnswer after `seconds`, or if the callee is not reachable."""
        was_taken, is_late = True, False
        await self.send(principal, call, seconds)
        try:
            try:
                async with asyncio.timeout(seconds):
                    answer = await self._poll(principal, call.id, is_reachable)
                if answer is not None:
                    return answer
            except TimeoutError:
                is_late = True
            with suppress(ArtelError):  # then it may have been taken
                was_taken = not await self._database.of(principal).run(
                    lambda tx: self._repository(tx).withdraw(call.id)
                )
            raise NoAnswer(is_late=is_late, was_taken=was_taken)
        finally:
            with suppress(ArtelError):  # the cleanup deletes it later
                await asyncio.shield(self.delete(principal, call.id))

    async def take(self, principal: Principal, call_id: str) -> bool:
        """Mark a call as taken; return whether it was there and nobody had taken it."""
        return await self._database.of(principal).run(lambda tx: self._repository(tx).take(call_id))

    async def answer(self, principal: Principal, call_id: str, answer: A) -> bool:
        """Store the answer to a call; return whether its caller still waits."""
        return await self._database.of(principal).run(lambda tx: self._repository(tx).answer(call_id, answer))

    async def delete(self, principal: Principal, call_id: str) -> None:
        """Delete a call."""
        await self._database.of(principal).run(lambda tx: self._repository(tx).remove(call_id))

    async def serve(self, calls: Mapping[str, C], run: Callable[[C], Coroutine[Any, Any, None]]) -> None:
        """Run each call in a task, unless it runs already; once a minute delete calls whose callers have gone."""

        def served(call_id: str, task: asyncio.Task[None]) -> None:
            self._serving.pop(call_id, None)
            if not task.cancelled() and (failure := task.exception()):
                log.warning("call_not_answered", call_id=call_id, exc_info=failure)

        for call_id, call in calls.items():
            if call_id not in self._serving:
                task = self._serving[call_id] = asyncio.create_task(run(call))
                task.add_done_callback(partial(served, call_id))
        if time.monotonic() - self._cleaned_up_at > CLEANUP_SECONDS:
            self._cleaned_up_at = time.monotonic()
            await self._database.run(_delete_old, self._repository.table)

    async def close(self) -> None:
        """Cancel the calls that run."""
        tasks = [*self._serving.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _poll(
        self, principal: Principal, call_id: str, is_reachable: Callable[[], Awaitable[bool]] | None
    ) -> A | None:
        """Poll for the answer; return None if the callee is no longer reachable."""
        for poll in itertools.count(1):
            await asyncio.sleep(POLL_SECONDS)
            answer = await self._database.read(
                lambda connection: self._repository(connection, principal).find_answer(call_id, self._answer_type)
            )
            if answer is not None:
                return answer
            if is_reachable is not None and poll % POLLS_PER_CHECK == 0 and not await is_reachable():
                return None
        raise AssertionError("unreachable")


def database_time(connection: Connection) -> Any:
    """Return the time that all processes share: PostgreSQL's, or with SQLite that of the only machine."""
    return datetime.now(UTC) if connection.dialect.name == "sqlite" else func.now()


def _delete_old(connection: Connection, table: Table) -> None:
    """Delete calls that expired more than a minute ago."""
    connection.execute(delete(table).where(table.c.expires_at < database_time(connection) - timedelta(minutes=1)))
