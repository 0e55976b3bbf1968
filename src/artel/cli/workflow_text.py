"""Workflows as text for a terminal."""

from typing import Any

import typer

from artel.cli.output import say, table
from artel.cli.plan_question import how_to_decide
from artel.cli.plan_text import duration, estimated, money
from artel.cli.visible_text import one_line

SHOWN_CHARACTERS = 60


def print_workflow(workflow: dict[str, Any]) -> None:
    """Print a workflow: the request, the price, the tasks and the answer."""
    for name, value in _facts(workflow):
        say(f"{name:12} {value}", below=13)
    if workflow["tasks"]:
        typer.echo("")
        rows = [_task(task) for task in workflow["tasks"]]
        table(rows, ("task", "status", "agent", "after", "estimated", "cost", "what"), False, "")
        for task in workflow["tasks"]:
            if task["error"]:
                say(one_line(f"{task['id']} {task['status']}: {task['error']}"))
    if workflow["answer"] is not None:
        say(f"\n{workflow['answer']}")


def _facts(workflow: dict[str, Any]) -> list[tuple[str, str]]:
    facts = [
        ("id", workflow["id"]),
        ("project", str(workflow["project_id"])),
        ("session", workflow["session_id"]),
        ("status", workflow["status"]),
        ("request", one_line(workflow["request"])),
        ("instruction", one_line(workflow["instruction"])),
        ("price", _price(workflow)),
        ("waits", _approval(workflow) if workflow["approval_id"] else ""),
        ("error", one_line(workflow["error"] or "")),
    ]
    return [(name, value) for name, value in facts if value]


def _approval(workflow: dict[str, Any]) -> str:
    return f"for your decision: artel workflows follow {workflow['id']}. {how_to_decide(workflow['approval_id'])}"


def _price(workflow: dict[str, Any]) -> str:
    if not workflow["tasks"]:
        return f"{money(workflow['cost'])} spent"
    about = f" (about {duration(workflow['estimated_duration'])})" if workflow["estimated_duration"] else ""
    agreed = "nothing agreed" if workflow["agreed_cost"] is None else f"{money(workflow['agreed_cost'])} agreed"
    return f"{estimated(workflow)} estimated{about}, {agreed}, {money(workflow['cost'])} spent"


def _task(task: dict[str, Any]) -> dict[str, Any]:
    return {
        "task": one_line(task["id"]),
        "status": task["status"],
        "agent": task["agent"],
        "after": one_line(", ".join(task["depends_on"])),
        "estimated": "" if task["estimated_cost"] is None else money(task["estimated_cost"]),
        "cost": "" if task["cost"] is None else money(task["cost"]),
        "what": one_line(task["description"], SHOWN_CHARACTERS),
    }
