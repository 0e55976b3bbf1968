"""Deleting the queues of a node that will not come back."""

from functools import partial

from aio_pika.exceptions import ChannelNotFoundEntity

from artel.bus.bus import NameTaken
from artel.bus.link import Link, ignore_loss, retry_until_deadline, translate_connection_errors
from artel.bus.topology import command_queue, tenants_queue

DEADLINE_SECONDS = 10.0


async def delete_queues_of(url: str, name: str, deadline_seconds: float = DEADLINE_SECONDS) -> dict[str, int]:
    """Delete the queues of a node that exist, and return how many messages each had.

    Raise NameTaken if a node still consumes one of them, and BusUnavailable.
    """
    link = Link(url, "retired-queues")
    try:
        await link.open(deadline_seconds)
        queues = command_queue(name), tenants_queue(name)
        counts = {
            queue: await retry_until_deadline(partial(_messages, link, queue), deadline_seconds) for queue in queues
        }
        found = {queue: count for queue, count in counts.items() if count is not None}
        for queue in found:
            await retry_until_deadline(partial(_delete, link, queue), deadline_seconds)
        return found
    finally:
        await link.close()


async def _messages(link: Link, queue: str) -> int | None:
    """Return how many messages wait in a queue, None if there is no such queue; raise NameTaken if it is used."""
    channel = await link.channel()
    try:
        async with translate_connection_errors():
            try:
                declared = (await channel.declare_queue(queue, passive=True)).declaration_result
            except ChannelNotFoundEntity:
                return None
    finally:
        await ignore_loss(channel.close())
    if declared.consumer_count:
        raise NameTaken(f"A node takes messages from {queue}. Stop it first: artel node drain NAME")
    return declared.message_count or 0


async def _delete(link: Link, queue: str) -> None:
    channel = await link.channel()
    try:
        async with translate_connection_errors():
            await channel.queue_delete(queue)
    finally:
        await ignore_loss(channel.close())
