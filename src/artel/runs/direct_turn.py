"""A turn that one agent answers: from its start to its end in the database."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from artel import kill_points
from artel.agent_loop.context import MAX_HISTORY_MESSAGES, to_continue
from artel.agent_loop.parking import Parked
from artel.agent_loop.task import Tally
from artel.agent_memory.repository import NewMemory
from artel.agent_memory.service import Recalled
from artel.approvals.transactions import decisions, park_turn
from artel.brain.brain import Usage
from artel.brain.tokens import count_in_background
from artel.budgets.guard import TurnBudgetGuard
from artel.contract import chat
from artel.contract.http import Agent
from artel.db.retries import with_outage_retry
from artel.errors import AgentNotFound
from artel.ids import uuid7
from artel.projects.transactions import project_settings
from artel.runs.agent_run import run_agent
from artel.runs.approval_factory import decision_of, due, tool_approval, who_asks
from artel.runs.attached_files import conversation_message
from artel.runs.task import ErrorType, ExecutionResult, Start, Task, Waiting
from artel.runs.task_events import EventWriter, StreamedTask
from artel.spaces.worker_space import SpaceClosed, WorkerSpace
from artel.tools.consent import NeedsApproval
from artel.tools.policy import Policy
from artel.turns.end import TurnOutcome, end_turn, note_usage
from artel.turns.transactions import AgentAtWork, TurnOver, start_turn
from artel.turns.turn import Turn, TurnStatus
from artel.turns.waiters import Ended


class DirectTurn(StreamedTask):
    """One run of one turn, which hears what its loop does."""

    def __init__(self, space: WorkerSpace, turn: Turn, agent_id: int, text: str) -> None:
        self._notes = EventWriter(space, turn)
        message_id = (turn.parked and turn.parked.message_id) or uuid7()
        super().__init__(space, turn, turn.id, agent_id, self._notes.add, message_id)
        self._text = text
        self._tally = Tally("")
        if turn.parked and turn.parked.usage:
            self._tally.usage = Usage(**turn.parked.usage.model_dump())
        self._started = False
        self._written_before = ""  # the beginning of the answer that this turn continues

    async def run(self) -> Ended | None:
        """Run the turn and return its end; None if somebody else has ended it, or it is not its turn yet."""
        space, turn, began = self._space, self._turn, time.monotonic()
        agent = waiting = None
        try:
            try:
                if turn.parked is not None:
                    decided = await self._services.database.read(decisions, space.principal, turn.id)
                    by_call = {approval.arguments_hash: decision_of(approval) for approval in decided}
                    waiting = Waiting.of(turn.parked, by_call)
                agent = await space.agent(self.agent_id)
                task = Task(
                    turn.id,
                    self._text,
                    self._start,
                    self,
                    self._tally,
                    session_id=turn.session_id,
                    turn_id=turn.id,
                    waiting=waiting,
                )
                result = await run_agent(space, agent, task)
            except AgentNotFound as gone:
                result = ExecutionResult.failed(gone.detail, gone.code, self._tally.usage)
            except Parked as parked:
                if agent is not None:
                    await self._park(agent, parked)
                return None
            except TurnOver:
                return None
            except asyncio.CancelledError:
                await self._notes.written()
                await self._note_usage()
                raise
            return await self._end(agent, result, time.monotonic() - began)
        finally:
            self._services.hub.end(turn.session_id, self._message_id)

    def recalled(self, found: Sequence[Recalled]) -> None:
        self._notes.add_later(self._retrieved(found))

    async def _start(self, agent: Agent, at_work: AgentAtWork) -> Start:
        if not self._space.accepts_tasks:
            raise SpaceClosed
        started = await self._space.database.run(
            start_turn,
            self._turn,
            at_work,
            MAX_HISTORY_MESSAGES,
            self._services.user_monthly_micros,
            recalls=agent.memory,
        )
        self._started = True
        self._notes.open()
        await self._space.cache.note_version(started.config_version)
        agent = await self._space.cache.get(agent.id)  # it may have been changed since it was queued
        budget_guard = None
        if started.month is not None:
            database = self._services.database.of(self._space.principal)
            budget_guard = TurnBudgetGuard(database, self._turn, started.month)
        history = [conversation_message(message) for message in started.messages]
        if self._turn.continues is not None:
            self._written_before = history[-1].content
            history = await asyncio.to_thread(to_continue, history)  # counts the tokens of a long answer
        elif history and not self._turn.parked:
            self._text = history[-1].content  # the user may have changed it while it was queued
        return Start(agent, history, budget_guard, started.memory_version)

    async def _park(self, agent: Agent, parked: Parked) -> None:
        """Store how far the run has come, and ask the user; the agent's slot is free."""
        if not isinstance(parked.needs, NeedsApproval):
            raise TypeError("only a plan has a budget of its own that the user can raise")
        question = parked.needs.question
        await self._notes.written()
        space, turn = self._space, self._turn
        usage = chat.UsageShown.of(self._tally.usage) if self._tally.usage.calls else None
        run = parked.run.model_copy(update={"message_id": self._message_id, "usage": usage})
        change = AgentAtWork(agent.id, agent.name, "processing", space.bus.status(agent.id).value).change
        approval = tool_approval(turn, who_asks(run), question, 0)

        async def store() -> None:
            settings = await self._services.database.read(project_settings, space.principal, space.project_id)
            due_approval = due(approval, Policy(settings.policy).seconds(question.risk))
            await space.database.run(park_turn, turn, run, due_approval, change)

        try:
            with self._services.relay.asking(space.principal, approval):
                await with_outage_retry(store, "run")
        except TurnOver:
            await self._note_usage()

    async def _end(self, agent: Agent | None, result: ExecutionResult, seconds: float) -> Ended | None:
        """Store the answer, or the failure, and the end of the turn."""
        kill_points.reached("turn.answered")
        noted = await self._notes.rest()
        turn, hub = self._turn, self._services.hub
        content, status = result.response, TurnStatus.COMPLETED
        if not result.success:
            content = result.error or "The agent failed."
            status = TurnStatus.TIMEOUT if result.error_type is ErrorType.TIMEOUT else TurnStatus.FAILED
        at_work, memories = None, {}
        if agent is not None:
            old = "processing" if self._started else "idle"
            at_work = AgentAtWork(agent.id, agent.name, old, self._space.bus.status(agent.id).value)
            if agent.memory and result.success and not (turn.parked and turn.parked.single):
                exchange = f"User: {self._text}\nAnswer: {self._written_before}{result.response}"
                about: dict[str, Any] = {"source": "chat", "session_id": turn.session_id}
                memory = NewMemory(exchange, "conversation", success=True, task_id=turn.id, metadata=about)
                memories[agent.id] = [memory]
        outcome = TurnOutcome(
            status,
            self._message_id,
            content,
            await count_in_background(content),
            chat.UsageShown.of(result.usage) if result.usage.calls else None,
            seconds,
            error_code=result.error_code,
            context=result.context,
            partial="" if result.success else hub.partial_answer(turn.session_id, turn.id),
            has_draft=turn.parked is not None or hub.is_saved(turn.session_id, self._message_id),
            agent=at_work,
            memories=memories,
            noted=noted,
        )
        try:
            return await with_outage_retry(lambda: self._space.database.run(end_turn, turn, outcome), "answer")
        except TurnOver:
            await self._note_usage()
            return None

    async def _note_usage(self) -> None:
        if self._tally.usage.calls:
            database = self._services.database.of(self._space.principal)  # its space may be another host's by now
            await database.run(note_usage, self._turn.session_id, self._turn.id, chat.UsageShown.of(self._tally.usage))
