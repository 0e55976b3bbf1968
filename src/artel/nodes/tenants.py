"""What a node does when a project is deleted: it forgets the tenant."""

from collections.abc import Awaitable, Callable

from pydantic import ValidationError

from artel.bus.bus import RETIRED_SECONDS, Bus, Delivery, QueueSpec, Subscription
from artel.bus.topology import event_key, tenants_queue
from artel.contract.envelope import Event
from artel.contract.node_messages import TenantDeleted
from artel.logs import get_logger
from artel.nodes.task_scope import TaskScope

STOP_SECONDS = 5.0

log = get_logger(__name__)


class TenantListener:
    """Hears of deleted projects; its queue is durable, so that a node that is away hears of them when it is back."""

    def __init__(self, bus: Bus, name: str, forget: Callable[[str], Awaitable[None]]) -> None:
        """`forget` gets the name of the tenant; a failure is tried again a few times."""
        self._bus = bus
        self._forget = forget
        keys = (event_key("tenant", "deleted"),)
        self._queue = QueueSpec(tenants_queue(name), keys, expires_seconds=RETIRED_SECONDS)
        self._subscription: Subscription | None = None

    async def start(self) -> None:
        """Subscribe; raise BusUnavailable."""
        self._subscription = await self._bus.subscribe(self._queue, self._receive)

    async def stop(self) -> None:
        """Receive no more."""
        if self._subscription:
            await self._subscription.cancel(grace_seconds=STOP_SECONDS)

    async def _receive(self, delivery: Delivery) -> None:
        event = delivery.envelope.data
        try:
            deleted = TenantDeleted.model_validate(event.event_data if isinstance(event, Event) else None)
        except ValidationError:
            log.warning("tenant_event_ignored", source=delivery.envelope.source, message_id=delivery.envelope.id)
            return
        tenant = TaskScope("", deleted.user_id, deleted.project_id).tenant
        await self._forget(tenant)
        log.info("tenant_forgotten", tenant=tenant)
