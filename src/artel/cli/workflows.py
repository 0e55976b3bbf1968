"""`artel workflows …`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from artel.cli.connection import connect
from artel.cli.exit_codes import ExitCode
from artel.cli.group import QuickGroup
from artel.cli.output import SHORT_CHARACTERS, AsJson, Server, short_id, show, table

if TYPE_CHECKING:
    from artel.client.api_client import ApiClient

app = typer.Typer(help="What you asked the orchestrator for.", no_args_is_help=True, cls=QuickGroup)

WorkflowId = Annotated[str, typer.Argument(help="The workflow's id, or the short one of the list.", show_default=False)]
SHOWN_CHARACTERS = 60
LOOKED_AT = 100  # of the newest workflows, for a short id


@app.command("list")
def list_workflows(
    project: Annotated[
        str | None, typer.Option("--project", "-p", help="Only of this project: its number or name.")
    ] = None,
    status: Annotated[
        str | None,
        typer.Option(
            "--status",
            help="Only these: planning, awaiting_approval, running, completed, partial, failed, rejected, cancelled "
            "or timeout.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="At most so many, 1 to 100.")] = 20,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List your workflows, newest first."""
    with connect(server) as client:
        from artel.client.conversation import find_project_id

        query: dict[str, Any] = {"limit": limit} | ({"status": status} if status else {})
        if project is not None:
            query["project_id"] = find_project_id(client, project)
        found = client.call("GET", "/my/workflows", params=query)["items"]
    rows = found if as_json else [_row(workflow) for workflow in found]
    table(rows, ("id", "status", "done", "cost", "estimated", "request"), as_json, "No workflows.")


@app.command("show")
def show_workflow(workflow_id: WorkflowId, server: Server = None, as_json: AsJson = False) -> None:
    """Show a workflow: its price, its tasks, its answer."""
    with connect(server) as client:
        workflow = client.call("GET", _place(client, workflow_id))
    if as_json:
        show(workflow, as_json)
    else:
        from artel.cli.workflow_text import print_workflow

        print_workflow(workflow)


@app.command("follow")
def follow_workflow(workflow_id: WorkflowId, server: Server = None, as_json: AsJson = False) -> None:
    """Follow a workflow to its end, and decide what it asks.

    Ctrl-C leaves it, and it goes on.
    """
    with connect(server) as client:
        from artel.cli.workflow_follow import follow

        code = follow(client, _place(client, workflow_id), as_json=as_json)
    if code is not ExitCode.OK:
        raise typer.Exit(code)


@app.command("cancel")
def cancel_workflow(workflow_id: WorkflowId, server: Server = None, as_json: AsJson = False) -> None:
    """Stop a workflow; what is done stays.

    A workflow that is over is left as it is.
    """
    with connect(server) as client:
        workflow = client.call("POST", f"{_place(client, workflow_id)}/cancel")
    is_cancelled = workflow["status"] == "cancelled"
    said = "It is cancelled." if is_cancelled else f"It was over already: {workflow['status']}. Nothing was cancelled."
    show(workflow, as_json, said)


@app.command("retry")
def retry_workflow(
    workflow_id: WorkflowId,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Follow it to its end; Ctrl-C cancels it.")] = True,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Try again what did not succeed; the rest is kept."""
    with connect(server) as client:
        if wait:
            from artel.cli.workflow_follow import follow_retry

            code = follow_retry(client, _place(client, workflow_id), as_json=as_json)
        else:
            workflow = client.call("POST", f"{_place(client, workflow_id)}/retry")
            show(workflow, as_json, f"It goes on. To see how: artel workflows follow {workflow['id']}")
            code = ExitCode.OK
    if code is not ExitCode.OK:
        raise typer.Exit(code)


def _place(client: "ApiClient", workflow_id: str) -> str:
    """Return the address of a workflow by its id, or by the end of it that `artel workflows list` shows."""
    from urllib.parse import quote

    if not workflow_id.strip():
        raise typer.BadParameter("say which workflow; artel workflows list shows them")
    if len(workflow_id) == SHORT_CHARACTERS and workflow_id.isalnum():
        newest = client.call("GET", "/my/workflows", params={"limit": LOOKED_AT})["items"]
        found = [str(one["id"]) for one in newest if str(one["id"]).endswith(workflow_id)]
        workflow_id = found[0] if len(found) == 1 else workflow_id
    return f"/my/workflows/{quote(workflow_id, safe='')}"


def _row(workflow: dict[str, Any]) -> dict[str, Any]:
    from artel.cli.plan_text import estimated, money
    from artel.cli.visible_text import one_line

    tasks = workflow["tasks"]
    done = sum(task["status"] == "completed" for task in tasks)
    return {
        "id": short_id(workflow["id"]),
        "status": workflow["status"],
        "done": f"{done} of {len(tasks)}" if tasks else "",
        "cost": money(workflow["cost"]),
        "estimated": estimated(workflow) if tasks else "",
        "request": one_line(workflow["request"], SHOWN_CHARACTERS),
    }
