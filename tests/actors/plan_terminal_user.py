"""A user of plans with a command line."""

import json
from typing import Any

from tests.actors.plan_user import PlanUser
from tests.deadlines import eventually
from tests.running import artel
from tests.terminal import Terminal

QUESTION = "Run the plan? y(es) / i(nstruct all tasks) / c(hange it) / n(o) "


class PlanTerminalUser(PlanUser):
    """A user of plans with a logged-in command line."""

    env: dict[str, str]

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run a command, check its exit code, return its output."""
        done = artel(*arguments, env=self.env)
        assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json"))

    def chat(self, *options: str) -> Terminal:
        """Send a request to the orchestrator in a terminal."""
        return Terminal("chat", f"{self.team.mark} Please do it all.", *options, env=self.env)

    def newest(self) -> dict[str, Any]:
        """Return the newest workflow, once there is one."""

        def find() -> dict[str, Any]:
            items = self.person.get("/my/workflows")["items"]
            return self.workflow(items[0]["id"]) if items else {}

        return eventually(find)

    def waiting(self) -> dict[str, Any]:
        """Return the newest workflow, once it waits for a decision."""
        return self.until(self.newest()["id"], "awaiting_approval")
