"""`artel projects …`, `artel agents …` and `artel usage`."""

import json
from collections.abc import Callable
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.models import OptionInfo

from artel.cli.command_line import AsJson, OnlyProject, Project, Server, Yes, command_group, connect, project_number
from artel.cli.output import ago, confirm, say, show, table

if TYPE_CHECKING:
    from artel.client.api_client import ApiClient

projects = command_group("Manage your projects.")
agents = command_group("Manage the agents of a project.")
ProjectName = Annotated[
    str, typer.Argument(metavar="PROJECT", help="The project's name or number.", show_default=False)
]
SettingsOption = Annotated[str | None, typer.Option("--settings", help="The project's settings, as a JSON object.")]
Agent = Annotated[str, typer.Argument(metavar="AGENT", help="The agent's name or number.", show_default=False)]
USAGE_COLUMNS = {"day": "day", "project": "project_id", "agent": "agent", "model": "model"}
USAGE_SUMS = ("calls", "input_tokens", "output_tokens", "cost_usd")
USAGE_PAGE = 100


@projects.command("list")
def list_projects(server: Server = None, as_json: AsJson = False) -> None:
    """List your projects."""
    with connect(server) as client:
        rows = client.all_items("/my/projects")
    if not as_json:
        rows = [row | {"default": "*" if row["is_default"] else "", "created": ago(row["created_at"])} for row in rows]
    empty = "No projects yet. Create one: artel projects create NAME"
    table(rows, ("id", "name", "default", "created"), as_json, empty)


@projects.command("create")
def create_project(
    name: Annotated[str, typer.Argument(help="The project's name.")],
    settings: SettingsOption = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Create a project with the starter pack of agents."""
    if not name.strip():
        raise typer.BadParameter("the project's name must not be empty")
    body: dict[str, Any] = {"name": name} | _settings(settings)
    with connect(server) as client:
        project = client.call("POST", "/my/projects", json=body)
    agents = ", ".join(agent["name"] for agent in project["agents"])
    show(project, as_json, f"Created project {project['id']} ({project['name']}) with {agents}.")


@projects.command("show")
def show_project(project: ProjectName, server: Server = None, as_json: AsJson = False) -> None:
    """Show a project and its agents."""
    with connect(server) as client:
        found = client.call("GET", f"/my/projects/{project_number(client, project)}")
    if not as_json:
        found["agents"] = [agent["name"] for agent in found["agents"]]
        found["settings"] = json.dumps(found["settings"], ensure_ascii=False)
    show(found, as_json)


@projects.command("update")
def update_project(
    project: ProjectName,
    name: Annotated[str | None, typer.Option(help="A new name.")] = None,
    settings: SettingsOption = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Change a project's name or settings."""
    if name == "":
        raise typer.BadParameter("--name must not be empty")
    body = ({"name": name} if name is not None else {}) | _settings(settings)
    if not body:
        raise typer.BadParameter("nothing to change: use --name or --settings")
    with connect(server) as client:
        changed = client.call("PATCH", f"/my/projects/{project_number(client, project)}", json=body)
    show(changed, as_json, f"Changed project {changed['id']} ({changed['name']}).")


@projects.command("delete")
def delete_project(project: ProjectName, yes: Yes = False, server: Server = None, as_json: AsJson = False) -> None:
    """Delete a project with its agents; the files in your folder stay."""
    confirm(f"Delete project {project} with all its agents?", yes)
    with connect(server) as client:
        number = project_number(client, project)
        client.call("DELETE", f"/my/projects/{number}")
    show({"deleted": number}, as_json, f"Deleted project {project}.")


@projects.command("reset")
def reset_space(
    project: ProjectName,
    as_administrator: Annotated[
        bool, typer.Option("--as-administrator", help="Reset the worker space of another user's project.")
    ] = False,
    yes: Yes = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Stop all work in a project and restart its workers.

    Everything that runs in the project ends at once. Memories and files stay.
    """
    confirm(f"Stop everything that runs in project {project}?", yes)
    with connect(server) as client:
        number = project_number(client, project)
        client.call("POST", f"/{'admin' if as_administrator else 'my'}/projects/{number}/space/reset")
    show({"reset": number}, as_json, f"Reset the worker space of project {project}.")


def _settings(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        settings = json.loads(text)
    except ValueError as invalid:
        raise typer.BadParameter(f"--settings is not JSON: {invalid}") from None
    return {"settings": settings}


# Agents

# The type of each option that `create` and `update` share.
_OPTIONS: dict[str, tuple[Any, OptionInfo]] = {
    "prompt": (str, typer.Option(help="The system prompt.")),
    "prompt_file": (Path, typer.Option(help="A file with the system prompt.", exists=True, dir_okay=False)),
    "temperature": (float, typer.Option(help="0 to 2.", min=0, max=2)),
    "max_tokens": (int, typer.Option(help="Maximum length of an answer, in tokens.", min=1)),
    "concurrency_limit": (int, typer.Option(help="Parallel tasks, 1 to 10.", min=1, max=10)),
    "tool": (list[str], typer.Option(help="A tool it may use; repeat for more.")),
    "capability": (list[str], typer.Option(help="A capability; repeat for more.")),
    "memory": (bool, typer.Option(help="Whether it uses memory.")),
    "runtime": (str, typer.Option(help="local, or node: on a node that has its capabilities.")),
    "fallback": (bool, typer.Option(help="Whether another model answers when its own fails.")),
    "fallback_model": (str, typer.Option(help="That model. Default: the server's fallback model.")),
    "understand": (bool, typer.Option(help="Whether it first says what is asked for.")),
    "plan": (bool, typer.Option(help="Whether it lists its steps first.")),
    "critique": (bool, typer.Option(help="Whether it reviews its drafts.")),
    "max_iterations": (int, typer.Option(help="Drafts that the critique may send back, 1 to 10.", min=1, max=10)),
    "max_tool_calls": (int, typer.Option(help="Tool calls in a task, 0 to 20.", min=0, max=20)),
}
_RENAMED = {"prompt": "system_prompt", "tool": "tools", "capability": "capabilities"}  # fields that differ from flags
_LOOP_FIELDS = ("understand", "plan", "critique", "max_iterations", "max_tool_calls")
_FALLBACK_FIELDS = {"fallback": "enabled", "fallback_model": "model"}


def _with_agent_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the `**options` of a command by the options above, before `--project`."""
    own = [item for item in signature(command).parameters.values() if item.kind is not Parameter.VAR_KEYWORD]
    before = next(index for index, item in enumerate(own) if item.name == "project")
    added = [
        Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=Annotated[kind | None, option])
        for name, (kind, option) in _OPTIONS.items()
    ]
    vars(command)["__signature__"] = Signature([*own[:before], *added, *own[before:]])
    return command


@agents.command("list")
def list_agents(project: Project = None, server: Server = None, as_json: AsJson = False) -> None:
    """List the agents of a project."""
    with connect(server) as client:
        rows = client.all_items(f"/my/projects/{project_number(client, project)}/agents")
    table(rows, ("id", "name", "role", "model", "temperature", "max_tokens", "runtime"), as_json, "No agents.")


@agents.command("create")
@_with_agent_options
def create_agent(
    name: Annotated[str, typer.Argument(help="Unique in the project: a-z, 0-9, _ and -.")],
    role: Annotated[str, typer.Option("--role", help="The agent's role, such as reviewer.")],
    model: Annotated[
        str | None, typer.Option("--model", help="The model, such as gpt-4. Default: that of new agents.")
    ] = None,
    project: Project = None,
    server: Server = None,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Add an agent to a project."""
    body = _body({"name": name, "role": role, "model": model} | options)
    if "system_prompt" not in body:
        raise typer.BadParameter("missing system prompt: use --prompt or --prompt-file")
    with connect(server) as client:
        created = client.call("POST", f"/my/projects/{project_number(client, project)}/agents", json=body)
    show(created, as_json, f"Created agent {created['id']} ({created['name']}) in project {created['project_id']}.")


@agents.command("show")
def show_agent(agent: Agent, project: Project = None, server: Server = None, as_json: AsJson = False) -> None:
    """Show an agent."""
    with connect(server) as client:
        found = client.call("GET", _agent_path(client, project, agent))
    show(found, as_json)


@agents.command("update")
@_with_agent_options
def update_agent(
    agent: Agent,
    name: Annotated[str | None, typer.Option("--name", help="Unique in the project.")] = None,
    role: Annotated[str | None, typer.Option("--role", help="The agent's role, such as reviewer.")] = None,
    model: Annotated[str | None, typer.Option("--model", help="The model, such as gpt-4.")] = None,
    project: Project = None,
    server: Server = None,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Change an agent; options that are not given stay unchanged."""
    body = _body({"name": name, "role": role, "model": model} | options)
    if not body:
        raise typer.BadParameter("nothing to change: give an option, for example --model gpt-4o")
    with connect(server) as client:
        changed = client.call("PATCH", _agent_path(client, project, agent), json=body)
    show(changed, as_json, f"Changed agent {changed['id']} ({changed['name']}).")


@agents.command("delete")
def delete_agent(
    agent: Agent, yes: Yes = False, project: Project = None, server: Server = None, as_json: AsJson = False
) -> None:
    """Delete an agent."""
    confirm(f"Delete agent {agent}?", yes)
    with connect(server) as client:
        path = _agent_path(client, project, agent)
        client.call("DELETE", path)
    show({"deleted": int(path.rpartition("/")[2])}, as_json, f"Deleted agent {agent}.")


def _agent_path(client: "ApiClient", project: str | None, agent: str) -> str:
    """Return the URL path of an agent by its name (with or without `agent_`) or its number."""
    from artel.client.conversation import NoSuchAgent

    agents = f"/my/projects/{project_number(client, project)}/agents"
    if agent.isdecimal():
        return f"{agents}/{agent}"
    ids = {str(item["name"]): item["id"] for item in client.all_items(agents)}
    number = ids.get(agent, ids.get(f"agent_{agent}"))
    if number is None:
        raise NoSuchAgent(f"This project has no agent called {agent}. Its agents: {', '.join(ids)}.")
    return f"{agents}/{number}"


def _body(options: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an agent that are set by the options of a command."""
    given = {option: value for option, value in options.items() if value is not None}
    if file := given.pop("prompt_file", None):
        if "prompt" in given:
            raise typer.BadParameter("use --prompt or --prompt-file, not both")
        given["prompt"] = file.read_text(encoding="utf-8")
    for option, value in given.items():
        if value == "":
            raise typer.BadParameter(f"--{option.replace('_', '-')} must not be empty")
    loop = {name: given.pop(name) for name in _LOOP_FIELDS if name in given}
    fallback = {field: given.pop(name) for name, field in _FALLBACK_FIELDS.items() if name in given}
    fields = {_RENAMED.get(option, option): value for option, value in given.items()}
    return fields | ({"loop": loop} if loop else {}) | ({"fallback": fallback} if fallback else {})


# Usage


def usage(
    first: Annotated[
        str | None, typer.Option("--from", help="First day, like 2026-11-01. Default: 30 days ago.")
    ] = None,
    last: Annotated[str | None, typer.Option("--to", help="Last day. Default: today.")] = None,
    group: Annotated[str, typer.Option(help="Group by day, project, agent, model, or several with commas.")] = "day",
    project: OnlyProject = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show the tokens and the cost of your model calls."""
    options: dict[str, Any] = {"from": first, "to": last, "group": group, "limit": USAGE_PAGE}
    with connect(server) as client:
        options["project_id"] = None if project is None else project_number(client, project)
        query = {name: value for name, value in options.items() if value is not None}
        report = client.call("GET", "/my/usage", params=query)
        while len(report["items"]) < report["total"]:
            page = client.call("GET", "/my/usage", params=query | {"offset": len(report["items"])})
            if not page["items"]:
                break
            report["items"] += page["items"]
    if as_json:
        show(report, as_json)
        return
    names = [USAGE_COLUMNS[name] for name in dict.fromkeys(group.split(","))]
    rows = [item | {"agent": item["agent"] or "(orchestrator)"} for item in report["items"]]
    days = f"{report['first_day']} to {report['last_day']}"
    table(rows, [*names, *USAGE_SUMS], as_json, f"No model calls from {days}.")
    total = report["sum"]
    unpriced = f", and {total['unpriced_calls']} calls without a known price" if total["unpriced_calls"] else ""
    tokens = total["input_tokens"] + total["output_tokens"]
    say(f"{days}: {total['calls']} calls, {tokens} tokens, ${total['cost_usd']:.4f}{unpriced}")
