"""Every agent has its collection in the memory index, from the moment that it is there."""

from pathlib import Path

import pytest

from artel.settings import Settings
from artel.vector_index.providers import make_embedder, make_store
from tests.conftest import StartServer
from tests.people import Person

pytestmark = [pytest.mark.anyio, pytest.mark.any_database]


@pytest.mark.req("UWS-02.2", "UWS-06.1", "UWS-06.3", "UWS-18.2")
async def test_projects_and_agents_have_their_collections_when_they_are_made(start_server: StartServer) -> None:
    server = start_server()
    person = Person.register(server.url)
    untouched, project = person.project(), person.project()  # the first is only made
    person.agent(project["id"], name="agent_reviewer")
    person.agent(project["id"], name="agent_forgetful", memory=False)
    assert server.stop() == 0

    chosen = Settings(data_dir=Path(server.env["ARTEL_DATA_DIR"]))
    store = make_store(chosen, make_embedder(chosen))
    try:
        there = await store.collections()
    finally:
        await store.close()

    names = ["agent_coder", "agent_analyzer", "agent_writer", "agent_researcher", "agent_reviewer"]
    expected = {untouched["id"]: names[:4], project["id"]: names}
    assert sorted(there) == sorted(
        f"user{person.user_id}_project{project_id}_{name}_context"
        for project_id, team in expected.items()
        for name in team
    )
