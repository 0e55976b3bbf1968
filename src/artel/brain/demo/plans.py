"""Structured answers by rules: plans, whose steps go to the agents with the best role, and other schemas."""

# ruff: noqa: RUF001 - Russian and Chinese have letters and signs that look like others

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from artel.brain.brain import Message, Schema
from artel.brain.demo.review import asks_for_review, review_tasks
from artel.brain.demo.user_words import tools_for
from artel.text import shorten

if TYPE_CHECKING:
    from pydantic import JsonValue

MAX_TASKS = 6
MAX_STEP_CHARACTERS = 300
NO_FOLDER = "No folder of the user's is connected"  # text in the planner's prompt

_CODE = "code|function|script|tests?|class|module|program"
# Kinds of work, in the order of dependency: the words of a request, and the words of a role.
_KINDS = {
    "research": (r"research|find|search|look up|investigate|gather|collect", r"research|search|scout"),
    "analysis": (
        r"analy[sz]e|compare|review|check|audit|examine|evaluate|inspect|explain|measure",
        r"analy|review|audit|critic",
    ),
    "code": (
        rf"implement|code|fix|refactor|build|program|develop|debug|deploy|test|write (?:\w+ ){{0,3}}(?:{_CODE})",
        r"cod(?:er|ing)|develop|engineer|program",
    ),
    "writing": (
        r"write|draft|document|summari[sz]e|describe|report|translate|edit|outline",
        r"writ|author|editor|document|translat",
    ),
}
_SURELY_CODE = re.compile(r"(?i)\b(?:fix|debug|refactor|implement|bug)\b")
_FINDING = ("research", "analysis")
# The same in Russian and Chinese, where word boundaries do not help.
_RU_ZH = {
    "research": r"найди|исследу|узна|собери|поищи|研究|调查|查找|搜索|了解",
    "analysis": r"анализ|сравни|провер|оцени|объясни|изучи|分析|比较|检查|评估|解释",
    "code": r"реализу|исправ|почини|код|программ|функци|тест|实现|修复|代码|编程|函数|测试",
    "writing": r"напиши|опиши|составь|перевед|подготовь|отчёт|写|描述|总结|翻译|报告",
}
_ANY_KIND = "|".join(words for words, _ in _KINDS.values())
_IN_TURN = re.compile(
    r"(?i)(?<!\s)[;,.]?\s*+\b(?:and then|after that|afterwards|then|finally|next"
    r"|а потом|а затем|потом|затем|после этого|наконец)\b[,:]?\s*+"
    r"|;\s*+|(?<!\d)\.\s++(?=[A-ZА-ЯЁ])|[，。；,]?(?:然后|接着|最后)|[。；]"
)
_BESIDE = re.compile(rf"(?i)(?:,\s*+(?:and\s++)?|(?<!\s)\s++and\s++)(?=(?:{_ANY_KIND})\b)")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s*")
# A line of a list of steps begins with a bullet, a number or a kind of work. Other lines are pasted text.
_STEP = re.compile(rf"(?i)\s*+(?:[-*•]\s|\d{{1,2}}[.)]\s|(?:(?:and|then|next|finally),?\s++){{0,2}}(?:{_ANY_KIND})\b)")
_VERB = re.compile(rf"(?i)(?:find out|{_ANY_KIND})\s++(?:(?:the|an?|some)\s++)?")
# A step that writes a text without naming its topic.
_NO_TOPIC = re.compile(r"(?i)(?:write|draft|outline|prepare|create|make) an? (?:[\w-]{1,30} ){0,2}[\w-]{1,30}")
_LINE = re.compile(
    r"^\s*+(?:[-*•]\s*+)?`?(?P<name>[a-z][a-z0-9_-]{0,62})`?\s*(?:\([^)]*\)\s*)?(?::|—|\u2013| - )\s*(?P<role>\S.*)$"
)
_REQUEST_MARK = re.compile(r"(?im)^[^\S\n]*+(?:user'?s? )?(?:request|task|goal|message)\s*+:\s*+")
_OF_KIND = {kind: re.compile(rf"(?i)\b(?:{words})\b|{_RU_ZH[kind]}") for kind, (words, _) in _KINDS.items()}
_ROLE_OF_KIND = {kind: re.compile(rf"(?i){words}") for kind, (_, words) in _KINDS.items()}

MAX_DEPTH = 8
SHOWN_CHARACTERS = 200

_SMALLEST: dict[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False, "array": [], "null": None}


def structured_answer(schema: Schema, messages: tuple[Message, ...]) -> "JsonValue":
    """Return a sensible value that the schema allows."""
    request = next((message.content for message in reversed(messages) if message.role == "user"), "")
    fields: dict[str, Any] = {}
    match schema.name:
        case "plan":
            fields = {"tasks": plan(schema.schema, messages)}
        case "critique":
            fields = {
                "needs_improvement": False,
                "critique": "The demo brain has rules, no judgement: it stays as it is.",
            }
        case "understanding":
            fields = {"understanding": f"The user asks: {' '.join(request.split())[:SHOWN_CHARACTERS]}"}
        case "steps":
            fields = {"steps": [text for text, _ in steps_of(request)]}
    answer: JsonValue = _completed(fields, schema.schema)
    return answer


def _completed(fields: dict[str, Any], schema: Mapping[str, Any]) -> Any:
    """Return the fields that the schema allows, and the smallest values for other required ones."""
    properties = schema.get("properties") or {}
    if not properties:
        return fields or _smallest(schema, schema, 0)
    allowed = {name: value for name, value in fields.items() if name in properties}
    missing = (name for name in schema.get("required") or () if name not in allowed)
    return allowed | {name: _smallest(properties.get(name) or {}, schema, 0) for name in missing}


def _smallest(schema: Any, root: Mapping[str, Any], depth: int) -> Any:
    """Return approximately the smallest value that a schema allows."""
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return None
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return _smallest((root.get("$defs") or {}).get(name), root, depth + 1)
    for key in ("enum", "anyOf", "oneOf"):
        if schema.get(key):
            first = schema[key][0]
            return first if key == "enum" else _smallest(first, root, depth + 1)
    for key in ("default", "const"):
        if key in schema:
            return schema[key]
    kind = schema.get("type", "object")
    if kind != "object":
        return _SMALLEST.get(kind if isinstance(kind, str) else kind[0])
    properties = schema.get("properties") or {}
    return {name: _smallest(properties.get(name), root, depth + 1) for name in schema.get("required") or ()}


@dataclass(frozen=True, slots=True)
class _Agent:
    name: str
    role: str
    tools: frozenset[str] = frozenset()


def plan(schema: Mapping[str, Any], messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    """Return the tasks for the last user message, assigned to the agents in the prompt."""
    text = next((message.content for message in reversed(messages) if message.role == "user"), "")
    agents = _agents(schema, messages)
    has_folder = not any(NO_FOLDER in message.content for message in messages if message.role == "system")
    if has_folder and asks_for_review(text):
        return [
            {"id": str(number), "agent": _best(agents, kind, ""), "description": description, "depends_on": []}
            for number, (description, kind) in enumerate(review_tasks(text), 1)
        ]
    steps = _with_topic(steps_of(_request(text, agents)))
    kinds = [kind_of(step) for step, _ in steps]
    tasks = []
    for number, (step, level) in enumerate(steps):
        needed = [
            str(earlier + 1)
            for earlier in range(number)
            if steps[earlier][1] == level - 1
            or (
                steps[earlier][1] == level
                and kinds[earlier] in _FINDING
                and _rank(kinds[earlier]) < _rank(kinds[number])
            )
        ]
        agent = _best(agents, kinds[number], step)
        tasks.append({"id": str(number + 1), "agent": agent, "description": step, "depends_on": needed})
    return tasks


def steps_of(request: str) -> list[tuple[str, int]]:
    """Return the steps of a request, each with its level in the order; parallel steps share a level.

    Several lines are steps only if all of them look like steps; a pasted traceback or letter stays one step.
    """
    lines = [line for line in request.splitlines() if line.strip()]
    if len(lines) > 1 and not all(map(_STEP.match, lines)):
        return [(_bare(request) or "Answer the user.", 0)]
    steps: list[tuple[str, int]] = []
    parts = (part for line in lines for part in _IN_TURN.split(line) if _bare(part))
    for level, part in enumerate(parts):
        steps.extend((_bare(step), level) for step in _parallel_steps(part))
    if len(steps) > MAX_TASKS:  # the last task gets the rest
        rest = "; ".join(text for text, _ in steps[MAX_TASKS - 1 :])
        steps = [*steps[: MAX_TASKS - 1], (_bare(rest), steps[MAX_TASKS - 1][1])]
    return steps or [(_bare(request) or "Answer the user.", 0)]


def _with_topic(steps: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return the steps; those that write a text without a topic get the topic of the first research step."""
    research = next((text for text, _ in steps if kind_of(text) in _FINDING and _VERB.match(text)), "")
    topic = _VERB.sub("", research, count=1)
    if not topic:
        return steps
    return [(f"{text} ({topic})" if _NO_TOPIC.fullmatch(text) else text, level) for text, level in steps]


def _parallel_steps(part: str) -> Iterator[str]:
    """Yield the parallel steps of a part; a verb alone ("find and fix it") is no step."""
    start = 0
    for found in _BESIDE.finditer(part):
        if len(part[start : found.start()].split()) > 1:
            yield part[start : found.start()]
            start = found.end()
    yield part[start:]


def _bare(text: str) -> str:
    text = _BULLET.sub("", text).strip(" \t\n.,;")
    text = text[:1].upper() + text[1:]
    return shorten(text, MAX_STEP_CHARACTERS)


def _request(text: str, agents: list[_Agent]) -> str:
    """Return the request without the list of agents, which some prompts put into the same message."""
    mark = _REQUEST_MARK.search(text)
    if mark is not None:
        before = text[: mark.start()]
        if not before.strip() or any((*_in_json(before), *_in_lines(before))):
            return text[mark.end() :]
    names = {agent.name for agent in agents}
    lines = (line for line in text.splitlines() if not ((found := _LINE.match(line)) and found["name"] in names))
    return "\n".join(lines)


def kind_of(text: str) -> str:
    """Return the kind of work that a text describes."""
    if _SURELY_CODE.search(text):
        return "code"
    found = {kind: pattern.search(text) for kind, pattern in _OF_KIND.items()}
    starts = {kind: match.start() for kind, match in found.items() if match}
    return min(starts, key=lambda kind: starts[kind]) if starts else "analysis"


def _rank(kind: str) -> int:
    return list(_KINDS).index(kind)


def _best(agents: list[_Agent], kind: str, text: str) -> str:
    """Return the agent that the text names, else one with the requested tool and a matching role."""
    lowered = text.lower()
    named = (agent.name for agent in agents if agent.name.removeprefix("agent_") in lowered.split())
    with_tool = ([agent for agent in agents if tool in agent.tools] for tool in tools_for(text))
    agents = next(filter(None, with_tool), agents)
    of_kind = (agent.name for agent in agents if _ROLE_OF_KIND[kind].search(f"{agent.name} {agent.role}"))
    return next(named, None) or next(of_kind, None) or agents[0].name


def _agents(schema: Mapping[str, Any], messages: tuple[Message, ...]) -> list[_Agent]:
    texts = [message.content for message in messages if message.role in ("system", "user")]
    found = [agent for text in texts for agent in (*_in_json_lines(text), *_in_json(text), *_in_lines(text))]
    described = {agent.name: agent for agent in reversed(found) if agent.name != "root"}
    allowed = _allowed(schema)
    if allowed:
        return [described.get(name, _Agent(name, name)) for name in allowed]
    return list(reversed(described.values())) or [_Agent("agent_coder", "developer")]


def _allowed(schema: Mapping[str, Any]) -> list[str]:
    """Return the agents that the schema allows, if it names them."""
    items = ((schema.get("properties") or {}).get("tasks") or {}).get("items") or {}
    if "$ref" in items:
        items = (schema.get("$defs") or {}).get(items["$ref"].rpartition("/")[2]) or {}
    return list(((items.get("properties") or {}).get("agent") or {}).get("enum") or ())


def _in_json(text: str) -> Iterator[_Agent]:
    decoder = json.JSONDecoder()
    for start in (found.start() for found in re.finditer(r"\[\s*\{", text)):
        try:
            value, _ = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        for item in value:
            if isinstance(item, dict) and isinstance(item.get("name"), str):
                yield _Agent(item["name"], " ".join(str(part) for key, part in item.items() if key != "name"))


def _in_json_lines(text: str) -> Iterator[_Agent]:
    """Yield the agents of the planner's prompt, which lists one JSON object per line."""
    for line in text.splitlines():
        if not line.startswith('{"name": "'):
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        tools = value.get("tools")
        offered = frozenset(str(tool) for tool in tools) if isinstance(tools, list) else frozenset[str]()
        yield _Agent(str(value["name"]), f"{value['name']} {value.get('role', '')}", offered)


def _in_lines(text: str) -> Iterator[_Agent]:
    """Yield the agents of lines like `name: role` below a line that mentions agents."""
    listed = False
    for before, line in pairwise(["", *text.splitlines()]):
        found = _LINE.match(line)
        listed = found is not None and (listed or "agent" in before.lower())
        if found and (listed or found["name"].startswith("agent_")):
            yield _Agent(found["name"], found["role"])
