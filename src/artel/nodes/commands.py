"""What a node does with a command: each is carried out once, and every sender of it gets the one answer."""

import asyncio
import math
import sqlite3
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NoReturn

from pydantic import BaseModel, ConfigDict, ValidationError

from artel import kill_points
from artel.bus.bus import DEFAULT_TTL_SECONDS, Bus, Delivery, InvalidKey, MessageRefused, Requeue
from artel.bus.topology import any_key, command_key, word
from artel.contract.envelope import (
    NOTHING_USED,
    Command,
    Envelope,
    Error,
    ErrorInfo,
    InvalidMessage,
    Metrics,
    Result,
    RetryPolicy,
)
from artel.contract.node_messages import MAX_GIVEN_UP
from artel.errors import ArtelError
from artel.ids import uuid7
from artel.logs import get_logger, log_context
from artel.nodes.cost import CommandBudget
from artel.nodes.errors import error_info
from artel.nodes.idempotency import AnswerStore
from artel.nodes.task import CommandTask, TaskRequest, TaskServices
from artel.nodes.task_scope import TaskScope
from artel.text import shorten

MAX_STOPPED = 2 * MAX_GIVEN_UP
NEVER_AGAIN = datetime.max.replace(tzinfo=UTC)
CLOCK_SKEW_SECONDS = 120.0  # that clocks may differ by if the broker drops what is late
GIVE_BACK_SECONDS = 1.0  # for the other node to get free, because a message is delivered only a few times
MILLISECONDS = 1_000

log = get_logger(__name__)


class Answer(BaseModel, defer_build=True):
    """The answer to a command; it has the same message id however often it is sent."""

    model_config = ConfigDict(frozen=True)

    id: str
    data: Result | Error


@dataclass(slots=True, eq=False)
class Execution:
    """A command that is being carried out, maybe for several senders."""

    scope: TaskScope
    began: float = field(default_factory=time.monotonic)
    task: asyncio.Task[Answer] = field(init=False)
    is_stopped: bool = False
    left_behind: TaskScope | None = None  # whose work folder is to be removed


class CommandHandler:
    """Handles the deliveries of a node's command queues."""

    def __init__(self, bus: Bus, services: TaskServices, store: AnswerStore) -> None:
        self._bus = bus
        self._services = services
        self._status = services.status
        self._store = store
        self._running: dict[tuple[str, str], Execution] = {}  # by tenant and idempotency key
        self._cleaning: set[asyncio.Task[None]] = set()
        self._stopped: OrderedDict[str, datetime] = OrderedDict()  # when the signals to stop tasks were written

    async def handle(self, delivery: Delivery) -> None:
        """Carry out a command, or find its answer, and reply; the delivery is acknowledged afterwards."""
        envelope, command = delivery.envelope, delivery.envelope.data
        if not isinstance(command, Command):
            raise MessageRefused(f"This queue takes commands (ai.team.command), and no {envelope.type}.")
        task_id = envelope.subject or envelope.id
        name = self._services.file().name
        with log_context.bound_contextvars(node=name, task_id=task_id, action=command.action, message_id=envelope.id):
            if command.target_node not in (None, name):
                await self._leave_to(command.target_node, delivery, command)
                return
            await self._services.fence.wait()
            if (seconds := _seconds_left(delivery, command)) <= 0:
                await self._drop(delivery, -seconds)
                return
            kill_points.reached("node.received")
            execution = self._execution(delivery, command, TaskScope.of(task_id, command.context))
            try:
                # Shielded, because another sender may wait for it too.
                answer = await asyncio.shield(execution.task)
                await self._services.fence.wait()
                await self._reply(delivery, answer, task_id)
                kill_points.reached("node.replied")
            finally:
                self._clean_up(execution)

    async def _drop(self, delivery: Delivery, late: float) -> None:
        """Refuse a command that came too late."""
        log.warning("command_expired", late_seconds=round(late, 1))
        await self._reply(delivery, _expired(late), delivery.envelope.subject or delivery.envelope.id)

    async def _leave_to(self, target: str, delivery: Delivery, command: Command) -> None:
        """Let the node that a command is meant for have it, if it does not get it anyway.

        A command to all of the type reaches every node, one in this node's own queue is lost on purpose. Of the shared
        queue only one node takes each command: it forwards those that are meant for another.
        """
        file = self._services.file()
        if delivery.key == any_key(file.type):
            await self._forward(target, delivery, command)
        elif _is_same_address(target, file.name):
            await self._give_back(command)
        else:
            log.info("command_for_another_node", target_node=target)

    async def _forward(self, target: str, delivery: Delivery, command: Command) -> None:
        """Send a command on to the queue of another node, with what is left of its time."""
        seconds = _seconds_left(delivery, command)
        if seconds <= 0:
            await self._drop(delivery, -seconds)
            return
        try:
            routed = await self._bus.publish(
                command_key(target, command.action),
                delivery.envelope,
                ttl_seconds=seconds,
                reply_to=delivery.reply_to,
                correlation_id=delivery.correlation_id,
            )
        except InvalidKey as problem:
            raise MessageRefused(problem.detail) from problem
        if not routed:
            raise MessageRefused(
                f"There is no node {shorten(target, 100)!r}. Start it, or send the command without target_node.",
                "FAILED_PRECONDITION",
            )
        log.info("command_forwarded", target_node=target)

    async def _give_back(self, command: Command) -> NoReturn:
        """Leave a command to the other node that takes from this queue; without one it becomes a dead letter."""
        log.warning("command_of_a_node_with_the_same_address", target_node=command.target_node)
        await asyncio.sleep(GIVE_BACK_SECONDS)
        raise Requeue

    def stop_task(self, task_id: str, signalled_at: datetime = NEVER_AGAIN) -> int:
        """Cancel a task, also one whose command still waits; return how many were running.

        Commands that were written after the signal are not meant. Both times are of the sender's clock.
        """
        self._stopped.pop(task_id, None)
        self._stopped[task_id] = signalled_at
        if len(self._stopped) > MAX_STOPPED:
            self._stopped.popitem(last=False)
        found = [each for each in self._running.values() if each.scope.task_id == task_id and not each.is_stopped]
        for execution in found:
            execution.is_stopped = True
            execution.task.cancel()
        return len(found)

    async def abandon(self) -> None:
        """Cancel everything without an answer: the commands go back to their queue. Wait for what is cleaned up."""
        tasks = [execution.task for execution in self._running.values()]
        for task in tasks:
            task.cancel()
        if ending := {*tasks, *self._cleaning}:
            await asyncio.wait(ending)

    def _execution(self, delivery: Delivery, command: Command, scope: TaskScope) -> Execution:
        """Return the execution of a command: one that is in progress is joined."""
        key = scope.tenant, command.idempotency_key or delivery.envelope.id
        execution = self._running.get(key)
        if execution is not None:
            log.info("command_joined")
            return execution
        execution = self._running[key] = Execution(scope)
        execution.task = asyncio.create_task(self._find_or_execute(key, execution, delivery, command))
        execution.task.add_done_callback(lambda _: self._running.pop(key, None))
        return execution

    async def _find_or_execute(
        self, key: tuple[str, str], execution: Execution, delivery: Delivery, command: Command
    ) -> Answer:
        stored = await self._stored(key)
        if stored is not None:
            log.info("command_answered_before")
            return stored
        answer = await self._execute(execution, delivery, command)
        if isinstance(answer.data, Error):
            await self._services.fence.wait()  # else a failure for lack of the lock might become the answer
        # Failures that may pass too: a sender that wants another try sends a command with a key of its own.
        return await self._first_answer(key, answer)

    async def _execute(self, execution: Execution, delivery: Delivery, command: Command) -> Answer:
        """Carry out a command and return what became of it."""
        task_id = execution.scope.task_id
        stopped_at = self._stopped.get(task_id)
        task = CommandTask(self._services, _request(delivery, command, execution.scope))
        self._status.began(task_id, command.action)
        log.info("task_began")
        data: Result | Error
        try:
            if stopped_at is not None and delivery.envelope.time <= stopped_at:
                data = _cancelled()
            else:
                data = Result(output=await task.run())
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if not execution.is_stopped or current is None:
                raise
            current.uncancel()
            data = _cancelled()
        except Requeue:
            raise
        except (ArtelError, TimeoutError) as problem:
            data = Error(error=error_info(problem, time.monotonic() - execution.began))
        except Exception as problem:
            log.exception("task_crashed")
            data = Error(error=error_info(problem, time.monotonic() - execution.began))
        finally:
            self._status.ended(task_id, is_over=not task.is_parked)
        execution.left_behind = None if task.is_parked else task.scope
        answer = self._measured(data, task, execution)
        shown = {"code": data.error.code, "error": data.error.message} if isinstance(data, Error) else {}
        log.info("task_ended", status=answer.data.__class__.__name__.upper(), **shown)
        return answer

    def _measured(self, data: Result | Error, task: CommandTask, execution: Execution) -> Answer:
        """Return the answer with its time and metrics; an output that no message can carry becomes an error."""
        usage = task.tally.usage
        metrics = Metrics(
            llm_calls=usage.calls,
            tool_calls=task.tool_calls,
            cost_usd=usage.cost_usd,
            model=usage.model,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
        )
        took = {"execution_time_ms": round((time.monotonic() - execution.began) * MILLISECONDS), "metrics": metrics}
        measured = data.model_copy(update=took)
        try:
            Envelope.of(measured, source=self._services.file().name, subject=execution.scope.task_id).to_bytes()
        except InvalidMessage as problem:
            error = ErrorInfo(code="RESOURCE_EXHAUSTED", message=f"The output can't be sent. {problem.detail}")
            measured = Error(error=error).model_copy(update=took)
        return Answer(id=uuid7(), data=measured)

    async def _stored(self, key: tuple[str, str]) -> Answer | None:
        try:
            stored = await self._store.get(*key)
            return None if stored is None else Answer.model_validate_json(stored)
        except (sqlite3.Error, ValidationError):
            log.exception("answer_not_read")
            return None

    async def _first_answer(self, key: tuple[str, str], answer: Answer) -> Answer:
        """Store an answer and return it, or the one that another instance has given.

        If that fails, the command would be carried out again, but the sender still gets the answer now.
        """
        try:
            answer = Answer.model_validate_json(await self._store.keep(*key, answer.model_dump_json().encode()))
        except (sqlite3.Error, ValidationError):
            log.exception("answer_not_stored")
        kill_points.reached("node.stored")
        return answer

    def _clean_up(self, execution: Execution) -> None:
        """Begin to remove what a task that is over has left; nobody waits for it but the end of the node."""
        scope, execution.left_behind = execution.left_behind, None
        if scope is not None:
            cleaning = asyncio.create_task(self._remove_leftovers(scope))
            self._cleaning.add(cleaning)
            cleaning.add_done_callback(self._cleaning.discard)

    async def _remove_leftovers(self, scope: TaskScope) -> None:
        """Remove what a task has left; it has its answer, so a failure is only logged."""
        try:
            await self._services.tools.end(scope)
        except Exception:
            log.exception("task_not_cleaned_up")

    async def _reply(self, delivery: Delivery, answer: Answer, task_id: str) -> None:
        """Send the answer to the sender of a delivery."""
        reply = Envelope.of(
            answer.data,
            source=self._services.file().name,
            subject=task_id,
            traceparent=delivery.envelope.traceparent,
            message_id=answer.id,
            nodeuid=self._status.uid,
            nodeepoch=self._status.epoch,
        )
        if delivery.reply_to is not None and not await self._bus.reply(delivery, reply):
            log.warning("reply_queue_gone", reply_to=delivery.reply_to)


def _request(delivery: Delivery, command: Command, scope: TaskScope) -> TaskRequest:
    """Return the task of a command with its limits; the shortest time wins."""
    context, policy = command.context, command.retry_policy or RetryPolicy()
    limits = context.limits if context else None
    seconds = [] if command.timeout_seconds is None else [_seconds_left(delivery, command)]
    if limits and limits.timeout_ms is not None:
        seconds.append(limits.timeout_ms / MILLISECONDS)
    return TaskRequest(
        scope,
        command.action,
        command.params,
        context.model_dump(mode="json", exclude_none=True) if context else None,
        min(seconds, default=math.inf),
        command.requirements.capabilities if command.requirements else (),
        CommandBudget(limits.cost_usd) if limits and limits.cost_usd is not None else None,
        policy.max_retries,
        policy.backoff_seconds,
    )


def _cancelled() -> Error:
    return Error(error=ErrorInfo(code="CANCELLED", message="The task was stopped."))


def _expired(late: float) -> Answer:
    message = (
        f"The command came {late:.0f} s after its time limit, by the clock of the node's machine, and was dropped. If "
        "it was sent just now, set the clocks of both machines; else send it again."
    )
    error = ErrorInfo(code="DEADLINE_EXCEEDED", message=message)
    return Answer(id=uuid7(), data=Error(error=error, metrics=NOTHING_USED))


def _seconds_left(delivery: Delivery, command: Command) -> float:
    """Return how much is left of the time of a command, which is negative if it is too late.

    If the broker drops the command in time, the clock of the sender is trusted only roughly. Of a command without such
    an expiration nothing but that clock tells how long it has waited in the queue.
    """
    limit = command.timeout_seconds or DEFAULT_TTL_SECONDS
    age = (datetime.now(UTC) - delivery.envelope.time).total_seconds()
    if delivery.ttl_seconds is not None and delivery.ttl_seconds <= limit:
        age -= CLOCK_SKEW_SECONDS
    waited = time.monotonic() - delivery.received_at  # in this process
    return limit - max(age, waited)


def _is_same_address(target: str | None, name: str) -> bool:
    """Return whether commands to another name go to the queue of this one: `.` and `_` are the same there."""
    try:
        return target is not None and word(target) == word(name)
    except InvalidKey:
        return False
