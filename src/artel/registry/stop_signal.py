"""The signal to a node that nobody wants the result of a task any more."""

import asyncio

from artel.bus.bus import Bus
from artel.bus.topology import control_key
from artel.contract.envelope import Control, Envelope
from artel.contract.node_messages import SERVER
from artel.errors import ArtelError
from artel.logs import get_logger

STOP_SECONDS = 5.0
CONTROL_TTL_SECONDS = 60.0

log = get_logger(__name__)


async def stop_task(bus: Bus, node_name: str, command_id: str, reason: str) -> bool:
    """Send a node the signal to stop a task, and return whether the broker took it.

    A node that is not told stops the task at the time limit of the command.
    """
    control = Control(control_type="stop", reason=reason, parameters={"task_id": command_id})
    envelope = Envelope.of(control, source=SERVER, subject=command_id)
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await bus.publish(control_key(node_name, "stop"), envelope, ttl_seconds=CONTROL_TTL_SECONDS)
    except (ArtelError, TimeoutError) as failure:
        log.warning("node_task_not_stopped", node=node_name, command_id=command_id, reason=repr(failure))
        return False
    return True
