"""Mistakes in agent files: each is named by its line and key, with what is allowed."""

import copy
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artel.contract.agent_file import Capability
from artel.nodes.agent_files import parse_agent_file
from artel.nodes.yaml_mistakes import MAX_MISTAKES, AgentFileInvalid
from tests.agent_yaml import FULL, SMALLEST, SPECIFIED, as_yaml, line_of, mistakes_after, mistakes_of

FREE_JSON = {"input_schema", "output_schema", "parameters", "examples"}
MARK = "here-it-is"


def _leaves(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the paths of all values that the file's own schema rules."""
    if isinstance(value, dict):
        return [leaf for key, part in value.items() if key not in FREE_JSON for leaf in _leaves(part, (*path, key))]
    if isinstance(value, list):
        return [leaf for number, part in enumerate(value) for leaf in _leaves(part, (*path, number))]
    return [path]


def _with(agent: dict[str, Any], path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    changed: Any = copy.deepcopy(agent)
    inner = changed
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return changed  # type: ignore[no-any-return]


def _dotted(path: tuple[str | int, ...]) -> str:
    return "agent" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)


@pytest.mark.req("AGT-06.1")
@given(path=st.sampled_from(_leaves(FULL)), value=st.sampled_from(["[[]]", "{wrong: 1}", "!!binary aGk="]))
def test_any_broken_value_is_named_by_its_line_and_key(path: tuple[str | int, ...], value: str) -> None:
    text = as_yaml(_with(FULL, path, MARK))

    mistakes = mistakes_of(text.replace(MARK, value))

    key = _dotted(path)
    assert f"{line_of(text, MARK)}: {key}: " in "\n".join(mistakes), mistakes
    assert all(re.match(rf"\d+: {re.escape(key)}[:.\[]", mistake) for mistake in mistakes), mistakes


SECTIONS = [
    (),
    *sorted(
        {path[:-1] for path in _leaves(FULL) if isinstance(path[-1], str) and path[:-1] and "labels" not in path},
        key=str,
    ),
]


@pytest.mark.req("AGT-06.1")
@given(section=st.sampled_from(SECTIONS))
def test_any_unknown_key_is_named_by_its_line(section: tuple[str | int, ...]) -> None:
    text = as_yaml(_with(FULL, (*section, MARK), 1))

    [mistake] = mistakes_of(text)

    assert mistake.startswith(f"{line_of(text, MARK)}: {_dotted((*section, MARK))}: is not a key here: use ")


@pytest.mark.req("AGT-06.1", "AGT-04.1")
@pytest.mark.parametrize(
    ("old", "new", "mistake"),
    [
        (
            "    temperature: 0.7",
            "    temprature: 1",
            "19: agent.brain.temprature: is not a key here; did you mean temperat",
        ),
        ("temperature: 0.7", "temperature: 3", "19: agent.brain.temperature: must be less than or equal to 2, not 3"),
        ("max_retries: 3", "max_retries: many", '64: agent.limits.max_retries: must be a whole number, not "many"'),
        (
            '    model: "gpt-4o"\n',
            "",
            "16: agent.brain.model: is missing: Name of the model, as the provider knows it.",
        ),
        ('      model: "gpt-4o-mini"\n', "", "24: agent.brain.fallback.model: is missing: name the model that answers"),
        ('version: "1.0.0"', "version: 1.0", "7: agent.version: must be text, not 1.0: write it in quotes"),
        ('type: "writer"', "type: Writer", "6: agent.type: 'Writer' can't be a type of agents: use lower-case letters"),
        ('"agent.writer.001"', '"two words"', "5: agent.name: 'two words' can't be the name of an agent: use letters"),
        ('"agent.writer.001"', '"writer"', "6: agent.type: must differ from the name"),
        (
            "      enabled: false",
            "      provider: faiss",
            "44: agent.memory.long_term.provider: 'faiss' is not a provider",
        ),
        (
            "    long_term:\n      enabled: false",
            "    long_term:",
            "43: agent.memory.long_term: is empty: give it keys, or",
        ),
        (
            "    long_term:\n      enabled: false",
            "    long_term: no",
            "43: agent.memory.long_term: must be a mapping with th",
        ),
        (
            "      - web_search",
            "      - web_serch",
            "31: agent.tools.enabled[0]: web_serch is not a tool; did you mean web",
        ),
        (
            "      file_read:",
            "      file_raed:",
            "35: agent.tools.security.file_raed: is not a key here; did you mean file_",
        ),
        ("      file_read:", "      web_fetch:", "36: agent.tools.security.web_fetch.allowed_paths: is only for tools"),
        (
            "      file_read:\n        allowed_paths",
            "      plugins:\n        shell",
            "36: agent.tools.security.plugins.shell: is",
        ),
        (
            "allowed_paths: [",
            "requires_approval: [",
            "36: agent.tools.security.file_read.requires_approval: must be a valid b",
        ),
        (
            '"improve_text"',
            '"write_article"',
            "50: agent.capabilities[1].name: two capabilities are named write_article",
        ),
        ('- name: "improve_text"', "- name: answer", "50: agent.capabilities[1].name: 'answer' has a meaning"),
        (
            '- name: "improve_text"',
            "- name: research_topic",
            "50: agent.capabilities[1].tools_required[1]: research_topic n",
        ),
        (
            'version: "1.0"\n\n  # Agent',
            'version: "9"\n\n  # Agent',
            "53: agent.capabilities[2].version: generate_outline comes",
        ),
        (
            'version: "1.0.0"',
            "labels: {capability.x: a}",
            "7: agent.labels.capability.x: is a label that the node makes its",
        ),
    ],
)
def test_a_mistake_says_what_is_wrong_and_what_is_allowed(old: str, new: str, mistake: str) -> None:
    found = mistakes_after(old, new)

    assert len(found) == 1, found
    assert found[0].startswith(mistake)


@pytest.mark.req("AGT-06.1", "AGT-02.4")
@pytest.mark.parametrize("tool", ["shell", "code_execute"])
def test_approval_of_critical_tools_cannot_be_switched_off(tool: str) -> None:
    [mistake] = mistakes_of(as_yaml(_with(FULL, ("tools", "security", tool), {"requires_approval": False})))

    assert f"agent.tools.security.{tool}.requires_approval: can't be false: a person approves each call" in mistake


@pytest.mark.req("AGT-06.1")
def test_all_mistakes_are_named_at_once_in_order() -> None:
    text = SPECIFIED
    for old, new in (
        ("temperature: 0.7", "temperature: 3"),
        ("memory_read", "memory_raed"),
        ('- name: "improve_text"', "- name: Improve"),
        ("max_retries: 3", "max_retries: -1\n    max_retries: 3"),
    ):
        text = text.replace(old, new)

    keys = [mistake.split(": ")[:2] for mistake in mistakes_of(text)]

    assert keys == [
        ["19", "agent.brain.temperature"],
        ["32", "agent.tools.enabled[1]"],
        ["50", "agent.capabilities[1].name"],
        ["64", "agent.limits.max_retries"],
        ["65", "agent.limits.max_retries"],
    ]


@pytest.mark.req("AGT-06.1")
def test_no_more_than_fifty_mistakes_are_shown() -> None:
    with pytest.raises(AgentFileInvalid) as caught:
        parse_agent_file(SMALLEST + "".join(f"  wrong{number}: 1\n" for number in range(60)), "x.yaml")

    assert len(caught.value.mistakes) == MAX_MISTAKES
    assert caught.value.detail.startswith("60 mistakes in agent files:\nx.yaml:6: agent.wrong0: ")
    assert caught.value.detail.endswith("\n… and 10 more")


@pytest.mark.req("AGT-06.1")
def test_a_wrong_value_of_a_secret_is_not_shown() -> None:
    path = ("tools", "security", "api_call", "hosts", 0, "secrets", "key", "variable")

    [mistake] = mistakes_of(as_yaml(_with(FULL, path, "sk-0123456789")))

    assert "secrets.key.variable: must match" in mistake
    assert "sk-0123456789" not in mistake


@pytest.mark.req("AGT-06.1")
@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("", "1: must begin with the key `agent:`"),
        ("- agent", "1: must begin with the key `agent:`"),
        ("agent: [", "1: not valid YAML: "),
        ("agent:\n\tname: x", "2: not valid YAML: found character '\\t' that cannot start any token"),
        ("agent: 1\n---\nagent: 2", "2: not valid YAML: but found another document"),
        ("agent:\n  name: a\x00b", "2: the character '\\x00' is not allowed in YAML"),
        ("agent: " + "[" * 60, "1: not valid YAML: nested deeper than 50 levels"),
        ("agent: [" + "1," * 10_001 + "]", "1: not valid YAML: more than 10,000 values"),
        ("a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
            f"{new}: &{new} [{','.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcd", "bcde", strict=True)
        ), "1: more than 10,000 values, counting every use of an alias"),
    ],
)  # fmt: skip
def test_what_is_no_yaml_or_too_much_of_it_is_named_by_its_line(text: str, mistake: str) -> None:
    [found] = mistakes_of(text)

    assert found.startswith(mistake)


@pytest.mark.req("AGT-06.1")
@pytest.mark.parametrize(
    ("line", "mistake"),
    [
        ("type: again", "6: agent.type: is given twice; the first is in line 3"),
        ("labels: {on: a}", "6: agent.labels: the key on is not text: write it in quotes"),
        ("labels: {[a]: b}", "6: agent.labels: a key is not text: write it in quotes"),
        ("labels: &loop {again: *loop}", "6: agent.labels.again: contains itself, by an alias"),
        ("labels: !python/object:os.system {}", "6: agent.labels: the tag !python/object:os.system is not allowed"),
        ("limits: {max_retries: .inf}", "6: agent.limits.max_retries: must be a finite number"),
        (f"limits: {{max_retries: {'9' * 5000}}}", "6: agent.limits.max_retries: 9999"),
        (f"limits: {{max_retries: {'9' * 30}}}", "6: agent.limits.max_retries: the number is too large"),
        ('labels: {a: "x\\0"}', "6: agent.labels.a: contains a NUL or half of a character"),
        ('labels: {a: "\\ud800"}', "6: agent.labels.a: contains a NUL or half of a character"),
        ("limits: {<<: 7}", "6: agent.limits: `<<` takes the alias of a mapping"),
    ],
)
def test_yaml_that_json_has_no_word_for_is_refused(line: str, mistake: str) -> None:
    found = mistakes_of(f"{SMALLEST}  {line}\n")

    assert len(found) == 1, found
    assert found[0].startswith(mistake)


@pytest.mark.req("AGT-06.1")
def test_aliases_and_merged_mappings_work() -> None:
    text = SMALLEST.replace(
        "  capabilities: [{name: repeat}]\n",
        "  capabilities:\n    - &first {name: repeat, version: '3', description: One.}\n"
        "    - {<<: *first, name: again}\n    - {<<: [{version: '4'}, *first], name: more}\n",
    )

    capabilities = parse_agent_file(text, "x.yaml").capabilities

    assert [(capability.name, capability.version, capability.description) for capability in capabilities] == [
        ("repeat", "3", "One."),
        ("again", "3", "One."),
        ("more", "4", "One."),
    ]


# Schemas of capabilities


@pytest.mark.req("AGT-04.1", "AGT-06.1")
@pytest.mark.parametrize(
    ("wrong", "mistake"),
    [
        ({"input_schema": {"type": "strng"}}, "input_schema.type: must be one of array, boolean"),
        ({"input_schema": {"type": "array"}}, "input_schema.type: must be object: "),
        ({"input_schema": {"type": "object", "required": "word"}}, "input_schema.required: 'word' is not of type"),
        ({"output_schema": {"properties": {"a": {"pattern": "("}}}}, "output_schema.properties.a.pattern: '(' is"),
        ({"output_schema": {"$ref": "#/$defs/no"}}, "output_schema.$ref: #/$defs/no is not in this schema: "),
        ({"output_schema": {"items": {"$ref": "http://x"}}}, "output_schema.items.$ref: http://x is not in this"),
        ({"output_schema": {"$dynamicRef": "#x"}}, "output_schema.$dynamicRef: is not supported: use $ref"),
        ({"output_schema": {"$schema": "http://json-schema.org/draft-07/schema#"}}, "output_schema.$schema: must be"),
        ({"output_schema": {"anyOf": [{"$ref": "#"}]}}, "output_schema: refers to itself without end"),
        ({"output_schema": {"properties": {"n": {"minimum": 2, "default": 1}}}}, "output_schema.properties.n.default"),
        ({"prompt_template": "Say {wrod}."}, "prompt_template: {wrod} is not in the properties of input_schema: use"),
        ({"examples": [{"word": "a"}, {"word": 7}]}, "examples[1].word: 7 is not of type 'string'"),
    ],
)  # fmt: skip
def test_a_wrong_schema_prompt_or_example_is_named(wrong: dict[str, Any], mistake: str) -> None:
    agent = copy.deepcopy(FULL)
    agent["capabilities"][0].update(wrong)

    found = mistakes_of(as_yaml(agent))

    assert f": agent.capabilities[0].{mistake}" in found[0]
    assert len(found) == 1, found


@pytest.mark.req("AGT-04.1")
def test_a_schema_may_contain_itself_where_values_end() -> None:
    tree = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}}
    shared = {"$defs": {"a": {"type": "string"}}, "anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}

    for schema in (tree, shared):
        assert Capability(name="x", output_schema=schema).output_schema == schema


# Tools of other packages


@pytest.mark.req("AGT-06.1", "AGT-02.12")
def test_a_tool_of_an_installed_package_can_be_enabled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = as_yaml(
        {**FULL, "tools": {"enabled": ["web_search", "ring_bell"], "security": {"plugins": {"ring_bell": {}}}}}
    )
    before = mistakes_of(text)
    metadata = tmp_path / "bells-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: bells\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[artel.tools]\nring_bell = bells:RingBell\n")
    monkeypatch.syspath_prepend(tmp_path)

    assert parse_agent_file(text, "x.yaml").tools.usable == {"web_search", "ring_bell"}
    assert ["ring_bell is not a tool" in mistake for mistake in before] == [True, True]


@pytest.mark.req("AGT-06.1", "AGT-02.4")
def test_the_rules_of_a_tool_must_be_those_that_it_needs() -> None:
    agent = _with(FULL, ("tools", "security", "file_read"), {"denied_paths": ["**/.env"]})
    agent = _with(agent, ("tools", "security", "api_call", "hosts"), [])
    agent = _with(agent, ("tools", "security", "shell", "allowed_paths"), ["/workspace/**"])
    text = as_yaml(agent)

    reading, api, shell = mistakes_of(text)

    start = f"{line_of(text, 'file_read:')}: agent.tools.security.file_read.allowed_paths: is missing: name the files"
    assert reading.startswith(start)
    assert f"{line_of(text, 'hosts:')}: agent.tools.security.api_call.hosts: is missing: list the hosts" in api
    assert f"{line_of(text, 'allowed_paths:')}: agent.tools.security.shell.allowed_paths: is not for this tool" in shell
