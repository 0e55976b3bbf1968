"""The slash commands of `artel chat`."""

import base64
from collections.abc import Iterable
from typing import Any, TextIO

from artel.cli.output import ago, one_line, table, visible
from artel.cli.plan_screen import estimated, money
from artel.cli.questions import diff_lines
from artel.client.conversation import CHANGING_TOOLS, Conversation
from artel.errors import ArtelError, Kind

MAX_SESSIONS = 20
MAX_CALLS = 100  # newest calls of the project, searched by /undo, /diff and /files
MAX_MESSAGES = 100  # newest messages of the session, searched by /cost and /copy
TITLE_CHARACTERS = 50
MAX_COPIED_BYTES = 70_000  # terminals accept about 100,000 characters of base64
OUTCOMES = {
    "removed": "was removed",
    "changed_since": "was not put back: it was changed since",
    "not_kept": "was not put back: its old content was not saved",
    "failed": "could not be put back",
}


class WrongCommand(ArtelError, kind=Kind.INVALID, code="wrong_command"):
    """A chat command that can't be run as typed."""


def show_sessions(conversation: Conversation) -> None:
    """Print the sessions of the project, numbered for /resume."""
    rows = [
        {
            "": "*" if session["session_id"] == conversation.session_id else "",
            "no": number,
            "used": ago(session["updated_at"]),
            "title": one_line(session["title"], TITLE_CHARACTERS),
        }
        for number, session in enumerate(conversation.sessions(MAX_SESSIONS), 1)
    ]
    table(rows, ("", "no", "used", "title"), False, "This project has no sessions.")


def find_session_id(conversation: Conversation, text: str) -> str:
    """Return the id of a session, given as its number in /sessions or as an id."""
    if not text.isdecimal():
        return text
    sessions = conversation.sessions(MAX_SESSIONS)
    if not 1 <= int(text) <= len(sessions):
        raise WrongCommand(f"There is no session {text}. /sessions lists them.")
    return str(sessions[int(text) - 1]["session_id"])


def last_turn(conversation: Conversation) -> str:
    """Return the id of the newest message's turn."""
    messages = conversation.messages(MAX_MESSAGES)
    turn_id = next((message["turn_id"] for message in reversed(messages) if message["turn_id"]), None)
    if turn_id is None:
        raise WrongCommand("No messages yet.")
    return str(turn_id)


def undo_last(conversation: Conversation) -> str:
    """Undo the newest turn that changed files and is not undone; return the outcome of each file."""
    undone: set[str] = set()
    for call in conversation.changes(MAX_CALLS):
        if call["tool"] == "undo":
            undone.add(call["turn_id"])
        elif call["turn_id"] not in undone:
            outcomes = [
                f"{visible(file['path'], keep='')} {OUTCOMES.get(file['outcome'], 'was put back')}."
                for file in conversation.undo(call["turn_id"])
            ]
            return "\n".join(outcomes) or "Nothing was put back."
    raise WrongCommand("This session has no changes to undo.")


def last_changes(conversation: Conversation) -> Iterable[tuple[str, str]]:
    """Yield the lines of the newest turn's diffs, each with its style."""
    calls = [call for call in conversation.changes(MAX_CALLS) if call["tool"] in CHANGING_TOOLS]
    if not calls:
        yield "No file was changed in this session.", ""
    for call in reversed([call for call in calls if call["turn_id"] == calls[0]["turn_id"]]):
        yield _change(call), "bold"
        if call["approval_id"] is not None:  # a call that needed no approval has no stored diff
            yield from diff_lines(str(conversation.approval(call["approval_id"])["details"].get("diff") or ""))


def changed_files(conversation: Conversation) -> str:
    """Return the files that this session changed, with their last change, newest first."""
    undone: set[str] = set()
    files: dict[str, str] = {}
    for call in conversation.changes(MAX_CALLS):
        if call["tool"] == "undo":
            undone.add(call["turn_id"])
        else:
            was_undone = " (put back)" if call["turn_id"] in undone else ""
            files.setdefault(str(call["arguments"].get("path", "")), f"{_change(call)}{was_undone}")
    return "\n".join(files.values()) or "No file was changed in this session."


def _change(call: dict[str, Any]) -> str:
    verb = {"tool_write_file": "wrote", "tool_edit_file": "edited"}.get(call["tool"], "deleted")
    path = visible(str(call["arguments"].get("path", "")), keep="")
    return f"{call['agent']} {verb} {path}, {ago(call['created_at'])}"


def last_plan(conversation: Conversation) -> str:
    """Return the status, cost and tasks of the session's newest plan."""
    query = {"session_id": conversation.session_id, "limit": 1}
    workflow = next(iter(conversation.api.call("GET", "/my/workflows", params=query)["items"]), None)
    if workflow is None or not workflow["tasks"]:
        return "This session has no plan."
    tasks = workflow["tasks"]
    done = sum(task["status"] == "completed" for task in tasks)
    title = f"The plan is {workflow['status']}: {done} of {len(tasks)} tasks done, {money(workflow['cost'])} spent"
    lines = [f"{title}, {estimated(workflow)}"]
    for task in tasks:
        error = f" ({task['error']})" if task["error"] else ""
        status = one_line(f"{task['status']}, {task['agent']}: {task['description']}{error}")
        lines.append(f"  {one_line(task['id'])}  {status}")
    return "\n".join(lines)


def rename(conversation: Conversation, title: str) -> str:
    if not title:
        raise WrongCommand("Missing title: /rename TITLE")
    return f"Renamed the session to {one_line(conversation.rename(title))}."


def copy_last(conversation: Conversation, out: TextIO) -> str:
    """Send the last answer to the terminal's clipboard (OSC 52); return a confirmation.

    Hidden characters are escaped, so that text pasted into a shell is what the user read.
    """
    messages = conversation.messages(MAX_MESSAGES)
    text = next((visible(message["content"]) for message in reversed(messages) if message["role"] == "assistant"), None)
    if text is None:
        raise WrongCommand("No answer yet.")
    data = text.encode()
    if len(data) > MAX_COPIED_BYTES:
        raise WrongCommand(f"Not copied: the answer has more than {MAX_COPIED_BYTES:,} bytes.")
    out.write(f"\x1b]52;c;{base64.b64encode(data).decode()}\x07")
    out.flush()
    return f"Sent the last answer ({len(text):,} characters) to the clipboard (OSC 52). Not every terminal allows this."


def cost(conversation: Conversation) -> str:
    messages = conversation.messages(MAX_MESSAGES)
    turn_ids = list(dict.fromkeys(message["turn_id"] for message in messages if message["turn_id"]))
    usages = [conversation.turn(turn_id)["usage"] or {} for turn_id in turn_ids]
    if not usages:
        return "No messages yet."
    title = "This session" if len(messages) < MAX_MESSAGES else f"The last {len(turn_ids)} turns"
    return f"Last turn     {_used(usages[-1:])}\n{title:13} {_used(usages)}"


def _used(usages: list[dict[str, Any]]) -> str:
    read, written = (sum(usage.get(name) or 0 for usage in usages) for name in ("input_tokens", "output_tokens"))
    prices = [usage.get("cost_usd", 0.0) for usage in usages]
    price = "price unknown" if None in prices else money(sum(prices))
    return f"{price}, {read:,} tokens in, {written:,} out"


def change_model(conversation: Conversation, chosen: str | None, text: str) -> str:
    """Return the models of all agents, or set one: `MODEL` for the chosen agent, or `AGENT MODEL`."""
    agents = conversation.agents()
    if not text:
        width = max((len(agent["name"]) for agent in agents), default=0)
        return "\n".join(f"{agent['name']:{width}}  {one_line(agent['model'])}" for agent in agents)
    first, _, rest = text.partition(" ")
    name, model = (first, rest.strip()) if rest.strip() else (chosen, text)
    if name is None:
        raise WrongCommand("Missing agent: use /model AGENT MODEL, or choose an agent first (@coder).")
    found = next((agent for agent in agents if name in (agent["name"], agent["name"].removeprefix("agent_"))), None)
    if found is None:
        raise WrongCommand(f"This project has no agent called {name}. /agents lists them.")
    path = f"/my/projects/{conversation.project_id}/agents/{found['id']}"
    conversation.api.call("PATCH", path, json={"model": model})
    return f"{found['name']} now uses {one_line(model)}."
