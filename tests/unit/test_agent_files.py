"""Agent files that load: the specified one, the smallest one, the shipped kinds; and where files are found."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from artel.contract.agent_file import MAX_FILE_BYTES, TEXT_INPUT, AgentFile, BrainSection
from artel.nodes.agent_files import (
    AgentFileMissing,
    UnknownKind,
    find_agent_file,
    find_agent_files,
    kind_file,
    load_agent_files,
    load_agent_folder,
    parse_agent_file,
)
from artel.nodes.kinds import DEFINED_BY, KINDS, TEMPLATE, kind_text
from artel.nodes.yaml_mistakes import AgentFileInvalid
from tests.agent_yaml import FULL, SMALLEST, SPECIFIED, as_yaml

ROOT = Path(__file__).parents[2]


# What loads


@pytest.mark.req("AGT-06.1", "AGT-04.1", "AGT-01.1")
def test_example_of_the_specification_loads_with_the_shipped_capabilities() -> None:
    file = parse_agent_file(SPECIFIED, "x.yaml")

    assert (file.name, file.type, file.display.name) == ("agent.writer.001", "writer", "Пушкин")
    assert (file.brain.model_name, file.brain.temperature, file.brain.max_tokens) == ("gpt-4o", 0.7, 4000)
    assert file.brain.system_prompt.startswith("Ты — профессиональный копирайтер.\n")
    assert file.brain.fallback_name == "gpt-4o-mini"
    assert file.tools.usable == {"web_search", "memory_read", "memory_write"}
    article, improve, outline = file.capabilities
    assert article == kind_file("writer").capabilities[0]
    assert article.input_schema["required"] == ["topic"]
    assert (improve.name, outline.name) == ("improve_text", "generate_outline")
    assert all(capability.output_schema and capability.prompt_template for capability in file.capabilities)


@pytest.mark.req("AGT-06.1")
def test_every_section_of_the_file_is_read() -> None:
    file = parse_agent_file(as_yaml(FULL), "x.yaml")

    read = file.model_dump(mode="json", exclude_unset=True)
    assert read["capabilities"][1]["prompt_template"].startswith("Write an article.")
    assert {**read, "capabilities": read["capabilities"][:1]} == {**FULL, "capabilities": FULL["capabilities"][:1]}


@pytest.mark.req("AGT-06.2")
def test_a_task_has_300_seconds_and_3_retries_unless_the_file_says_otherwise() -> None:
    file = parse_agent_file(SMALLEST, "x.yaml")
    limits = parse_agent_file(as_yaml(FULL), "x.yaml").limits

    assert (file.limits.max_execution_time_seconds, file.limits.max_retries) == (300, 3)
    assert (limits.max_execution_time_seconds, limits.max_retries) == (60, 1)
    assert (file.registry.heartbeat_interval_seconds, file.progress_heartbeat.interval_seconds) == (10, 30)
    assert (file.singleton.enabled, file.singleton.queue_prefix) == (True, "singleton")
    assert (file.agent_loop.enable_understanding, file.agent_loop.enable_self_critique) == (True, True)
    assert (file.memory.long_term.enabled, file.memory.short_term.max_context_tokens) == (False, 8000)


@pytest.mark.req("AGT-04.1")
def test_a_capability_without_schemas_takes_a_text_which_is_its_prompt() -> None:
    [capability] = parse_agent_file(SMALLEST, "x.yaml").capabilities

    assert capability.input_schema == TEXT_INPUT
    assert (capability.prompt_template, capability.output_schema) == ("{text}", None)


@pytest.mark.req("AGT-04.1")
def test_a_shipped_capability_may_have_a_prompt_of_its_own() -> None:
    prompt = 'version: "1.0"\n      prompt_template: "Статья: {topic}"\n    - name: "improve_text"'
    file = parse_agent_file(SPECIFIED.replace('version: "1.0"\n    - name: "improve_text"', prompt), "x.yaml")

    assert file.capabilities[0].prompt_template == "Статья: {topic}"
    assert file.capabilities[0].input_schema == kind_file("writer").capabilities[0].input_schema


@pytest.mark.req("AGT-01.1", "AGT-01.4")
@pytest.mark.parametrize(
    ("provider", "model", "name"),
    [
        ("openai", "gpt-4o", "gpt-4o"),
        ("openai", "meta/llama-3", "meta/llama-3"),  # of a server that speaks OpenAI's protocol
        ("azure", "my-deployment", "azure/my-deployment"),
        ("azure", "azure/my-deployment", "azure/my-deployment"),
        ("openrouter", "meta/llama-3", "openrouter/meta/llama-3"),
    ],
)
def test_model_is_named_with_its_provider(provider: str, model: str, name: str) -> None:
    brain = {"provider": provider, "model": model, "system_prompt": "x"}

    same = BrainSection.model_validate({**brain, "fallback": {"enabled": True, "model": model}})
    other = BrainSection.model_validate({**brain, "fallback": {"enabled": True, "model": "m", "provider": "ollama"}})
    off = BrainSection.model_validate({**brain, "fallback": {"enabled": False, "model": model}})

    assert (same.model_name, same.fallback_name) == (name, name)
    assert (other.fallback_name, off.fallback_name) == ("ollama/m", None)


# The shipped kinds


@pytest.mark.req("AGT-09.1", "AGT-04.1")
@pytest.mark.parametrize(
    ("kind", "capabilities", "tools"),
    [
        ("writer", ["write_article", "improve_text", "generate_outline"], {"web_search"}),
        ("critic", ["review_text", "score_quality"], set()),
        ("researcher", ["research_topic", "summarize"], {"web_search", "web_fetch"}),
        ("developer", ["write_code", "review_code"], {"file_read", "file_write"}),
    ],
)
def test_a_kind_has_its_capabilities_and_tools(kind: str, capabilities: list[str], tools: set[str]) -> None:
    file = kind_file(kind)

    assert (file.name, file.type) == (f"agent.{kind}.001", kind)
    assert [capability.name for capability in file.capabilities] == capabilities
    assert file.tools.usable == tools
    assert len(file.brain.system_prompt) > 500
    for capability in file.capabilities:
        assert capability.description
        assert capability.input_schema["required"]
        assert capability.output_schema
        assert capability.output_schema["required"]
        used = set(re.findall(r"\{(\w+)\}", capability.prompt_template or ""))
        assert used == set(capability.input_schema["properties"]), capability.name
        assert capability.examples


@pytest.mark.req("AGT-09.1")
def test_researching_needs_the_web_and_writing_files_needs_a_person() -> None:
    research = kind_file("researcher").capabilities[0]
    developer = kind_file("developer").tools

    assert research.tools_required == ["web_search", "web_fetch"]
    assert developer.needs_approval("file_write")
    assert not developer.needs_approval("file_read")


@pytest.mark.req("AGT-09.1")
def test_every_shipped_capability_is_found_by_its_name() -> None:
    assert {capability.name: kind for kind in KINDS for capability in kind_file(kind).capabilities} == DEFINED_BY


@pytest.mark.req("AGT-09.1")
def test_a_kind_can_have_another_name_and_model() -> None:
    file = kind_file("writer", "news.writer", model="ollama/llama3")

    assert (file.name, file.brain.model_name, file.brain.fallback_name) == ("news.writer", "ollama/llama3", None)
    assert file.model_copy(update={"name": "agent.writer.001", "brain": kind_file("writer").brain}) == kind_file(
        "writer"
    )
    with pytest.raises(AgentFileInvalid, match="can't be the name of an agent"):
        kind_file("writer", "no spaces")
    with pytest.raises(UnknownKind, match="did you mean writer"):
        kind_file("wrter")


@pytest.mark.req("AGT-06.1")
@pytest.mark.parametrize(
    "text", [*(kind_text(kind) for kind in KINDS), SPECIFIED, SMALLEST], ids=lambda text: text[:10]
)
def test_a_file_that_is_written_from_an_agent_is_the_same_agent(text: str) -> None:
    file = parse_agent_file(text, "x.yaml")

    assert parse_agent_file(as_yaml(file.model_dump(mode="json", exclude_none=True)), "x.yaml") == file


@pytest.mark.req("AGT-06.1")
def test_template_is_valid_and_names_every_key() -> None:
    text = kind_text(TEMPLATE)
    template = parse_agent_file(text, "template.yaml")

    keys = {key for definition in _definitions() for key in definition["properties"]}
    unnamed = {key for key in keys if not re.search(rf"\b{key}\b", text)}
    assert unnamed == set()
    assert template.type == "assistant"


def _definitions() -> list[dict[str, Any]]:
    definitions: dict[str, dict[str, Any]] = AgentFile.model_json_schema()["$defs"]
    return list(definitions.values())


def test_the_wheel_contains_the_kinds() -> None:
    from hatchling.builders.wheel import WheelBuilder

    builder = WheelBuilder(str(ROOT))
    names = {file.distribution_path for file in builder.recurse_included_files()}

    assert {f"artel/nodes/kinds/{kind}.yaml" for kind in (*KINDS, TEMPLATE)} <= names


@pytest.mark.req("AGT-04.1")
def test_examples_of_the_how_to_are_valid() -> None:
    text = (ROOT / "docs" / "how-to" / "write-a-capability.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)

    assert len(blocks) == 2
    for block in blocks:
        capabilities = re.sub("^", "  ", block, flags=re.MULTILINE)
        file = parse_agent_file(SMALLEST.replace("  capabilities: [{name: repeat}]\n", capabilities), "x.yaml")
        assert all(capability.output_schema for capability in file.capabilities)


# Files and folders


@pytest.mark.req("AGT-06.1")
def test_only_a_regular_file_of_a_sensible_size_is_read(tmp_path: Path) -> None:
    good = tmp_path / "good.yaml"
    good.write_text("\ufeff" + SMALLEST, encoding="utf-8")
    link, circle = tmp_path / "link.yaml", tmp_path / "circle.yaml"
    pipe, folder = tmp_path / "pipe.yaml", tmp_path / "folder.yaml"
    large, binary = tmp_path / "large.yaml", tmp_path / "binary.yaml"
    link.symlink_to(good)
    circle.symlink_to(circle)
    os.mkfifo(pipe)
    folder.mkdir()
    large.write_bytes(SMALLEST.encode() + b"#" * MAX_FILE_BYTES)
    binary.write_bytes(SMALLEST.encode() + b"# \xff\n")

    assert load_agent_files([good]) == load_agent_files([link])
    for path, reason in (
        (circle, f"{circle}: is a symbolic link that leads to itself"),
        (pipe, f"{pipe}: is not a regular file"),
        (folder, f"{folder}: is not a regular file"),
        (large, f"{large}: is larger than 262,144 bytes, which is the most"),
        (binary, f"{binary}:6: is not UTF-8 text"),
    ):
        with pytest.raises(AgentFileInvalid) as caught:
            load_agent_files([path])
        assert [str(mistake) for mistake in caught.value.mistakes] == [reason]
    with pytest.raises(AgentFileMissing, match="There is no file"):
        load_agent_files([tmp_path / "none.yaml"])


@pytest.mark.req("AGT-06.1", "AGT-06.2")
def test_a_folder_has_one_file_for_each_agent(tmp_path: Path) -> None:
    with pytest.raises(AgentFileMissing, match="artel node init"):
        load_agent_folder(tmp_path)
    for name in ("b.yaml", "a.yml", ".hidden.yaml", "notes.txt"):
        (tmp_path / name).write_text(SMALLEST.replace(".001", f".{name[0]}"))
    assert [file.name for file in load_agent_folder(tmp_path)] == ["agent.echo.a", "agent.echo.b"]

    # `_` and `.` are the same in routing keys.
    (tmp_path / "c.yaml").write_text(SMALLEST.replace("agent.echo.001", "agent_echo_a"))
    (tmp_path / "d.yaml").write_text("agent: 7")
    with pytest.raises(AgentFileInvalid) as caught:
        load_agent_folder(tmp_path)
    same, other = caught.value.mistakes
    assert str(same).startswith(f"{tmp_path / 'c.yaml'}:2: agent.name: {tmp_path / 'a.yml'} has the same name")
    assert str(other).startswith(f"{tmp_path / 'd.yaml'}:1: agent: must be a mapping with the keys name, type")


@pytest.mark.req("AGT-06.2")
def test_a_name_is_never_looked_up_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configured, here = tmp_path / "config" / "agents", tmp_path / "here"
    configured.mkdir(parents=True)
    (here / "agents").mkdir(parents=True)
    monkeypatch.setenv("ARTEL_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.chdir(here)
    (here / "writer.yaml").write_text(SMALLEST)
    (here / "writer").write_text(SMALLEST)
    (here / "agents" / "writer.yaml").write_text(SMALLEST)

    with pytest.raises(AgentFileMissing, match=r"artel node init writer \(a file elsewhere .* \./writer\.yaml"):
        find_agent_file("writer")
    assert find_agent_file("writer.yaml") == Path("writer.yaml")
    assert find_agent_file("./writer") == Path("writer")
    assert find_agent_files("agents/") == [Path("agents/writer.yaml")]
    (configured / "writer.yaml").write_text(SMALLEST)
    assert find_agent_file("writer") == configured / "writer.yaml"
    with pytest.raises(AgentFileMissing, match="neither the name of an agent nor the path"):
        find_agent_file("no such thing")
    with pytest.raises(AgentFileMissing, match=r"There is no agent file none.yaml"):
        find_agent_file("none.yaml")
