"""The examples of the documentation run, its links work, and the files that it names exist."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from artel.tools.files import READ_TOOLS, WRITE_TOOLS
from tests.running import ARTEL, Server, clean_environment

ROOT = Path(__file__).parents[2]
_RUN = re.compile(r"<!-- run -->\n```sh\n(.+?)```", re.DOTALL)
_LINK = re.compile(r"\]\(([^)#:]+)(?:#([^)]*))?\)")
_SOURCE_FILE = re.compile(r"`((?:src|tests|scripts|docs)/[\w./-]+|[a-z_]+/[\w/]+\.py|[a-z_]+/)`")
_FOLDERS_OF_NO_SOURCE = {"secrets/", "web/"}


@pytest.mark.usefixtures("started_for_real")
def test_examples_of_the_quickstart_run(tmp_path: Path) -> None:
    blocks = _RUN.findall((ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8"))
    assert len(blocks) == 3
    env = clean_environment(tmp_path)
    server = Server.start(tmp_path, env, "up")

    outputs = []
    for block in blocks:
        script = block.replace(".venv/bin/artel", ARTEL).replace("http://127.0.0.1:8700", server.url)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            env=env | {"ARTEL_PORT": "0"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, (block, done.stdout, done.stderr)
        outputs.append(done.stdout)

    assert "agent_reviewer" in outputs[0]
    assert '"agent_researcher"' in outputs[1]
    assert "ok" in outputs[2]
    assert server.stop() == 0


def test_links_between_pages_have_a_target() -> None:
    broken = [
        (page.relative_to(ROOT), link, anchor)
        for page in _pages()
        for link, anchor in _LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / link).exists() or (anchor and anchor not in _anchors(page.parent / link))
    ]

    assert broken == []


def test_source_files_named_in_the_docs_exist() -> None:
    bases = ROOT, ROOT / "src" / "artel"
    missing = [
        (page.relative_to(ROOT), name)
        for page in _pages()
        if page.parent.name != "reference"
        for name in _SOURCE_FILE.findall(page.read_text(encoding="utf-8"))
        if name not in _FOLDERS_OF_NO_SOURCE and not any((base / name).exists() for base in bases)
    ]

    assert missing == []


def _pages() -> list[Path]:
    return [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def _anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_requirements_page_has_the_ids_of_all_requirements() -> None:
    from tests.requirements import known_requirements

    ids = set(known_requirements(ROOT))

    assert len(ids) >= 150
    assert {"UWS-02.1", "WSA-08.1", "CHT-01.1", "TWS-01.1", "AGT-10.8"} <= ids


@pytest.mark.req("WSA-01.3")
def test_every_workspace_tool_is_documented_with_its_signature_and_an_example() -> None:
    text = (ROOT / "docs" / "reference" / "tools.md").read_text()

    for tool in (*READ_TOOLS, *WRITE_TOOLS):
        section = text.partition(f"\n## {tool.name}\n")[2].partition("\n## ")[0]
        signature = re.search(rf"```python\n{tool.name}\((.*)\)\n```", section)
        assert signature, tool.name
        properties: Any = tool.schema.parameters["properties"]
        assert [argument.partition(":")[0] for argument in signature[1].split(", ")] == list(properties)
        example = re.search(r"```json\n(.*)\n(.*)\n```", section)
        assert example, tool.name
        jsonschema.validate(json.loads(example[1]), tool.schema.parameters)
        assert json.loads(example[2])["success"]
