"""What an extra installs is optional: without it the server says which to install, or does with less."""

import importlib.util
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from pydantic import SecretStr

from artel.db.engine import open_database
from artel.errors import ConfigurationInvalid
from artel.settings import Settings
from artel.tools.http_response import WebFailed
from artel.tools.search_engines import Ddgs
from artel.vector_index.embedder import NoEmbedder
from artel.vector_index.providers import make_store

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
PAGE = """<!doctype html><html><head><title>Ports &amp; co</title><style>p {}</style>
<body><script>var port = 1</script><p>The port<p>is <b>8700</b>.<br>Not <a href="x">9</a>.<ul><li>one<li>two</ul>
<svg><title>an icon</title></svg><footer>End</footer>"""


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    missing = {"psycopg", "qdrant_client"}
    for module in ("artel.db.engine", "artel.vector_index.providers"):
        monkeypatch.setattr(f"{module}.find_spec", lambda name: None if name in missing else find_spec(name))
    monkeypatch.setitem(sys.modules, "ddgs", None)


@pytest.mark.usefixtures("without")
def test_missing_driver_and_client_are_named_with_their_extra(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, database_url=SecretStr("postgresql://app@127.0.0.1/x"))
    with pytest.raises(ConfigurationInvalid, match=r"pip install 'artel-ai\[postgres\]'"):
        open_database(settings)
    settings = Settings(data_dir=tmp_path, qdrant_url=SecretStr("http://127.0.0.1:1"))
    with pytest.raises(ConfigurationInvalid, match=r"pip install 'artel-ai\[qdrant\]'"):
        make_store(settings, NoEmbedder())


@pytest.mark.usefixtures("without")
@pytest.mark.req("AGT-02.11")
async def test_search_without_its_library_says_what_the_operator_can_install() -> None:
    engine = Ddgs()

    with pytest.raises(WebFailed, match=r"pip install 'artel-ai\[web\]'.*searxng_url"):
        await engine.search("ports", 1)
    await engine.close()


def test_library_that_counts_tokens_is_a_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert any(requirement.startswith("regex>=") for requirement in project["optional-dependencies"]["server"])


def test_page_is_read_as_text_without_the_libraries_for_it() -> None:
    program = (
        "import sys; sys.modules.update({'lxml': None, 'lxml.etree': None, 'trafilatura': None})\n"
        "from artel.tools import readable; readable.main()"
    )
    done = subprocess.run([sys.executable, "-c", program], input=PAGE.encode(), capture_output=True, check=True)

    read = json.loads(done.stdout)
    assert read["title"] == "Ports & co"
    assert read["text"].splitlines() == ["The port", "is 8700.", "Not 9.", "one", "two", "End"]


def test_thousands_of_paragraphs_without_an_end_are_not_too_deep() -> None:
    program = (
        "import sys; sys.modules.update({'lxml': None, 'lxml.etree': None, 'trafilatura': None})\n"
        "from artel.tools import readable; readable.main()"
    )
    page = "<body>" + "<p>x" * 2_000
    done = subprocess.run([sys.executable, "-c", program], input=page.encode(), capture_output=True, check=True)

    assert json.loads(done.stdout)["text"].split() == ["x"] * 2_000


def test_size_of_an_installation_is_that_of_its_files_without_bytecode(tmp_path: Path) -> None:
    for name, size in {"one/a.py": 10, "one/__pycache__/a.pyc": 1_000, "one/b.so": 5, "two.py": 7}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * size)

    spec = importlib.util.spec_from_file_location("package_size", ROOT / "scripts" / "package_size.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)

    assert script.package_bytes(tmp_path) == {"one": 15, "two.py": 7}
