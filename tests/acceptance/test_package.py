"""The wheel works where nothing else of the repository is: `artel up` starts from it, and the page loads.

`make test` installs the wheel alone, beside the dependencies that the tests have; `make package-check` and `make
test-deep` install it with all its dependencies into an empty environment, as a user does, and open the page.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest
from playwright.sync_api import sync_playwright

from artel import __version__
from tests import running
from tests.browser.conftest import ARGUMENTS
from tests.browser.visits import Complaints
from tests.deadlines import eventually
from tests.deployment import copy_build_context
from tests.depth import IS_DEEP
from tests.running import Server, artel, clean_environment

pytestmark = pytest.mark.any_database

ROOT = Path(__file__).parents[2]
UV = str(Path(sys.executable).with_name("uv"))
INSTALL_SECONDS = 600
PAGE = Path("src/artel/api/static/app")


class _Files(HTMLParser):
    """Collects the scripts, style sheets and images of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        path = values.get("src") or (values.get("href") if tag == "link" else None)
        if path:
            self.paths.append(path)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _build(ROOT, tmp_path_factory.mktemp("dist"), "--wheel")


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of an environment with the wheel."""
    folder = tmp_path_factory.mktemp("environment")
    python = _environment(folder)
    if IS_DEEP:
        lock = ROOT / "requirements" / "server.txt"
        _run(UV, "pip", "install", "--quiet", "--python", python, "--constraints", lock, f"{wheel}[server]")
        _run(UV, "pip", "check", "--quiet", "--python", python)
    else:
        _run(UV, "pip", "install", "--quiet", "--offline", "--no-deps", "--python", python, wheel)
        # A folder that a .pth file names is searched, but its own .pth files are not read: not that of the checkout.
        (site,) = folder.glob("lib/python*/site-packages")
        (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return python.parent


@pytest.fixture
def server(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(running, "nursery", None)
    monkeypatch.setattr(running, "ARTEL", str(installed / "artel"))
    env = _outside_environment(tmp_path) | {"PATH": str(installed)}  # no Node, nor anything else of the machine
    started = Server.start(tmp_path, env, "up", "--no-folder")
    yield started
    assert started.stop() == 0


def test_wheel_has_the_program_and_nothing_else(wheel: Path) -> None:
    names = _names(wheel)
    metadata = f"artel_ai-{__version__}.dist-info"

    assert {name.split("/")[0] for name in names} == {"artel", metadata}
    assert f"{metadata}/licenses/LICENSE" in names
    assert "artel/py.typed" in names
    assert "artel/api/static/app/index.html" in names
    assert [name for name in names if name.endswith((".pyc", ".map", ".orig"))] == []
    migrations = ROOT / "src" / "artel" / "db" / "migrations" / "versions"
    assert {f"artel/db/migrations/versions/{path.name}" for path in migrations.glob("*.py")} <= set(names)


def test_package_without_the_built_page_is_refused(wheel: Path, tmp_path: Path) -> None:
    assert "artel/api/static/app/index.html" in _names(wheel)
    copy_build_context(tmp_path)
    shutil.rmtree(tmp_path / PAGE, ignore_errors=True)
    build = [UV, "build", "--wheel", "--no-build-isolation", "--python", sys.executable, str(tmp_path)]

    done = subprocess.run(build, capture_output=True, text=True, check=False)

    assert done.returncode != 0
    assert "The web UI is not built" in done.stderr


def test_installed_wheel_serves_the_page_with_all_its_files(server: Server, installed: Path) -> None:
    where = _run(installed / "python", "-P", "-c", "import artel; print(artel.__file__)")
    assert Path(where.strip()).is_relative_to(installed.parent)

    with httpx.Client(base_url=server.url) as client:
        page = client.get("/")
        assert page.status_code == 200
        assert page.headers["content-type"].startswith("text/html")
        files = _Files()
        files.feed(page.text)
        assert any(path.endswith(".js") for path in files.paths)
        for path in files.paths:
            assert not re.match(r"\w+:|//", path), path  # nothing from another server
            answer = client.get(urljoin(f"{server.url}/", path))
            assert answer.status_code == 200, path
            assert answer.content, path
        assert client.get("/docs").status_code == 200
        assert client.get("/healthz").json() == {"status": "ok", "version": __version__}
        me = client.get("/auth/me", headers={"Authorization": f"Bearer {server.ready['token']}"})
        assert me.json()["is_admin"]

    version = artel("--version", env=server.env)
    assert (version.returncode, version.stdout.split()[-1]) == (0, __version__)
    chat = artel("chat", "17 * 23", "--agent", "coder", "--no-folder", env=server.env)
    assert chat.returncode == 0, chat.stderr
    assert "391" in chat.stdout


if IS_DEEP:

    def test_image_and_source_distribution_give_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
        context = tmp_path / "context"
        copy_build_context(context)
        # The image gets the page from a stage of its own.
        shutil.copytree(ROOT / PAGE, context / PAGE)

        assert _names(_build(context, tmp_path / "image", "--wheel")) == _names(wheel)
        assert _names(_build(ROOT, tmp_path / "both")) == _names(wheel)  # the wheel is built from the distribution

    def test_browser_signs_in_by_the_link_of_the_installed_server(server: Server, chromium: str) -> None:
        complaints = Complaints()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))
            page = browser.new_page()
            complaints.listen(page)
            page.goto(server.ready["link"])
            eventually(lambda: page.context.request.get(f"{server.url}/auth/me").ok, 60)
            assert "Artel" in page.title()
            heard = list(complaints.heard)
            browser.close()
        assert heard == []

    def test_base_install_has_the_client_and_says_what_the_server_needs(wheel: Path, tmp_path: Path) -> None:
        python = _environment(tmp_path / "environment")
        lock = ROOT / "requirements" / "server.txt"
        _run(UV, "pip", "install", "--quiet", "--python", python, "--constraints", lock, wheel)
        env = _outside_environment(tmp_path)

        for arguments in (["--help"], ["connect", "--help"], ["chat", "--help"], ["grants", "list"]):
            done = subprocess.run([python.with_name("artel"), *arguments], env=env, capture_output=True, check=False)
            assert done.returncode == 0, (arguments, done.stderr)
        up = subprocess.run([python.with_name("artel"), "up"], env=env, capture_output=True, text=True, check=False)
        assert up.returncode != 0
        assert "artel-ai[server]" in up.stderr
        assert "Traceback" not in up.stderr


def _build(source: Path, folder: Path, *options: str) -> Path:
    python = ("--no-build-isolation", "--python", sys.executable)
    _run(UV, "build", "--quiet", *options, *python, "--out-dir", folder, source)
    (built,) = folder.glob("*.whl")
    return built


def _names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return sorted(archive.namelist())


def _environment(folder: Path) -> Path:
    """Create an environment without any package; return its Python."""
    _run(UV, "venv", "--quiet", "--no-project", "--python", sys.executable, folder)
    return folder / "bin" / "python"


def _outside_environment(folder: Path) -> dict[str, str]:
    """Return variables for processes that must not find the repository or the environment of the tests."""
    env = clean_environment(folder)
    return {name: value for name, value in env.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}


def _run(*command: object) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        env={name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"},
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
        check=False,
        cwd="/",
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout
