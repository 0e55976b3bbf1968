"""`artel projects …`."""

import json
from typing import Annotated, Any

import typer

from artel.cli.connection import connect, project_number
from artel.cli.group import QuickGroup
from artel.cli.output import AsJson, Server, Yes, ago, confirm, show, table

app = typer.Typer(help="Manage your projects.", no_args_is_help=True, cls=QuickGroup)

ProjectName = Annotated[
    str, typer.Argument(metavar="PROJECT", help="The project's name or number.", show_default=False)
]
SettingsOption = Annotated[str | None, typer.Option("--settings", help="The project's settings, as a JSON object.")]


@app.command("list")
def list_projects(server: Server = None, as_json: AsJson = False) -> None:
    """List your projects."""
    with connect(server) as client:
        rows = client.all_items("/my/projects")
    if not as_json:
        rows = [
            {
                "id": row["id"],
                "name": row["name"],
                "default": "*" if row["is_default"] else "",
                "created": ago(row["created_at"]),
            }
            for row in rows
        ]
    table(
        rows,
        ("id", "name", "default", "created"),
        as_json,
        "No projects yet. Create one: artel projects create NAME",
    )


@app.command("create")
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


@app.command("show")
def show_project(project: ProjectName, server: Server = None, as_json: AsJson = False) -> None:
    """Show a project and its agents."""
    with connect(server) as client:
        found = client.call("GET", f"/my/projects/{project_number(client, project)}")
    if not as_json:
        found["agents"] = [agent["name"] for agent in found["agents"]]
        found["settings"] = json.dumps(found["settings"], ensure_ascii=False)
    show(found, as_json)


@app.command("update")
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


@app.command("delete")
def delete_project(project: ProjectName, yes: Yes = False, server: Server = None, as_json: AsJson = False) -> None:
    """Delete a project with its agents; the files in your folder stay."""
    confirm(f"Delete project {project} with all its agents?", yes)
    with connect(server) as client:
        number = project_number(client, project)
        client.call("DELETE", f"/my/projects/{number}")
    show({"deleted": number}, as_json, f"Deleted project {project}.")


@app.command("reset")
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
