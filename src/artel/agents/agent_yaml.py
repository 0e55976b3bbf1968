"""Agents as YAML files: export, and import with mistakes that are named by line and key."""

from typing import Any

import yaml
from pydantic import ValidationError

from artel.contract.agent_export import AgentExport
from artel.contract.http import Agent, NewAgent
from artel.nodes.located_yaml import Loc, YamlUnreadable, read_yaml
from artel.nodes.yaml_mistakes import AgentFileInvalid, FileMistake, explain, mistakes_in, unreadable

MAX_BYTES = 1_000_000  # a system prompt of control characters takes six bytes for each
SOURCE = "agent.yaml"  # what mistakes name as the file
LINE_WIDTH = 110


def export_agent(agent: Agent) -> str:
    """Return the YAML file of an agent; importing it creates the same agent."""
    settings = agent.model_dump(mode="json", include=set(NewAgent.model_fields))
    ordered = {name: settings[name] for name in NewAgent.model_fields}
    document = {"version": 1, "agent": ordered}
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=LINE_WIDTH)
    return text


def parse_agent(data: bytes) -> NewAgent:
    """Return the agent of a YAML file; raise AgentFileInvalid with its mistakes."""
    if len(data) > MAX_BYTES:
        raise AgentFileInvalid([FileMistake(SOURCE, 0, "", f"is larger than {MAX_BYTES:,} bytes, which is the most")])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise AgentFileInvalid([FileMistake(SOURCE, line, "", "is not UTF-8 text")]) from None
    try:
        document = read_yaml(text)
    except YamlUnreadable as failure:
        raise AgentFileInvalid([unreadable(failure, SOURCE)]) from None
    agent, found = _validate(document.value)
    mistakes = mistakes_in(document, SOURCE, found)
    if agent is None or mistakes:
        raise AgentFileInvalid(mistakes)
    return agent


def _validate(value: Any) -> tuple[NewAgent | None, dict[Loc, str]]:
    """Return the agent of a document, None if it has mistakes, and these by path."""
    if not isinstance(value, dict):
        return None, {(): "must begin with the key `agent:`; an exported agent shows all keys"}
    try:
        return AgentExport.model_validate(value).agent, {}
    except ValidationError as invalid:
        found: dict[Loc, str] = {}
        for error in invalid.errors(include_url=False):
            found.setdefault(error["loc"], explain(error, AgentExport))
        return None, found


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, so that prompts can be read and edited."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)
