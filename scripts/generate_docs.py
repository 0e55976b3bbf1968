"""Writes docs/reference from the code: settings, command line, HTTP, events. With --check it says what is stale."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"
NOTE = "<!-- Written by `make docs`. Change the code instead. -->\n"


def settings_page() -> str:
    """Return the page about settings."""
    from artel.settings import PREFIX, Settings

    rows = []
    for name, field in Settings.model_fields.items():
        default = field.get_default(call_default_factory=False)
        if name == "data_dir":
            shown = "the user's data folder"
        elif default is None:
            shown = "unset"
        else:
            shown = f"`{json.dumps(default)}`"
        rows.append(f"| `{name}` | `{PREFIX}{name.upper()}` | {shown} | {field.description} |")
    return (
        f"# Settings\n\n{NOTE}\n"
        "Settings are read once at start: from variables, then from a file, under the names in the first column.\n"
        "The file is the one that `ARTEL_CONFIG` names; else `artel.yaml` in the config folder (`~/.config/artel` on\n"
        "Linux, or `ARTEL_CONFIG_DIR`); else `artel.yaml` in the data folder. One in the current folder is never\n"
        "read, because agents and cloned repositories may write there. Options of a command win over both.\n"
        "Lists in variables are written as JSON.\n\n"
        "| setting | variable | default | meaning |\n|---|---|---|---|\n" + "\n".join(rows) + "\n\n"
        "For the command line: `ARTEL_SERVER` (the server to talk to), `ARTEL_TOKEN` (the token to use), "
        "`ARTEL_CONFIG_DIR` (where logins, `artel.yaml` and what connectors note are kept).\n"
    )


def command_line_page() -> str:
    """Return the page about commands."""
    import typer.main

    from artel.cli.exit_codes import ExitCode
    from artel.cli.main import app

    os.environ["COLUMNS"] = "100"
    parts = [f"# Command line\n\n{NOTE}"]
    for path, text in _helps(typer.main.get_command(app), "artel", None):
        parts.append(f"\n## {path}\n\n```text\n{text.rstrip()}\n```\n")
    codes = "\n".join(f"| {code.value} | {code.name.lower().replace('_', ' ')} |" for code in ExitCode)
    parts.append(f"\n## Exit codes\n\n| code | meaning |\n|---|---|\n{codes}\n")
    return "".join(parts)


def _helps(command: Any, path: str, parent: Any) -> Iterator[tuple[str, str]]:
    context = command.make_context(path.rsplit(" ", 1)[-1], [], parent=parent, resilient_parsing=True)
    yield path, command.get_help(context)
    for name in getattr(command, "commands", {}):
        yield from _helps(command.commands[name], f"{path} {name}", context)


def http_page() -> str:
    """Return the page about the HTTP API."""
    from artel.api.app import openapi_document

    document = openapi_document()
    live = "A running server shows the same, to try out, at `/docs`, and as OpenAPI at `/openapi.json`.\n"
    parts = [f"# HTTP\n\n{NOTE}\n{document['info']['description']}\n\n{live}"]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            parts.append(_operation(method, path, operation))
    parts.append("\n## Models\n")
    for name, schema in sorted(document["components"]["schemas"].items()):
        if not name.startswith("Body_"):
            parts.append(_model(name, schema))
    return "".join(parts)


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    lines = [f"\n## {method.upper()} {path}\n\n{operation['description']}\n"]
    for parameter in operation.get("parameters", []):
        text = parameter.get("description") or _type(parameter["schema"])
        lines.append(f"- `{parameter['name']}` ({parameter['in']}): {text}")
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        lines.append(f"- body ({media}): {_type(content['schema'])}")
    answers: dict[str, list[str]] = {}
    for status, response in operation["responses"].items():
        schemas = [content["schema"] for content in response.get("content", {}).values() if content.get("schema")]
        answers.setdefault(_type(schemas[0]) if schemas else "nothing", []).append(status)
    lines.extend(f"- answers {', '.join(statuses)}: {answer}" for answer, statuses in answers.items())
    return "\n".join(lines) + "\n"


def _model(name: str, schema: dict[str, Any]) -> str:
    lines = [f"\n### {name}\n\n{schema.get('description', '')}\n", "| field | type | |", "|---|---|---|"]
    required = schema.get("required", [])
    for field, details in schema.get("properties", {}).items():
        notes = [details["description"]] if "description" in details else []
        if field in required:
            notes.append("Required.")
        lines.append(f"| `{field}` | {_type(details)} | {' '.join(notes)} |")
    return "\n".join(lines) + "\n"


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return f"`{schema['$ref'].rsplit('/', 1)[1]}`"
    if "anyOf" in schema:
        return " or ".join(_type(option) for option in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return " or ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    limits = [
        f"{word} {schema[key]}"
        for key, word in (("minimum", "from"), ("maximum", "to"), ("minLength", "at least"), ("maxLength", "at most"))
        if key in schema
    ]
    return " ".join([str(schema.get("type", "anything")), *limits])


_STREAMS = """\
`GET /my/chat/{session_id}/events` streams what happens in a session, `GET /my/projects/{project_id}/events` what
happens in a project, as server-sent events: `id` is the number (from 1, without holes), `event` the type, `data` JSON
with the fields below and `session_id`, `turn_id`, `timestamp` (or `project_id`, `timestamp`). `Last-Event-ID` or
`?after=N` resumes after a number; 0 is the beginning; without either a stream begins now.

Without a number: `message_delta` {message_id, task_id, n, text} is a piece of an answer that is being written,
`message_snapshot` (the same fields) replaces what the reader has of it; deltas up to its `n` are dropped. A comment
every 15 seconds keeps the line open. `GET /my/chat/{session_id}/messages` has what was said.
"""


def events_page() -> str:
    """Return the page about events."""
    from artel.contract import events

    parts = [f"# Events\n\n{NOTE}\n{_STREAMS}"]
    for model in sorted(events.EventData.__subclasses__(), key=lambda model: model.type):
        fields = [f"- `{name}`: {_type(field)}" for name, field in _fields(model.model_json_schema())]
        parts.append("\n".join([f"\n## {model.type}\n\n{model.__doc__}\n", *fields]) + "\n")
    return "".join(parts)


def _fields(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from schema.get("properties", {}).items()


# A call of each workspace tool, and what comes back.
TOOL_EXAMPLES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "tool_read_file": (
        {"path": "src/main.py", "first_line": 1, "lines": 2},
        {"content": "import sys\n", "size": 120, "first_line": 1, "total_lines": 9, "is_cut": True},
    ),
    "tool_list_directory": (
        {"path": "src", "recursive": True, "pattern": "*.py"},
        {
            "files": [{"path": "src/main.py", "type": "file", "size": 120, "modified": "2026-01-31T12:00:00+00:00"}],
            "is_cut": False,
            "left_out": [],
            "unreadable": [{"path": "src/locked"}],
        },
    ),
    "tool_search_files": (
        {"query": "TODO", "path": "src", "pattern": "*.py"},
        {"matches": [{"path": "src/main.py", "line": 3, "text": "# TODO: name it"}], "is_cut": False},
    ),
    "tool_stat": (
        {"path": "src"},
        {"path": "src", "type": "directory", "size": 4096, "modified": "2026-01-31T12:00:00+00:00"},
    ),
    "tool_write_file": (
        {"path": "docs/plan.md", "content": "# Plan\n", "create_dirs": True},
        {"size": 7, "sha256": "4c1f…", "timestamp": "2026-01-31T12:00:00+00:00", "is_new": True},
    ),
    "tool_edit_file": (
        {"path": "src/main.py", "old": "hello", "new": "hello, world"},
        {"size": 127, "sha256": "9ab0…", "timestamp": "2026-01-31T12:00:00+00:00", "is_new": False},
    ),
    "tool_delete_file": ({"path": "src/old.py"}, {}),
    "tool_run_command": ({"name": "test"}, {"name": "test", "output": "3 passed\n", "exit_code": 0}),
}
_TYPES = {"string": "str", "integer": "int", "boolean": "bool"}


def tools_page() -> str:
    """Return the page about the tools for the user's folder."""
    from artel.tools.files import CHANGING, READING

    text = (
        f"# Workspace tools\n\n{NOTE}\n"
        "The tools with which an agent reaches the folder that you have connected. For whom a call is made is no\n"
        "argument: the user and the project come from the run (`user_id`, to the connector). Paths are relative to\n"
        "the folder. A call that fails has `success: false` and an `error` in words;\n"
        "[the user's files](../concepts/files.md) says what is checked and when you are asked.\n"
    )
    for tool in (*READING, *CHANGING):
        asked, answered = TOOL_EXAMPLES[tool.name]
        rows = "\n".join(f"| `{name}` | {about['description']} |" for name, about in tool.properties.items())
        text += (
            f"\n## {tool.name}\n\n```python\n{signature(tool)}\n```\n\n{tool.description}\n\n"
            f"| argument | meaning |\n|---|---|\n{rows}\n\n"
            f"```json\n{json.dumps(asked, ensure_ascii=False)}\n"
            f"{json.dumps({'success': True, 'data': answered}, ensure_ascii=False)}\n```\n"
        )
    return text


def signature(tool: Any) -> str:
    """Return a tool's arguments as those of a Python function."""
    arguments = []
    for name, about in tool.properties.items():
        text = f"{name}: {_TYPES[about['type']]}"
        if name not in tool.required:
            text += f" = {about['default']!r}" if "default" in about else " | None = None"
        arguments.append(text)
    return f"{tool.name}({', '.join(arguments)})"


PAGES = {
    "tools.md": tools_page,
    "events.md": events_page,
    "settings.md": settings_page,
    "command-line.md": command_line_page,
    "http.md": http_page,
}


def main() -> int:
    """Write the pages, or with --check compare them with what is there."""
    stale = []
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        path, text = REFERENCE / name, page()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if "--check" not in sys.argv:
                path.write_text(text, encoding="utf-8")
    if stale and "--check" in sys.argv:
        print(f"docs/reference is stale ({', '.join(stale)}). Run: make docs")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
