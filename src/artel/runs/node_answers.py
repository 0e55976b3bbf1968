"""What the answers of nodes mean: tool calls, text, errors and cost. Nodes are not trusted to stay within limits."""

import json

from pydantic import JsonValue, ValidationError

from artel.contract.envelope import ErrorInfo
from artel.contract.node_messages import MAX_STATE_CHARACTERS, ToolCallsOutput
from artel.errors import AgentFailed, BudgetExceeded, TaskStopped
from artel.logs import get_logger
from artel.runs.progress_timeout import TimedOut
from artel.text import storable

MESSAGE_CHARACTERS = 2_000
MAX_CALLS = 100  # that a node may ask for at once
OVERRUN = 2.0  # of the most that a command may cost: an honest node exceeds its limit by a part of one call

log = get_logger(__name__)


def tool_calls_of(output: JsonValue) -> ToolCallsOutput | None:
    """Return the calls that a node asks for, None if its output is the answer."""
    if not isinstance(output, dict) or output.get("kind") != "tool_calls":
        return None
    try:
        tool_request = ToolCallsOutput.model_validate(output)
    except ValidationError:
        raise AgentFailed("The node asked for tools in a form that can't be read. Update it.") from None
    if len(tool_request.calls) > MAX_CALLS or len(tool_request.state) > MAX_STATE_CHARACTERS:
        raise AgentFailed("The node asked for too many tool calls at once, or its state is too large.")
    return tool_request


def text_of(output: JsonValue) -> str:
    """Return an output as people read it; raise AgentFailed if there is none."""
    match output:
        case {"text": str(text)} | str(text):
            pass
        case None:
            text = ""
        case _:
            text = json.dumps(output, ensure_ascii=False, indent=2)
    if not text.strip():
        raise AgentFailed("The node ended without an answer. Try again, or choose another model for its agent.")
    return storable(text)


def failure_of(error: ErrorInfo, node: str) -> Exception:
    """Return the error of a task whose command failed."""
    message = f"Node {node}: {storable(error.message)[:MESSAGE_CHARACTERS]}"
    match error.code:
        case "DEADLINE_EXCEEDED":
            return TimedOut(message)
        case "CANCELLED":
            return TaskStopped(message)
        case "RESOURCE_EXHAUSTED" if error.details.get("code") == BudgetExceeded.code:
            return BudgetExceeded(message)
    return AgentFailed(message)


def charged(cost: float | None, limit_usd: float) -> float | None:
    """Return what a command is charged: what its node says, but not much more than it was allowed to spend."""
    most = OVERRUN * limit_usd
    if cost is not None and cost > most:
        log.warning("node_cost_cut", node_says_usd=cost, charged_usd=most)
    return None if cost is None else min(cost, most)
