"""What the HTTP API answers about task workspaces."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from artel.contract.http import Answer


class WorkspaceInfo(Answer):
    """What a task workspace holds."""

    agent_id: int = Field(description="The agent whose task workspace it is: the agent itself, or an ancestor.")
    file_count: int = Field(examples=[2])
    dir_count: int = Field(examples=[1])
    total_size: int = Field(description="Bytes in all files.", examples=[2048])
    last_modified: datetime | None = Field(description="When the newest file was written; null if there is none.")


class WorkspaceFile(Answer):
    """A file or folder in a task workspace."""

    name: str = Field(examples=["plan.md"])
    path: str = Field(description="Relative to the task workspace.", examples=["notes/plan.md"])
    type: Literal["file", "directory", "link", "other"]
    size: int = Field(description="Bytes; 0 unless it is a file.", examples=[1024])
    modified: datetime
