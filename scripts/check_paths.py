"""Check that only `artel.paths` opens paths from untrusted sources.

In the packages that receive paths (from agents, models, other machines) no other module may access the file system. The
few modules that store their own files, under paths that no one else chooses, are listed with what they store.
"""

import ast
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "artel"
UNTRUSTED_PATHS = ("connector", "connector_gateway", "tools", "task_workspaces")
OWN_FILES = {
    "connector/audit_log.py": "the connector's audit log",
    "connector/grants.py": "permanent grants",
    "connector/journal.py": "the journal of calls",
    "connector/state_folder.py": "the folder of these files",
    "connector/undo_store.py": "previous versions of changed files",
    "task_workspaces/stamps.py": "which agent has seen which file, by hash of the path",
    "task_workspaces/task_workspace.py": "the folder of a task workspace, by agent id",
    "task_workspaces/service.py": "the folders of task workspaces, by agent id",
    "tools/sandbox.py": "the work folders of sandboxed programs, by hash of the task",
    "tools/sandbox_usage.py": "sizes in these folders, and what /proc says about the programs",
}
MODULES = frozenset({"glob", "shutil", "tempfile"})
OS_CALLS = frozenset(
    {"open", "listdir", "scandir", "walk", "stat", "lstat", "unlink", "remove", "rename", "replace", "mkdir"}
    | {"makedirs", "rmdir", "link", "symlink", "readlink", "chmod", "truncate", "access", "removedirs"}
)
PATH_METHODS = frozenset(
    {"read_text", "read_bytes", "write_text", "write_bytes", "iterdir", "rglob", "touch", "mkdir", "unlink", "rmdir"}
    | {"symlink_to", "hardlink_to", "readlink", "chmod", "exists", "is_file", "is_dir"}
)


def complaints(path: Path) -> list[str]:
    """Return the file system accesses of a module that only `artel.paths` may make."""
    name = path.relative_to(SOURCE).as_posix()
    if name in OWN_FILES or not name.startswith(UNTRUSTED_PATHS):
        return []
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and (access := _file_access(node.func)):
            found.append(f"{name}:{node.lineno} calls {access}: use artel.paths")
        if isinstance(node, ast.Import) and (modules := MODULES & {alias.name for alias in node.names}):
            found.append(f"{name}:{node.lineno} imports {', '.join(modules)}: use artel.paths")
    return found


def _file_access(called: ast.expr) -> str | None:
    if isinstance(called, ast.Name) and called.id == "open":
        return "open"
    if not isinstance(called, ast.Attribute):
        return None
    if isinstance(called.value, ast.Name) and called.value.id == "os" and called.attr in OS_CALLS:
        return f"os.{called.attr}"
    return f".{called.attr}" if called.attr in PATH_METHODS else None


def main() -> int:
    """Check every module; return the exit code."""
    found = [complaint for path in sorted(SOURCE.rglob("*.py")) for complaint in complaints(path)]
    missing = [name for name in OWN_FILES if not (SOURCE / name).exists()]
    for complaint in [*found, *(f"{name} is listed in OWN_FILES but does not exist" for name in missing)]:
        print(complaint)
    return 1 if found or missing else 0


if __name__ == "__main__":
    sys.exit(main())
