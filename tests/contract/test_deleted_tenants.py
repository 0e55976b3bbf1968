"""What nodes hear when a project is deleted."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from artel.bus.bus import Delivery, QueueSpec
from artel.bus.local import LocalBus
from artel.contract.envelope import Event
from artel.projects.service import ProjectService
from tests.actors.chat_user import ChatUser

pytestmark = pytest.mark.anyio


@pytest.mark.req("AGT-10.1")
async def test_deletion_of_a_project_is_published_to_nodes(chat: ChatUser) -> None:
    bus, heard = LocalBus(), asyncio.get_running_loop().create_future()

    async def note(delivery: Delivery) -> None:
        heard.set_result(delivery.envelope.data)

    await bus.subscribe(QueueSpec("test.tenants", ("evt.tenant.deleted",)), note)
    services: Any = SimpleNamespace(
        database=chat.database,
        workspaces=SimpleNamespace(remove=lambda _agents: None),
        storage=SimpleNamespace(forget=lambda _user_id: None),
    )
    connections: Any = SimpleNamespace(project_deleted=lambda _project: None)
    unused: Any = None

    await ProjectService(services, unused, None, connections, bus).delete(chat.user, chat.project_id)

    event = await asyncio.wait_for(heard, 30)
    assert isinstance(event, Event)
    assert event.event_data == {"user_id": chat.user.user_id, "project_id": chat.project_id}
    await bus.close(grace_seconds=0)
