"""Check that rows of users are only accessed through repositories that are scoped to their owner.

Domain modules (projects, sessions, …) may not build SQL statements themselves: statements come from `TenantRepository`,
which adds the owner. The few modules that work for the server itself are listed.
"""

import ast
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "artel"
STATEMENTS = frozenset(
    {"select", "insert", "update", "delete", "text", "exists", "union", "union_all", "literal_column"}
)
# Work of the server itself: accounts are read before the user is known, the schema has no owner, administrators see the
# audit log and the usage of all users, and the index queue, the indexer of messages, the connector relay, the hosts,
# the registry of nodes and the deletion of unsent files read the rows of all users. Providers of models are the
# server's own.
WITHOUT_OWNER = frozenset(
    {
        "auth/accounts.py",
        "auth/audit_log.py",
        "budgets/server_usage.py",
        "auth/logins.py",
        "auth/throttle.py",
        "connector_gateway/relay_calls.py",
        "remote_calls.py",
        "db/dialect.py",
        "db/driver_errors.py",
        "db/engine.py",
        "db/prepared.py",
        "db/schema.py",
        "db/columns.py",
        "db/tables.py",
        "db/tenant.py",
        "agent_memory/index_queue.py",
        "attachments/cleanup.py",
        "sessions/message_indexer.py",
        "spaces/leases.py",
        "registry/repository.py",
        "model_providers/repository.py",
        "db/node_tables.py",
        "db/search_tables.py",
        "db/server_tables.py",
    }
)


TABLE_MODULES = (
    "artel.db.tables",
    "artel.db.attachment_tables",
    "artel.db.node_tables",
    "artel.db.search_tables",
    "artel.db.tool_call_tables",
)


def complaints(path: Path) -> list[str]:
    """Return the statements of a module that only repositories may build."""
    name = path.relative_to(SOURCE).as_posix()
    if name in WITHOUT_OWNER or name.startswith("db/migrations/"):
        return []
    found = []
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tables = set().union(*(_imported_from(module, tree) for module in TABLE_MODULES))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sqlalchemy":
            built = sorted(STATEMENTS & {alias.name for alias in node.names})
            if built:
                found.append(f"{name}:{node.lineno} builds SQL statements ({', '.join(built)})")
        if isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "sqlalchemy" for alias in node.names):
            found.append(f"{name}:{node.lineno} imports the whole of sqlalchemy: import names")
        if isinstance(node, ast.Call) and (error := _forbidden_call(node.func, tables)):
            found.append(f"{name}:{node.lineno} {error}")
        if isinstance(node, ast.ClassDef) and node.name.endswith("Repository") and not _is_scoped(node):
            found.append(f"{name}:{node.lineno} {node.name} is no TenantRepository, or overrides its scope")
    return found


def _imported_from(module: str, tree: ast.AST) -> set[str]:
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == module
        for alias in node.names
    }


def _forbidden_call(called: ast.expr, tables: set[str]) -> str | None:
    if isinstance(called, ast.Name) and called.id == "insert_into":
        return "builds SQL statements (insert_into)"
    if not isinstance(called, ast.Attribute):
        return None
    if called.attr == "exec_driver_sql":
        return "sends raw SQL"
    if called.attr in STATEMENTS and isinstance(called.value, ast.Name) and called.value.id in tables:
        return f"builds SQL statements ({called.value.id}.{called.attr})"
    return None


def _is_scoped(node: ast.ClassDef) -> bool:
    bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
    methods = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
    return bool(bases & {"TenantRepository", "CallRepository"}) and not methods & {
        "__init__",
        "_mine",
        "_select",
        "_update",
        "_delete",
        "_insert",
    }


def main() -> int:
    """Check every module; return the exit code."""
    found = [complaint for path in sorted(SOURCE.rglob("*.py")) for complaint in complaints(path)]
    for complaint in found:
        print(complaint)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
