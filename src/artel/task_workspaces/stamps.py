"""What each member of a family has seen of a file, so that none overwrites what it doesn't know.

Per path there is one small file beside the workspace: the hash of the content that was last written or read, and who
has seen it. It is the path's lock too, for all processes that share the data folder. If one is lost or torn, members
have to read the file once more before they write it; nothing worse.
"""

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from artel.paths.policy import Parts
from artel.task_workspaces.errors import Busy

WAIT_SECONDS = 10.0
LOOK_SECONDS = 0.002
MAX_BYTES = 100_000
_WHOLE = "workspace"


@dataclass(frozen=True, slots=True)
class Seen:
    """A content, by its hash, and the members who know it."""

    sha256: str
    members: frozenset[int]


class Stamp:
    """What is known about one path, while its lock is held."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def seen(self) -> Seen:
        """Return what was noted last; nobody has seen anything of a path that nothing is noted about."""
        try:
            noted = json.loads(os.pread(self._descriptor, MAX_BYTES, 0))
            return Seen(str(noted["sha256"]), frozenset(int(member) for member in noted["members"]))
        except (ValueError, KeyError, TypeError):
            return Seen("", frozenset())

    def written(self, member: int, sha256: str) -> None:
        """Note that a member has written the file: it alone knows the content."""
        self._note(Seen(sha256, frozenset({member})))

    def read(self, member: int, sha256: str) -> None:
        """Note that a member has read the file."""
        seen = self.seen()
        others = seen.members if seen.sha256 == sha256 else frozenset()
        self._note(Seen(sha256, others | {member}))

    def _note(self, seen: Seen) -> None:
        text = json.dumps({"sha256": seen.sha256, "members": sorted(seen.members)}).encode()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text, 0)


class Stamps:
    """The stamps of one task workspace, in a folder of their own; their names are ours, made from the paths."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Hold the whole workspace against other writers: what it may hold is counted and written in one go."""
        with self._locked(self._folder / _WHOLE):
            yield

    @contextmanager
    def of(self, parts: Parts) -> Iterator[Stamp]:
        """Hold one path; what was noted for nothing is removed again."""
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
            _lock(descriptor)
            yield descriptor
        finally:
            os.close(descriptor)  # and with it the lock


def _lock(descriptor: int) -> None:
    """Wait for the lock, on a thread that may wait, but not for ever: whoever holds it may have been stopped."""
    until = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < until:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(LOOK_SECONDS)
    raise Busy
