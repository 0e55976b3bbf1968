"""The simplest plan: one task, for the agent that fits best."""

import re
from collections.abc import Sequence

from artel.contract.http import Agent
from artel.projects.projects import get_project
from artel.spaces.direct_turn import DirectTurn
from artel.spaces.worker_space import WorkerSpace
from artel.turns.endings import Ended
from artel.turns.turn import Turn

_WORD = re.compile(r"\w{3,}")


class OneTaskRunner:
    """Gives the whole request to one agent."""

    async def run(self, space: WorkerSpace, turn: Turn, text: str) -> Ended | None:
        """Answer a turn by the agent whose description has most in common with it."""
        if turn.parked is not None:  # it waited for a person, with an agent of its own
            return await DirectTurn(space, turn, turn.parked["agent_id"], text).run()
        project = await space.parts.database.read(get_project, space.principal, space.project_id)
        best = best_agent(text, project.team)
        return await DirectTurn(space, turn, best.id if best else 0, text).run()


def best_agent(text: str, agents: Sequence[Agent]) -> Agent | None:
    """Answer the agent that fits a request best: named in it, or described in its words; else the first."""
    wanted = _words(text)

    def fit(agent: Agent) -> tuple[bool, int]:
        named = agent.name in text or agent.name.removeprefix("agent_") in wanted
        described = _words(" ".join([agent.role, agent.system_prompt, *agent.capabilities]))
        return named, len(wanted & described)

    return max(agents, key=fit, default=None)


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}
