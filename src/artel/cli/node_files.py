"""The commands for agent files: `artel node check`, `artel node init` and `artel node schema`."""

from typing import TYPE_CHECKING, Annotated

import typer

from artel.cli.command_line import AsJson, ExitCode, command_group
from artel.cli.output import json_text, show, visible
from artel.errors import ArtelError, Kind

if TYPE_CHECKING:
    from artel.contract.agent_file import AgentFile

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE",
        help="Paths of agent files or of folders with them, or names of agents in the `agents` folder of the config.",
    ),
]

# The commands of other modules are added to this group: node_run, node_admin.
node = command_group("Agents as processes of their own: their files, running and controlling them.")


class FileNotWritten(ArtelError, kind=Kind.CONFLICT, code="file_not_written"):
    """The file to write is there already, or can't be created."""


@node.command("check")
def check(files: Files, as_json: AsJson = False) -> None:
    """Check agent files; name mistakes by file, line and key.

    The exit code is 2 if there is a mistake.
    """
    from artel.nodes.agent_files import check_agent_files, find_agent_files
    from artel.nodes.yaml_mistakes import MAX_MISTAKES

    loaded, mistakes = check_agent_files([path for name in files for path in find_agent_files(name)])
    if as_json:
        agents = [{"file": str(path), "name": file.name, "notes": _notes(file)} for path, file in loaded]
        typer.echo(json_text({"agents": agents, "mistakes": [mistake.dump() for mistake in mistakes[:MAX_MISTAKES]]}))
    else:
        for mistake in mistakes[:MAX_MISTAKES]:
            typer.echo(visible(str(mistake), keep=""))
        if len(mistakes) > MAX_MISTAKES:
            typer.echo(f"… and {len(mistakes) - MAX_MISTAKES} more")
        for path, file in loaded:
            skills = ", ".join(capability.name for capability in file.capabilities)
            typer.echo(visible(f"{path}: {file.name} is valid ({skills})", keep=""))
            for note in _notes(file):
                typer.echo(visible(f"{path}: note: {note}", keep=""))
    if mistakes:
        raise typer.Exit(ExitCode.USAGE)


def _notes(file: "AgentFile") -> list[str]:
    """Return what is allowed but most likely not meant."""
    from artel.contract.agent_file import BUILTIN_TOOLS

    tools = file.tools
    off = sorted(set(tools.enabled) - tools.usable)
    notes = [f"{name} is enabled, but tools.security does not allow it, so the agent can't use it" for name in off]
    ruled = (BUILTIN_TOOLS & tools.security.model_fields_set) | tools.security.plugins.keys()
    idle = [each for each in ruled.difference(tools.enabled) if tools.security.rule(each).enabled is not False]
    no_effect = "has rules in tools.security, but is not in tools.enabled, so they have no effect"
    notes += [f"{name} {no_effect}" for name in sorted(idle)]
    if not file.memory.long_term.enabled and (memory := sorted(tools.usable & {"memory_read", "memory_write"})):
        notes.append(f"memory.long_term.enabled is false, so {' and '.join(memory)} work in a worker space only")
    return notes


@node.command("init")
def init(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help="A path, or the name of an agent: its file is then in the `agents` folder of the config.",
        ),
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", "-k", help="Start from writer, critic, researcher or developer.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write an agent file with comments, to change as you like. An existing file is never overwritten."""
    from artel.nodes.agent_files import agent_path, kind_file, parse_agent_file
    from artel.nodes.kinds import TEMPLATE, kind_text

    example = parse_agent_file(kind_text(TEMPLATE), "template.yaml") if kind is None else kind_file(kind)
    path = agent_path(example.name if file is None else file)
    text = _renamed(kind_text(kind or TEMPLATE), example, path.stem)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as new:
            new.write(text)
    except FileExistsError:
        raise FileNotWritten(f"{path} exists already. Name another file, or remove it.") from None
    except OSError as error:
        raise FileNotWritten(f"{path} can't be written: {error.strerror}. Name another file.") from None
    show({"file": str(path)}, as_json, f"Wrote {path}. Change it, then: artel node check {path}")


def _renamed(text: str, example: "AgentFile", stem: str) -> str:
    """Return the text of a file with its stem as the agent's name, if that can be one."""
    from artel.contract.agent_file import is_agent_name

    if not is_agent_name(stem, example.type):
        return text
    return text.replace(f"  name: {example.name}", f'  name: "{stem}"', 1)


@node.command("schema")
def schema() -> None:
    """Print the JSON Schema of agent files, for editors."""
    from artel.contract.agent_file import AgentDocument
    from artel.contract.json_schema import DIALECT

    typer.echo(json_text({"$schema": DIALECT, **AgentDocument.model_json_schema()}))
