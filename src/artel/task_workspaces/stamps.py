"""Stamps: which agents have seen the current content of a file, to prevent lost updates.

Each path has one small stamp file outside the workspace: the hash of the content last written or read, and the agents
that have seen it. It is also the path's lock for all processes that share the data folder. If a stamp is lost or
damaged, agents only have to read the file again before they write it.
"""

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from artel.paths.policy import Parts
from artel.task_workspaces.errors import WorkspaceBusy

LOCK_SECONDS = 10.0
POLL_SECONDS = 0.002
MAX_BYTES = 100_000
_WORKSPACE_LOCK = "workspace"


@dataclass(frozen=True, slots=True)
class SeenContent:
    """The hash of a content and the agents that have seen it."""

    sha256: str
    members: frozenset[int]


class Stamp:
    """The stamp of one path, while its lock is held."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def seen(self) -> SeenContent:
        """Return the stored stamp; an empty one if it is missing or damaged."""
        try:
            stored = json.loads(os.pread(self._descriptor, MAX_BYTES, 0))
            return SeenContent(str(stored["sha256"]), frozenset(int(member) for member in stored["members"]))
        except (ValueError, KeyError, TypeError):
            return SeenContent("", frozenset())

    def written(self, member: int, sha256: str) -> None:
        """Record that an agent wrote the file, so that only this agent has seen the content."""
        self._store(SeenContent(sha256, frozenset({member})))

    def read(self, member: int, sha256: str) -> None:
        """Record that an agent read the file."""
        seen = self.seen()
        others = seen.members if seen.sha256 == sha256 else frozenset()
        self._store(SeenContent(sha256, others | {member}))

    def _store(self, seen: SeenContent) -> None:
        text = json.dumps({"sha256": seen.sha256, "members": sorted(seen.members)}).encode()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text, 0)


class Stamps:
    """The stamps of one task workspace in a folder of their own, named by the hashes of the paths."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def lock_workspace(self) -> AbstractContextManager[int]:
        """Lock the workspace for writing, so that checking the quota and writing don't race."""
        return self._locked(self._folder / _WORKSPACE_LOCK)

    @contextmanager
    def lock_path(self, parts: Parts) -> Iterator[Stamp]:
        """Lock one path and return its stamp; an empty stamp file is removed afterwards."""
        file = self._folder / hashlib.sha256("/".join(parts).encode()).hexdigest()
        with self._locked(file) as descriptor:
            try:
                yield Stamp(descriptor)
            finally:
                if not os.fstat(descriptor).st_size:
                    file.unlink(missing_ok=True)

    @contextmanager
    def _locked(self, file: Path) -> Iterator[int]:
        self._folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            deadline = time.monotonic() + LOCK_SECONDS  # its holder may hang
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= deadline:
                        raise WorkspaceBusy from None
                    time.sleep(POLL_SECONDS)
            yield descriptor
        finally:
            os.close(descriptor)  # releases the lock
