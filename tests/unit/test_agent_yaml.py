"""Agents as YAML files."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artel.agents.agent_yaml import MAX_BYTES, export_agent, parse_agent
from artel.contract.http import Agent, NewAgent
from artel.nodes.yaml_mistakes import AgentFileInvalid
from tests.people import new_agent

VALID = "agent:\n  name: agent_new\n  role: tester\n  model: gpt-4\n  system_prompt: Test.\n"
ALIASES = f"a: &a [{'x, ' * 99}]\n" + "".join(f"b{number}: [*a, *a]\n" for number in range(200))


@given(prompt=st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=300))
def test_any_prompt_survives_export_and_import(prompt: str) -> None:
    new, now = NewAgent.model_validate(new_agent(system_prompt=prompt)), datetime.now(UTC)
    agent = Agent(**dict(new), id=1, project_id=1, created_at=now, updated_at=now)

    assert parse_agent(export_agent(agent).encode()) == new


@pytest.mark.req("AGT-06.1")
@pytest.mark.parametrize(
    ("text", "key", "line", "words"),
    [
        (VALID + "  temperature: hot\n", "agent.temperature", 6, "number"),
        (VALID + "  temprature: 0.2\n", "agent.temprature", 6, "did you mean temperature?"),
        (VALID + "  loop:\n    max_iterations: 99\n", "agent.loop.max_iterations", 7, "less than or equal to 10"),
        (VALID + "  tools: [a, b!]\n", "agent.tools[1]", 6, "match"),
        (VALID + "  role: again\n", "agent.role", 6, "given twice; the first is in line 3"),
        (VALID.replace("  role: tester\n", ""), "agent.role", 1, "is missing"),
        (VALID.replace("agent_new", "123"), "agent.name", 2, "write it in quotes"),
        (VALID + "extra: 1\n", "extra", 6, "is not a key here"),
        (VALID + "  temperature: !!python/object:os.system x\n", "agent.temperature", 6, "is not allowed"),
        ("version: 2\n" + VALID, "version", 1, "1"),
        ("agent: [\n", "", 2, "not valid YAML"),
        ("- a\n", "", 1, "must begin with the key `agent:`"),
        ("", "", 1, "must begin with the key `agent:`"),
        (ALIASES, "", 1, "counting every use of an alias"),
        ("[" * 100, "", 1, "nested deeper"),
        (b"agent: \xff\n", "", 1, "UTF-8"),
        (b"x" * (MAX_BYTES + 1), "", 0, "larger than"),
    ],
)
def test_mistake_is_named_by_line_and_key(text: str | bytes, key: str, line: int, words: str) -> None:
    with pytest.raises(AgentFileInvalid) as invalid:
        parse_agent(text if isinstance(text, bytes) else text.encode())

    [mistake, *_] = [mistake for mistake in invalid.value.mistakes if mistake.key == key]
    assert mistake.line == line
    assert words in mistake.text
