"""Rows of projects."""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, Select, bindparam

from artel.contract.http import NewProject, PageRequest, Project, ProjectChanges
from artel.contract.project_settings import EffectiveSettings
from artel.db.rows import Later
from artel.db.tables import projects, users
from artel.db.tenant import TenantRepository, prepared
from artel.errors import ProjectNotFound


class ProjectRepository(TenantRepository):
    """Projects of one user."""

    table = projects

    @prepared
    def _settings(cls) -> Select[Any]:  # noqa: N805
        columns = projects.c.settings, cls._of_owner(users.c.monthly_micros).label("user_micros")
        return cls._prepare_select(*columns).where(projects.c.id == bindparam("project"))

    @prepared
    def _to_lock(cls) -> Select[Any]:  # noqa: N805
        locked = cls._prepare_select(projects.c.id).where(projects.c.id == bindparam("project"))
        return locked.with_for_update(key_share=True)

    @prepared
    def _by_id(cls) -> Select[Any]:  # noqa: N805
        return cls._prepare_select().where(projects.c.id == bindparam("project"))

    def add(self, new: NewProject, *, is_default: bool) -> Project:
        """Add a project."""
        now = datetime.now(UTC)
        [row] = self._insert([new.model_dump() | {"is_default": is_default, "created_at": now, "updated_at": now}])
        return _project(row)

    def count(self) -> int:
        """Return the number of the user's projects."""
        return self._count()

    def page(self, paging: PageRequest) -> list[Project]:
        """Return a page of projects, oldest first."""
        return [_project(row) for row in self._find(order_by=[projects.c.id], limit=paging.limit, offset=paging.offset)]

    def lock(self, project_id: int) -> None:
        """Lock the project until the commit against changes, deletion and new agents, or raise ProjectNotFound."""
        self.lock_later(project_id)()

    def lock_later(self, project_id: int) -> Later[None]:
        """Lock the project, as `lock` does; reading the result raises ProjectNotFound."""
        rows = self._run(self._to_lock, project=project_id)

        def check() -> None:
            if not rows.all():
                raise ProjectNotFound("Project not found")

        return check

    def get(self, project_id: int) -> Project:
        """Return the project or raise ProjectNotFound."""
        row = self._run(self._by_id, project=project_id).one_or_none()
        if row is None:
            raise ProjectNotFound("Project not found")
        return _project(row)

    def names(self, ids: Collection[int]) -> dict[int, str]:
        """Return the names of some projects, keyed by id."""
        rows = self._find(projects.c.id.in_(ids), columns=[projects.c.id, projects.c.name]) if ids else []
        return {row.id: row.name for row in rows}

    def settings(self, project_id: int) -> Later[tuple[EffectiveSettings, int | None]]:
        """Read the project's settings and its owner's monthly limit in micros (None: the server's default)."""
        rows = self._run(self._settings, project=project_id)

        def found() -> tuple[EffectiveSettings, int | None]:
            row = rows.one_or_none()
            return EffectiveSettings.of(row.settings if row else {}), row.user_micros if row else None

        return found

    def default(self) -> Project | None:
        """Return the user's default project, if it exists."""
        row = self._find_one(projects.c.is_default)
        return _project(row) if row else None

    def change(self, project_id: int, changes: ProjectChanges) -> None:
        """Update the fields that are set in `changes`."""
        values = changes.model_dump(exclude_unset=True) | {"updated_at": datetime.now(UTC)}
        if not self._change(values, projects.c.id == project_id):
            raise ProjectNotFound("Project not found")

    def remove(self, project_id: int) -> None:
        """Remove the project and everything that belongs to it."""
        if not self._remove(projects.c.id == project_id):
            raise ProjectNotFound("Project not found")


def _project(row: Row[Any]) -> Project:
    return Project.model_validate(row, from_attributes=True)
