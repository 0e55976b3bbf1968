"""The memory of an agent, through the HTTP API."""

from typing import Any

from tests.people import Person

TEXTS = [
    "The nightly job failed with code ZX-4471 in the billing module",
    "Users who cannot remember their credentials can request a new passphrase by e-mail",
    "The office plants are watered on Mondays and Thursdays",
    "We deploy the web server to production every Friday afternoon",
    "The database is backed up to the second data centre at night",
]


class AgentMemory:
    """The memory of one agent, used by its owner."""

    def __init__(self, person: Person, project_id: int, agent_id: int) -> None:
        self.http = person.http
        self.url = f"/my/projects/{project_id}/agents/{agent_id}/context"

    @classmethod
    def new(cls, person: Person, number: int = 0) -> "AgentMemory":
        project = person.project()
        return cls(person, project["id"], project["agents"][number]["id"])

    def add(self, content: str, **fields: Any) -> dict[str, Any]:
        answer = self.http.post(self.url, json={"content": content, **fields})
        assert answer.status_code == 201, answer.text
        memory: dict[str, Any] = answer.json()
        return memory

    def search(self, query: str, **fields: Any) -> list[dict[str, Any]]:
        answer = self.http.post(f"{self.url}/search", json={"query": query, **fields})
        assert answer.status_code == 200, answer.text
        items: list[dict[str, Any]] = answer.json()["items"]
        return items

    def found(self, query: str, **fields: Any) -> list[str]:
        return [item["content"] for item in self.search(query, **fields)]

    def listed(self, **params: Any) -> dict[str, Any]:
        page: dict[str, Any] = self.http.get(self.url, params=params).json()
        return page

    def stats(self) -> dict[str, Any]:
        figures: dict[str, Any] = self.http.get(f"{self.url}/stats").json()
        return figures
