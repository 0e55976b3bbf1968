"""Find the programs the tests need, or install them where that takes no question."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from .run_folder import locked

INSTALL_SECONDS = 300


class ServiceUnavailable(Exception):
    """A service the tests need can't be had; the text says what to do."""


@dataclass(frozen=True)
class Program:
    """One program: what people call it, its Debian package, its file names, and a folder outside the PATH."""

    title: str
    package: str
    names: tuple[str, ...]
    folders: str = "usr/local/bin"


def look_up(program: Program) -> Path | None:
    """Find a program in its own folders, newest version first, then on the PATH."""
    folders = sorted(Path("/").glob(program.folders), key=_version, reverse=True)
    path = os.pathsep.join([*map(str, folders), os.environ.get("PATH", os.defpath)])
    found = (shutil.which(name, path=path) for name in program.names)
    return next((Path(file) for file in found if file), None)


@dataclass(frozen=True)
class Programs:
    """The programs of this machine, as one test run may use them."""

    folder: Path
    uid: int = field(default_factory=os.geteuid)
    search: Callable[[Program], Path | None] = look_up
    apt_get: str | None = field(default_factory=lambda: shutil.which("apt-get"))
    policy: Path = Path("/usr/sbin/policy-rc.d")

    def find(self, program: Program) -> Path:
        """Return the path of a program, after installing it if that is possible."""
        return self.search(program) or self._install(program)

    def _install(self, program: Program) -> Path:
        if self.apt_get is None:
            names = " or ".join(program.names)
            raise ServiceUnavailable(f"{program.title} is needed by the tests. Install it, with {names} on the PATH.")
        advice = f"{program.title} is needed by the tests. Install it with: sudo apt-get install {program.package}"
        if self.uid != 0:
            raise ServiceUnavailable(advice)
        with locked(self.folder / "apt-get.lock"), _services_stay_down(self.policy):
            if found := self.search(program):  # another worker was first
                return found
            updated = self.folder / "apt-get.updated"
            output = ""
            if not updated.exists():
                output += _run(self.apt_get, "update")
                updated.touch()
            output += _run(self.apt_get, "install", "-y", "--no-install-recommends", program.package)
        if found := self.search(program):
            return found
        raise ServiceUnavailable("\n".join([advice, *output.splitlines()[-10:]]))


def _run(*command: str) -> str:
    """Run apt-get without questions, and return its output whatever the end."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=INSTALL_SECONDS,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{' '.join(command)} took longer than {INSTALL_SECONDS} s\n"
    return done.stdout


@contextmanager
def _services_stay_down(policy: Path) -> Iterator[None]:
    """Keep Debian from starting what it installs; an administrator's own policy stays."""
    try:
        policy.touch(mode=0o755, exist_ok=False)
    except FileExistsError:
        yield
        return
    try:
        policy.write_text("#!/bin/sh\nexit 101\n")
        yield
    finally:
        policy.unlink()


def _version(folder: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", str(folder))]
