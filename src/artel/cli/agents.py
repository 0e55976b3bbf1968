"""`artel agents …`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from artel.cli.connection import connect, project_number
from artel.cli.group import QuickGroup
from artel.cli.output import AsJson, Project, Server, Yes, confirm, show, table

if TYPE_CHECKING:
    from artel.client.api_client import ApiClient

app = typer.Typer(help="Manage the agents of a project.", no_args_is_help=True, cls=QuickGroup)

Agent = Annotated[str, typer.Argument(metavar="AGENT", help="The agent's name or number.", show_default=False)]
Name = Annotated[str | None, typer.Option("--name", help="Unique in the project.")]
Role = Annotated[str | None, typer.Option("--role", help="The agent's role, such as reviewer.")]
Model = Annotated[str | None, typer.Option("--model", help="The model, such as gpt-4.")]
Prompt = Annotated[str | None, typer.Option("--prompt", help="The system prompt.")]
PromptFile = Annotated[
    Path | None, typer.Option("--prompt-file", help="A file with the system prompt.", exists=True, dir_okay=False)
]
Temperature = Annotated[float | None, typer.Option("--temperature", help="0 to 2.", min=0, max=2)]
MaxTokens = Annotated[int | None, typer.Option("--max-tokens", help="Maximum length of an answer, in tokens.", min=1)]
Concurrency = Annotated[int | None, typer.Option("--concurrency-limit", help="Parallel tasks, 1 to 10.", min=1, max=10)]
Tool = Annotated[list[str] | None, typer.Option("--tool", help="A tool it may use; repeat for more.")]
Capability = Annotated[list[str] | None, typer.Option("--capability", help="A capability; repeat for more.")]
Memory = Annotated[bool | None, typer.Option("--memory/--no-memory", help="Whether it uses memory.")]
Runtime = Annotated[str | None, typer.Option("--runtime", help="local; node is not supported yet.")]
Understand = Annotated[
    bool | None, typer.Option("--understand/--no-understand", help="Whether it first says what is asked for.")
]
Plan = Annotated[bool | None, typer.Option("--plan/--no-plan", help="Whether it lists its steps first.")]
Critique = Annotated[bool | None, typer.Option("--critique/--no-critique", help="Whether it reviews its drafts.")]
MaxIterations = Annotated[
    int | None, typer.Option("--max-iterations", help="Drafts that the critique may send back, 1 to 10.", min=1, max=10)
]
MaxToolCalls = Annotated[
    int | None, typer.Option("--max-tool-calls", help="Tool calls in a task, 0 to 20.", min=0, max=20)
]

# The field of an agent that each option sets.
_FIELDS = {
    "name": "name",
    "role": "role",
    "model": "model",
    "temperature": "temperature",
    "max_tokens": "max_tokens",
    "concurrency_limit": "concurrency_limit",
    "tool": "tools",
    "capability": "capabilities",
    "memory": "memory",
    "runtime": "runtime",
}
_LOOP_FIELDS = ("understand", "plan", "critique", "max_iterations", "max_tool_calls")


@app.command("list")
def list_agents(project: Project = None, server: Server = None, as_json: AsJson = False) -> None:
    """List the agents of a project."""
    with connect(server) as client:
        rows = client.all_items(f"/my/projects/{project_number(client, project)}/agents")
    table(rows, ("id", "name", "role", "model", "temperature", "max_tokens", "runtime"), as_json, "No agents.")


@app.command("create")
def create_agent(
    name: Annotated[str, typer.Argument(help="Unique in the project: a-z, 0-9, _ and -.")],
    role: Annotated[str, typer.Option("--role", help="The agent's role, such as reviewer.")],
    model: Annotated[str, typer.Option("--model", help="The model, such as gpt-4.")],
    prompt: Prompt = None,
    prompt_file: PromptFile = None,
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
    concurrency_limit: Concurrency = None,
    tool: Tool = None,
    capability: Capability = None,
    memory: Memory = None,
    runtime: Runtime = None,
    understand: Understand = None,
    plan: Plan = None,
    critique: Critique = None,
    max_iterations: MaxIterations = None,
    max_tool_calls: MaxToolCalls = None,
    project: Project = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Add an agent to a project."""
    body = _body(locals())
    if "system_prompt" not in body:
        raise typer.BadParameter("missing system prompt: use --prompt or --prompt-file")
    with connect(server) as client:
        created = client.call("POST", f"/my/projects/{project_number(client, project)}/agents", json=body)
    show(created, as_json, f"Created agent {created['id']} ({created['name']}) in project {created['project_id']}.")


@app.command("show")
def show_agent(agent: Agent, project: Project = None, server: Server = None, as_json: AsJson = False) -> None:
    """Show an agent."""
    with connect(server) as client:
        found = client.call("GET", _agent_path(client, project, agent))
    show(found, as_json)


@app.command("update")
def update_agent(
    agent: Agent,
    name: Name = None,
    role: Role = None,
    model: Model = None,
    prompt: Prompt = None,
    prompt_file: PromptFile = None,
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
    concurrency_limit: Concurrency = None,
    tool: Tool = None,
    capability: Capability = None,
    memory: Memory = None,
    runtime: Runtime = None,
    understand: Understand = None,
    plan: Plan = None,
    critique: Critique = None,
    max_iterations: MaxIterations = None,
    max_tool_calls: MaxToolCalls = None,
    project: Project = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Change an agent; options that are not given stay unchanged."""
    body = _body(locals())
    if not body:
        raise typer.BadParameter("nothing to change: give an option, for example --model gpt-4o")
    with connect(server) as client:
        changed = client.call("PATCH", _agent_path(client, project, agent), json=body)
    show(changed, as_json, f"Changed agent {changed['id']} ({changed['name']}).")


@app.command("delete")
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
    fields = {field: options[option] for option, field in _FIELDS.items()}
    fields["system_prompt"] = _prompt(options["prompt"], options["prompt_file"])
    fields["loop"] = {name: options[name] for name in _LOOP_FIELDS if options[name] is not None} or None
    for option, field in (_FIELDS | {"prompt": "system_prompt"}).items():
        if fields[field] == "":
            raise typer.BadParameter(f"--{option.replace('_', '-')} must not be empty")
    return {field: value for field, value in fields.items() if value is not None}


def _prompt(prompt: str | None, file: Path | None) -> str | None:
    if prompt is not None and file is not None:
        raise typer.BadParameter("use --prompt or --prompt-file, not both")
    return file.read_text(encoding="utf-8") if file else prompt
