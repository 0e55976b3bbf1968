"""Rows of agents."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, bindparam, or_
from sqlalchemy.exc import IntegrityError

from artel.contract.http import Agent, AgentChanges, NewAgent, PageRequest
from artel.db.rows import Later
from artel.db.tables import agents, spaces
from artel.db.tenant import TenantRepository, prepared
from artel.errors import AgentNameTaken, AgentNotFound

MAX_ID_DIGITS = 16


class AgentRepository(TenantRepository):
    """Agents of one user; `root`, which has no parent, is not among them."""

    table = agents

    @prepared
    def _by_id(cls) -> Select[Any]:  # noqa: N805
        is_agent = agents.c.id == bindparam("agent")
        return cls._prepare_select(agents.c.id).where(*_listed(cls._project_of_session()), is_agent)

    @prepared
    def _by_name(cls) -> Select[Any]:  # noqa: N805
        either = agents.c.name == bindparam("name_1"), agents.c.name == bindparam("name_2")
        return cls._prepare_select(agents.c.id, agents.c.name).where(*_listed(cls._project_of_session()), or_(*either))

    @prepared
    def _memory_version(cls) -> Select[Any]:  # noqa: N805
        is_agent = agents.c.project_id == bindparam("project"), agents.c.id == bindparam("agent")
        return cls._prepare_select(agents.c.memory_version).where(*is_agent)

    @prepared
    def _raise_memory_version(cls) -> Any:  # noqa: N805
        is_agent = agents.c.project_id == bindparam("project"), agents.c.id == bindparam("agent")
        raised = cls._prepare_update(memory_version=agents.c.memory_version + 1)
        return raised.where(*is_agent).returning(agents.c.memory_version)

    def add(self, project_id: int, parent_agent_id: int | None, new: Sequence[NewAgent]) -> list[Agent]:
        """Add agents, all or none."""
        now = datetime.now(UTC)
        common = {"project_id": project_id, "parent_agent_id": parent_agent_id, "created_at": now, "updated_at": now}
        try:
            return [_agent(row) for row in self._insert([agent.model_dump() | common for agent in new])]
        except IntegrityError:
            raise _name_taken(", ".join(agent.name for agent in new)) from None

    def root_id(self, project_id: int) -> int:
        """Return the id of the project's orchestrator."""
        [root] = self._find(*_in(project_id), agents.c.parent_agent_id.is_(None), columns=[agents.c.id])
        return int(root.id)

    def count(self, project_id: int) -> int:
        """Return the number of agents in the project, without `root`."""
        return self._count(*_listed(project_id))

    def page(self, project_id: int, paging: PageRequest) -> list[Agent]:
        """Return a page of the project's agents, oldest first."""
        rows = self._find(*_listed(project_id), order_by=[agents.c.id], limit=paging.limit, offset=paging.offset)
        return [_agent(row) for row in rows]

    def get(self, project_id: int, agent_id: int) -> Agent:
        """Return the agent or raise AgentNotFound."""
        row = self._find_one(*_listed(project_id), agents.c.id == agent_id)
        if row is None:
            raise AgentNotFound("Agent not found")
        return _agent(row)

    def named(self, session_id: str, target: str) -> Later[int]:
        """Find the agent of a session's project by its id, its name, or its name without the prefix `agent_`.

        The result returns its id, or raises AgentNotFound. An exact name wins.
        """
        names = [target, f"agent_{target}"]
        if target.isascii() and target.isdecimal() and len(target) <= MAX_ID_DIGITS:
            rows = self._run(self._by_id, session=session_id, agent=int(target))
        else:
            rows = self._run(self._by_name, session=session_id, name_1=names[0], name_2=names[1])

        def found() -> int:
            agents_found = rows.all()
            if not agents_found:
                raise AgentNotFound("Agent not found")
            if len(agents_found) == 1:
                return int(agents_found[0].id)
            return int(min(agents_found, key=lambda row: names.index(row.name)).id)

        return found

    def memory_version(self, project_id: int, agent_id: int) -> Later[int | None]:
        """Read the version of the agent's memory; None if the agent does not exist."""
        return self._run(self._memory_version, project=project_id, agent=agent_id).scalar_one_or_none

    def raise_memory_version(self, project_id: int, agent_id: int) -> int | None:
        """Raise the version of the agent's memory, which changes, and return it; None if the agent does not exist.

        The agent is locked until the commit, against deletion and against other changes of its memory.
        """
        version: int | None = self._run(
            self._raise_memory_version, project=project_id, agent=agent_id
        ).scalar_one_or_none()
        return version

    def names(self, project_id: int | None = None) -> list[tuple[int, str]]:
        """Return (project id, name) of the agents of a project or of all projects, including `root`."""
        rows = self._find(*_in(project_id), columns=[agents.c.project_id, agents.c.name], order_by=[agents.c.id])
        return [(row.project_id, row.name) for row in rows]

    def by_id(self, project_id: int) -> dict[int, str]:
        """Return the names of the project's agents, keyed by id."""
        return {row.id: row.name for row in self._find(*_in(project_id), columns=[agents.c.id, agents.c.name])}

    def names_of(self, ids: Collection[int]) -> dict[int, str]:
        """Return the names of some agents of any project, keyed by id."""
        rows = self._find(agents.c.id.in_(ids), columns=[agents.c.id, agents.c.name]) if ids else []
        return {row.id: row.name for row in rows}

    def ids(self, project_id: int | None = None) -> list[int]:
        """Return the ids of the agents of a project or of all projects, including `root`."""
        return [row.id for row in self._find(*_in(project_id), columns=[agents.c.id])]

    def stored_bytes(self, ids: Collection[int] | None = None) -> int:
        """Return the size of the texts of some agents, or of all, in bytes."""
        chosen = () if ids is None else (agents.c.id.in_(ids),)
        return self._bytes_of(agents.c.system_prompt, *chosen) + self._bytes_of(agents.c.role, *chosen)

    def parents(self, project_id: int) -> dict[int, int | None]:
        """Return the parent id of each agent of the project; `root` has None."""
        columns = agents.c.id, agents.c.parent_agent_id
        return {row.id: row.parent_agent_id for row in self._find(*_in(project_id), columns=columns)}

    def children(self, project_id: int, agent_id: int) -> list[Agent]:
        """Return the agents that an agent created, oldest first."""
        rows = self._find(*_in(project_id), agents.c.parent_agent_id == agent_id, order_by=[agents.c.id])
        return [_agent(row) for row in rows]

    def family(self, project_id: int, agent_id: int) -> dict[int, str]:
        """Return the names of the agent and all its descendants, keyed by id."""
        found = {agent_id: self.get(project_id, agent_id).name}
        parents = [agent_id]
        while parents:
            of_parents = agents.c.parent_agent_id.in_(parents)
            children = self._find(*_in(project_id), of_parents, columns=[agents.c.id, agents.c.name])
            parents = [child.id for child in children]
            found |= {child.id: child.name for child in children}
        return found

    def change(self, project_id: int, agent_id: int, changes: AgentChanges) -> None:
        """Update the fields that are set in `changes`."""
        values = changes.model_dump(exclude_unset=True) | {"updated_at": datetime.now(UTC)}
        merged = {"loop", "fallback"} & values.keys()  # of these, omitted fields do not change
        if merged:
            stored = self.get(project_id, agent_id).model_dump(include=merged)
            values |= {name: stored[name] | values[name] for name in merged}
        try:
            is_changed = self._change(values, *_listed(project_id), agents.c.id == agent_id)
        except IntegrityError:
            raise _name_taken(changes.name) from None
        if not is_changed:
            raise AgentNotFound("Agent not found")

    def remove(self, project_id: int, agent_id: int) -> None:
        """Remove the agent and its descendants."""
        if not self._remove(*_listed(project_id), agents.c.id == agent_id):
            raise AgentNotFound("Agent not found")


class AgentVersionRepository(TenantRepository):
    """Versions of the agents of one user's projects: hosts of other processes reload agents when theirs is older.

    A project whose worker space never ran has none.
    """

    table = spaces

    def raise_version(self, project_id: int) -> None:
        """Make the host of the space reload its agents before the next turn.

        Lock order: call this before locking an agent's row, because hosts lock the space first.
        """
        self._change({"config_version": spaces.c.config_version + 1}, spaces.c.project_id == project_id)


def stored_bytes(agent: Agent | NewAgent) -> int:
    """Return the size of an agent's texts in bytes, as the storage quota counts them."""
    return len(agent.system_prompt.encode()) + len(agent.role.encode())


def _in(project_id: int | None) -> list[ColumnElement[bool]]:
    return [] if project_id is None else [agents.c.project_id == project_id]


def _listed(project_id: int | ColumnElement[int]) -> tuple[ColumnElement[bool], ...]:
    return agents.c.project_id == project_id, agents.c.parent_agent_id.is_not(None)


def _name_taken(names: str) -> AgentNameTaken:
    return AgentNameTaken(f"This project already has an agent named {names}. Choose another name.")


def _agent(row: Row[Any]) -> Agent:
    return Agent.model_validate(row._mapping)  # noqa: SLF001 - the public name of a row's mapping
