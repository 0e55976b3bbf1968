"""A folder with hostile files: no command of Artel imports or is configured by anything in it."""

import json
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jwt
import pytest

from tests.connecting import Connecting
from tests.deadlines import eventually
from tests.people import client
from tests.running import ARTEL, COMMAND_SECONDS, STOP_SECONDS, artel, clean_environment

# Modules that Artel or Python itself imports.
POISON = (
    "typer",
    "rich",
    "websockets",
    "httpx",
    "pydantic",
    "structlog",
    "platformdirs",
    "pathspec",
    "yaml",
    "json",
    "re",
    "sitecustomize",
    "usercustomize",
    "pip",
)


@pytest.fixture
def poisoned(tmp_path: Path) -> Path:
    """A folder full of modules; `imported` in it names those that were run."""
    folder = tmp_path / "poisoned"
    folder.mkdir()
    imported = folder / "imported"
    for name in POISON:
        (folder / f"{name}.py").write_text(f"open({str(imported)!r}, 'a').write({name!r} + ' ')\n")
    return folder


def poison_package(folder: Path, name: str) -> None:
    """Add a package with the name of one of ours, which would shadow the real one if the folder were in sys.path."""
    (folder / name).mkdir()
    for file in ("__init__.py", "__main__.py"):
        (folder / name / file).write_text(f"open({str(folder / 'imported')!r}, 'a').write({name!r} + ' ')\n")


@contextmanager
def running(command: list[str], folder: Path, env: dict[str, str], out: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in the folder, as a user does."""
    with out.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        finally:
            process.kill()
            process.wait()


@pytest.mark.req("SEC-01.1", "SEC-01.2")
def test_up_and_its_connector_import_and_read_no_configuration_from_the_folder(poisoned: Path, tmp_path: Path) -> None:
    poison_package(poisoned, "artel")
    leaked_secret = "known-to-the-author-of-the-folder-and-long-enough"
    (poisoned / "artel.yaml").write_text(f"jwt_secret: {leaked_secret}\ndata_dir: {tmp_path}/stolen\n")
    env = clean_environment(tmp_path, ARTEL_CONFIG_DIR="../config")  # also a relative one stays the same folder
    out = tmp_path / "out.txt"
    with running([ARTEL, "up", "--port", "0", "--json"], poisoned, env, out):
        ready = eventually(lambda: _ready(out), COMMAND_SECONDS)
        http = client(ready["url"], ready["token"])
        where = f"/my/projects/{ready['project_id']}/connector"
        eventually(lambda: http.get(where).json()["online"], COMMAND_SECONDS)
        claims = jwt.decode(ready["token"], options={"verify_signature": False})
        forged = client(ready["url"], jwt.encode(claims, leaked_secret, algorithm="HS256")).get("/auth/me")

    assert forged.status_code == 401
    assert "Move it to ../config/artel.yaml" in out.read_text()
    assert not (tmp_path / "stolen").exists()
    assert not (poisoned / "imported").exists(), (poisoned / "imported").read_text()
    assert (tmp_path / "config" / "connectors").is_dir()


def _ready(out: Path) -> dict[str, str]:
    found = [line for line in out.read_text().splitlines() if line.startswith('{"url"')]
    return json.loads(found[0]) if found else {}


@pytest.mark.req("SEC-01.1")
@pytest.mark.parametrize("command", [[ARTEL], [sys.executable, "-m", "artel"]], ids=["artel", "python -m artel"])
def test_connect_and_its_search_import_nothing_from_the_folder(
    poisoned: Path, connect: Connecting, command: list[str], tmp_path: Path
) -> None:
    (poisoned / "notes.txt").write_text("the needle\n")
    if command == [ARTEL]:  # a package of this name would be all that `python -m artel` ever finds
        poison_package(poisoned, "artel")
    words = [*command, "connect", ".", "--project", "5", "--ask", "browser"]
    with running(words, poisoned, connect.env, tmp_path / "out.txt"):
        connection = connect.server.connection()
        found = connection.ok("search", query="n[e]+dle", regex=True)

    assert [match["path"] for match in found["matches"]] == ["notes.txt"]
    assert not (poisoned / "imported").exists(), (poisoned / "imported").read_text()


@pytest.mark.req("SEC-01.1")
@pytest.mark.parametrize("command", [[ARTEL], [sys.executable, "-m", "artel"]], ids=["artel", "python -m artel"])
@pytest.mark.parametrize("path", [":", "."])
def test_current_folder_in_pythonpath_is_not_imported_from(tmp_path: Path, command: list[str], path: str) -> None:
    imported = tmp_path / "imported"
    folder = tmp_path / "cloned"
    folder.mkdir()
    # Modules of Artel's dependencies. Those that Python itself imports at its start are beyond our reach.
    for name in ("typer", "click", "rich", "pydantic", "httpx", "platformdirs"):
        (folder / f"{name}.py").write_text(f"open({str(imported)!r}, 'a').write({name!r} + ' ')\n")

    done = subprocess.run(
        [*command, "doctor", "--json"],
        cwd=folder,
        env=clean_environment(tmp_path, PYTHONPATH=path),
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert not imported.exists(), imported.read_text()


@pytest.mark.req("SEC-01.1")
@pytest.mark.parametrize("command", [[ARTEL], [sys.executable, "-m", "artel"]], ids=["artel", "python -m artel"])
@pytest.mark.parametrize("name", ["purelib", "stdlib"])
def test_command_runs_in_a_folder_of_the_installation(tmp_path: Path, command: list[str], name: str) -> None:
    done = subprocess.run(
        [*command, "doctor", "--json"],
        cwd=sysconfig.get_paths()[name],
        env=clean_environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.req("SEC-01.2")
def test_settings_file_in_the_current_folder_is_named_and_not_read(tmp_path: Path) -> None:
    env = clean_environment(tmp_path)
    folder = tmp_path / "cloned"
    folder.mkdir()
    (folder / "artel.yaml").write_text("port: no number\n")
    command = [ARTEL, "doctor", "--json"]

    ignored = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
    )
    named = subprocess.run(
        command,
        cwd=folder,
        env=env | {"ARTEL_CONFIG": "artel.yaml"},
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )

    assert ignored.returncode == 0, ignored.stdout
    assert ignored.stderr.count("not read: artel.yaml in the current folder") == 1
    assert str(tmp_path / "config" / "artel.yaml") in ignored.stderr
    assert "ARTEL_PORT" in named.stdout
    assert "not read" not in named.stderr


@pytest.mark.req("SEC-01.2")
def test_settings_file_of_the_config_folder_wins_over_that_of_the_data_folder(tmp_path: Path) -> None:
    env = clean_environment(tmp_path)
    for folder in ("config", "data"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "artel.yaml").write_text(f"of_{folder}: 1\n")

    first = artel("doctor", "--json", env=env)
    (tmp_path / "config" / "artel.yaml").unlink()
    second = artel("doctor", "--json", env=env)

    assert f"{tmp_path}/config/artel.yaml: of_config is not a setting" in first.stdout
    assert f"{tmp_path}/data/artel.yaml: of_data is not a setting" in second.stdout


IMPORTS = {
    "brain": "from artel.brain.litellm_client import _import as load",
    "embeddings": "from artel.vector_index.embedder import _litellm as load",
}


@pytest.mark.req("SEC-01.3")
@pytest.mark.parametrize("which", IMPORTS)
def test_importing_the_model_library_loads_no_env_file(which: str, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("ANTHROPIC_API_BASE=https://evil.example\n")
    # The library looks upwards from its own folder, or from the current one when Python is interactive.
    program = f"import os, sys; sys.ps1 = ''; {IMPORTS[which]}; load(); print(os.environ.get('ANTHROPIC_API_BASE'))"
    env = clean_environment(tmp_path, LITELLM_MODE="DEV")

    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )

    assert done.stdout.split()[-1] == "None", done.stdout + done.stderr
