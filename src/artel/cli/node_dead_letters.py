"""The command for dead letters of the bus: `artel node dead-letters`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from artel.cli.command_line import AsJson
from artel.cli.output import table
from artel.errors import ConfigurationInvalid

if TYPE_CHECKING:
    from artel.bus.bus import DeadLetter

MAX_LETTERS = 10_000
COLUMNS = ("reason", "queue", "key", "source", "time", "problem", "message")


def dead_letters(
    limit: Annotated[int, typer.Option(help="How many at most.", min=1, max=MAX_LETTERS)] = 20,
    bus: Annotated[str | None, typer.Option(help="URL of the broker; by default ARTEL_BUS_URL.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show messages that could not be processed.

    The oldest of those that expired, were not valid or failed too often. They stay where they are.
    """
    import asyncio

    from artel.bus.rabbit import read_dead_letters
    from artel.logs import configure_logs
    from artel.settings import load_settings

    settings = load_settings()
    configure_logs(settings.log_format, "error")
    url = bus or (settings.bus_url.get_secret_value() if settings.bus_url else None)
    if url is None:
        raise ConfigurationInvalid("There is no broker. Set ARTEL_BUS_URL, or give --bus amqp://…")

    letters = asyncio.run(read_dead_letters(url, limit))
    table([_row(letter) for letter in letters], COLUMNS, as_json, "There are no dead letters.")


def _row(letter: "DeadLetter") -> dict[str, Any]:
    """Return a dead letter with what can be read of its message."""
    from artel.contract.envelope import Envelope, InvalidMessage

    about = {"reason": letter.reason.value, "problem": letter.problem}
    row: dict[str, Any] = {**about, "queue": letter.queue, "key": letter.key}
    try:
        envelope = Envelope.from_bytes(letter.body)
    except InvalidMessage:
        text = letter.body.decode(errors="backslashreplace")
        return row | {"id": None, "source": "", "time": "", "type": None, "message": text}
    return row | {
        "id": envelope.id,
        "source": envelope.source,
        "time": envelope.time.isoformat(timespec="seconds"),
        "type": envelope.type,
        "message": envelope.data.model_dump_json(exclude_none=True),
    }
