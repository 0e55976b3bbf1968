"""Sends messages to RabbitMQ, and waits until it has confirmed them."""

import asyncio

import aiormq
from aio_pika import Message
from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import DeliveryError

from artel.bus.bus import QueueFull
from artel.bus.declarations import declare_exchanges
from artel.bus.feed import close_channel
from artel.bus.link import Link, losing, persistently


class Publisher:
    """One channel with confirms, opened again when it is lost; many messages may wait for theirs at once."""

    def __init__(self, link: Link, deadline_seconds: float) -> None:
        self._link = link
        self._deadline_seconds = deadline_seconds
        self._channel: AbstractChannel | None = None
        self._opening = asyncio.Lock()

    async def send(self, exchange: str, key: str, message: Message) -> bool:
        """Send until the broker confirms; say whether a queue took it. After a lost connection it is sent again."""
        return await persistently(lambda: self._send_once(exchange, key, message), self._deadline_seconds)

    async def open(self) -> None:
        """Open the channel and declare what messages are sent to."""
        await persistently(self._open_channel, self._deadline_seconds)

    async def close(self) -> None:
        """End the channel."""
        if self._channel:
            await close_channel(self._channel)

    async def _send_once(self, exchange: str, key: str, message: Message) -> bool:
        channel = await self._open_channel()
        async with losing():
            to = await channel.get_exchange(exchange, ensure=False) if exchange else channel.default_exchange
            try:
                confirmed = await to.publish(message, key, mandatory=True)
            except DeliveryError:
                raise QueueFull(f"A queue for {key} is full. Try again in a moment.", retry_after=1) from None
        return isinstance(confirmed, aiormq.spec.Basic.Ack)  # else it is the message, come back

    async def _open_channel(self) -> AbstractChannel:
        async with self._opening:
            if self._channel is None or self._channel.is_closed:
                if self._channel:
                    await close_channel(self._channel)
                channel = await self._link.channel(confirms=True)
                try:
                    async with losing():
                        await declare_exchanges(channel)
                except BaseException:
                    await close_channel(channel)
                    raise
                self._channel = channel
            return self._channel
