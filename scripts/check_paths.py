"""Checks that only `artel.paths` opens a path that somebody else chose.

In the packages that are told paths (by agents, models, other machines) nobody else may touch the file system. The few
modules that keep files of their own, at places that nobody else names, are listed with what they keep.
"""

import ast
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "artel"
TOLD_PATHS = ("connector", "connector_gateway", "tools", "task_workspaces")
THEIR_OWN_FILES = {
    "connector/audit_log.py": "the connector's record",
    "connector/grants.py": "what is always allowed",
    "connector/journal.py": "which calls were made",
    "connector/state_folder.py": "the folder of all these",
    "connector/undo_store.py": "what files were before",
    "task_workspaces/stamps.py": "who has read what, by hashes of paths",
    "task_workspaces/task_workspace.py": "the folder of a task workspace itself, by number",
    "task_workspaces/service.py": "the folders of task workspaces themselves, by number",
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
    """Return what a module does that only `artel.paths` may do."""
    name = path.relative_to(SOURCE).as_posix()
    if name in THEIR_OWN_FILES or not name.startswith(TOLD_PATHS):
        return []
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and (what := _touches_files(node.func)):
            found.append(f"{name}:{node.lineno} calls {what}: use artel.paths")
        if isinstance(node, ast.Import) and (modules := MODULES & {alias.name for alias in node.names}):
            found.append(f"{name}:{node.lineno} imports {', '.join(modules)}: use artel.paths")
    return found


def _touches_files(called: ast.expr) -> str | None:
    if isinstance(called, ast.Name) and called.id == "open":
        return "open"
    if not isinstance(called, ast.Attribute):
        return None
    if isinstance(called.value, ast.Name) and called.value.id == "os" and called.attr in OS_CALLS:
        return f"os.{called.attr}"
    return f".{called.attr}" if called.attr in PATH_METHODS else None


def main() -> int:
    """Check every module."""
    found = [complaint for path in sorted(SOURCE.rglob("*.py")) for complaint in complaints(path)]
    gone = [name for name in THEIR_OWN_FILES if not (SOURCE / name).exists()]
    for complaint in [*found, *(f"{name} is listed, and there is no such module" for name in gone)]:
        print(complaint)
    return 1 if found or gone else 0


if __name__ == "__main__":
    sys.exit(main())
