"""The examples of the documentation run; commands, settings, metrics and files that it names exist."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import click
import jsonschema  # type: ignore[import-untyped]
import pytest

from artel.contract.agent_file import BUILTIN_TOOLS
from artel.settings import OTHER_VARIABLES, PREFIX, Settings
from artel.tools.catalogue import SCHEMAS
from artel.tools.files import READ_TOOLS, WRITE_TOOLS
from tests.artel_commands import commands_in, parse_command
from tests.running import ARTEL, Server, clean_environment

ROOT = Path(__file__).parents[2]
_RUN = re.compile(r"<!-- run -->\n```sh\n(.+?)```", re.DOTALL)
_SOURCE_FILE = re.compile(r"`((?:src|tests|scripts|docs)/[\w./-]+|[a-z_]+/[\w/]+\.py|[a-z_]+/)`")
_FOLDERS_OF_NO_SOURCE = {"secrets/", "web/"}
# Variables of the compose file and of the tests.
_OF_OTHER_FILES = {"ARTEL_DOMAIN", "ARTEL_IMAGE", "ARTEL_TEST_DEPTH"}
# How many examples of a page run; in this order, on one server.
RUNNABLE = {"quickstart.md": 3, "how-to/agents.md": 3, "how-to/plans-and-budgets.md": 4}


@pytest.mark.usefixtures("started_for_real")
def test_examples_of_the_pages_run(tmp_path: Path) -> None:
    env = clean_environment(tmp_path)
    server = Server.start(tmp_path, env, "up")
    env["PATH"] = f"{Path(ARTEL).parent}:{env['PATH']}"

    outputs = {}
    for name, blocks in RUNNABLE.items():
        found = _RUN.findall((ROOT / "docs" / name).read_text(encoding="utf-8"))
        assert len(found) == blocks, name
        for number, block in enumerate(found):
            script = block.replace(".venv/bin/artel", ARTEL).replace("http://127.0.0.1:8700", server.url)
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", script],
                env=env | {"ARTEL_PORT": "0"},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, (name, block, done.stdout, done.stderr)
            outputs[name, number] = done.stdout

    assert "agent_reviewer" in outputs["quickstart.md", 0]
    assert '"agent_researcher"' in outputs["quickstart.md", 1]
    assert "ok" in outputs["quickstart.md", 2]
    assert "391" in outputs["how-to/agents.md", 0]
    assert "agent_reviewer" in outputs["how-to/agents.md", 1]
    assert "391" in outputs["how-to/plans-and-budgets.md", 1]
    assert '"approved"' in outputs["how-to/plans-and-budgets.md", 2]
    assert server.stop() == 0


def test_commands_in_the_examples_exist_with_these_options() -> None:
    checked, wrong = 0, []
    for page in _pages():
        for command in commands_in(page.read_text(encoding="utf-8")):
            checked += 1
            try:
                parse_command(command)
            except click.UsageError as error:
                wrong.append((str(page.relative_to(ROOT)), error.message))

    assert wrong == []
    assert checked > 50


def test_variables_named_in_the_docs_are_settings() -> None:
    variables = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields} | OTHER_VARIABLES | _OF_OTHER_FILES
    unknown = [
        (str(page.relative_to(ROOT)), name)
        for page in _pages()
        for name in re.findall(r"\bARTEL_[A-Z_]*[A-Z]\b(?![…*])", page.read_text(encoding="utf-8"))
        if name not in variables
    ]

    assert unknown == []


def test_metrics_in_the_guide_exist() -> None:
    text = (ROOT / "docs" / "how-to" / "production.md").read_text(encoding="utf-8")
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))

    names = set(re.findall(r"\bartel_[a-z_]+", text))
    assert len(names) >= 5
    assert [name for name in names if f'"{name.removesuffix("_total")}"' not in source] == []


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


def test_requirements_page_has_the_ids_of_all_requirements() -> None:
    from tests.requirements import known_requirements

    ids = set(known_requirements(ROOT))

    assert len(ids) >= 150
    assert {"UWS-02.1", "WSA-08.1", "CHT-01.1", "TWS-01.1", "AGT-10.8"} <= ids


@pytest.mark.req("WSA-01.3")
def test_every_workspace_tool_is_documented_with_its_signature_and_an_example() -> None:
    text = (ROOT / "docs" / "reference" / "tools.md").read_text()

    for tool in (*READ_TOOLS, *WRITE_TOOLS):
        section = text.partition(f"\n### {tool.name}\n")[2].partition("\n##")[0]
        signature = re.search(rf"```python\n{tool.name}\((.*)\)\n```", section)
        assert signature, tool.name
        properties: Any = tool.schema.parameters["properties"]
        assert [argument.partition(":")[0] for argument in signature[1].split(", ")] == list(properties)
        example = re.search(r"```json\n(.*)\n(.*)\n```", section)
        assert example, tool.name
        jsonschema.validate(json.loads(example[1]), tool.schema.parameters)
        assert json.loads(example[2])["success"]


@pytest.mark.req("AGT-02.1", "AGT-02.2")
def test_every_tool_of_agents_and_nodes_is_documented() -> None:
    text = (ROOT / "docs" / "reference" / "tools.md").read_text()

    assert {*SCHEMAS, *BUILTIN_TOOLS} == set(re.findall(r"^### (\w+)$", text, re.MULTILINE))
