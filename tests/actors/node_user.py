"""A user of agents that run on nodes, whose models follow a script."""

import json
from pathlib import Path
from typing import Any

from tests.actors.coder_user import CoderUser
from tests.model_server import ModelServer
from tests.people import Person

PROMPT = "You are the composer of the tests."


def write_agent_file(folder: Path, name: str = "agent.composer.001", **changes: Any) -> Path:
    """Write the file of a node that can compose; it calls its model once per task, unless it uses tools."""
    agent: dict[str, Any] = {
        "name": name,
        "type": "composer",
        "display": {"description": "Composes texts."},
        "brain": {"model": "gpt-4o", "system_prompt": PROMPT, "max_tokens": 500},
        "capabilities": [
            {
                "name": "compose",
                "description": "Compose a text.",
                "input_schema": {
                    "type": "object",
                    "properties": {"topic": {"type": "string"}},
                    "required": ["topic"],
                },
                "prompt_template": "Compose: {topic}",
            },
            {"name": "shorten", "description": "Shorten a text.", "prompt_template": "Shorten: {text}"},
        ],
        "agent_loop": {"enable_understanding": False, "enable_self_critique": False, "max_tool_calls": 20},
        "limits": {"max_concurrent_tasks": 10, "max_retries": 1},
        "registry": {"heartbeat_interval_seconds": 1},
        "progress_heartbeat": {"interval_seconds": 0.2},
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps({"agent": agent | changes}))  # JSON is YAML
    return path


class NodeUser(CoderUser):
    """A user with an agent `composer` that runs on nodes."""

    def __init__(self, person: Person, model: ModelServer, mark: str, **fields: Any) -> None:
        project = person.project()
        super().__init__(person, project["id"], model, mark)
        self.model = model
        agent = {"name": "composer", "runtime": "node", "capabilities": ["compose"], "model": "gpt-4o"} | fields
        self.agent = person.agent(self.project, **agent)

    def ask(self, text: str = "", **headers: str) -> dict[str, Any]:
        """Send a message and return the response."""
        answer = self.person.post(self.session, f"{self._mark} {text}", "composer", headers)
        assert answer.status_code in (200, 202), answer.text
        answered: dict[str, Any] = answer.json()
        return answered

    def settings(self, **settings: Any) -> None:
        """Replace the settings of the project."""
        answer = self.person.http.patch(f"/my/projects/{self.project}", json={"settings": settings})
        assert answer.status_code == 200, answer.text

    def prompts(self) -> list[list[dict[str, Any]]]:
        """Return the messages of each request to the model, as far as they are about this user's."""
        return [request.body["messages"] for request in self.model.asked_about(self._mark)]
