"""A user of turns and sessions without a server: every step is a transaction."""

from dataclasses import dataclass, replace

from artel.auth.principal import Principal
from artel.contract.chat import UsageShown
from artel.contract.events import StoredEvent
from artel.contract.http import NewSession
from artel.db.engine import Database
from artel.events.session_log import read_events
from artel.ids import uuid7
from artel.projects.transactions import ProjectRules
from artel.sessions.message_repository import StoredMessage
from artel.sessions.transactions import create_session
from artel.turns.end import TurnOutcome, end_turn
from artel.turns.repository import TurnRepository
from artel.turns.transactions import AgentAtWork, NewTurn, TurnOver, accept_message, start_turn
from artel.turns.turn import Turn, TurnStatus

RULES = ProjectRules(max_projects=10, max_agents=10, planner_model="gpt-4o")


@dataclass
class ChatUser:
    """A user with one project, on a database of its own."""

    database: Database
    user: Principal
    project_id: int
    agent_id: int

    async def session(self) -> str:
        new = NewSession(project_id=self.project_id)
        return (await self.database.of(self.user).run(create_session, uuid7(), new, RULES)).session_id

    def message(self, content: str = "Hello", key: str | None = None) -> NewTurn:
        return NewTurn(uuid7(), uuid7(), content, 1, str(self.agent_id), key)

    async def accept(self, session_id: str, new: NewTurn | None = None) -> Turn:
        return await self.database.of(self.user).run(accept_message, session_id, new or self.message())

    async def start(self, session_id: str, turn_id: str) -> bool:
        return await self.history(session_id, turn_id) is not None

    async def history(self, session_id: str, turn_id: str) -> list[StoredMessage] | None:
        turn = await self.turn(session_id, turn_id)
        agent = AgentAtWork(self.agent_id, "agent_coder", "idle", "processing")
        try:
            return (await self.database.of(self.user).run(start_turn, turn, agent, 10)).messages
        except TurnOver:
            return None

    async def finish(self, session_id: str, turn_id: str, outcome: TurnOutcome | None = None) -> bool:
        agent = AgentAtWork(self.agent_id, "agent_coder", "processing", "idle")
        turn = await self.turn(session_id, turn_id)
        try:
            await self.database.of(self.user).run(end_turn, turn, replace(outcome or answer("Hi"), agent=agent))
        except TurnOver:
            return False
        return True

    async def events(self, session_id: str) -> list[StoredEvent]:
        return list(await self.database.read(read_events, self.user, session_id, 0, 500))

    async def turn(self, session_id: str, turn_id: str) -> Turn:
        return await self.database.read(lambda c: TurnRepository(c, self.user).get(session_id, turn_id))


def answer(content: str) -> TurnOutcome:
    return TurnOutcome(TurnStatus.COMPLETED, uuid7(), content, 1, UsageShown(model="demo"), duration=0.5)


def failure(status: TurnStatus) -> TurnOutcome:
    return replace(answer("It did not work."), status=status, error_code="agent_failed")
