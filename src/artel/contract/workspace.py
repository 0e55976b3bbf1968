"""What the HTTP API answers about task workspaces."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from artel.contract.http import Answer


class WorkspaceRecord(Answer):
    """What is known of a task workspace from the moment that it is assigned."""

    workspace_id: int = Field(serialization_alias="workspaceId", description="The id of the agent whose it is.")
    workspace_path: str = Field(
        serialization_alias="workspacePath",
        description="Where it lies, relative to the server's data folder.",
        examples=["workspaces/2"],
    )
    created_at: datetime = Field(serialization_alias="createdAt", description="When it was assigned.")
    lazy_created: bool = Field(
        serialization_alias="lazyCreated", description="Whether the first write has made the folder."
    )


class WorkspaceInfo(Answer):
    """What a task workspace holds."""

    agent_id: int = Field(description="The agent whose task workspace it is: the agent itself, or an ancestor.")
    file_count: int = Field(examples=[2])
    dir_count: int = Field(examples=[1])
    total_size: int = Field(description="Bytes in all files.", examples=[2048])
    last_modified: datetime | None = Field(description="When the newest file was written; null if there is none.")
    record: WorkspaceRecord


class WorkspaceFile(Answer):
    """A file or folder in a task workspace."""

    name: str = Field(examples=["plan.md"])
    path: str = Field(description="Relative to the task workspace.", examples=["notes/plan.md"])
    type: Literal["file", "directory", "link", "other"]
    size: int = Field(description="Bytes; 0 unless it is a file.", examples=[1024])
    modified: datetime
