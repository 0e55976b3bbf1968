"""Calls to worker spaces, in this process or in the one that runs them."""

import asyncio
import time
from functools import partial
from typing import Any

from artel.auth.principal import Principal
from artel.db.engine import Database
from artel.db.lease import LeaseLost
from artel.errors import ArtelError, Kind, SpaceUnavailable
from artel.events.signals import Signals
from artel.ids import uuid7
from artel.logs import get_logger
from artel.spaces import leases
from artel.spaces import space_calls as calls
from artel.spaces.leases import SpaceElsewhere
from artel.spaces.operations import carry_out
from artel.spaces.services import SpaceServices
from artel.spaces.space_calls import SpaceCall
from artel.spaces.spaces import Spaces

ANSWER_SECONDS = 10.0
SLOW_SECONDS = 45.0  # deregistering waits until the agent's tasks are drained
LOOK_SECONDS = 0.1
FORGET_SECONDS = 60.0
_SLOW = frozenset({"deregister", "remove", "clean_up", "reset"})

Json = dict[str, Any]

log = get_logger(__name__)


class SpaceRefused(ArtelError):
    """The process that runs the space responded with an error."""

    def __init__(self, error: Json) -> None:
        super().__init__(error["detail"], retry_after=error.get("retry_after"))
        self.kind = Kind(error["kind"])
        self.code = error["code"]


class SpaceRpc:
    """Calls a worker space directly if this process runs it, else through the database."""

    def __init__(self, database: Database, signals: Signals, services: SpaceServices, spaces: Spaces | None) -> None:
        """Create the caller; `spaces` is None in a process that runs no spaces."""
        self._database = database
        self._signals = signals
        self._services = services
        self._spaces = spaces
        self._answering: set[str] = set()
        self._forgot = 0.0
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, principal: Principal, project_id: int, operation: str, agent_id: int | None = None) -> Json:
        """Call an operation of the project's worker space and return its result."""
        if self._spaces is not None:
            try:
                return await carry_out(self._spaces, self._services, principal, project_id, operation, agent_id)
            except SpaceElsewhere:
                pass
            except LeaseLost:
                self._spaces.drop(project_id)
        return await self._ask_others(principal, SpaceCall(uuid7(), principal.user_id, project_id, operation, agent_id))

    async def _ask_others(self, principal: Principal, call: SpaceCall) -> Json:
        seconds = SLOW_SECONDS if call.operation in _SLOW else ANSWER_SECONDS
        await self._database.run(calls.ask, principal, call, seconds)
        self._signals.work(call.project_id)
        try:
            async with asyncio.timeout(seconds):
                answer = None
                while answer is None:
                    await asyncio.sleep(LOOK_SECONDS)
                    answer = await self._database.read(calls.take_answer, principal, call.id)
        except TimeoutError:
            raise SpaceUnavailable(
                "No host answers for this project's worker space. Is one running? Try again in a moment.", retry_after=5
            ) from None
        finally:
            await self._database.run(calls.forget_call, principal, call.id)
        if "error" in answer:
            raise SpaceRefused(answer["error"])
        result: Json = answer["result"]
        return result

    async def answer_others(self, host_id: str) -> None:
        """Run the calls of other processes to the spaces of this one."""
        for call in await self._database.read(leases.find_calls, host_id):
            if call.id not in self._answering:
                self._answering.add(call.id)
                task = asyncio.get_running_loop().create_task(self._answer(call))
                self._tasks.add(task)
                task.add_done_callback(partial(self._answered, call.id))
        if time.monotonic() - self._forgot > FORGET_SECONDS:
            self._forgot = time.monotonic()
            await self._database.run(leases.forget_old_calls)

    async def close(self) -> None:
        """Stop taking calls of other processes."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _answered(self, call_id: str, task: asyncio.Task[None]) -> None:
        self._answering.discard(call_id)
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()):
            log.warning("call_not_answered", call_id=call_id, exc_info=failure)

    async def _answer(self, call: SpaceCall) -> None:
        principal = Principal(call.user_id)
        try:
            assert self._spaces is not None  # noqa: S101 - only hosts answer
            result = await carry_out(
                self._spaces, self._services, principal, call.project_id, call.operation, call.agent_id
            )
            answer: Json = {"result": result}
        except (SpaceElsewhere, LeaseLost):
            return  # another process responds
        except ArtelError as failure:
            told = {"kind": failure.kind, "code": failure.code, "detail": failure.detail}
            answer = {"error": told | {"retry_after": failure.retry_after}}
        await self._database.run(calls.answer_call, principal, call.id, answer)
