"""Templates of agents that come with Artel: one YAML file each."""

import functools
from pathlib import Path

from artel.agents.starter_pack import CONDUCT
from artel.contract.agent_export import AgentTemplate
from artel.contract.http import NewAgent
from artel.nodes.located_yaml import read_yaml

# In the order in which they are listed.
NAMES = (
    "reviewer",
    "tester",
    "debugger",
    "security_reviewer",
    "documentation_writer",
    "editor",
    "translator",
    "data_analyst",
)
_ANY_MODEL = "gpt-4o"  # a template has no model: the user, or the server's default, chooses it


@functools.cache
def agent_templates() -> tuple[AgentTemplate, ...]:
    """Return all templates."""
    return tuple(_template(name) for name in NAMES)


def _template(name: str) -> AgentTemplate:
    document = read_yaml(Path(__file__).with_name(f"{name}.yaml").read_text(encoding="utf-8")).value
    agent = NewAgent.model_validate({"model": _ANY_MODEL, **document["agent"]})
    prompt = f"{agent.system_prompt.rstrip()}\n\n{CONDUCT.strip()}"
    return AgentTemplate.of(agent, description=document["description"], system_prompt=prompt)
