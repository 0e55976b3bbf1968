"""`artel node run`: agents as nodes on RabbitMQ, in this process."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from artel.cli.command_line import AsJson
from artel.cli.output import json_text, say
from artel.errors import ConfigurationInvalid

if TYPE_CHECKING:
    from artel.contract.agent_file import AgentFile
    from artel.settings import Settings

Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE",
        help="Paths of agent files or of folders with them, or names of agents in the `agents` folder of the config.",
    ),
]


def run(
    files: Files = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="A shipped agent instead of a file: writer, critic, researcher, developer; repeat for more."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Another name than that in the file, if there is only one.")] = None,
    bus: Annotated[str | None, typer.Option(help="The broker: amqp://…  [default: ARTEL_BUS_URL]")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where nodes store their files.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run agents as nodes until they are stopped.

    SIGTERM and Ctrl-C stop them gracefully: they take no more commands, and running tasks may end; a second signal ends
    the process at once. Exit codes: 0 stopped, 2 a mistake in a file or an option, 3 no such file, 5 an agent of this
    name is already running, 6 the broker can't be reached, 130 ended by a second signal.
    """
    # Imported here because they take 0.5 s to import, which `artel --help` should not need.
    import asyncio

    import uvloop

    from artel.data_folder import DataFolder
    from artel.logs import configure_logs
    from artel.settings import load_settings

    settings = load_settings(data_dir=data_dir, bus_url=bus)
    agents = _agents(files or [], kind or [], name)
    if settings.bus_url is None:
        raise ConfigurationInvalid(
            "Nodes need a broker: set ARTEL_BUS_URL, or use --bus amqp://user:password@host. "
            "To try them without one, run: artel up --nodes DIR"
        )
    configure_logs(settings.log_format, settings.log_level)
    DataFolder.open(settings.data_dir)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(agents, settings, settings.bus_url.get_secret_value(), as_json))


async def _run(agents: "list[AgentFile]", settings: "Settings", url: str, as_json: bool) -> None:
    from artel.brain.router import BrainRouter
    from artel.nodes.connection import RabbitConnection
    from artel.nodes.node import AgentNode
    from artel.nodes.process import run_nodes
    from artel.nodes.registration import AddressTaken
    from artel.nodes.singleton import AgentAlreadyRunningError

    brain = BrainRouter(os.environ)  # the operator chose the models in the files
    try:
        nodes = [
            AgentNode(
                agent,
                RabbitConnection(url, agent.name),
                brain,
                settings,
                is_demo=brain.is_demo(agent.brain.model_name),
            )
            for agent in agents
        ]

        def ready() -> None:
            if as_json:
                shown = [{"name": each.name, "uid": each.status.uid, "epoch": each.status.epoch} for each in nodes]
                typer.echo(json_text({"nodes": shown}, indent=None))
            else:
                mode = "" if brain.configured else "; no model is configured, the demo brain answers"
                say(f"Ready: {', '.join(each.name for each in nodes)}{mode}. Ctrl-C stops.")

        exits = await run_nodes(nodes, ready)
    finally:
        await brain.close()
    for agent, end in zip(agents, exits, strict=True):
        if end.cause == "name_taken":
            raise AgentAlreadyRunningError(agent.name)
        if end.cause == "address_taken":
            raise AddressTaken(end.reason)


def _agents(files: list[str], kinds: list[str], name: str | None) -> "list[AgentFile]":
    """Return the agents to run, under names that are all different."""
    from artel.nodes.agent_files import find_agent_files, kind_file, load_agent_files

    paths = [path for given in files for path in find_agent_files(given)]
    if name is not None and len(paths) + len(kinds) > 1:
        raise typer.BadParameter("--name is for one agent, and there are several.")
    agents = load_agent_files(paths) if paths else []
    if name is not None and agents:
        agents = [_renamed(agents[0], name)]
    agents += [kind_file(kind, name) for kind in kinds]
    if not agents:
        raise typer.BadParameter("Name an agent file, or a shipped agent: artel node run --kind writer")
    addresses = [agent.name.replace(".", "_") for agent in agents]
    if twice := sorted({address for address in addresses if addresses.count(address) > 1}):
        raise typer.BadParameter(f"Two agents have the same name, or the same address: {', '.join(twice)}.")
    return agents


def _renamed(agent: "AgentFile", name: str) -> "AgentFile":
    from pydantic import ValidationError

    try:
        return type(agent).model_validate({**agent.model_dump(), "name": name})
    except ValidationError as invalid:
        raise typer.BadParameter(invalid.errors()[0]["msg"].removeprefix("Value error, ")) from None
