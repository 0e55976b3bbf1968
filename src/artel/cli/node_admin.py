"""The commands of administrators for nodes: `artel node list|show|pause|resume|stop|drain`."""

from collections.abc import Callable
from typing import Annotated, Any
from urllib.parse import quote

import typer

from artel.cli.command_line import AsJson, Server, connect
from artel.cli.output import show, table

MAX_GRACE_SECONDS = 86_400
COLUMNS = ("name", "type", "state", "phase", "heartbeat", "load", "task", "capabilities")

NodeName = Annotated[str, typer.Argument(help="The node's name, as `artel node list` shows it.")]
Reason = Annotated[str | None, typer.Option(help="Why, for the log of the node.")]


def list_nodes(
    node_type: Annotated[str | None, typer.Option("--type", help="Only nodes of this type.")] = None,
    capability: Annotated[str | None, typer.Option(help="Only nodes with this capability.")] = None,
    selector: Annotated[
        str | None, typer.Option("--selector", "-l", help="Only these labels, such as `env in (test), !beta`.")
    ] = None,
    state: Annotated[str | None, typer.Option(help="Only nodes in this state: ALIVE, NOT_READY or OFFLINE.")] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List the nodes of a server, with what they do now."""
    chosen = {"type": node_type, "capability": capability, "selector": selector, "state": state}
    filters = {name: value for name, value in chosen.items() if value is not None}
    found = connect(server).all_items("/nodes", **filters)
    rows = found if as_json else [_row(each) for each in found]
    none = "No such nodes. All: artel node list" if filters else "No nodes. Start one: artel node run --kind writer"
    table(rows, COLUMNS, as_json, none)


def show_node(name: NodeName, server: Server = None, as_json: AsJson = False) -> None:
    """Show a node with what it can do and what it does."""
    found = connect(server).call("GET", _path(name))
    if as_json:
        show(found, as_json)
        return
    tasks = [f"{task['action']} {task['task_id']} ({_progress(task)})" for task in found["current_tasks"]]
    facts = {
        "name": found["name"],
        "type": found["node_type"],
        "description": found["description"],
        "state": f"{found['state']}, {found['phase']}",
        "heartbeat": _age(found["heartbeat_age"]),
        "instance": f"{found['uid']} (epoch {found['epoch']})",
        "version": found["version"],
        "model": found["model"],
        "capabilities": found["capabilities"],
        "tools": found["tools"],
        "labels": [f"{key}={value}" for key, value in sorted(found["labels"].items())],
        "tasks": tasks or "none",
        "load": _load(found),
        "tasks done": found["tasks_processed"],
        "up for": f"{found['uptime']:.0f} s",
        "measured": [f"{key} {value:g}" for key, value in sorted(found["metrics"].items())],
    }
    show(facts, as_json)


def pause(name: NodeName, reason: Reason = None, server: Server = None, as_json: AsJson = False) -> None:
    """Let a node take no new tasks.

    Those that it has go on, and new ones wait.
    """
    _control(server, name, "pause", reason, {}, as_json, f"{name} takes no new tasks. Go on: artel node resume {name}")


def resume(name: NodeName, reason: Reason = None, server: Server = None, as_json: AsJson = False) -> None:
    """Let a paused node take tasks again."""
    _control(server, name, "resume", reason, {}, as_json, f"{name} takes tasks again.")


def stop(
    name: NodeName,
    task: Annotated[str | None, typer.Option(help="Only this task; all that run by default.")] = None,
    reason: Reason = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Cancel the tasks of a node.

    The node goes on with others.
    """
    parameters = {} if task is None else {"task_id": task}
    what = "its tasks" if task is None else f"the task {task}"
    _control(server, name, "stop", reason, parameters, as_json, f"{name} was told to cancel {what}.")


def drain(
    name: NodeName,
    grace: Annotated[
        float | None,
        typer.Option(
            help="Seconds that running tasks get at most; by default what they need.", min=0, max=MAX_GRACE_SECONDS
        ),
    ] = None,
    reason: Reason = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """End a node after its tasks.

    It takes no new tasks, finishes those that it has, and deregisters.
    """
    parameters = {} if grace is None else {"grace_seconds": grace}
    sentence = f"{name} ends when its tasks are done. Watch it: artel node list"
    _control(server, name, "shutdown", reason, parameters, as_json, sentence)


def _control(
    server: str | None,
    name: str,
    control_type: str,
    reason: str | None,
    parameters: dict[str, Any],
    as_json: bool,
    sentence: str,
) -> None:
    body = {"control_type": control_type, "reason": reason, "parameters": parameters}
    show(connect(server).call("POST", f"{_path(name)}/control", json=body), as_json, sentence)


def _path(name: str) -> str:
    return f"/nodes/{quote(name, safe='')}"


def _row(found: dict[str, Any]) -> dict[str, Any]:
    first = found["current_tasks"][0] if found["current_tasks"] else None
    return {
        "name": found["name"],
        "type": found["node_type"],
        "state": found["state"],
        "phase": found["phase"],
        "heartbeat": _age(found["heartbeat_age"]),
        "load": _load(found),
        "task": f"{first['action']}: {first['phase']}, {first['elapsed_seconds']:.0f} s" if first else "",
        "capabilities": found["capabilities"],
    }


def _age(seconds: float) -> str:
    return f"{seconds:.0f} s ago"


def _load(found: dict[str, Any]) -> str:
    return f"{len(found['current_tasks'])}/{found['max_concurrent_tasks']}"


def _progress(task: dict[str, Any]) -> str:
    return f"{task['phase']}, {task['elapsed_seconds']:.0f} s, last moved {_age(task['idle_seconds'])}"


COMMANDS: dict[str, Callable[..., None]] = {
    "list": list_nodes,
    "show": show_node,
    "pause": pause,
    "resume": resume,
    "stop": stop,
    "drain": drain,
}
