"""Publishing to RabbitMQ with confirms."""

import asyncio

import aiormq
from aio_pika import Message
from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import DeliveryError

from artel.bus.bus import QueueFull
from artel.bus.declarations import declare_exchanges
from artel.bus.feed import close_channel
from artel.bus.link import Link, retry_until_deadline, translate_connection_errors


class Publisher:
    """One channel with confirms, reopened when it is lost; messages are confirmed concurrently."""

    def __init__(self, link: Link, deadline_seconds: float) -> None:
        self._link = link
        self._deadline_seconds = deadline_seconds
        self._channel: AbstractChannel | None = None
        self._opening = asyncio.Lock()

    async def send(self, exchange: str, key: str, message: Message) -> bool:
        """Send until the broker confirms, again after a lost connection; return whether a queue received it."""
        return await retry_until_deadline(lambda: self._send_once(exchange, key, message), self._deadline_seconds)

    async def open(self) -> None:
        """Open the channel and declare the exchanges."""
        await retry_until_deadline(self._open_channel, self._deadline_seconds)

    async def close(self) -> None:
        """Close the channel."""
        if self._channel:
            await close_channel(self._channel)

    async def _send_once(self, exchange: str, key: str, message: Message) -> bool:
        channel = await self._open_channel()
        async with translate_connection_errors():
            target = await channel.get_exchange(exchange, ensure=False) if exchange else channel.default_exchange
            try:
                confirmed = await target.publish(message, key, mandatory=True)
            except DeliveryError:
                raise QueueFull(f"A queue for {key} is full. Try again in a moment.", retry_after=1) from None
        return isinstance(confirmed, aiormq.spec.Basic.Ack)  # else it is the returned, unroutable message

    async def _open_channel(self) -> AbstractChannel:
        async with self._opening:
            if self._channel is None or self._channel.is_closed:
                if self._channel:
                    await close_channel(self._channel)
                channel = await self._link.channel(confirms=True)
                try:
                    async with translate_connection_errors():
                        await declare_exchanges(channel)
                except BaseException:
                    await close_channel(channel)
                    raise
                self._channel = channel
            return self._channel
