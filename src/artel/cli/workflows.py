"""`artel workflows …`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from artel.cli.command_line import AsJson, ExitCode, OnlyProject, Server, command_group, connect
from artel.cli.output import SHORT_CHARACTERS, one_line, short_id, show, table
from artel.cli.plan_screen import SHOWN_CHARACTERS, estimated, is_done, money, print_workflow, workflow_status

if TYPE_CHECKING:
    from artel.client.api_client import ApiClient

workflows = command_group("Your requests to the orchestrator and their plans.")

WorkflowId = Annotated[
    str, typer.Argument(help="The workflow's id, or the short id in `artel workflows list`.", show_default=False)
]
MAX_WORKFLOWS = 100  # newest ones, searched for a short id


@workflows.command("list")
def list_workflows(
    project: OnlyProject = None,
    status: Annotated[
        str | None,
        typer.Option(
            "--status",
            help="Only this status: planning, awaiting_approval, running, completed, partial, failed, rejected, "
            "cancelled or timeout.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="Maximum number, 1 to 100.")] = 20,
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
    rows = [
        {
            "id": short_id(workflow["id"]),
            "status": workflow_status(workflow),
            "done": f"{sum(map(is_done, tasks))} of {len(tasks)}" if tasks else "",
            "cost": money(workflow["cost"]),
            "estimated": estimated(workflow) if tasks else "",
            "request": one_line(workflow["request"], SHOWN_CHARACTERS),
        }
        for workflow in found
        for tasks in [workflow["tasks"]]
    ]
    columns = ("id", "status", "done", "cost", "estimated", "request")
    table(found if as_json else rows, columns, as_json, "No workflows.")


@workflows.command("show")
def show_workflow(workflow_id: WorkflowId, server: Server = None, as_json: AsJson = False) -> None:
    """Show a workflow: its price, its tasks, its answer."""
    with connect(server) as client:
        workflow = client.call("GET", _workflow_path(client, workflow_id))
    print_workflow(workflow, as_json=as_json)


@workflows.command("follow")
def follow_workflow(workflow_id: WorkflowId, server: Server = None, as_json: AsJson = False) -> ExitCode:
    """Follow a workflow to its end and answer its questions.

    Ctrl-C stops following; the workflow continues.
    """
    with connect(server) as client:
        from artel.cli.chat_turn import follow

        return follow(client, _workflow_path(client, workflow_id), as_json=as_json)


@workflows.command("cancel")
def cancel_workflow(workflow_id: WorkflowId, server: Server = None, as_json: AsJson = False) -> None:
    """Cancel a workflow; finished tasks keep their results.

    A workflow that has ended is not changed.
    """
    with connect(server) as client:
        workflow = client.call("POST", f"{_workflow_path(client, workflow_id)}/cancel")
    is_cancelled = workflow["status"] == "cancelled"
    sentence = "Cancelled." if is_cancelled else f"Not cancelled: the workflow is already {workflow['status']}."
    show(workflow, as_json, sentence)


@workflows.command("retry")
def retry_workflow(
    workflow_id: WorkflowId,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Follow it to its end; Ctrl-C cancels it.")] = True,
    server: Server = None,
    as_json: AsJson = False,
) -> ExitCode:
    """Run the tasks again that did not succeed.

    The other tasks keep their results.
    """
    with connect(server) as client:
        if wait:
            from artel.cli.chat_turn import follow_retry

            return follow_retry(client, _workflow_path(client, workflow_id), as_json=as_json)
        workflow = client.call("POST", f"{_workflow_path(client, workflow_id)}/retry")
    show(workflow, as_json, f"Started. To follow it: artel workflows follow {workflow['id']}")
    return ExitCode.OK


def _workflow_path(client: "ApiClient", workflow_id: str) -> str:
    """Return the URL path of a workflow by its id or short id."""
    from urllib.parse import quote

    if not workflow_id.strip():
        raise typer.BadParameter("missing workflow id. To list workflows: artel workflows list")
    if len(workflow_id) == SHORT_CHARACTERS and workflow_id.isalnum():
        newest = client.call("GET", "/my/workflows", params={"limit": MAX_WORKFLOWS})["items"]
        found = [str(workflow["id"]) for workflow in newest if str(workflow["id"]).endswith(workflow_id)]
        workflow_id = found[0] if len(found) == 1 else workflow_id
    return f"/my/workflows/{quote(workflow_id, safe='')}"
