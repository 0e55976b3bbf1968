"""Request and response bodies about nodes."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, model_validator

from artel.contract.http import RequestBody, ResponseBody, bounded_json
from artel.contract.node_messages import signal_parameters

MAX_PARAMETERS_CHARACTERS = 10_000
MAX_PARAMETERS_DEPTH = 8


class NodeTask(ResponseBody):
    """A task that a node works on."""

    task_id: str = Field(examples=["019a8f0e-5b1c-7c3e-9f60-0d8d3f6a1b2c"])
    action: str = Field(examples=["write_article"])
    phase: str = Field(description="Phase of the agent's loop.", examples=["execute"])
    elapsed_seconds: float = Field(examples=[12.5])
    idle_seconds: float = Field(description="Time since the loop last moved.", examples=[0.4])


class Node(ResponseBody):
    """A node: an agent that runs as a process of its own."""

    name: str = Field(examples=["agent.writer.001"])
    uid: str = Field(description="New with each start.", examples=["019a8f0e-5b1c-7c3e-9f60-0d8d3f6a1b2c"])
    epoch: int = Field(description="How many instances of this name have registered.", examples=[1])
    node_type: str = Field(examples=["writer"])
    display_name: str = Field(examples=["Writer"])
    description: str
    version: str = Field(examples=["1.0.0"])
    model: str = Field(examples=["gpt-4o"])
    state: Literal["ALIVE", "NOT_READY", "OFFLINE"] = Field(description="By the age of the last heartbeat.")
    phase: Literal["Running", "Paused", "Draining", "Stopped"]
    takes_tasks: bool = Field(description="Whether it is alive and running.")
    heartbeat_at: datetime
    heartbeat_age: float = Field(description="Seconds since the last heartbeat.", examples=[3.2])
    registered_at: datetime
    labels: dict[str, str] = Field(examples=[{"capability.write_article": "true"}])
    capabilities: list[str] = Field(examples=[["write_article", "improve_text"]])
    tools: list[str] = Field(examples=[["web_search"]])
    current_tasks: list[NodeTask]
    max_concurrent_tasks: int = Field(examples=[1])
    load: float = Field(description="Tasks per task slot; above 1 if tasks wait for it.", examples=[0.5])
    tasks_processed: int = Field(examples=[42])
    uptime: float = Field(description="Seconds.", examples=[3600.0])
    metrics: dict[str, float] = Field(description="What it measured of itself.", examples=[{"memory_mb": 85.5}])


class NodeDetails(Node):
    """A node with its passport."""

    passport: dict[str, Any] = Field(description="Metadata, spec and status, as the node sent them.")


class NodeControl(RequestBody):
    """A signal to a node."""

    control_type: Literal["stop", "pause", "resume", "shutdown", "config"] = Field(
        description="stop cancels tasks (one: `parameters.task_id`), pause takes no new ones, resume does again, "
        "shutdown ends the node after its tasks (at most `parameters.grace_seconds`; `drain: true` is the default), "
        "config changes settings."
    )
    reason: str | None = Field(default=None, max_length=500, pattern=r"^[^\x00]*$")
    parameters: Annotated[dict[str, JsonValue], bounded_json(MAX_PARAMETERS_CHARACTERS, MAX_PARAMETERS_DEPTH)] = Field(
        default={}, examples=[{"grace_seconds": 60}]
    )

    @model_validator(mode="after")
    def _has_its_parameters(self) -> "NodeControl":
        signal_parameters(self.control_type, self.parameters)
        return self


class NodeControlSent(ResponseBody):
    """A signal that was sent; the node applies it on its own time."""

    name: str = Field(examples=["agent.writer.001"])
    control_type: str = Field(examples=["pause"])
