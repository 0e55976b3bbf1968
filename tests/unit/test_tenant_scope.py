"""The lint that keeps unscoped queries out would notice each way of writing one."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def lint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_tenant_scope", ROOT / "scripts" / "check_tenant_scope.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "SOURCE", tmp_path)
    return module


@pytest.mark.parametrize(
    "code",
    [
        "from sqlalchemy import select",
        "from sqlalchemy import delete as d",
        "from sqlalchemy.sql import text",
        "import sqlalchemy",
        "import sqlalchemy as sa",
        "connection.exec_driver_sql('DELETE FROM projects')",
        "from artel.db.tables import projects\nprojects.select()",
        "from artel.db.tables import projects as p\np.delete()",
        "from artel.db.dialect import insert_into\ninsert_into(connection, projects)",
        "class ProjectRepository:\n    pass",
        "class ProjectRepository(TenantRepository):\n    def __init__(self): pass",
        "class ProjectRepository(TenantRepository):\n    def _mine(self): return True",
    ],
)
def test_an_unscoped_query_is_noticed(lint: ModuleType, tmp_path: Path, code: str) -> None:
    (tmp_path / "projects.py").write_text(code)

    assert len(lint.complaints(tmp_path / "projects.py")) == 1
    assert lint.main() == 1


def test_a_repository_that_keeps_to_the_rules_is_left_alone(lint: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "projects.py").write_text(
        "from sqlalchemy import Connection\nclass ProjectRepository(TenantRepository):\n    def count(self): ..."
    )

    assert lint.main() == 0


def test_a_repository_refuses_columns_of_another_table() -> None:
    from unittest.mock import Mock

    from artel.auth.principal import Principal
    from artel.db.tables import agents
    from artel.projects.repository import ProjectRepository

    with pytest.raises(ValueError, match="without an owner"):
        ProjectRepository(Mock(), Principal(1))._select(agents.c.name)
