"""Structured answers by rules: plans, whose steps go to the agents with the best role, and other schemas."""

# ruff: noqa: RUF001 - Russian and Chinese have letters and signs that look like others

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from artel.brain.brain import Message, Schema
from artel.brain.demo.review import asks_for_review, review_tasks
from artel.brain.demo.user_words import read_json, tools_for
from artel.text import shorten

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
_ABOUT_IT = re.compile(r"(?i)\b(about|on) (?:it|this|that)$")
_OF_KIND = {kind: re.compile(rf"(?i)\b(?:{words})\b|{_RU_ZH[kind]}") for kind, (words, _) in _KINDS.items()}
_ROLE_OF_KIND = {kind: re.compile(rf"(?i){words}") for kind, (_, words) in _KINDS.items()}
SHOWN_CHARACTERS = 200


def structured_answer(schema: Schema, messages: tuple[Message, ...]) -> dict[str, Any] | None:
    """Return a sensible value for a schema of the agent loop or the planner, by its name; None for others."""
    request = next((message.content for message in reversed(messages) if message.role == "user"), "")
    match schema.name:
        case "plan":
            return {"tasks": plan(request, messages)}
        case "critique":
            critique = "The demo brain has rules, no judgement: it stays as it is."
            return {"needs_improvement": False, "critique": critique}
        case "understanding":
            return {"understanding": f"The user asks: {' '.join(request.split())[:SHOWN_CHARACTERS]}"}
        case "steps":
            return {"steps": [text for text, _ in steps_of(request)]}
    return None


@dataclass(frozen=True, slots=True)
class _AgentRole:
    name: str
    role: str
    tools: frozenset[str] = frozenset()
    capabilities: str = ""


def plan(text: str, messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    """Return the tasks for a request, assigned to the agents in the planner's prompt."""
    prompts = [message.content for message in messages if message.role == "system"]
    agents = _agents(prompts) or [_AgentRole("agent_coder", "developer")]
    has_folder = not any(NO_FOLDER in prompt for prompt in prompts)
    if has_folder and asks_for_review(text):
        return [
            {"id": str(number), "agent": _best(agents, kind, ""), "description": description, "depends_on": []}
            for number, (description, kind) in enumerate(review_tasks(text), 1)
        ]
    steps = _with_topic(steps_of(text))
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
    return [(_about(text, topic), level) for text, level in steps]


def _about(text: str, topic: str) -> str:
    if _ABOUT_IT.search(text):
        return _ABOUT_IT.sub(lambda found: f"{found[1]} {topic}", text)
    return f"{text} ({topic})" if _NO_TOPIC.fullmatch(text) else text


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


def kind_of(text: str) -> str:
    """Return the kind of work that a text describes."""
    if _SURELY_CODE.search(text):
        return "code"
    found = {kind: pattern.search(text) for kind, pattern in _OF_KIND.items()}
    starts = {kind: match.start() for kind, match in found.items() if match}
    return min(starts, key=lambda kind: starts[kind]) if starts else "analysis"


def _rank(kind: str) -> int:
    return list(_KINDS).index(kind)


def _best(agents: list[_AgentRole], kind: str, text: str) -> str:
    """Return the agent that the text names, else one with the requested tool and a matching capability or role."""
    lowered = text.lower()
    named = (agent.name for agent in agents if agent.name.removeprefix("agent_") in lowered.split())
    with_tool = ([agent for agent in agents if tool in agent.tools] for tool in tools_for(text))
    agents = next(filter(None, with_tool), agents)
    able = (agent.name for agent in agents if _ROLE_OF_KIND[kind].search(agent.capabilities))
    of_kind = (agent.name for agent in agents if _ROLE_OF_KIND[kind].search(f"{agent.name} {agent.role}"))
    return next(named, None) or next(able, None) or next(of_kind, None) or agents[0].name


def _agents(prompts: list[str]) -> list[_AgentRole]:
    """Return the agents of the planner's prompt, which lists one JSON object per line."""
    lines = [line for prompt in prompts for line in prompt.splitlines() if line.startswith('{"name": "')]
    return [
        _AgentRole(
            agent["name"],
            f"{agent['name']} {agent.get('role', '')}",
            frozenset(agent.get("tools") or ()),
            " ".join(agent.get("capabilities") or ()),
        )
        for agent in map(read_json, lines)
        if agent is not None
    ]
