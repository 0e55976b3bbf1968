"""Nobody changes what becomes of another user's request for a worker space."""

import asyncio
from pathlib import Path

import pytest

from artel.auth.accounts import create_account
from artel.container import Container
from artel.contract.http import NewProject
from artel.errors import ProjectNotFound
from artel.projects.transactions import create_project
from artel.settings import Settings

pytestmark = pytest.mark.anyio


@pytest.mark.req("SEC-02.5")
async def test_a_stranger_who_asks_first_does_not_spoil_the_owners_space(tmp_path: Path) -> None:
    container = await Container.open(Settings(data_dir=tmp_path, jwt_secret="x" * 40))
    try:
        assert container.spaces is not None
        stranger, owner = [
            (await container.database.run(create_account, f"{name}@example.org", None)).principal
            for name in ("stranger", "owner")
        ]
        project = await container.database.of(owner).run(create_project, NewProject(name="P"), container.project_rules)

        # Both ask before either is answered, the stranger first.
        refused, space = await asyncio.gather(
            container.spaces.get(stranger, project.id),
            container.spaces.get(owner, project.id),
            return_exceptions=True,
        )
        again = await container.spaces.get(owner, project.id)
        with pytest.raises(ProjectNotFound):
            await container.spaces.get(stranger, project.id)
    finally:
        await container.close()

    assert isinstance(refused, ProjectNotFound)
    assert space is again
