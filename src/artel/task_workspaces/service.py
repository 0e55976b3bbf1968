"""All task workspaces of a server: their folders and their removal."""

import shutil
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from artel.logs import get_logger
from artel.task_workspaces.task_workspace import Quota, Record, TaskWorkspace

log = get_logger(__name__)


class TaskWorkspaces:
    """The folders `workspaces/{agent_id}` in the data folder, with their stamps in `workspace-stamps/{agent_id}`."""

    def __init__(self, data_dir: Path, quota: Quota | None = None) -> None:
        self._folders = data_dir / "workspaces"
        self._stamps = data_dir / "workspace-stamps"
        self._quota = quota or Quota()

    def of(self, owner_id: int) -> TaskWorkspace:
        """Return the task workspace of an owner, without creating its folder."""
        return TaskWorkspace(self._folders / str(owner_id), self._stamps / str(owner_id), self._quota)

    def record(self, owner_id: int, created_at: datetime) -> Record:
        """Return the record of the task workspace of an owner that was created at that time."""
        folder = self._folders / str(owner_id)
        return Record(owner_id, f"{self._folders.name}/{owner_id}", created_at, lazy_created=folder.is_dir())

    def size_of(self, owner_ids: Iterable[int]) -> int:
        """Return the total size of the files in these task workspaces in bytes."""
        existing = [owner_id for owner_id in owner_ids if (self._folders / str(owner_id)).is_dir()]
        return sum(self.of(owner_id).info().total_size for owner_id in existing)

    def remove(self, owner_ids: Iterable[int]) -> None:
        """Remove the task workspaces of deleted agents; log failures."""
        for owner_id in owner_ids:
            for folder in (self._folders / str(owner_id), self._stamps / str(owner_id)):
                # rmtree never follows links; the path rules bound the depth of the tree.
                shutil.rmtree(folder, ignore_errors=True)
                if folder.exists():
                    log.warning("task_workspace_not_removed", agent_id=owner_id)
