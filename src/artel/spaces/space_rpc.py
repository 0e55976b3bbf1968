"""Calls to worker spaces, in this process or in the one that runs them."""

from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, JsonValue

from artel.auth.principal import Principal
from artel.contract.process_calls import SpaceAnswer, SpaceError
from artel.db.engine import Database
from artel.db.lease import LeaseLost
from artel.db.tables import space_calls
from artel.errors import ArtelError, SpaceUnavailable
from artel.ids import uuid7
from artel.remote_calls import CallRepository, NewCall, NoAnswer, RemoteCalls
from artel.spaces import leases
from artel.spaces.leases import SpaceCall, SpaceElsewhere
from artel.spaces.operations import carry_out
from artel.spaces.spaces import Spaces

ANSWER_SECONDS = 10.0
SLOW_SECONDS = 45.0  # deregistering waits until the agent's tasks are drained
_SLOW = frozenset({"deregister", "remove", "clean_up", "reset"})

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class NewSpaceCall(NewCall):
    """A call to a worker space that another process runs."""

    operation: str
    agent_id: int | None


class SpaceCallRepository(CallRepository):
    """Calls to the worker spaces of one user."""

    table = space_calls


class SpaceRefused(ArtelError):
    """The process that runs the space responded with an error."""

    def __init__(self, error: SpaceError) -> None:
        super().__init__(error.detail, retry_after=error.retry_after)
        self.kind = error.kind
        self.code = error.code


class SpaceRpc:
    """Calls a worker space directly if this process runs it, else through the database."""

    def __init__(self, database: Database, spaces: Spaces | None) -> None:
        """Create the caller; `spaces` is None in a process that runs no spaces."""
        self._database = database
        self._spaces = spaces
        self._calls = RemoteCalls(database, SpaceCallRepository, SpaceAnswer)

    async def do(self, principal: Principal, project_id: int, operation: str, agent_id: int | None = None) -> None:
        """Call an operation of the project's worker space whose result nobody reads."""
        await self._call(principal, project_id, operation, agent_id)

    async def ask(
        self, principal: Principal, project_id: int, operation: str, result_type: type[M], agent_id: int | None = None
    ) -> M:
        """Call an operation of the project's worker space and return its result."""
        result = await self._call(principal, project_id, operation, agent_id)
        return result_type.model_validate(result)  # does not copy the result of a call in this process

    async def _call(
        self, principal: Principal, project_id: int, operation: str, agent_id: int | None
    ) -> BaseModel | dict[str, JsonValue] | None:
        if self._spaces is not None:
            try:
                return await carry_out(self._spaces, principal, project_id, operation, agent_id or 0)
            except SpaceElsewhere:
                pass
            except LeaseLost:
                self._spaces.drop(project_id)
        call = NewSpaceCall(uuid7(), project_id, operation, agent_id)
        try:
            answer = await self._calls.ask(principal, call, SLOW_SECONDS if operation in _SLOW else ANSWER_SECONDS)
        except NoAnswer:
            raise SpaceUnavailable(
                "No host answers for this project's worker space. Is one running? Try again in a moment.", retry_after=5
            ) from None
        if answer.error is not None:
            raise SpaceRefused(answer.error)
        return answer.result

    async def answer_others(self, host_id: str) -> None:
        """Run the calls of other processes to the spaces of this one."""
        calls = await self._database.read(leases.find_calls, host_id)
        await self._calls.serve({call.id: call for call in calls}, self._answer)

    async def close(self) -> None:
        """Stop taking calls of other processes."""
        await self._calls.close()

    async def _answer(self, call: SpaceCall) -> None:
        principal = Principal(call.user_id)
        try:
            assert self._spaces is not None  # noqa: S101 - only hosts answer
            result = await carry_out(self._spaces, principal, call.project_id, call.operation, call.agent_id or 0)
            answer = SpaceAnswer(result=result.model_dump(mode="json"))
        except (SpaceElsewhere, LeaseLost):
            return  # another process responds
        except ArtelError as failure:
            error = SpaceError(
                kind=failure.kind, code=failure.code, detail=failure.detail, retry_after=failure.retry_after
            )
            answer = SpaceAnswer(error=error)
        await self._calls.answer(principal, call.id, answer)
