"""A user of agents that write files into their task workspaces."""

import json
from typing import Any

from tests.model_server import ByMark, ModelServer, Say, Tool
from tests.people import Person


class WorkspaceUser:
    """A user with a project whose agents call tools as the test says."""

    def __init__(self, person: Person, model: ModelServer, script: ByMark, mark: str) -> None:
        self.person, self.model, self.script, self.mark = person, model, script, mark
        self.project = person.project()
        self.agents = {agent["name"]: agent["id"] for agent in self.project["agents"]}
        self.session = person.session(self.project["id"])
        self._number = 0

    def url(self, agent: str = "agent_coder", rest: str = "") -> str:
        return f"/my/projects/{self.project['id']}/agents/{self.agents[agent]}/workspace{rest}"

    def call(self, tool: str, agent: str = "agent_coder", **arguments: Any) -> dict[str, Any]:
        """Make the agent call a tool; return the result."""
        self._number += 1
        text = f"{self.mark} number {self._number}."
        self.script[text] = [Say(tools=[Tool(tool, json.dumps(arguments))]), Say("Done.")]
        self.person.say(self.session, text, agent)
        told: dict[str, Any] = json.loads(self.model.asked_about(text)[-1].body["messages"][-1]["content"])
        return told
