"""The baseline of nodes: a bare aio-pika consumer that replies to every message.

`python -m bench.bare_responder BUS_URL QUEUE` prints one line of JSON when it is ready.
"""

import asyncio
import json
import sys

import aio_pika
from aio_pika.abc import AbstractIncomingMessage


async def main(url: str, queue_name: str) -> None:
    """Reply to every message of a queue with its body."""
    connection = await aio_pika.connect(url)
    channel = await connection.channel(publisher_confirms=False)
    queue = await channel.declare_queue(queue_name, auto_delete=True)

    async def reply(message: AbstractIncomingMessage) -> None:
        async with message.process():
            answer = aio_pika.Message(message.body, correlation_id=message.correlation_id)
            await channel.default_exchange.publish(answer, routing_key=message.reply_to or "")

    await queue.consume(reply)
    print(json.dumps({"url": url}), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
