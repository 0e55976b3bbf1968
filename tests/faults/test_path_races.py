"""Paths stay inside the folder while another process swaps folders and files for links."""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from artel.paths.beneath import Beneath
from artel.paths.errors import PathError
from artel.paths.resolve import Resolver, by_kernel, by_walking
from tests.depth import by_depth

SWAPS = by_depth(60_000, 1_000_000)
ENOUGH = 100  # reads and refusals: it was inside, and it was led out, often enough to be seen
MAX_ROUNDS = 20  # a busy machine lets the reader have few goes while the swapper has many
INSIDE, OUTSIDE, MINE = b"inside", b"outside!", b"mine"

# Each name is now the real thing, now a link that leads out; every pair of renames is a swap.
SWAPPER = """
import os, shutil, sys
os.chdir(sys.argv[1])

def put(new, name):
    for _ in range(1000):
        try:
            return os.rename(new, name)
        except OSError:  # a folder was made in its place
            shutil.rmtree(name, ignore_errors=True)
    sys.exit("never free")

for done in range(0, int(sys.argv[2]), 6):
    for name in ("box", "file", "deep/box"):
        os.rename(name, name + ".real")
        put(name + ".link", name)
        os.rename(name, name + ".link")
        put(name + ".real", name)
"""


@pytest.mark.req("WSA-05.2")
@pytest.mark.parametrize("resolver", [by_kernel, by_walking])
def test_no_path_leads_out_while_folders_and_links_are_swapped(tmp_path: Path, resolver: Resolver) -> None:
    outside, workspace = tmp_path / "outside", tmp_path / "work"
    (outside / "sub").mkdir(parents=True)
    for name in ("file", "only_outside", "sub/file"):
        (outside / name).write_bytes(OUTSIDE)
    (workspace / "deep" / "box" / "sub").mkdir(parents=True)
    (workspace / "box" / "sub").mkdir(parents=True)
    for name in ("box/file", "box/sub/file", "deep/box/file", "file"):
        (workspace / name).write_bytes(INSIDE)
    for name, target in (("box", outside), ("deep/box", "../../outside"), ("file", outside / "file")):
        (workspace / f"{name}.link").symlink_to(target)
    before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}

    seen: Counter[str] = Counter()
    with Beneath(workspace, resolver=resolver) as files:
        for _ in range(MAX_ROUNDS):
            with subprocess.Popen([sys.executable, "-c", SWAPPER, str(workspace), str(SWAPS)]) as swapper:
                while swapper.poll() is None:
                    seen.update(outcomes(files))
            assert swapper.returncode == 0
            if min(seen["read"], seen["path_traversal_blocked"]) >= ENOUGH:
                break

    assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == before
    assert seen["read"] >= ENOUGH
    assert seen["path_traversal_blocked"] >= ENOUGH


def outcomes(files: Beneath) -> Iterator[str]:
    for attempt in attempts(files):
        try:
            yield attempt()
        except PathError as refused:
            yield refused.code


def attempts(files: Beneath) -> list[Callable[[], str]]:
    def read(path: str) -> str:
        data = files.read(path).data
        assert data in (INSIDE, MINE), f"{path} was read outside"
        return "read"

    def listed() -> str:
        names = [entry.path for entry in files.list("box", recursive=True).entries]
        assert not any("only_outside" in name for name in names), "the outside was listed"
        return "listed"

    def looked() -> str:
        assert files.stat("deep/box/file").size != len(OUTSIDE), "the outside was looked at"
        return "looked"

    def written(path: str) -> str:
        files.write(path, MINE, create_dirs=path.endswith("x"))
        return "written"

    def deleted() -> str:
        files.write("box/sub/mine", MINE)
        files.delete("box/sub/mine")
        return "deleted"

    reads = [lambda path=path: read(path) for path in ("box/file", "box/sub/file", "deep/box/file")]
    writes = [lambda path=path: written(path) for path in ("box/new", "box/new/er/x", "deep/box/file", "file")]
    return [*reads * 10, listed, looked, *writes, deleted]  # a write waits for the disk: many reads for each
