"""`artel usage`."""

from typing import Annotated, Any

import typer

from artel.cli.connection import connect, project_number
from artel.cli.output import AsJson, Server, say, show, table

COLUMNS = {"day": "day", "project": "project_id", "agent": "agent", "model": "model"}
SUMS = ("calls", "input_tokens", "output_tokens", "cost_usd")
PAGE = 100


def usage(
    first: Annotated[
        str | None, typer.Option("--from", help="First day, like 2026-11-01. Default: 30 days ago.")
    ] = None,
    last: Annotated[str | None, typer.Option("--to", help="Last day. Default: today.")] = None,
    group: Annotated[str, typer.Option(help="Group by day, project, agent, model, or several with commas.")] = "day",
    project: Annotated[
        str | None, typer.Option("--project", "-p", help="Only this project: its number or name.")
    ] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show the tokens and the cost of your model calls."""
    options: dict[str, Any] = {"from": first, "to": last, "group": group, "limit": PAGE}
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
    names = [COLUMNS[name] for name in dict.fromkeys(group.split(","))]
    rows = [item | {"agent": item["agent"] or "(orchestrator)"} for item in report["items"]]
    days = f"{report['first_day']} to {report['last_day']}"
    table(rows, [*names, *SUMS], as_json, f"No model calls from {days}.")
    total = report["sum"]
    unpriced = f", and {total['unpriced_calls']} calls without a known price" if total["unpriced_calls"] else ""
    tokens = total["input_tokens"] + total["output_tokens"]
    say(f"{days}: {total['calls']} calls, {tokens} tokens, ${total['cost_usd']:.4f}{unpriced}")
