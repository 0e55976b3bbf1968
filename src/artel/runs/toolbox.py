"""The tools of one run: those of the space, those for the user's files, and which of them the agent may use."""

from typing import TYPE_CHECKING

from artel.approvals.transactions import use
from artel.brain.brain import ToolCall
from artel.contract.http import Agent
from artel.errors import AgentNotFound
from artel.projects.transactions import project_settings
from artel.runs.children import AgentFamily
from artel.runs.memory_tools import memory_tools
from artel.runs.task import Waiting
from artel.runs.user_files import Caller, RunFiles, RunNotes
from artel.spaces.worker_space import WorkerSpace
from artel.task_workspaces.agent_files import AgentFiles
from artel.tools.consent import Consent
from artel.tools.family import SpawnAgent
from artel.tools.files import file_tools
from artel.tools.policy import Policy, PolicySettings
from artel.tools.task_files import task_file_tools
from artel.tools.tool import Tool
from artel.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from artel.runs.agent_run import AgentRun


def user_files_of(run: "AgentRun") -> RunFiles:
    """Return the user's files as the run sees them."""
    space = run.space

    async def policy() -> Policy:
        settings = await space.services.database.read(project_settings, space.principal, space.project_id)
        return Policy(PolicySettings.of(settings), space.pace)

    files = RunFiles(space.services, _caller(run), run.timeout.alive, policy)
    if run.task.waiting:
        files.hashes.update(run.task.waiting.hashes)
    return files


async def toolbox_of(run: "AgentRun", files: RunFiles) -> Toolbox:
    """Return the tools that the agent may use in this run."""
    space, agent, waiting = run.space, run.agent, run.task.waiting
    allowed = await _allowed_tools(space, agent)
    if not allowed:
        return Toolbox()
    services = space.services
    task_files = AgentFiles(
        services.database, services.workspaces, services.storage, space.principal, space.project_id, agent.id
    )
    tools: list[Tool] = [
        *task_file_tools(task_files),
        SpawnAgent(AgentFamily(run)),
        *memory_tools(space, agent),
        *file_tools(files),
    ]

    async def use_approval(approval_id: str) -> bool:
        return await space.services.database.run(use, space.principal, approval_id)

    consent = Consent(waiting.decisions if waiting else {}, use_approval)
    return Toolbox(
        tools, allowed, files.policy, consent, RunNotes(space.services, _caller(run)), _resumed_call(waiting)
    )


def _caller(run: "AgentRun") -> Caller:
    space, task, agent = run.space, run.task, run.agent
    epoch = space.lease.epoch if space.lease else 0
    return Caller(space.principal, space.project_id, task.session_id, task.turn_id, agent.id, agent.name, epoch=epoch)


async def _allowed_tools(space: WorkerSpace, agent: Agent) -> set[str]:
    """Return what the agent may use: of its own list, what each of its ancestors may use too."""
    allowed, seen = set(agent.tools), {agent.id}
    while allowed and agent.parent_agent_id not in (None, space.root_id, *seen):
        try:
            agent = await space.cache.get(agent.parent_agent_id or 0)
        except AgentNotFound:  # `root`, of a project that had no agents when the space began
            break
        seen.add(agent.id)
        allowed &= set(agent.tools)
    return allowed


def _resumed_call(waiting: Waiting | None) -> ToolCall | None:
    """Return the call that was approved before the run parked in it, if there was one."""
    if waiting is None or waiting.child is None:
        return None
    if waiting.single is not None:
        return waiting.single
    return waiting.state.calls[0] if waiting.state and waiting.state.calls else None
