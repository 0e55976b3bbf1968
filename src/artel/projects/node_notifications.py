"""What nodes are told when projects are deleted: to forget them."""

import asyncio
from collections.abc import Iterable

from artel.bus.bus import Sender
from artel.bus.topology import event_key
from artel.contract.envelope import Envelope, Event
from artel.contract.node_messages import SERVER, TENANT_DELETED, TenantDeleted
from artel.errors import ArtelError
from artel.logs import get_logger

TELL_SECONDS = 5.0
DELETED_TTL_SECONDS = 7 * 86_400.0

log = get_logger(__name__)


async def tell_nodes(bus: Sender, user_id: int, project_ids: Iterable[int]) -> bool:
    """Let nodes delete what they keep of projects, those that are away within some days; return whether they know."""
    for project_id in project_ids:
        deleted = TenantDeleted(user_id=user_id, project_id=project_id)
        event = Event(event_type=TENANT_DELETED, event_data=deleted.model_dump())
        key, envelope = event_key("tenant", "deleted"), Envelope.of(event, source=SERVER)
        try:
            async with asyncio.timeout(TELL_SECONDS):
                await bus.publish(key, envelope, ttl_seconds=DELETED_TTL_SECONDS)
        except (ArtelError, TimeoutError) as failure:
            log.warning("nodes_not_told", user_id=user_id, project_id=project_id, reason=repr(failure))
            return False
    return True
