"""Runs the turns of the worker spaces of this process: one at a time per session, sessions in parallel."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from sqlalchemy import Connection

from artel.auth.principal import Principal
from artel.db.lease import LeaseLost
from artel.db.tx import Lease
from artel.errors import ArtelError, DatabaseUnavailable, ProjectNotFound, SessionNotFound
from artel.logs import get_logger, log_context
from artel.poller import Poller
from artel.runs.direct_turn import DirectTurn
from artel.runs.node_recovery import requeue_on_nodes
from artel.sessions.message_repository import MessageRepository
from artel.spaces import leases
from artel.spaces.leases import SpaceElsewhere, TurnIds
from artel.spaces.operations import audited_reset, reset_space
from artel.spaces.periodic_checks import check_approvals, check_space
from artel.spaces.services import SpaceServices
from artel.spaces.space_rpc import SpaceRpc
from artel.spaces.spaces import Spaces
from artel.spaces.worker_space import SpaceClosed, WorkerSpace
from artel.turns.drafts import save_drafts
from artel.turns.end import TurnOutcome, end_turn
from artel.turns.repository import TurnRepository
from artel.turns.transactions import QueuedTurn, TurnOver
from artel.turns.turn import Turn, TurnStatus
from artel.turns.waiters import Ended, get_turn, read_turn

ENDED_SECONDS = 2.0  # how long a turn that was ended elsewhere goes on here, if no hint arrives
PULSE_SECONDS = 1.0
STOP_SECONDS = 5.0
CANCEL_SECONDS = 3.0
MAX_LANES = 10_000
CRASHED = "Something went wrong on the server. The log has it by turn_id."
INTERRUPTED = "The server restarted; the answer was cut off."
DRAFT_SECONDS = 0.25
MAX_DRAFTS = 200  # stored in one transaction

log = get_logger(__name__)


@dataclass(slots=True)
class _Lane:
    """The queue of one session's turns in this process; `look` is set if the database may have more."""

    jobs: deque[QueuedTurn] = field(default_factory=deque)
    look: bool = False
    task: asyncio.Task[None] | None = None
    running: str | None = None
    work: asyncio.Task[Ended | None] | None = None


# Runs a turn that no agent was named for; returns None if it did not end here.
RunPlan = Callable[[WorkerSpace, Turn], Awaitable[Ended | None]]


class Host:
    """Runs the turns of the sessions of its worker spaces, and ensures that each one ends."""

    def __init__(self, services: SpaceServices, spaces: Spaces, run_plan: RunPlan, host_id: str | None) -> None:
        self._services = services
        self._spaces = spaces
        self._run_plan = run_plan
        self._host_id = host_id
        self._lanes: dict[str, _Lane] = {}
        self._lease_seconds = services.settings.host_lease_seconds
        self._pulse = Poller("host", self._run_periodic_work, PULSE_SECONDS, "pulse_failed", "pulse_crashed")
        self._drafting = Poller("drafts", partial(self._save_drafts, DRAFT_SECONDS), DRAFT_SECONDS, "drafts_not_saved")
        self._renewing = Poller(
            "host-lease", self._renew, min(PULSE_SECONDS, self._lease_seconds / 4), "lease_not_renewed"
        )
        self._stopping: asyncio.Task[None] | None = None
        self._closing = False
        self._renewed = time.monotonic()
        self._ended_since: dict[str, float] = {}  # turns that run here and were ended elsewhere, or end right now
        self._rpc: SpaceRpc | None = None
        spaces.recover = self._recover

    @property
    def busy(self) -> bool:
        return any(lane.running for lane in self._lanes.values())

    async def start(self, rpc: SpaceRpc) -> None:
        """Fail the turns that a crash left running, and start the background tasks."""
        self._rpc = rpc
        if self._host_id is None:
            left = await self._services.database.read(leases.running_turns)
            await _fail_interrupted(self._services, left, None)
        else:
            await self._renew()
            self._renewing.start()
        self._pulse.start()
        self._drafting.start()

    def take(self, job: QueuedTurn) -> None:
        if lane := self._lane(job.turn.session_id):
            lane.jobs.append(job)

    def runs_here(self, project_id: int) -> bool:
        """Return whether this process runs the project's turns."""
        return self._host_id is None or self._spaces.peek(project_id) is not None

    # Signals from this process and others

    def work(self, project_id: int) -> None:  # noqa: ARG002 - checks all projects
        """Check for queued turns now."""
        self._pulse.wake()

    def signals_missed(self) -> None:
        """Check for whatever other processes may have signalled."""
        self._pulse.wake()

    def cancelled(self, turn_id: str) -> None:
        """Cancel or dequeue a turn that was ended elsewhere."""
        for lane in self._lanes.values():
            if lane.running == turn_id and lane.work is not None:
                lane.work.cancel()
            for job in [job for job in lane.jobs if job.turn.id == turn_id]:
                lane.jobs.remove(job)

    def text_changed(self, turn_id: str, text: str) -> None:
        """Use the new message of a turn that waits in a queue."""
        for lane in self._lanes.values():
            for index, job in enumerate(lane.jobs):
                if job.turn.id == turn_id:
                    lane.jobs[index] = replace(job, text=text)

    def agents_changed(self, project_id: int, agent_id: int) -> None:
        """Remove an agent that another process changed from the cache."""
        if space := self._spaces.peek(project_id):
            space.cache.forget(agent_id)

    def stop(self) -> "asyncio.Task[None]":
        """Start no more turns; fail those that run longer than STOP_SECONDS; queued turns stay in the database."""
        if self._stopping is None:
            self._closing = True
            self._stopping = asyncio.get_running_loop().create_task(self._stop())
        return self._stopping

    async def close(self) -> None:
        """Stop, close the worker spaces and release their leases."""
        await self.stop()
        await self._spaces.close()
        self._renewing.stop()
        if self._host_id is not None:
            try:
                await self._services.database.run(leases.remove_host, self._host_id)
            except DatabaseUnavailable as failure:  # the lease expires instead
                log.warning("host_not_removed", reason=failure.detail)

    async def _stop(self) -> None:
        self._pulse.stop()
        for space in self._spaces.all:
            space.accepts_tasks = False
        tasks = [lane.task for lane in self._lanes.values() if lane.task]
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_SECONDS)
        self._drafting.stop()
        await self._save_drafts(0.0)
        self._cancel_running()
        if tasks:
            await asyncio.wait(tasks, timeout=CANCEL_SECONDS)
        self._services.turn_waiters.stop_waiting()

    def _cancel_running(self) -> None:
        for lane in self._lanes.values():
            if lane.work is not None:
                lane.work.cancel()

    # Lanes

    def _lane(self, session_id: str) -> _Lane | None:
        if self._closing:
            return None
        lane = self._lanes.get(session_id)
        if lane is None:
            if len(self._lanes) >= MAX_LANES:
                return None  # it is in the database, and found when there is room
            lane = self._lanes[session_id] = _Lane()
            # A task of its own: log lines must not carry the ids of the request that came first.
            lane.task = asyncio.get_running_loop().create_task(self._drain(session_id, lane))
        return lane

    async def _drain(self, session_id: str, lane: _Lane) -> None:
        try:
            while not self._closing and (lane.jobs or lane.look):
                if lane.jobs:
                    await self._run(lane, lane.jobs.popleft())
                    continue
                lane.look = False
                job = await self._services.database.read(_next_turn, session_id)
                if job is not None and job.turn.status is not TurnStatus.WAITING:
                    lane.look = True  # there may be more after it
                    await self._run(lane, job)
        finally:
            del self._lanes[session_id]

    async def _run(self, lane: _Lane, job: QueuedTurn) -> None:
        turn = job.turn
        log_context.clear_contextvars()
        log_context.bind_contextvars(
            user_id=job.principal.user_id,
            project_id=turn.project_id,
            session_id=turn.session_id,
            turn_id=turn.id,
        )
        lane.running = turn.id
        lane.work = asyncio.get_running_loop().create_task(self._work(job))
        try:
            ended = await lane.work
            if ended is None:
                lane.look = True  # another process was first, or other turns come first
            else:
                log.info("turn_ended", mode=turn.mode, status=ended.status, duration_ms=ended.duration_ms)
        except asyncio.CancelledError:
            await self._was_cancelled(job)
        except Exception as failure:  # noqa: BLE001 - no error may stop the next turn
            await self._handle_failure(lane, job, failure)
        finally:
            lane.running = lane.work = None

    async def _work(self, job: QueuedTurn) -> Ended | None:
        """Run a turn with its agent or the orchestrator (UWS-24); return None if it did not end here."""
        turn = job.turn
        while True:
            space = await self._spaces.get(job.principal, turn.project_id)
            if self._closing:
                return None  # it stays queued
            if turn.status is TurnStatus.RUNNING:  # the database was unavailable when it ended
                await _fail_interrupted(self._services, [job.ids], space.lease)
                return None
            try:
                with space.handling_turn():
                    if turn.agent_id is None:
                        ended = await self._run_plan(space, turn)
                    else:
                        ended = await DirectTurn(space, turn, turn.agent_id, job.text).run()
            except SpaceClosed:
                continue
            if ended is not None:
                seconds = max(0, ended.duration_ms - ended.waited_ms) / 1000
                space.figures.ended(turn.mode, seconds)
                self._services.figures.ended(turn.mode, ended.status, seconds)
            return ended

    async def _was_cancelled(self, job: QueuedTurn) -> None:
        """Handle the cancellation of a turn, which was ended or deleted elsewhere, or is stopped with the server."""
        waiters = self._services.turn_waiters
        # Without a space the next owner of it ends the turn.
        if self._closing and (space := self._spaces.peek(job.turn.project_id)):
            await _fail_interrupted(self._services, [job.ids], space.lease, only_running=True)
        try:
            _, ended = await self._services.database.read(read_turn, job.principal, job.turn.session_id, job.turn.id)
            if ended is not None:
                waiters.tell(ended)
        except ArtelError as failure:
            waiters.give_up(job.turn.id, failure)
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            raise asyncio.CancelledError

    async def _handle_failure(self, lane: _Lane, job: QueuedTurn, failure: Exception) -> None:
        match failure:
            case LeaseLost() | SpaceElsewhere():
                self._spaces.drop(job.turn.project_id)
            case ProjectNotFound() | SessionNotFound():  # it was deleted meanwhile
                for gone in (job, *lane.jobs):
                    self._services.turn_waiters.give_up(gone.turn.id, failure)
            case DatabaseUnavailable():  # the pulse finds the turn when the database is back
                log.warning("turn_waits_for_the_database", reason=failure.detail)
            case _:
                log.error("turn_crashed", exc_info=failure)
                space = self._spaces.peek(job.turn.project_id)
                if space is not None or self._host_id is None:  # else the new owner of the space finds the turn
                    lease = space.lease if space else None
                    await _fail(self._services, job.ids, "internal_error", CRASHED, lease)
                return
        lane.jobs.clear()
        lane.look = False

    # Drafts of unfinished answers

    async def _save_drafts(self, age: float) -> None:
        """Store unfinished answers of at least this age, without blocking their runs."""
        drafts = self._services.hub.take_drafts(age)
        try:
            for start in range(0, len(drafts), MAX_DRAFTS):
                await self._services.database.run(save_drafts, drafts[start : start + MAX_DRAFTS])
        except ArtelError as failure:  # the next drafts contain this text too
            log.warning("drafts_not_saved", reason=failure.detail)
        except Exception:
            log.exception("drafts_not_saved")

    # The pulse

    async def _run_periodic_work(self) -> None:
        if self._host_id is not None and self._rpc is not None:
            await self._rpc.answer_others(self._host_id)
        await check_approvals(self._services)
        for session_id in await self._services.database.read(leases.find_work, self._host_id):
            if session_id not in self._lanes and (lane := self._lane(session_id)):
                lane.look = True
        await self._stop_ended()
        for space in self._spaces.all:
            await check_space(space)
            if space.take_repair():
                await self._repair(space)
        await self._end_idle_spaces()

    async def _end_idle_spaces(self) -> None:
        for space in self._spaces.all:
            if space.idle_seconds > self._services.settings.space_idle_seconds:
                queued = (job for lane in self._lanes.values() for job in lane.jobs)
                if not any(job.turn.project_id == space.project_id for job in queued):
                    log.info("space_idle", project_id=space.project_id)
                    await self._spaces.clean_up(space.project_id)

    async def _repair(self, space: WorkerSpace) -> None:
        """Reset a space whose agents all fail."""
        reset = partial(reset_space, space)
        try:
            await audited_reset(self._services.database, space.principal, space.project_id, "system", reset)
        except (ArtelError, LeaseLost) as failure:
            log.warning("space_not_reset", project_id=space.project_id, reason=str(failure))

    async def _stop_ended(self) -> None:
        running = {lane.running: lane for lane in self._lanes.values() if lane.running}
        unfinished = await self._services.database.read(leases.unfinished_of, running) if running else set()
        now = time.monotonic()
        self._ended_since = {turn_id: self._ended_since.get(turn_id, now) for turn_id in running.keys() - unfinished}
        # Not at once: a turn that ends right now does the rest itself, also on a busy machine.
        for turn_id, since in self._ended_since.items():
            lane = running[turn_id]
            if now - since >= ENDED_SECONDS and lane.running == turn_id and lane.work is not None:
                lane.work.cancel()

    async def _renew(self) -> None:
        """Renew the lease of this host; cancel all turns and drop the spaces if it may have expired."""
        started = time.monotonic()
        # Before renewing: this process may have been suspended.
        if started - self._renewed >= self._lease_seconds and self._spaces.all:
            log.error("host_cut_off", seconds=round(started - self._renewed))
            for space in self._spaces.all:
                space.is_cut_off = True
            self._cancel_running()
            for space in self._spaces.all:
                self._spaces.drop(space.project_id)
        await self._services.database.run(leases.renew_host, str(self._host_id), self._lease_seconds)
        self._renewed = started

    async def _recover(self, principal: Principal, lease: Lease) -> None:
        """Fail the turns that the last owner of a space left running."""
        left = await self._services.database.read(leases.running_turns, lease.project_id)
        await _fail_interrupted(self._services, left, lease)
        log.info("space_taken_over", user_id=principal.user_id, project_id=lease.project_id, epoch=lease.epoch)


async def _fail_interrupted(
    services: SpaceServices, left: Iterable[TurnIds], lease: Lease | None, *, only_running: bool = False
) -> None:
    """Fail interrupted turns that have not ended; idempotent. Those that nodes work for are queued again."""
    for ids in left:
        if await _requeue_on_nodes(services, ids, lease):
            log.info("turn_goes_on", user_id=ids[0], session_id=ids[1], turn_id=ids[2])
            continue
        if await _fail(services, ids, "interrupted", INTERRUPTED, lease, only_running=only_running):
            user_id, session_id, turn_id = ids
            log.info("turn_interrupted", user_id=user_id, session_id=session_id, turn_id=turn_id)


async def _requeue_on_nodes(services: SpaceServices, ids: TurnIds, lease: Lease | None) -> bool:
    """Queue an interrupted turn again if only nodes worked for it; return whether it is queued."""
    user_id, session_id, turn_id = ids
    with suppress(ArtelError, LeaseLost):
        database = services.database.of(Principal(user_id), lease)
        return await database.run(requeue_on_nodes, session_id, turn_id, services.settings.task_timeout_seconds)
    return False


async def _fail(
    services: SpaceServices, ids: TurnIds, code: str, text: str, lease: Lease | None, *, only_running: bool = False
) -> bool:
    """Fail a turn; return whether it was unfinished and this host may end it."""
    user_id, session_id, turn_id = ids
    with suppress(TurnOver, ArtelError, LeaseLost):
        turn = await services.database.read(get_turn, Principal(user_id), session_id, turn_id)
        if only_running and turn.status is not TurnStatus.RUNNING:
            return False
        partial_answer = services.hub.partial_answer(session_id, turn_id)
        outcome = TurnOutcome.failure(TurnStatus.FAILED, code, text, partial_answer)
        await services.database.of(Principal(user_id), lease).run(end_turn, turn, outcome)
        return True
    return False


def _next_turn(connection: Connection, session_id: str) -> QueuedTurn | None:
    user_id = leases.owner_of(connection, session_id)
    if user_id is None:
        return None
    principal = Principal(user_id)
    turn = TurnRepository(connection, principal).next(session_id)
    if turn is None:
        return None
    messages = MessageRepository(connection, principal)
    if turn.continues is not None:
        question = messages.question_before(session_id, messages.get(session_id, turn.continues))
    else:
        question = next(iter(messages.conversation(session_id, turn.number, 1)()), None)
    return QueuedTurn(principal, turn, question.content if question else "")
