"""`artel chat`."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from artel.cli.command_line import AsJson, ExitCode, NoFolder, Project, Server, connect

if TYPE_CHECKING:
    from artel.client.api_client import ApiClient
    from artel.client.conversation import Conversation


def chat(
    message: Annotated[
        str | None, typer.Argument(help="The message. Default: a conversation, or the piped input.")
    ] = None,
    project: Project = None,
    session: Annotated[
        str | None, typer.Option("--session", help="The session to continue. Default: the last one.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", "-a", help="The agent, such as coder. Default: the orchestrator.")
    ] = None,
    new: Annotated[bool, typer.Option("--new", help="Start a new session.")] = False,
    attach: Annotated[
        list[Path] | None,
        typer.Option("--attach", metavar="FILE", help="A text or an image for the message; can be repeated."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="The folder that agents may work in, if none is connected.  [default: the current one]"),
    ] = None,
    no_folder: NoFolder = False,
    server: Server = None,
    as_json: AsJson = False,
) -> ExitCode:
    """Talk to the agents of a project: one message, or a conversation in the terminal."""
    if new and session is not None:
        raise typer.BadParameter("use --new or --session, not both")
    interactive = message is None and sys.stdin.isatty()
    if interactive and as_json:
        raise typer.BadParameter("--json needs a message: artel chat MESSAGE --json")
    if folder is not None and (no_folder or not interactive):
        raise typer.BadParameter(
            "--folder works only in a conversation in the terminal. To connect a folder: artel connect DIR"
        )
    if attach and interactive:
        raise typer.BadParameter(
            "--attach needs a message: artel chat MESSAGE --attach FILE. In a conversation: /attach"
        )
    content = sys.stdin.read() if not interactive and message in (None, "-") else message or ""
    if not interactive and not content.strip():
        raise typer.BadParameter("the message is empty")
    with connect(server) as client:
        # Imported here because httpx takes 0.1 s to import, which `artel --help` should not need.
        from artel.client.conversation import Conversation

        conversation = Conversation.open(client, project, session, new=new)
        if not interactive:
            from artel.cli.chat_turn import ask

            return ask(conversation, content.rstrip("\n"), agent, attach or (), as_json=as_json)
        _converse(client, conversation, agent, folder, no_folder=no_folder)
    return ExitCode.OK


def _converse(
    client: "ApiClient", conversation: "Conversation", agent: str | None, folder: Path | None, *, no_folder: bool
) -> None:
    """Run a conversation in the terminal, with a connector for the folder if none is connected."""
    from artel.cli.chat_prompt import ChatPrompt
    from artel.cli.connector_process import ChatFolder
    from artel.client.credentials import config_folder

    with ExitStack() as stack:
        chat_folder = None
        if not no_folder:
            chat_folder = ChatFolder(client, conversation.project_id, folder)
            stack.callback(chat_folder.stop)
            chat_folder.start()
        ChatPrompt(conversation, agent, config_folder() / "chat_history", chat_folder).run()
