"""The commands for agent files: `artel node init`, `check` and `schema`."""

import json
from pathlib import Path
from subprocess import CompletedProcess

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

from artel.nodes.kinds import KINDS, TEMPLATE, kind_text
from tests.running import artel, clean_environment


def _node(folder: Path, *arguments: str) -> "CompletedProcess[str]":
    return artel("node", *arguments, env=clean_environment(folder))


@pytest.mark.req("AGT-06.1", "AGT-06.2")
def test_a_new_file_is_valid_and_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "config" / "agents" / "2024.yaml"  # which YAML would read as a number

    made = _node(tmp_path, "init", "2024")
    assert (made.returncode, made.stdout) == (0, f"Wrote {path}. Change it, then: artel node check {path}\n")
    assert 'name: "2024"' in path.read_text()
    checked = _node(tmp_path, "check", "2024")
    assert (checked.returncode, checked.stdout) == (0, f"{path}: 2024 is valid (answer_question)\n")

    path.write_text("mine")
    again = _node(tmp_path, "init", "2024", "--kind", "critic")
    assert (again.returncode, path.read_text()) == (5, "mine")
    assert "exists already" in again.stderr


@pytest.mark.req("AGT-09.1", "AGT-06.1")
def test_a_kind_is_the_start_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "developer.yaml"  # the name of a type can't be that of an agent

    assert json.loads(_node(tmp_path, "init", str(path), "-k", "developer", "--json").stdout) == {"file": str(path)}
    assert path.read_text() == kind_text("developer")
    unknown = _node(tmp_path, "init", "-k", "poet")
    assert unknown.returncode == 2
    assert "There is no kind 'poet': use critic, developer, researcher, writer" in unknown.stderr


@pytest.mark.req("AGT-06.1")
def test_check_names_the_mistakes_of_all_files(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    tools = "{enabled: [shell], security: {file_read: {allowed_paths: [x]}, api_call: {enabled: false}}}"
    good.write_text(kind_text("critic").replace("  capabilities:", f"  tools: {tools}\n  capabilities:"))
    bad.write_text(kind_text("writer").replace("temperature: 0.7", "temprature: 0.7"))

    checked = _node(tmp_path, "check", str(tmp_path))

    line = bad.read_text()[: bad.read_text().index("temprature")].count("\n") + 1
    mistake = "is not a key here; did you mean temperature?"
    assert checked.returncode == 2
    assert checked.stdout.splitlines() == [
        f"{bad}:{line}: agent.brain.temprature: {mistake}",
        f"{good}: agent.critic.001 is valid (review_text, score_quality)",
        f"{good}: note: shell is enabled, but tools.security does not allow it, so the agent can't use it",
        f"{good}: note: file_read has rules in tools.security, but is not in tools.enabled, so they have no effect",
    ]
    found = json.loads(_node(tmp_path, "check", str(bad), "--json").stdout)
    assert found == {
        "agents": [],
        "mistakes": [{"file": str(bad), "line": line, "key": "agent.brain.temprature", "text": mistake}],
    }
    assert _node(tmp_path, "check", "nobody").returncode == 3


@pytest.mark.req("AGT-06.1")
def test_schema_for_editors_fits_the_shipped_files(tmp_path: Path) -> None:
    schema = json.loads(_node(tmp_path, "schema").stdout)

    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for kind in (*KINDS, TEMPLATE):
        document = yaml.safe_load(kind_text(kind))
        assert list(validator.iter_errors(document)) == []
        document["agent"]["brain"]["temprature"] = 1
        assert not validator.is_valid(document)
