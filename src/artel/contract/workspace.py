"""Response bodies for task workspaces."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from artel.contract.http import Answer


class WorkspaceRecord(Answer):
    """Record of a task workspace, available as soon as it is assigned."""

    workspace_id: int = Field(serialization_alias="workspaceId", description="Id of the agent that owns it.")
    workspace_path: str = Field(
        serialization_alias="workspacePath",
        description="Path relative to the server's data folder.",
        examples=["workspaces/2"],
    )
    created_at: datetime = Field(serialization_alias="createdAt", description="Time of assignment.")
    lazy_created: bool = Field(
        serialization_alias="lazyCreated", description="Whether the folder exists, which the first write creates."
    )


class WorkspaceInfo(Answer):
    """Content statistics of a task workspace."""

    agent_id: int = Field(description="Agent that owns the task workspace: the agent itself or an ancestor.")
    file_count: int = Field(examples=[2])
    dir_count: int = Field(examples=[1])
    total_size: int = Field(description="Bytes of all files.", examples=[2048])
    last_modified: datetime | None = Field(description="Time of the last write; null if there are no files.")
    record: WorkspaceRecord


class WorkspaceFile(Answer):
    """A file or folder in a task workspace."""

    name: str = Field(examples=["plan.md"])
    path: str = Field(description="Relative to the task workspace.", examples=["notes/plan.md"])
    type: Literal["file", "directory", "link", "other"]
    size: int = Field(description="Bytes; 0 if it is not a file.", examples=[1024])
    modified: datetime
