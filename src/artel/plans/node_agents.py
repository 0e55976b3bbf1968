"""Nodes as agents of a plan: what the planner is told about them, and the agents that a project gets for them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import ValidationError

from artel.brain.errors import ModelNotAllowed
from artel.contract.http import Agent, AgentLoop, NewAgent
from artel.logs import get_logger
from artel.plans.planner import AT_CAPACITY, IDLE, IN_ERROR, AgentBrief
from artel.registry.node import RegisteredNode
from artel.spaces.services import SpaceServices

MAX_CONCURRENCY = 10
ABOUT_CHARACTERS = 600
PROMPT_CHARACTERS = 1_000
CAPABILITY_CHARACTERS = 80
NAME_CHARACTERS = 58  # of a type, so that `_node` fits behind it

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class NodeAgent:
    """An agent that a plan may use, though the project does not have it yet: nodes of one type."""

    new: NewAgent
    about: str
    status: str

    @property
    def brief(self) -> AgentBrief:
        """What the planner is told."""
        new = self.new
        return AgentBrief(new.name, new.role, self.about, tuple(new.capabilities), self.status, tools=tuple(new.tools))

    def as_stored(self, project_id: int) -> Agent:
        """Return the agent as it would be stored, for its price."""
        now = datetime.now(UTC)
        return Agent(**dict(self.new), id=0, project_id=project_id, created_at=now, updated_at=now)


async def usable_nodes(services: SpaceServices, allowed: Sequence[str]) -> list[RegisteredNode]:
    """Return the nodes that a project may use now, without those whose model has no price that a budget knows."""
    usable = []
    for node in await services.nodes.registry.alive(allowed):
        try:
            services.brain.require_price(node.passport.spec.model)
        except ModelNotAllowed as refused:
            log.info("node_not_offered", node=node.name, reason=refused.detail)
        else:
            usable.append(node)
    return usable


def node_agents(nodes: Iterable[RegisteredNode], team: Sequence[Agent], room: int) -> Mapping[str, NodeAgent]:
    """Return agents for what nodes can do and no agent of the project uses yet, by name; at most `room`."""
    by_type: dict[str, list[RegisteredNode]] = defaultdict(list)
    for node in nodes:
        by_type[node.node_type].append(node)
    names = {agent.name for agent in team}
    found: dict[str, NodeAgent] = {}
    for node_type, alike in sorted(by_type.items()):
        for capabilities, able in _abilities(alike, team):
            if len(found) >= room:
                return found
            name = node_type if len(able) == len(alike) else f"{node_type}_{capabilities[0]}"
            name = name[:NAME_CHARACTERS].replace(".", "_")
            if names & {name, f"agent_{name}"}:
                name = f"{name}_node"
            if name in names or name in found:
                continue
            try:
                found[name] = _node_agent(name, able, capabilities)
            except ValidationError:  # its model or its capabilities have names that agents can't have
                log.warning("node_type_not_offered", node_type=node_type, nodes=[node.name for node in able])
    return found


def _abilities(
    nodes: Sequence[RegisteredNode], team: Sequence[Agent]
) -> Iterable[tuple[list[str], list[RegisteredNode]]]:
    """Return capabilities that no agent uses, each time with all the nodes that have them; what most have first."""
    by_nodes: dict[tuple[int, ...], list[str]] = defaultdict(list)
    capabilities_of = [node.capabilities for node in nodes]
    for capability in dict.fromkeys(item.name for node in nodes for item in node.passport.spec.capabilities):
        by_nodes[tuple(number for number, names in enumerate(capabilities_of) if capability in names)].append(
            capability
        )
    for able, capabilities in sorted(by_nodes.items(), key=lambda group: -len(group[0])):
        common = frozenset.intersection(*(capabilities_of[number] for number in able))
        users = (agent for agent in team if is_on_node(agent) and common.issuperset(agent.capabilities))
        used = {capability for agent in users for capability in agent.capabilities}
        if unused := [capability for capability in capabilities if capability not in used]:
            yield unused, [nodes[number] for number in able]


def is_on_node(agent: Agent) -> bool:
    """Whether an agent runs on nodes."""
    return agent.runtime == "node"


def node_for(agent: Agent, nodes: Iterable[RegisteredNode]) -> RegisteredNode | None:
    """Return a node that can do the tasks of an agent, the least loaded one; None if there is none."""
    wanted = frozenset(agent.capabilities)
    able = [
        node
        for node in nodes
        if (wanted and wanted <= node.capabilities) or (not wanted and node.name.replace(".", "_") == agent.name)
    ]
    return min(able, key=lambda node: (node.load, node.name), default=None)


def status_of(agent: Agent, nodes: Iterable[RegisteredNode], status: str) -> str:
    """Return the status of an agent for the planner: one that runs on nodes needs one that is ready."""
    if not is_on_node(agent):
        return status
    node = node_for(agent, nodes)
    if node is None:
        return IN_ERROR
    return AT_CAPACITY if node.load >= 1 else status


def priced(agent: Agent, nodes: Iterable[RegisteredNode]) -> Agent:
    """Return an agent with the model and the length of answers that its price depends on."""
    node = node_for(agent, nodes) if is_on_node(agent) else None
    if node is None:
        return agent
    spec = node.passport.spec
    values = {"model": spec.model or agent.model, "max_tokens": spec.max_tokens or agent.max_tokens}
    return agent.model_copy(update=values)


def _node_agent(name: str, nodes: Sequence[RegisteredNode], capabilities: list[str]) -> NodeAgent:
    spec = nodes[0].passport.spec
    described = {item.name: " ".join(item.description.split())[:CAPABILITY_CHARACTERS] for item in spec.capabilities}
    prompt = " ".join(f"{spec.display_name}. {spec.description}".split())[:PROMPT_CHARACTERS]
    tasks = "; ".join(f"{name} ({text})" if (text := described[name]) else name for name in capabilities)
    about = f"{prompt} Name one capability in the description of its task: {tasks}"[:ABOUT_CHARACTERS]
    slots = sum(node.passport.spec.max_concurrent_tasks for node in nodes)
    new = NewAgent(
        name=name,
        role=nodes[0].node_type,
        model=spec.model,
        system_prompt=prompt,
        capabilities=capabilities,
        concurrency_limit=max(1, min(MAX_CONCURRENCY, slots)),
        runtime="node",
        loop=AgentLoop(understand=True, critique=True),  # as nodes do unless their file says otherwise
    )
    return NodeAgent(new, about, AT_CAPACITY if all(node.load >= 1 for node in nodes) else IDLE)
