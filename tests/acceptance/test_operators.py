"""Operator tasks: start, upgrade, manage accounts, diagnose."""

import json
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.deadlines import eventually
from tests.people import PASSWORD, client
from tests.running import Server, artel, clean_environment
from tests.services import ServiceRun


def verdicts(env: dict[str, str], code: int) -> dict[str, tuple[str, str]]:
    done = artel("doctor", "--json", env=env)
    assert done.returncode == code, (done.stdout, done.stderr)
    return {item["part"]: (item["verdict"], item["detail"] + item["advice"]) for item in json.loads(done.stdout)}


def test_up_creates_link_account_and_project(tmp_path: Path) -> None:
    env = clean_environment(tmp_path)
    server = Server.start(tmp_path, env, "up")

    assert server.url.startswith("http://127.0.0.1:")
    address, _, code = server.ready["link"].partition("/#code=")
    assert address == server.url
    assert client(server.url).post("/auth/browser", json={"code": code}).json()["email"] == "local@localhost"
    http = client(server.url, server.ready["token"])
    assert http.get("/auth/me").json()["is_admin"]
    projects = http.get("/my/projects").json()
    assert [item["is_default"] for item in projects["items"]] == [True]
    assert len(http.get(f"/my/projects/{server.ready['project_id']}").json()["agents"]) == 4
    listed = artel("agents", "list", "--json", env=env)  # uses the login that `artel up` stored
    assert len(json.loads(listed.stdout)) == 4
    secret = tmp_path / "data" / "jwt_secret"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    assert server.stop() == 0

    again = Server.start(tmp_path, env, "up")
    assert client(again.url, server.ready["token"]).get("/my/projects").json() == projects
    assert again.stop() == 0


def test_local_account_has_no_password_login(tmp_path: Path) -> None:
    server = Server.start(tmp_path, clean_environment(tmp_path), "up")

    for password in ("", "password", "None"):
        form = {"username": "local@localhost", "password": password}
        assert httpx.post(f"{server.url}/auth/token", data=form, timeout=30).status_code in (401, 422)
    assert server.stop() == 0


def test_second_server_on_the_same_folder_names_the_first(tmp_path: Path) -> None:
    env = clean_environment(tmp_path)
    server = Server.start(tmp_path, env, "up")

    second = artel("up", "--port", "0", env=env)

    assert second.returncode == 5
    assert server.url in second.stderr
    assert str(server.process.pid) in second.stderr
    assert server.stop() == 0
    Server.start(tmp_path, env, "up").kill()
    Server.start(tmp_path, env, "up").stop()  # the lock of a killed server is released


def test_connector_ends_when_its_server_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "folder of a killed server"
    folder.mkdir()
    server = Server.start(tmp_path, clean_environment(tmp_path), "up", "--folder", str(folder))
    http = client(server.url, server.ready["token"])
    eventually(lambda: http.get(f"/my/projects/{server.ready['project_id']}/connector").json()["online"])
    assert _processes_with(folder)

    server.kill()

    eventually(lambda: not _processes_with(folder), 30)


def _logins(server: Server) -> list[str]:
    http = client(server.url, server.ready["token"])
    return sorted(login["label"] for login in http.get("/auth/sessions").json()["items"])


def _processes_with(folder: Path) -> list[Path]:
    """Return the connector processes of the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:  # the process has just ended
            continue
        if b"connect" in words and os.fsencode(folder) in words:
            found.append(path)
    return found


def test_used_port_is_named_in_the_error(tmp_path: Path) -> None:
    server = Server.start(tmp_path / "first", clean_environment(tmp_path / "first"))
    port = server.url.rsplit(":", 1)[1]

    second = artel("serve", "--port", port, env=clean_environment(tmp_path / "second"))

    assert second.returncode == 5
    assert port in second.stderr
    assert "--port" in second.stderr
    assert server.stop() == 0


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_server_shuts_down_cleanly_on_signal(tmp_path: Path, how: signal.Signals) -> None:
    server = Server.start(tmp_path, clean_environment(tmp_path, ARTEL_LOG_LEVEL="info"))

    server.process.send_signal(how)

    assert server.process.wait(15) == 0
    assert not (tmp_path / "data" / "artel.db-wal").exists()  # checkpointed: the database was closed cleanly
    server.stop()


def test_server_refuses_postgres_until_the_operator_upgrades_it(
    new_database: Callable[..., str], backend: str, tmp_path: Path
) -> None:
    env = clean_environment(tmp_path, ARTEL_DATABASE_URL=new_database())
    if backend == "postgres":
        refused = artel("serve", "--port", "0", env=env)
        assert refused.returncode == 6
        assert "artel db upgrade" in refused.stderr

    first = json.loads(artel("db", "upgrade", "--json", env=env).stdout)
    second = json.loads(artel("db", "upgrade", "--json", env=env).stdout)

    assert first["before"] is None
    assert second == {"before": first["after"], "after": first["after"]}
    assert Server.start(tmp_path, env).stop() == 0


def test_newer_database_is_used_while_it_is_compatible(new_database: Callable[..., str], tmp_path: Path) -> None:
    env = clean_environment(tmp_path, ARTEL_DATABASE_URL=new_database())
    artel("db", "upgrade", env=env)
    server = Server.start(tmp_path, env)

    change_schema(env, "UPDATE alembic_version SET version_num = '9998'")  # a newer server has expanded the schema
    assert httpx.get(f"{server.url}/readyz", timeout=30).status_code == 200
    assert server.stop() == 0
    assert Server.start(tmp_path, env).stop() == 0
    assert verdicts(env, 0)["database"][0] == "ok"

    change_schema(env, "UPDATE installation SET compatible_since = '9998'")  # the next release has contracted it
    for command in (("serve", "--port", "0"), ("db", "upgrade"), ("users", "list")):
        refused = artel(*command, env=env)
        assert refused.returncode == 6
        assert "9998" in refused.stderr
    assert verdicts(env, 1)["database"][0] == "failed"


def change_schema(env: dict[str, str], statement: str) -> None:
    import sqlalchemy

    engine = sqlalchemy.create_engine(env["ARTEL_DATABASE_URL"].replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text(statement))
    engine.dispose()


def test_database_files_are_private_even_in_a_public_folder(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o755)
    server = Server.start(tmp_path, clean_environment(tmp_path))
    httpx.post(f"{server.url}/auth/register", json={"email": "a@b.c", "password": PASSWORD}, timeout=30)

    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "data").iterdir()}

    assert {"artel.db", "artel.db-wal", "jwt_secret"} <= set(modes)
    assert set(modes.values()) == {0o600}
    assert server.stop() == 0


def test_two_servers_cannot_share_a_sqlite_database(tmp_path: Path) -> None:
    shared = f"sqlite:///{tmp_path}/shared.db"
    first = Server.start(tmp_path / "one", clean_environment(tmp_path / "one", ARTEL_DATABASE_URL=shared))

    second = artel("serve", "--port", "0", env=clean_environment(tmp_path / "two", ARTEL_DATABASE_URL=shared))

    assert second.returncode == 5
    assert first.url in second.stderr
    assert first.stop() == 0


@pytest.mark.req("SEC-04.6")
def test_up_connects_a_folder_with_approvals_in_the_browser(tmp_path: Path) -> None:
    env = clean_environment(tmp_path)
    (tmp_path / "project").mkdir()
    server = Server.start(tmp_path, env, "up", "--folder", str(tmp_path / "project"))
    url = f"{server.url}/my/projects/{server.ready['project_id']}/connector"
    headers = {"Authorization": f"Bearer {server.ready['token']}"}

    def state() -> dict[str, Any]:
        shown: dict[str, Any] = httpx.get(url, headers=headers, timeout=30).json()
        return shown

    eventually(lambda: state()["online"])
    assert (state()["workspace_name"], state()["mode"]) == ("project", "browser")
    assert _logins(server) == ["artel up", "artel up, connected folder"]
    assert server.stop() == 0
    again = Server.start(tmp_path, env, "up", "--no-folder")
    assert _logins(again) == ["artel up", "artel up"]  # the login of the folder's connector has ended
    assert again.stop() == 0

    for folder, why in (
        ("/", "your home folder"),
        (str(tmp_path), "the server's data"),
        ("/no/where", "not a folder"),
    ):
        refused = artel("up", "--port", "0", "--folder", folder, env=env)
        assert refused.returncode == 2
        assert why in refused.stderr


def test_account_of_up_cannot_be_registered(tmp_path: Path) -> None:
    env = clean_environment(tmp_path)
    server = Server.start(tmp_path, env)
    body = {"email": "Local@localhost", "password": PASSWORD}
    registered = httpx.post(f"{server.url}/auth/register", json=body, timeout=30).json()
    server.stop()

    mine = Server.start(tmp_path, env, "up")

    me = client(mine.url, mine.ready["token"]).get("/auth/me").json()
    assert me["user_id"] != registered["user_id"]
    assert client(mine.url, registered["access_token"]).get("/my/projects").json()["total"] == 0
    assert mine.stop() == 0
    number = str(me["user_id"])
    assert artel("users", "delete", number, "--yes", env=env).returncode == 0
    again = Server.start(tmp_path, env, "up")
    assert client(again.url, again.ready["token"]).get("/auth/me").json()["user_id"] > me["user_id"]
    assert again.stop() == 0


def test_up_logs_in_the_command_line_unless_logged_in_to_another_server(tmp_path: Path) -> None:
    env = clean_environment(tmp_path)
    for _ in range(2):  # the second time on another port
        server = Server.start(tmp_path, env, "up")
        assert artel("agents", "list", env=env).returncode == 0
        server.stop()
    credentials = tmp_path / "config" / "credentials.json"
    elsewhere = {"current": "https://artel.example.org", "tokens": {"https://artel.example.org": "theirs"}}
    credentials.write_text(json.dumps(elsewhere))

    server = Server.start(tmp_path, env, "up")

    assert json.loads(credentials.read_text()) == {
        "current": elsewhere["current"],
        "tokens": {server.url: server.ready["token"], "https://artel.example.org": "theirs"},
    }
    assert artel("link", "--server", server.url, env=env).stdout.startswith(f"{server.url}/#code=")
    server.stop()


def test_database_errors_are_readable(tmp_path: Path) -> None:
    (tmp_path / "broken.db").write_bytes(b"no database at all, but long enough to look at" * 100)
    messages = {
        f"sqlite:///{tmp_path}/broken.db": "not a SQLite database",
        f"sqlite:///{tmp_path}/no/such/folder/x.db": "folder",
        "postgresql://ada:hunter2@127.0.0.1:1/artel": "Is it running?",
    }
    for url, message in messages.items():
        env = clean_environment(tmp_path, ARTEL_DATABASE_URL=url)
        for command in (("db", "upgrade"), ("serve", "--port", "0"), ("users", "list")):
            done = artel(*command, env=env)
            assert done.returncode in (2, 6), done.stderr
            assert message in done.stderr or "data folder" in done.stderr, done.stderr
            assert "Traceback" not in done.stderr
            assert "hunter2" not in done.stderr


def test_operator_manages_accounts(server: Server) -> None:
    email = f"operator{os.getpid()}@example.org"

    made = artel("users", "create", email, "--json", env=server.env, stdin=PASSWORD + "\n")
    assert made.returncode == 0, made.stderr
    number = json.loads(made.stdout)["user_id"]
    listed = json.loads(artel("users", "list", "--json", "--limit", "10000", env=server.env).stdout)
    assert (number, email) in [(item["user_id"], item["email"]) for item in listed]
    taken = artel("users", "create", email, env=server.env, stdin=PASSWORD + "\n")
    assert (taken.returncode, "address" in taken.stderr) == (5, True)
    short = artel("users", "create", "x@example.org", env=server.env, stdin="short\n")
    assert (short.returncode, "password" in short.stderr) == (2, True)
    assert "short" not in short.stderr.replace("too short", "").replace("shorter", "")

    changed = artel("users", "set-password", email, env=server.env, stdin="a better password\n")
    assert changed.returncode == 0, changed.stderr
    form = {"username": email, "password": "a better password"}
    assert httpx.post(f"{server.url}/auth/token", data=form, timeout=30).status_code == 200
    assert artel("users", "delete", email, env=server.env).returncode == 2
    assert artel("users", "delete", email, "--yes", env=server.env).returncode == 0
    assert artel("users", "delete", email, "--yes", env=server.env).returncode == 3
    assert artel("users", "set-password", email, env=server.env, stdin=PASSWORD + "\n").returncode == 3


def test_doctor_reports_healthy_services(services: ServiceRun, server: Server) -> None:
    env = server.env | {"ARTEL_BUS_URL": services.rabbitmq(), "ARTEL_REDIS_URL": services.redis(), "ARTEL_PORT": "0"}

    found = verdicts(env, 0)

    for part in ("settings", "data folder", "address", "database", "bus", "cache"):
        assert found[part][0] == "ok", found[part]


def test_doctor_says_what_to_do_without_secrets(tmp_path: Path) -> None:
    env = clean_environment(
        tmp_path,
        ARTEL_DATABASE_URL="postgresql://ada:hunter2@127.0.0.1:1/artel",
        ARTEL_BUS_URL="amqp://hunter2@127.0.0.1:1/",
        ARTEL_REDIS_URL="redis://:hun/hunter2#x@127.0.0.1:1/0",
        ARTEL_QDRANT_URL="http://127.0.0.1:1",
        ARTEL_JWKS_URL="http://127.0.0.1:1/keys",
        ARTEL_ISSUER="http://127.0.0.1:1",
        ARTEL_AUDIENCE="artel",
        ARTEL_HOST="0.0.0.0",  # noqa: S104
        ARTEL_DATABSE_URL="oops",
    )
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "jwt_secret").write_text("x" * 40)
    (tmp_path / "data" / "jwt_secret").chmod(0o644)

    done = artel("doctor", "--json", env=env)
    found = verdicts(env, 1)

    for part, variable in (
        ("database", "ARTEL_DATABASE_URL"),
        ("bus", "ARTEL_BUS_URL"),
        ("cache", "ARTEL_REDIS_URL"),
        ("vectors", "ARTEL_QDRANT_URL"),
        ("issuer", "ARTEL_JWKS_URL"),
        ("data folder", "chmod 600"),
    ):
        assert found[part][0] == "failed"
        assert variable in found[part][1], found[part]
    assert found["ARTEL_DATABSE_URL"][0] == "warning"
    assert found["tokens"][0] == "warning"
    assert found["host names"][0] == "warning"
    assert "hunter2" not in done.stdout + done.stderr + artel("doctor", env=env).stdout


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("ARTEL_PORT", "many", "ARTEL_PORT"),
        ("ARTEL_PORT", "70000", "65535"),
        ("ARTEL_DATABASE_URL", "mysql://ada:hunter2@db/artel", "postgresql://"),
        ("ARTEL_JWT_SECRET", "short-hunter2", "ARTEL_JWT_SECRET"),
        ("ARTEL_JWKS_URL", "https://id.example.org/keys", "issuer"),
        ("ARTEL_TRUSTED_PROXIES", "10.0.0.1", "JSON"),
        ("ARTEL_DATABASE_URL", "sqlite://", "sqlite:///artel.db"),
        ("ARTEL_ISSUER", "urn:artel:local", "reserved"),
        ("ARTEL_CONFIG", "/nowhere/artel.yaml", "/nowhere/artel.yaml"),
        ("ARTEL_DATA_DIR", "/dev/null/data", "ARTEL_DATA_DIR"),
    ],
)
def test_invalid_setting_is_named_without_its_value(tmp_path: Path, variable: str, value: str, message: str) -> None:
    done = artel("serve", env=clean_environment(tmp_path) | {variable: value})

    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "hunter2" not in done.stderr
    assert "Traceback" not in done.stderr


def test_variables_override_the_settings_file(tmp_path: Path) -> None:
    file = tmp_path / "artel.yaml"
    file.write_text("registration_open: false\nmax_body_bytes: 2000\n")
    env = clean_environment(tmp_path, ARTEL_CONFIG=str(file), ARTEL_MAX_BODY_BYTES="3000")
    del env["ARTEL_REGISTRATION_OPEN"]
    server = Server.start(tmp_path, env)

    closed = httpx.post(f"{server.url}/auth/register", json={"email": "a@b.c", "password": PASSWORD}, timeout=30)
    large = httpx.post(f"{server.url}/auth/register", content=b"x" * 4000, timeout=30)

    assert closed.json()["code"] == "registration_closed"
    assert "3000 bytes" in large.json()["detail"]
    assert server.stop() == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [("prot: 1\n", "prot is not a setting"), ("port: [\n", "not valid YAML"), ("- port\n", "port: 8700")],
)
def test_error_in_the_settings_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "artel.yaml"
    file.write_text(text)

    done = artel("serve", env=clean_environment(tmp_path, ARTEL_CONFIG=str(file)))

    assert done.returncode == 2
    assert message in done.stderr
