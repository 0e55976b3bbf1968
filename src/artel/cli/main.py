"""The command `artel`."""

import io
import sys
from typing import Annotated, Any, ClassVar

import typer

from artel import __version__
from artel.cli import (
    connected_folder,
    login,
    models,
    node_admin,
    node_dead_letters,
    node_files,
    node_forget,
    node_run,
    projects,
    serve,
    server_admin,
)
from artel.cli.chat import chat
from artel.cli.command_line import OF_KIND, ExitCode, QuickGroup
from artel.cli.doctor import doctor
from artel.cli.output import error_text, json_text, say
from artel.cli.workflows import workflows
from artel.errors import ArtelError

SHORT = 60  # maximum characters of a command's help in a list


class SectionedGroup(QuickGroup):
    """Lists its commands in sections, with examples at the end."""

    sections: ClassVar[dict[str, tuple[str, ...]]] = {
        "Start": ("up", "link", "login", "logout"),
        "Work": ("chat", "workflows"),
        "Files": ("connect", "undo", "grants"),
        "Manage": ("projects", "agents", "usage", "sessions", "password", "token"),
        "Operate": ("serve", "models", "node", "doctor", "users", "db", "memory"),
    }
    examples = (
        "artel up                            start a server here and get a login link",
        "artel chat                          talk to the agents of a project",
        'artel chat "Why does it fail?" -a coder',
        "artel connect . -p Website          let agents work in this folder",
    )

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands section by section; commands without a section come last."""
        named = {name for names in self.sections.values() for name in names}
        others = tuple(name for name in self.list_commands(ctx) if name not in named)
        for title, names in (*self.sections.items(), ("More", others)):
            rows = [(name, self.commands[name].get_short_help_str(SHORT)) for name in names if name in self.commands]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':{formatter.current_indent}}{example}\n")


app = typer.Typer(
    name="artel",
    help="A team of AI agents for every project, on your own server, while the files stay on your machine.",
    no_args_is_help=True,
    cls=SectionedGroup,
    pretty_exceptions_enable=False,
    add_completion=False,  # its options make every --help import pydantic
    rich_markup_mode=None,  # rich takes longer to import than all the rest of --help
)
app.command(short_help="Start Artel for you and this folder")(serve.up)
app.command(short_help="Start a server for others")(serve.serve)
app.command(short_help="Talk to the agents of a project")(chat)
app.command(short_help="Let agents work in a folder")(connected_folder.connect)
app.command(short_help="Undo file changes of agents")(connected_folder.undo)
app.command(short_help="Show tokens and cost")(projects.usage)
app.command(short_help="Check the setup and suggest fixes")(doctor)
app.command(short_help="Log in to a server")(login.login)
app.command(short_help="Log out of a server")(login.logout)
app.command(short_help="Print your token, for programs")(login.token)
app.command(short_help="Print a new link that logs you in")(login.link)
app.command(short_help="Change your password")(login.password)
app.add_typer(projects.projects, name="projects", short_help="Your projects")
app.add_typer(projects.agents, name="agents", short_help="The agents of a project")
app.add_typer(workflows, name="workflows", short_help="Plans: list, follow, retry, cancel")
app.add_typer(connected_folder.grants, name="grants", short_help="What agents are always allowed to do")
app.add_typer(login.sessions, name="sessions", short_help="Your logins")
app.add_typer(models.models, name="models", short_help="Models and their providers")
app.add_typer(server_admin.users, name="users", short_help="The accounts of the server")
app.add_typer(server_admin.database, name="db", short_help="The database of the server")
app.add_typer(server_admin.memory, name="memory", short_help="The memory of agents")
node_files.node.command("run")(node_run.run)
node_files.node.command("dead-letters")(node_dead_letters.dead_letters)
node_files.node.command("forget")(node_forget.forget)
for name, administer in node_admin.COMMANDS.items():
    node_files.node.command(name)(administer)
app.add_typer(node_files.node, name="node", short_help="Agents as processes of their own")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"artel {__version__}")
        raise typer.Exit


@app.callback()
def artel(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A team of AI agents for every project, on your own server, while the files stay on your machine."""


def main() -> None:
    """Run the command line; translate errors to exit codes."""
    try:
        sys.exit(app(standalone_mode=False) or ExitCode.OK)
    except ArtelError as error:
        _print_error(error.code, error_text(error))
        sys.exit(OF_KIND[error.kind])
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(ExitCode.INTERRUPTED)
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("artel"):
            raise
        detail = "This command needs the server. Install it: pip install 'artel-ai[server]'"
        _print_error("server_not_installed", detail)
        sys.exit(ExitCode.FAILED)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(ExitCode.FAILED)
    except Exception as error:
        if not hasattr(error, "format_message"):  # usage errors of typer have it
            raise
        _print_usage_error(error)
        sys.exit(ExitCode.USAGE)


def _print_error(code: str, detail: str) -> None:
    if "--json" in sys.argv:
        typer.echo(json_text({"code": code, "detail": detail}, indent=None), err=True)
    else:
        say(f"artel: {detail}", err=True)


def _print_usage_error(error: Any) -> None:
    if "--json" in sys.argv:
        _print_error("usage", error.format_message())
    else:
        text = io.StringIO()
        error.show(text)
        say(text.getvalue().removesuffix("\n"), err=True)
