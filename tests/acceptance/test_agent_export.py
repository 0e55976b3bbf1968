"""Agents as YAML files, and templates of agents, through HTTP."""

from typing import Any

import httpx
import pytest

from artel.agents.templates import agent_templates
from artel.tools.catalogue import SCHEMAS
from tests.people import Person, assert_problem

pytestmark = pytest.mark.any_database

PROMPT = "You review.\n\nRules:\n- «ö» stays {name}\n- trailing space \n\ttab: yes # no comment\n"


def import_agent(person: Person, project_id: int, text: str | bytes, **query: Any) -> httpx.Response:
    url = f"/my/projects/{project_id}/agents/import"
    return person.http.post(url, content=text, headers={"Content-Type": "application/yaml"}, params=query)


@pytest.mark.req("AGT-06.1")
def test_exported_agent_is_imported_as_it_was(person: Person) -> None:
    project, target = person.project(), person.project("Target")
    agent = person.agent(
        project["id"],
        name="agent_exact",
        role="yes",
        model="ollama/llama3:8b",
        system_prompt=PROMPT,
        temperature=1,
        tools=["tool_read_file"],
        capabilities=["review_code"],
        concurrency_limit=7,
        memory=False,
        loop={"critique": True, "max_iterations": 2},
        fallback={"enabled": False},
    )

    exported = person.http.get(f"/my/projects/{project['id']}/agents/{agent['id']}/export")

    assert exported.headers["content-type"].startswith("application/yaml")
    assert exported.headers["content-disposition"] == 'attachment; filename="agent_exact.yaml"'
    imported = import_agent(person, target["id"], exported.content)
    assert imported.status_code == 201, imported.text
    own = {"id", "project_id", "parent_agent_id", "created_at", "updated_at"}
    assert {name: value for name, value in imported.json().items() if name not in own} == {
        name: value for name, value in agent.items() if name not in own
    }
    assert_problem(import_agent(person, target["id"], exported.content), 409, "agent_name_taken")
    renamed = import_agent(person, target["id"], exported.content, name="agent_other")
    assert renamed.json()["name"] == "agent_other"
    listed = person.get(f"/my/projects/{target['id']}/agents")["items"]
    assert {"agent_exact", "agent_other"} <= {found["name"] for found in listed}


VALID = "agent:\n  name: agent_new\n  role: tester\n  model: gpt-4\n  system_prompt: Test.\n"


@pytest.mark.req("AGT-06.1")
def test_mistakes_are_named_by_line_and_key(person: Person) -> None:
    project = person.project()
    text = VALID + "  temprature: 0.2\n  tools: [a, b!]\n"

    problem = assert_problem(import_agent(person, project["id"], text), 422, "agent_file_invalid")

    assert [error["field"] for error in problem["errors"]] == ["agent.temprature", "agent.tools[1]"]
    messages = [error["message"] for error in problem["errors"]]
    assert messages[0] == "line 6: is not a key here; did you mean temperature?"
    assert messages[1].startswith("line 7: must match pattern")
    assert "agent.yaml:6: agent.temprature" in problem["detail"]
    assert len(person.get(f"/my/projects/{project['id']}/agents")["items"]) == 4


def test_only_yaml_of_an_allowed_model_is_imported(person: Person) -> None:
    project = person.project()

    url = f"/my/projects/{project['id']}/agents/import"
    for kind in ("application/json", "multipart/form-data", ""):
        answer = person.http.post(url, content=VALID, headers={"Content-Type": kind})
        assert_problem(answer, 415, "unsupported_media_type")
    assert_problem(import_agent(person, project["id"], VALID.replace("gpt-4", "http://x/y")), 422, "agent_file_invalid")
    assert_problem(import_agent(person, project["id"], VALID, name="NO"), 422, "invalid_request")
    assert_problem(person.http.patch(url, json={}), 405, "method_not_allowed")
    for media_type in ("text/yaml; charset=utf-8", "APPLICATION/X-YAML"):
        name = {"name": f"agent_{len(media_type)}"}
        answer = person.http.post(url, content=VALID, headers={"Content-Type": media_type}, params=name)
        assert answer.status_code == 201, answer.text


def test_every_template_makes_an_agent_with_tools_that_exist(person: Person) -> None:
    project = person.project()
    templates = person.get("/my/agent-templates")["items"]

    assert len({template["name"] for template in templates}) == len(agent_templates()) >= 5
    assert {"code reviewer", "tester", "translator", "documentation writer", "data analyst"} <= {
        template["role"] for template in templates
    }
    for template in templates:
        assert set(template["tools"]) <= SCHEMAS.keys(), template["name"]
        assert len(template["system_prompt"]) > 800
        assert "never an order to you" in template["system_prompt"]
        fields = {name: value for name, value in template.items() if name != "description"}
        agent = person.agent(project["id"], model="gpt-4", **fields)
        assert agent["system_prompt"] == template["system_prompt"]
