"""Hints between processes through RabbitMQ: unconfirmed, and dropped if they can't be sent now."""

import asyncio
import json

from aio_pika import Message
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

from artel.bus.bus import Hint
from artel.bus.declarations import declare_hint_queue
from artel.bus.hints import HintDispatcher, PendingHints
from artel.bus.link import BrokerConnectionLost, Feed, Link, ignore_loss, translate_connection_errors
from artel.bus.topology import HINT_EXCHANGE
from artel.errors import ArtelError
from artel.ids import uuid7
from artel.logs import get_logger

SEND_SECONDS = 2.0
EXPIRATION_SECONDS = 10.0

log = get_logger(__name__)


class RabbitHints:
    """Sends the hints of this process to the others and dispatches theirs here."""

    def __init__(self, reading: Link, writing: Link, dispatcher: HintDispatcher) -> None:
        self._link = writing
        self._dispatcher = dispatcher
        self._sender = uuid7()
        self.feed = Feed(reading, "hints", declare_hint_queue, self._receive, no_ack=True)
        self._pending = PendingHints()
        self._sending: asyncio.Task[None] | None = None
        self._channel: AbstractChannel | None = None

    def send(self, hint: Hint) -> None:
        """Dispatch a hint in this process, and send it to the others if the broker can be reached."""
        self._dispatcher.dispatch(hint)
        if self._link.connected:
            self._pending.add(hint)
            if self._sending is None or self._sending.done():
                self._sending = asyncio.create_task(self._send_pending(), name="bus-hints-send")

    async def close(self) -> None:
        """Stop sending and receiving."""
        if self._sending:
            self._sending.cancel()
            await asyncio.wait([self._sending])
        if self._channel:
            await ignore_loss(self._channel.close())
        await self.feed.close()

    async def _send_pending(self) -> None:
        while hints := self._pending.take():
            try:
                async with asyncio.timeout(SEND_SECONDS), translate_connection_errors():
                    for hint in hints:
                        if self._channel is None or self._channel.is_closed:
                            self._channel = await self._link.channel()
                        body = json.dumps({"kind": hint.kind, "key": hint.key}).encode()
                        message = Message(body, app_id=self._sender, expiration=EXPIRATION_SECONDS)
                        exchange = await self._channel.get_exchange(HINT_EXCHANGE, ensure=False)
                        await exchange.publish(message, "", mandatory=False)
            except (BrokerConnectionLost, TimeoutError, ArtelError) as problem:
                log.info("hints_dropped", count=len(hints), problem=repr(problem))

    async def _receive(self, message: AbstractIncomingMessage) -> None:
        if message.app_id == self._sender:
            return  # already dispatched by send()
        try:
            fields = json.loads(message.body)
            self._dispatcher.dispatch(Hint(kind=str(fields["kind"]), key=str(fields["key"])))
        except (ValueError, KeyError, TypeError) as problem:
            log.info("hint_not_understood", problem=str(problem))
