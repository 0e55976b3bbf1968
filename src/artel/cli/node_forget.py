"""The command that removes what a retired node has left: `artel node forget`, on the machine of the server."""

from typing import TYPE_CHECKING, Annotated

import typer

from artel.cli.command_line import AsJson
from artel.cli.output import show

if TYPE_CHECKING:
    from artel.settings import Settings


def forget(
    name: Annotated[str, typer.Argument(help="The node's name; it must not run.")],
    as_json: AsJson = False,
) -> None:
    """Remove what a retired node left (server operator only).

    Deletes its queues on the broker, with what waits in them, and its entry in the registry.
    """
    import asyncio

    from artel.logs import configure_logs
    from artel.settings import load_settings

    settings = load_settings()
    configure_logs(settings.log_format, "warning")
    queues, was_known = asyncio.run(_forget(settings, name))
    left = ", ".join(f"{queue} ({count} messages)" for queue, count in sorted(queues.items()))
    entry = "its entry in the registry" if was_known else "no entry in the registry"
    sentence = f"Forgot {name}: {left or 'no queues'}, {entry}."
    show({"name": name, "queues": queues, "was_registered": was_known}, as_json, sentence)


async def _forget(settings: "Settings", name: str) -> tuple[dict[str, int], bool]:
    """Remove a node; return the messages of its queues, and whether the registry knew it."""
    from artel.bus.topology import command_queue
    from artel.container import usable_database
    from artel.data_folder import DataFolder
    from artel.registry.repository import forget_node, require_ended

    command_queue(name)  # raises InvalidKey
    DataFolder.open(settings.data_dir)
    async with usable_database(settings) as database:
        await database.read(require_ended, name)
        queues = {}
        if settings.bus_url is not None:
            from artel.bus.retired_queues import delete_queues_of  # lazy: slow to import

            queues = await delete_queues_of(settings.bus_url.get_secret_value(), name)
        return queues, await database.run(forget_node, name)
