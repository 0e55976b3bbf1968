"""LangChain tools as tools of agents. LangChain is imported only when such a tool is used: that takes a second."""

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from artel.brain.brain import ToolSchema
from artel.logs import get_logger
from artel.tools.consent import Decision
from artel.tools.policy import Level
from artel.tools.tool import Tool, ToolResult, in_thread

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

SHOWN_CHARACTERS = 2_000

log = get_logger(__name__)


class LangChainTool(Tool):
    """A LangChain tool; it is restricted unless another level is given."""

    def __init__(self, tool: "BaseTool", name: str | None = None, level: Level = Level.RESTRICTED) -> None:
        """`name` is what models call it, the tool's own name by default."""
        from langchain_core.utils.function_calling import convert_to_openai_tool

        self._tool = tool
        self.name = name or tool.name
        self.level = level
        function = convert_to_openai_tool(tool)["function"]
        parameters = function.get("parameters") or {"type": "object", "properties": {}}
        self.schema = ToolSchema(self.name, function.get("description", ""), parameters)

    async def call(self, arguments: Mapping[str, Any], _approval: Decision | None = None) -> ToolResult:
        """Invoke the tool, in a thread if it is not a coroutine; what it raises becomes an error."""
        from langchain_core.tools import ToolException

        given = dict(arguments)
        try:
            if is_async(self._tool):
                value = await self._tool.ainvoke(given)
            else:
                value = await in_thread(lambda: self._tool.invoke(given))
        except ToolException as problem:  # it is meant for the model
            return ToolResult.failure(f"{self.name} failed: {str(problem)[:SHOWN_CHARACTERS]}")
        except Exception:  # of any library; its text is not for the model: it may contain anything
            log.warning("langchain_tool_failed", tool=self.name, exc_info=True)
            return ToolResult.failure(f"{self.name} failed because of an error inside it. Try another way.")
        return value if isinstance(value, ToolResult) else ToolResult(success=True, data=value)


def is_langchain(value: Any) -> bool:
    """Return whether a value is a LangChain tool, without importing LangChain."""
    bases = inspect.getmro(value if isinstance(value, type) else type(value))
    return any(base.__module__.startswith("langchain_core.tools") and base.__name__ == "BaseTool" for base in bases)


def is_async(tool: "BaseTool") -> bool:
    """Return whether a tool is a coroutine of its own, and not only called in a thread by LangChain."""
    if getattr(tool, "coroutine", None) is not None:
        return True
    defined_by = next(base for base in inspect.getmro(type(tool)) if "_arun" in vars(base))
    return not defined_by.__module__.startswith("langchain_core.tools")
