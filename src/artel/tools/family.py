"""The tool `spawn_agent`; the parent is part of the `Family` that the tool is given, never of the arguments."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from artel.tools.consent import Decision
from artel.tools.policy import Level
from artel.tools.tool import Tool, ToolResult, argument, tool_schema

MAX_ROLE_CHARACTERS = 64
MAX_BRIEF_CHARACTERS = 8_000
# In the order in which a child reads them.
SECTIONS = {
    "objective": "What is to be achieved.",
    "constraints": "What must be kept to, and what must not be done.",
    "inputs": "What there is to work with: facts, and files of the task workspace.",
    "outputs": "What is to be delivered, and where.",
    "completion_criteria": "How to tell that it is done.",
}


@dataclass(frozen=True, slots=True)
class Brief:
    """A task for a child; `tools` are the parent's tools it may use (None: all), `child` names an existing child."""

    role: str
    sections: Mapping[str, str]
    tools: tuple[str, ...] | None = None
    child: str | None = None

    @property
    def text(self) -> str:
        """The brief as the child reads it."""
        texts = {name: text.strip() for name, text in self.sections.items() if text.strip()}
        return "\n\n".join(
            f"{name.replace('_', ' ').capitalize()}: {texts[name]}" for name in SECTIONS if name in texts
        )


@dataclass(frozen=True, slots=True)
class ChildResult:
    """The result of a child's task, or an error."""

    agent_id: int
    agent: str
    task_id: str
    result: str
    error: str | None = None


class Family(Protocol):
    """The children of one agent."""

    async def run_child(self, brief: Brief) -> ChildResult:
        """Run a task with a child and wait for its result; raise ArtelError if that is not possible."""


class SpawnAgent(Tool):
    """Creates an agent and gives it a task."""

    name = "spawn_agent"
    level = Level.SAFE
    schema = tool_schema(
        name,
        "Create an agent below you and give it a task; the answer is its result. It knows nothing of your conversation:"
        " say everything that it needs. It shares your task workspace, has your tools or fewer, and works within your"
        " time. To give another task to one that you created before, name it as `child`.",
        {
            "role": {
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_ROLE_CHARACTERS,
                # The pattern is bounded itself: a validator applies it even if the text is too long.
                "pattern": r"^[^\x00-\x1f\x7f]{0,63}[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]{0,63}$",
                "description": "What it is, in a word or two, as in: tester.",
            },
            "task_brief": {
                "type": "object",
                "properties": {
                    name: {"type": "string", "maxLength": MAX_BRIEF_CHARACTERS, "description": what}
                    for name, what in SECTIONS.items()
                },
                "required": ["objective"],
                "additionalProperties": False,
            },
            "tools": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Which of your tools it may use; all of them if left out. Not with `child`.",
            },
            "child": argument("string", "The name of an agent that you created before."),
        },
        ["role", "task_brief"],
    )

    def __init__(self, family: Family) -> None:
        self._family = family

    async def call(self, arguments: Mapping[str, Any], _approval: Decision | None = None) -> ToolResult:
        """Run the child's task and return its result."""
        tools, child = arguments.get("tools"), arguments.get("child")
        brief = Brief(arguments["role"], arguments["task_brief"], None if tools is None else tuple(tools), child)
        if brief.child is not None and brief.tools is not None:
            return ToolResult.failure(f"{brief.child[:100]} has the tools that you gave it: leave out `tools`.")
        if not brief.text:
            return ToolResult.failure("The task brief is empty. Say at least what is to be achieved.")
        answer = await self._family.run_child(brief)
        if answer.error is not None:
            return ToolResult.failure(f"{answer.agent} could not do it: {answer.error}")
        data = {name: value for name, value in asdict(answer).items() if name != "error"}
        return ToolResult(success=True, data=data)
