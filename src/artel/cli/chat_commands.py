"""What the commands of `artel chat` print and do with the current conversation."""

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from artel.cli.output import ago, table
from artel.cli.plan_text import estimated, money
from artel.cli.tool_question import diff_style
from artel.cli.visible_text import one_line, visible
from artel.client.conversation import CHANGING_TOOLS
from artel.errors import ArtelError, Kind

if TYPE_CHECKING:
    from artel.client.conversation import Conversation

LISTED = 20
LOOKED_AT = 100  # of the newest calls of the project, for /undo and /diff
LOOKED_AT_MESSAGES = 100  # of the newest messages of the session, for /cost
TITLE_CHARACTERS = 50
MAX_COPIED_BYTES = 70_000  # terminals take about 100,000 characters of base64
STAYS = {
    "changed_since": "was changed since, and stays",
    "not_kept": "could not be kept, and stays",
    "failed": "could not be put back",
}


class WrongCommand(ArtelError):
    """A command of the chat that can't be carried out as it was typed."""

    kind = Kind.INVALID
    code = "wrong_command"


def show_sessions(conversation: "Conversation") -> None:
    """List the sessions of the project, numbered for /resume."""
    rows = [
        {
            "": "*" if session["session_id"] == conversation.session_id else "",
            "no": number,
            "used": ago(session["updated_at"]),
            "title": one_line(session["title"], TITLE_CHARACTERS),
        }
        for number, session in enumerate(conversation.sessions(LISTED), 1)
    ]
    table(rows, ("", "no", "used", "title"), False, "This project has no sessions.")


def session_numbered(conversation: "Conversation", text: str) -> str:
    """Return the id of a session by its number in the list, or by the id itself."""
    if not text.isdecimal():
        return text
    sessions = conversation.sessions(LISTED)
    if not 1 <= int(text) <= len(sessions):
        raise WrongCommand(f"There is no session {text}. /sessions lists them.")
    return str(sessions[int(text) - 1]["session_id"])


def last_turn(conversation: "Conversation") -> str:
    """Return the turn of the newest message."""
    messages = conversation.messages(LOOKED_AT_MESSAGES)
    turn_id = next((message["turn_id"] for message in reversed(messages) if message["turn_id"]), None)
    if turn_id is None:
        raise WrongCommand("Nothing was said yet.")
    return str(turn_id)


def undo_last(conversation: "Conversation") -> str:
    """Put back what the newest turn of this session with changes has changed; return what became of it."""
    undone: set[str] = set()
    for call in conversation.changes(LOOKED_AT):
        if call["tool"] == "undo":
            undone.add(call["turn_id"])
        elif call["turn_id"] not in undone:
            return "\n".join(_outcome(file) for file in conversation.undo(call["turn_id"])) or "Nothing was put back."
    raise WrongCommand("No file was changed in this session that could be put back.")


def _outcome(file: dict[str, Any]) -> str:
    words = STAYS.get(file["outcome"]) or ("was removed" if file["outcome"] == "removed" else "was put back")
    return f"{visible(file['path'], keep='')} {words}."


def last_changes(conversation: "Conversation") -> Iterable[tuple[str, str]]:
    """Yield the lines of the newest turn's changes, each with its style."""
    calls = [call for call in conversation.changes(LOOKED_AT) if call["tool"] in CHANGING_TOOLS]
    if not calls:
        yield "No file was changed in this session.", ""
    for call in reversed([call for call in calls if call["turn_id"] == calls[0]["turn_id"]]):
        yield _what_was_done(call), "bold"
        diff = _diff(conversation, call)
        for line in visible(diff).removesuffix("\n").split("\n") if diff else ():
            yield line, diff_style(line)


def changed_files(conversation: "Conversation") -> str:
    """Return the files that this session has changed, by their last change, newest first."""
    undone: set[str] = set()
    files: dict[str, str] = {}
    for call in conversation.changes(LOOKED_AT):
        if call["tool"] == "undo":
            undone.add(call["turn_id"])
        else:
            was_undone = " (put back)" if call["turn_id"] in undone else ""
            files.setdefault(str(call["arguments"].get("path", "")), f"{_what_was_done(call)}{was_undone}")
    return "\n".join(files.values()) or "No file was changed in this session."


def _what_was_done(call: dict[str, Any]) -> str:
    verb = {"tool_write_file": "wrote", "tool_edit_file": "edited"}.get(call["tool"], "deleted")
    return (
        f"{call['agent']} {verb} {visible(str(call['arguments'].get('path', '')), keep='')}, {ago(call['created_at'])}"
    )


def _diff(conversation: "Conversation", call: dict[str, Any]) -> str:
    """Return the diff that the user approved; what was let through without a question has none here."""
    if call["approval_id"] is None:
        return ""
    return str(conversation.approval(call["approval_id"])["details"].get("diff") or "")


def last_plan(conversation: "Conversation") -> str:
    """Return how the newest plan of the session stands: its price, and task by task."""
    workflow = conversation.last_workflow()
    if workflow is None or not workflow["tasks"]:
        return "Nothing was planned in this session."
    tasks = workflow["tasks"]
    done = sum(task["status"] == "completed" for task in tasks)
    title = f"The plan is {workflow['status']}: {done} of {len(tasks)} tasks done, {money(workflow['cost'])} spent"
    return "\n".join([f"{title}, {estimated(workflow)}", *map(_task, tasks)])


def _task(task: dict[str, Any]) -> str:
    why = f" ({task['error']})" if task["error"] else ""
    return f"  {one_line(task['id'])}  " + one_line(f"{task['status']}, {task['agent']}: {task['description']}{why}")


def rename(conversation: "Conversation", title: str) -> str:
    """Give the session another title."""
    if not title:
        raise WrongCommand("Say the new title: /rename TITLE")
    return f"This session is called {one_line(conversation.rename(title))} now."


def copy_last(conversation: "Conversation", out: TextIO) -> str:
    """Send the last answer to the clipboard of the terminal (OSC 52); return what was done.

    Hidden characters are escaped there too: what is pasted into a shell is what was read here.
    """
    messages = conversation.messages(LOOKED_AT_MESSAGES)
    text = next((visible(one["content"]) for one in reversed(messages) if one["role"] == "assistant"), None)
    if text is None:
        raise WrongCommand("Nothing was answered yet.")
    data = text.encode()
    if len(data) > MAX_COPIED_BYTES:
        raise WrongCommand(f"Nothing was copied: the answer has more than {MAX_COPIED_BYTES:,} bytes.")
    out.write(f"\x1b]52;c;{base64.b64encode(data).decode()}\x07")
    out.flush()
    return f"Sent the last answer ({len(text):,} characters) to the clipboard. Not every terminal takes it (OSC 52)."


def cost(conversation: "Conversation") -> str:
    """Return what the session and its last turn have used."""
    messages = conversation.messages(LOOKED_AT_MESSAGES)
    turn_ids = list(dict.fromkeys(message["turn_id"] for message in messages if message["turn_id"]))
    usages = [conversation.turn(turn_id)["usage"] or {} for turn_id in turn_ids]
    if not usages:
        return "Nothing was said yet."
    whole = "This session" if len(messages) < LOOKED_AT_MESSAGES else f"The last {len(turn_ids)} turns"
    return f"Last turn     {_used(usages[-1:])}\n{whole:13} {_used(usages)}"


def _used(usages: list[dict[str, Any]]) -> str:
    read, written = (sum(usage.get(name) or 0 for usage in usages) for name in ("input_tokens", "output_tokens"))
    prices = [usage.get("cost_usd", 0.0) for usage in usages]
    price = "price unknown" if None in prices else money(sum(prices))
    return f"{price}, {read:,} tokens in, {written:,} out"


def change_model(conversation: "Conversation", chosen: str | None, text: str) -> str:
    """Return the models of the agents, or give one another: `MODEL` for the chosen agent, or `AGENT MODEL`."""
    agents = conversation.agents()
    if not text:
        width = max((len(agent["name"]) for agent in agents), default=0)
        return "\n".join(f"{agent['name']:{width}}  {one_line(agent['model'])}" for agent in agents)
    first, _, rest = text.partition(" ")
    name, model = (first, rest.strip()) if rest.strip() else (chosen, text)
    if name is None:
        raise WrongCommand("Say whose model: /model AGENT MODEL, or choose an agent first (@coder).")
    found = next((agent for agent in agents if name in (agent["name"], agent["name"].removeprefix("agent_"))), None)
    if found is None:
        raise WrongCommand(f"This project has no agent called {name}. /agents lists them.")
    conversation.set_model(found["id"], model)
    return f"{found['name']} thinks with {one_line(model)} from now on."


# Tab


class Words:
    """What Tab completes: agents after @, commands after /, else files of the connected or the current folder."""

    def __init__(self, conversation: "Conversation", commands: Iterable[str], folder: Path | None) -> None:
        self._conversation = conversation
        self._commands = sorted(commands)
        self._agents: list[str] | None = None
        self._files = Files(_folder(conversation, folder or Path.cwd()))

    def candidates(self, before: str) -> Iterable[str]:
        """Return what the last word of the text can become."""
        word = before[max(before.rfind(space) for space in " \n\t") + 1 :]
        if before.startswith("/") and word == before:
            return [f"/{name} " for name in self._commands if name.startswith(word[1:])]
        if word.startswith("@"):
            return [f"@{name} " for name in self._names() if name.startswith(word[1:])]
        return self._files.starting_with(word)

    def _names(self) -> list[str]:
        if self._agents is None:
            try:
                names = [str(agent["name"]) for agent in self._conversation.agents()]
            except ArtelError:  # no completion is worth an error
                return []
            self._agents = sorted([name.removeprefix("agent_") for name in names] + ["orchestrator"])
        return self._agents


def _folder(conversation: "Conversation", otherwise: Path) -> Path:
    from artel.connector.state_folder import StateFolder

    for state in StateFolder.all():
        is_ours = (state.server, state.project_id) == (conversation.api.server, conversation.project_id)
        if is_ours and state.is_held():
            return state.workspace
    return otherwise


class Files:
    """Names of files for completion: one folder at a time, without what is hidden or ignored."""

    MAX_ENTRIES = 2_000
    MAX_NAMES = 100

    def __init__(self, root: Path) -> None:
        self._root = root

    def starting_with(self, word: str) -> list[str]:
        """Return the paths that a word can become; folders end with a slash."""
        from itertools import islice

        from artel.connector.ignore_rules import GitIgnore
        from artel.paths.beneath import Beneath

        *folders, beginning = word.split("/")
        if any(name in ("", ".", "..") or name.startswith(".") for name in folders) or beginning.startswith("."):
            return []
        place = self._root.joinpath(*folders)
        try:
            if not place.resolve().is_relative_to(self._root.resolve()):
                return []
            with Beneath(self._root) as files:
                ignored = GitIgnore(files)
                names = []
                for entry in islice(place.iterdir(), self.MAX_ENTRIES):
                    is_folder = entry.is_dir()
                    is_fitting = entry.name.startswith(beginning) and not entry.name.startswith(".")
                    if is_fitting and not ignored.hides((*folders, entry.name), is_folder=is_folder):
                        names.append("/".join((*folders, entry.name)) + ("/" if is_folder else ""))
        except (OSError, ValueError):
            return []
        return sorted(name for name in names if visible(name, keep="") == name and " " not in name)[: self.MAX_NAMES]
