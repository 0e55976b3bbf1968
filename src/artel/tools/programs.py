"""Tools that run what an agent wrote, code_execute and shell: a person approves each call, and it runs in a sandbox."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from artel.contract.agent_file import SandboxSecurity
from artel.tools.consent import Decision
from artel.tools.policy import Level
from artel.tools.sandbox import Finished, Sandbox, SandboxLimits, python
from artel.tools.tool import Tool, ToolResult, argument, tool_schema

MAX_PROGRAM_CHARACTERS = 50_000
SHOWN_CHARACTERS = 14_000  # of a result's 16,000
SHOWN_OF_FAILED = 2_000

_WHERE = (
    " A person approves each call. It runs in a sandbox without network; its folder is empty at first, and is the same"
    " for all calls of this task."
)


class ProgramTool(Tool):
    """Base class of both tools."""

    level = Level.CRITICAL
    parameter: str

    def __init__(self, sandbox: Sandbox, task: str, security: SandboxSecurity) -> None:
        """`task` names the task and its tenant."""
        self._sandbox = sandbox
        self._task = task
        self._limits = SandboxLimits(security.timeout_seconds, security.memory_mb, security.output_bytes)

    async def approval_details(self, _arguments: Mapping[str, Any]) -> Mapping[str, str]:
        """Raise SandboxUnavailable before anybody is asked for a call that can't be made."""
        await self._sandbox.require()
        return {}

    async def call(self, arguments: Mapping[str, Any], _approval: Decision | None = None) -> ToolResult:
        """Run the program and return its output."""
        finished = await self._sandbox.run(self._task, self.program(), arguments[self.parameter], self._limits)
        return _result(self.name, finished)

    @abstractmethod
    def program(self) -> tuple[str, ...]:
        """Return the program in the sandbox that runs a script."""


class CodeExecute(ProgramTool):
    name = "code_execute"
    parameter = "code"
    schema = tool_schema(
        name,
        f"Run a Python program and return what it prints.{_WHERE}",
        {parameter: argument("string", "The whole program.", minLength=1, maxLength=MAX_PROGRAM_CHARACTERS)},
        [parameter],
    )

    def program(self) -> tuple[str, ...]:
        """Return Python, without the packages of this process."""
        return (python(), "-I", "-B")


class Shell(ProgramTool):
    name = "shell"
    parameter = "command"
    schema = tool_schema(
        name,
        f"Run commands in a POSIX shell and return what they print.{_WHERE}",
        {parameter: argument("string", "One or more commands.", minLength=1, maxLength=MAX_PROGRAM_CHARACTERS)},
        [parameter],
    )

    def program(self) -> tuple[str, ...]:
        """Return the system's shell."""
        return ("/bin/sh",)


def _result(tool: str, finished: Finished) -> ToolResult:
    output = finished.output.decode(errors="replace")
    if finished.stopped is not None:
        shown = f" It had printed: {output[:SHOWN_OF_FAILED]}" if output else ""
        return ToolResult.failure(f"{tool} was stopped: {finished.stopped}.{shown}")
    data: dict[str, Any] = {"exit_code": finished.exit_code, "output": output[:SHOWN_CHARACTERS]}
    if finished.is_cut or len(output) > SHOWN_CHARACTERS:
        data["cut"] = f"The output is cut after {len(data['output'])} characters. Print less."
    return ToolResult(success=True, data=data)
