"""The command line, as a subprocess, against a real server."""

import json
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from artel import __version__
from tests.conftest import StartServer, with_model
from tests.model_server import ModelServer
from tests.people import PASSWORD, Person
from tests.running import Server, artel, clean_environment


@pytest.fixture(scope="session", params=["sqlite"])
def backend(request: pytest.FixtureRequest) -> str:
    """Use SQLite only: the client does not depend on the database."""
    name: str = request.param
    return name


class Terminal:
    """The command line of a user."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.env = clean_environment(folder, ARTEL_SERVER=server.url)

    def run(self, *arguments: str, code: int = 0, stdin: str = "") -> str:
        """Run a command, check its exit code, return its output."""
        done = artel(*arguments, env=self.env, stdin=stdin)
        assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json"))


@pytest.fixture
def terminal(tmp_path: Path, server: Server) -> Terminal:
    return Terminal(tmp_path, server)


@pytest.fixture
def logged_in(terminal: Terminal, person: Person) -> Terminal:
    terminal.run("login", "--email", person.email, stdin=f"{PASSWORD}\n")
    return terminal


@pytest.mark.req("UWS-08.5")
def test_administrator_resets_space_of_another_user(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server()
    first, second = Person.register(server.url), Person.register(server.url)  # the first is administrator
    project = second.project()["id"]
    for name, person, code in (("second", second, 4), ("first", first, 0)):
        terminal = Terminal(tmp_path / name, server)
        terminal.run("login", "--email", person.email, stdin=f"{PASSWORD}\n")
        output = terminal.run("projects", "reset", str(project), "--as-administrator", "--yes", code=code)
        assert ("Only an administrator" if code else f"project {project}") in output
    [audited] = second.get(f"/my/projects/{project}/audit")["items"]
    assert audited["arguments"] == {"initiator": "administrator", "user_id": first.user_id}


def test_register_log_in_and_log_out(terminal: Terminal, server: Server, tmp_path: Path) -> None:
    email = f"cli{tmp_path.name}@example.org"

    assert server.url in terminal.run("login", "--register", "--email", email, stdin=f"{PASSWORD}\n")
    stored = tmp_path / "config" / "credentials.json"
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600
    assert terminal.json("projects", "list") == []
    assert terminal.run("token").strip() == json.loads(stored.read_text())["tokens"][server.url]
    assert "Logged out" in terminal.run("logout")
    assert f"artel login --server {server.url}" in terminal.run("projects", "list", code=4)
    assert "wrong" in terminal.run("login", "--email", email, stdin="not the password\n", code=4)
    assert json.loads(terminal.run("login", "--email", email, "--json", stdin=f"{PASSWORD}\n"))["email"] == email
    assert terminal.json("projects", "list") == []


def test_projects_are_created_changed_and_deleted(logged_in: Terminal) -> None:
    assert "No projects yet" in logged_in.run("projects", "list")
    made = logged_in.json("projects", "create", "Website", "--settings", '{"language": "ru"}')
    number = str(made["id"])
    assert "agent_coder" in logged_in.run("projects", "create", "Second")

    assert [line.split()[0] for line in logged_in.run("projects", "list").splitlines()][:2] == ["id", number]
    assert "just now" in logged_in.run("projects", "list")
    assert "agent_researcher" in logged_in.run("projects", "show", number)
    assert logged_in.json("projects", "show", number) == made
    assert logged_in.json("projects", "update", number, "--name", "Renamed")["name"] == "Renamed"
    assert logged_in.json("projects", "update", number, "--settings", "{}")["settings"] == {}
    assert "--name or --settings" in logged_in.run("projects", "update", number, code=2)
    assert "not JSON" in logged_in.run("projects", "update", number, "--settings", "{", code=2)
    assert logged_in.json("projects", "reset", number, "--yes") == {"reset": made["id"]}
    assert "--yes" in logged_in.run("projects", "delete", number, code=2)
    assert logged_in.json("projects", "delete", number, "--yes") == {"deleted": made["id"]}
    assert "Project not found" in logged_in.run("projects", "show", number, code=3)


def test_agents_are_created_changed_and_deleted(logged_in: Terminal, tmp_path: Path) -> None:
    assert "You have no project yet" in logged_in.run("agents", "list", code=3)
    project = logged_in.json("projects", "create", "Website")
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("Проверь всё.\nДважды.", encoding="utf-8")
    create = ("agents", "create", "agent_reviewer", "--role", "reviewer", "--model", "gpt-4")

    made = logged_in.json(
        *create, "--prompt-file", str(prompt), "--tool", "tool_stat", "--no-memory", "--temperature", "0"
    )

    number = str(made["id"])
    assert (made["system_prompt"], made["tools"]) == ("Проверь всё.\nДважды.", ["tool_stat"])
    assert (made["memory"], made["temperature"], made["project_id"]) == (False, 0, project["id"])
    assert "Choose another" in logged_in.run(*create, "--prompt", "x", code=5)
    assert "--prompt" in logged_in.run(*create, code=2)
    assert len(logged_in.json("agents", "list")) == 5
    assert "agent_reviewer" in logged_in.run("agents", "list", "--project", str(project["id"]))
    assert logged_in.json("agents", "show", number) == made
    assert (
        logged_in.json("agents", "update", number, "--model", "gpt-4o", "--concurrency-limit", "7")["model"] == "gpt-4o"
    )
    loop = logged_in.json("agents", "update", number, "--critique", "--plan", "--max-iterations", "2")["loop"]
    assert loop == made["loop"] | {"critique": True, "plan": True, "max_iterations": 2}
    loop = logged_in.json("agents", "update", number, "--no-plan", "--max-tool-calls", "0")["loop"]
    assert loop == made["loop"] | {"critique": True, "max_iterations": 2, "max_tool_calls": 0}
    assert "'--max-tool-calls'" in logged_in.run("agents", "update", number, "--max-tool-calls", "21", code=2)
    assert "'--temperature'" in logged_in.run("agents", "update", number, "--temperature", "3", code=2)
    assert "--model must not be empty" in logged_in.run("agents", "update", number, "--model", "", code=2)
    assert logged_in.json("agents", "show", "reviewer") == logged_in.json("agents", "show", "agent_reviewer")
    assert "Its agents: agent_coder" in logged_in.run("agents", "show", "nobody", code=3)
    assert "nothing to change" in logged_in.run("agents", "update", number, code=2)
    assert logged_in.json("agents", "delete", number, "--yes") == {"deleted": made["id"]}
    assert "Agent not found" in logged_in.run("agents", "show", number, code=3)


@pytest.mark.req("CLI-01.7")
def test_every_command_accepts_a_project_name(logged_in: Terminal, tmp_path: Path) -> None:
    made = logged_in.json("projects", "create", "Website")
    logged_in.run("projects", "create", "Shop")
    unknown = f"No project is called Nope. Use --project NUMBER. Yours: {made['id']} (Website)"
    work = tmp_path / "work"
    work.mkdir()

    for command in (
        ("agents", "list"),
        ("workflows", "list"),
        ("usage",),
        ("chat", "hello"),
        ("connect", str(work), "--yes"),
    ):
        assert unknown in logged_in.run(*command, "--project", "Nope", code=3)
    assert len(logged_in.json("agents", "list", "--project", "Website")) == 4
    assert logged_in.json("agents", "list", "-p", str(made["id"])) == logged_in.json("agents", "list", "-p", "Website")
    assert logged_in.json("agents", "show", "coder", "-p", "Website")["project_id"] == made["id"]
    assert logged_in.json("projects", "show", "Website") == made
    assert "must not be empty" in logged_in.run("projects", "update", "Website", "--name", "", code=2)
    assert unknown in logged_in.run("projects", "show", "Nope", code=3)
    assert logged_in.json("projects", "delete", "Website", "--yes") == {"deleted": made["id"]}


@pytest.mark.req("CLI-01.8")
def test_doctor_shows_the_server_first(logged_in: Terminal, person: Person, server: Server) -> None:
    logged_in.run("projects", "create", "Website")

    shown = logged_in.run("doctor")

    first, second = shown.split("This machine, if you run a server here\n")
    assert first.startswith(f"The server you use\n  ok       server         {server.url}, version {__version__}\n")
    assert f"account        {person.email}" in first  # the first user is also an administrator
    assert "its models     none is configured, the demo brain answers" in first
    assert "(Website): no folder connected" in first
    assert "data folder" in second
    findings = logged_in.json("doctor")
    assert [finding["section"] for finding in findings][:4] == ["server"] * 4
    logged_in.env["ARTEL_TOKEN"] = "wrong"
    assert "→ artel login --server" in logged_in.run("doctor")
    logged_in.env["ARTEL_SERVER"] = "http://127.0.0.1:1"
    assert "warning  server         No answer from http://127.0.0.1:1" in logged_in.run("doctor")


@pytest.mark.req("CLI-01.8")
def test_doctor_names_the_models_of_the_server(start_server: StartServer, model: ModelServer, tmp_path: Path) -> None:
    server = start_server(**with_model(model), ARTEL_DEFAULT_MODEL="gpt-4o-mini")
    person = Person.register(server.url)
    env = clean_environment(tmp_path, ARTEL_SERVER=server.url, ARTEL_TOKEN=person.token)

    shown = artel("doctor", env=env).stdout

    assert re.search(r"ok +its models +gpt-4o-mini for new agents, gpt-4o for plans", shown)


def test_token_of_environment_is_used_and_errors_are_json_with_json_option(terminal: Terminal, person: Person) -> None:
    terminal.env["ARTEL_TOKEN"] = person.token
    assert terminal.json("projects", "list") == []

    terminal.env["ARTEL_TOKEN"] = "nonsense"
    error = json.loads(terminal.run("projects", "list", "--json", code=4))

    assert error["code"] == "invalid_token"


def test_usage_errors_are_json_with_json_option(logged_in: Terminal) -> None:
    assert json.loads(logged_in.run("projects", "update", "1", "--json", code=2))["code"] == "usage"
    assert json.loads(logged_in.run("projects", "show", "--json", code=2))["code"] == "usage"


def test_closed_input_at_a_prompt_exits_with_130(terminal: Terminal) -> None:
    terminal.run("login", code=130)


@pytest.mark.parametrize("token", ["SECRET\nWORD", "SECRET WÖRD", "SECRET\x7f"])
def test_invalid_token_is_not_printed(terminal: Terminal, token: str) -> None:
    terminal.env["ARTEL_TOKEN"] = token

    assert "SECRET" not in terminal.run("projects", "list", code=4)


@pytest.mark.parametrize("address", ["http://[::1", "http://exa mple.org:x"])
def test_invalid_server_address_is_reported(terminal: Terminal, person: Person, address: str) -> None:
    terminal.env |= {"ARTEL_TOKEN": person.token, "ARTEL_SERVER": address}

    assert "not a valid server address" in terminal.run("projects", "list", code=6)


def test_token_is_never_sent_to_another_server(logged_in: Terminal) -> None:
    refused = logged_in.run("projects", "list", "--server", "http://127.0.0.1:1", code=4)

    assert "Not logged in to http://127.0.0.1:1" in refused


@pytest.mark.req("SEC-04.8")
def test_token_of_environment_is_never_sent_to_another_server(terminal: Terminal, person: Person) -> None:
    terminal.env["ARTEL_TOKEN"] = person.token

    output = terminal.run("projects", "list", "--server", "http://127.0.0.1:1", code=4)  # 6 if it was sent

    assert "ARTEL_SERVER=http://127.0.0.1:1" in output
    assert terminal.json("projects", "list") == []


def test_error_names_the_unreachable_server(terminal: Terminal, person: Person) -> None:
    terminal.env |= {"ARTEL_TOKEN": person.token, "ARTEL_SERVER": "http://127.0.0.1:1"}

    assert "No answer from http://127.0.0.1:1" in terminal.run("projects", "list", code=6)


@pytest.mark.parametrize(
    "command",
    [
        (),
        ("projects",),
        ("projects", "create"),
        ("agents", "update"),
        ("db", "upgrade"),
        ("up",),
        ("chat",),
        ("connect",),
        ("undo",),
        ("grants", "revoke"),
    ],
)
def test_help_imports_no_heavy_packages(command: tuple[str, ...], tmp_path: Path) -> None:
    import subprocess
    import sys

    script = (
        "import sys; sys.argv = ['artel', *sys.argv[1:], '--help']\n"
        "from artel.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "heavy = {'pydantic', 'httpx', 'rich', 'fastapi', 'sqlalchemy', 'structlog', 'asyncio.events'}\n"
        "print('HEAVY', heavy & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *command], capture_output=True, text=True, timeout=30, check=True, cwd=tmp_path
    )

    assert "Usage: artel" in done.stdout
    assert done.stdout.rstrip().endswith("HEAVY set()"), done.stdout


def test_help_fits_into_80_columns_in_sections_with_examples(tmp_path: Path) -> None:
    shown = artel("--help", env=clean_environment(tmp_path, COLUMNS="80")).stdout

    sections = ["Start:", "Work:", "Files:", "Manage:", "Operate:", "Examples:"]
    assert [line for line in shown.splitlines() if line in sections] == sections
    assert "More:" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert "...\n" not in shown.replace("[ARGS]...\n", "")


@pytest.mark.req("CLI-01.4")
def test_command_lists_are_not_truncated(tmp_path: Path) -> None:
    from artel.cli.main import app

    for group in app.registered_groups:
        shown = artel(str(group.name), "--help", env=clean_environment(tmp_path, COLUMNS="80")).stdout
        assert "Commands:" in shown
        assert "..." not in shown.replace("[ARGS]...", "")


def test_version_is_printed(tmp_path: Path) -> None:
    from artel import __version__

    assert artel("--version", env=clean_environment(tmp_path)).stdout == f"artel {__version__}\n"


def test_client_imports_nothing_of_the_server(tmp_path: Path) -> None:
    import subprocess
    import sys

    script = (
        "import sys\n"
        "for name in ('fastapi', 'sqlalchemy', 'structlog', 'argon2', 'jwt', 'pydantic_settings', 'uvicorn'):\n"
        "    sys.modules[name] = None\n"
        "import artel.client.api_client, artel.client.conversation, artel.client.credentials\n"
        "from artel.cli.main import main\n"
        "sys.argv = ['artel', 'serve']\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False, cwd=tmp_path
    )

    assert done.returncode == 1
    assert "pip install 'artel-ai[server]'" in done.stderr
