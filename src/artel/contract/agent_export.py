"""The YAML file of an exported agent, and templates of agents."""

from typing import Literal

from pydantic import Field

from artel.contract.http import AgentLoop, NewAgent, RequestBody, ResponseBody


class AgentExport(RequestBody):
    """The file of an exported agent: everything that a new agent needs."""

    version: Literal[1] = Field(default=1, description="Version of the format.")
    agent: NewAgent = Field(description="Name, role, system_prompt and all other settings of the agent.")


class AgentTemplate(ResponseBody):
    """A template of an agent: send it with a model to `POST …/agents`."""

    name: str = Field(examples=["agent_reviewer"])
    role: str = Field(examples=["reviewer"])
    description: str = Field(description="What the agent is good for.", examples=["Reviews changes of code."])
    system_prompt: str
    temperature: float = Field(examples=[0.2])
    max_tokens: int = Field(examples=[4096])
    tools: list[str] = Field(examples=[["tool_read_file"]])
    memory: bool
    loop: AgentLoop


class AgentTemplates(ResponseBody):
    """The templates of agents that come with Artel."""

    items: list[AgentTemplate]
