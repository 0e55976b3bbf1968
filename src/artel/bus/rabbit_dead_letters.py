"""Dead letters on RabbitMQ: the broker stores them, and one process logs each."""

from aio_pika.abc import AbstractIncomingMessage

from artel.bus.bus import DeadLetter, Reason
from artel.bus.declarations import declare_dead_letter_log
from artel.bus.link import Feed, Link, close_channel, translate_connection_errors
from artel.bus.topology import DEAD_LETTER_QUEUE
from artel.contract.envelope import Envelope, InvalidMessage
from artel.logs import get_logger

log = get_logger(__name__)


def dead_letter(message: AbstractIncomingMessage) -> DeadLetter:
    """Return a dead letter from a message and its headers."""
    queue = str(message.headers.get("x-first-death-queue", ""))
    return DeadLetter(message.body, message.routing_key or "", queue, _reason(message))


def _reason(message: AbstractIncomingMessage) -> Reason:
    match message.headers.get("x-first-death-reason"):
        case "expired":
            return Reason.EXPIRED
        case "rejected":  # by us: invalid, or failed at the last attempt on a queue that isn't durable
            return Reason.FAILED if _is_valid(message.body) else Reason.INVALID
        case _:
            return Reason.FAILED


def _is_valid(body: bytes) -> bool:
    try:
        Envelope.from_bytes(body)
    except InvalidMessage:
        return False
    return True


class RabbitDeadLetters:
    """Logs dead letters and lists them."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._feed = Feed(link, "dead-letters", declare_dead_letter_log, self._log, no_ack=True)

    async def open(self) -> None:
        """Start to log dead letters."""
        await self._feed.open()

    async def oldest(self, limit: int) -> list[DeadLetter]:
        """Return the oldest dead letters without removing them."""
        channel = await self._link.channel()
        letters: list[DeadLetter] = []
        try:
            async with translate_connection_errors():
                queue = await channel.get_queue(DEAD_LETTER_QUEUE, ensure=False)
                while len(letters) < limit and (message := await queue.get(fail=False)):
                    letters.append(dead_letter(message))
        finally:
            await close_channel(channel)  # requeues the unacknowledged messages in order
        return letters

    async def close(self) -> None:
        """Stop logging dead letters."""
        await self._feed.close()

    async def _log(self, message: AbstractIncomingMessage) -> None:
        letter = dead_letter(message)
        log.warning("message_dead_lettered", queue=letter.queue, key=letter.key, reason=letter.reason.value)
