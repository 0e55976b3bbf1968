"""Declarations of exchanges and queues on RabbitMQ: every queue is bounded, work queues have dead-lettering."""

from aio_pika.abc import AbstractChannel, AbstractQueue
from pamqp.common import FieldTable

from artel.bus.bus import MAX_LENGTH, QueueSpec
from artel.bus.topology import (
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_LOG_QUEUE,
    DEAD_LETTER_QUEUE,
    HINT_EXCHANGE,
    MAIN_EXCHANGE,
)

MAX_DEAD_LETTERS = 10_000
DEAD_LETTER_MILLISECONDS = 7 * 24 * 3600 * 1000
LOG_MILLISECONDS = 60_000  # TTL of a dead letter in the log queue
REPLY_QUEUE_MILLISECONDS = 60_000  # how long the queue outlives a lost connection
MAX_HINTS = 1_000


async def declare_exchanges(channel: AbstractChannel) -> None:
    """Declare the exchanges and the dead-letter queue."""
    await channel.declare_exchange(MAIN_EXCHANGE, "topic", durable=True)
    await channel.declare_exchange(DEAD_LETTER_EXCHANGE, "topic", durable=True)
    await channel.declare_exchange(HINT_EXCHANGE, "fanout", durable=False)
    await _declare_letters(channel, DEAD_LETTER_QUEUE, DEAD_LETTER_MILLISECONDS)


async def declare_dead_letter_log(channel: AbstractChannel) -> AbstractQueue:
    """Declare the queue that all processes share, so that each dead letter is logged once."""
    return await _declare_letters(channel, DEAD_LETTER_LOG_QUEUE, LOG_MILLISECONDS)


async def _declare_letters(channel: AbstractChannel, name: str, milliseconds: int) -> AbstractQueue:
    # Classic, not quorum: reading a dead letter requeues it, and quorum queues count that as a delivery.
    arguments: FieldTable = {
        "x-queue-type": "classic",
        "x-max-length": MAX_DEAD_LETTERS,
        "x-overflow": "drop-head",
        "x-message-ttl": milliseconds,
    }
    queue = await channel.declare_queue(name, durable=True, arguments=arguments)
    await queue.bind(DEAD_LETTER_EXCHANGE, "#")
    return queue


async def declare_work_queue(channel: AbstractChannel, spec: QueueSpec) -> AbstractQueue:
    """Declare the queue of a subscription and bind it to its keys."""
    bounds: FieldTable = {
        "x-max-length": spec.max_length,
        "x-overflow": "reject-publish",
    }
    if spec.dead_letters:
        bounds["x-dead-letter-exchange"] = DEAD_LETTER_EXCHANGE
    if spec.expires_seconds is not None:
        bounds["x-expires"] = max(1, int(spec.expires_seconds * 1000))
    if spec.durable:
        queue = await channel.declare_queue(
            spec.name,
            durable=True,
            arguments={
                **bounds,
                "x-queue-type": "quorum",
                "x-delivery-limit": spec.max_deliveries - 1,  # the broker counts redeliveries only
                **({"x-dead-letter-strategy": "at-least-once"} if spec.dead_letters else {}),
                "x-single-active-consumer": spec.exclusive,
            },
        )
    else:
        queue = await channel.declare_queue(spec.name, exclusive=True, arguments=bounds)
    for key in spec.keys:
        await queue.bind(MAIN_EXCHANGE, key)
    return queue


async def declare_reply_queue(channel: AbstractChannel, name: str) -> AbstractQueue:
    """Declare a reply queue that survives a short loss of the connection and expires after its process ended."""
    return await channel.declare_queue(
        name,
        durable=True,
        arguments={
            "x-queue-type": "classic",
            "x-expires": REPLY_QUEUE_MILLISECONDS,
            "x-max-length": MAX_LENGTH,
            "x-overflow": "reject-publish",
            "x-dead-letter-exchange": DEAD_LETTER_EXCHANGE,
        },
    )


async def declare_hint_queue(channel: AbstractChannel) -> AbstractQueue:
    """Declare this process's own hint queue; when it is full, the oldest hints are dropped."""
    await channel.declare_exchange(HINT_EXCHANGE, "fanout", durable=False)
    queue = await channel.declare_queue(
        exclusive=True, arguments={"x-max-length": MAX_HINTS, "x-overflow": "drop-head"}
    )
    await queue.bind(HINT_EXCHANGE)
    return queue
