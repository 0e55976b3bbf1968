"""Rows of commands to nodes: the outbox of a host, scoped to the user whose turn sent them."""

from collections.abc import Collection
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel
from sqlalchemy import Row

from artel.contract.envelope import Command, Envelope
from artel.db.node_tables import node_commands
from artel.db.tenant import TenantRepository
from artel.remote_calls import database_time

CommandStatus = Literal["sending", "sent", "answered", "lost", "cancelled"]
Problem = Literal["stuck", "lost"]

OPEN: tuple[CommandStatus, ...] = ("sending", "sent")
GIVEN_UP: tuple[CommandStatus, ...] = ("lost", "cancelled")


@dataclass(frozen=True, slots=True)
class NewCommand:
    """A command to store before it is sent; `id` is also the id of the message.

    `task_id` is unique among the tasks of all users. `step` counts the commands of a task (0 is `answer`, the others
    are `continue`), `attempt` the nodes that were given the same step.
    """

    id: str
    project_id: int
    turn_id: str
    task_id: str
    step: int
    attempt: int
    node_name: str
    node_uid: str
    node_epoch: int
    command: Command  # so that another host sends exactly the same


@dataclass(frozen=True, slots=True)
class NodeCommand(NewCommand):
    """A stored command. `problem` is what the monitor found; it is None again when the node is back at work."""

    status: CommandStatus
    problem: Problem | None
    answer: Envelope | None
    progress_at: datetime | None
    phase: str | None
    elapsed: float | None
    created_at: datetime
    updated_at: datetime


class NodeCommandRepository(TenantRepository):
    """Commands to nodes of one user."""

    table = node_commands

    def add(self, command: NewCommand, status: CommandStatus = "sending") -> None:
        """Store a new command."""
        now = database_time(self.connection)
        values = {name: getattr(command, name) for name in _NEW_COLUMNS} | {"command": _json(command.command)}
        self._insert_one({**values, "status": status, "created_at": now, "updated_at": now})

    def get(self, command_id: str) -> NodeCommand | None:
        row = self._find_one(node_commands.c.id == command_id)
        return None if row is None else _command_of(row)

    def of_task(self, task_id: str) -> list[NodeCommand]:
        """Return the commands of a task, oldest first."""
        return self._ordered(node_commands.c.task_id == task_id)

    def of_turn(self, turn_id: str) -> list[NodeCommand]:
        """Return the commands of a turn, oldest first."""
        return self._ordered(node_commands.c.turn_id == turn_id)

    def answered(self, command_id: str, answer: Envelope) -> bool:
        """Store the answer of an open command; return whether it was open."""
        return self.move(command_id, OPEN, "answered", answer=_json(answer))

    def move(self, command_id: str, before: Collection[CommandStatus], status: CommandStatus, **values: object) -> bool:
        """Change the status, and maybe other columns, if the status is in `before`; return whether it was."""
        changed = {**values, "status": status, "updated_at": database_time(self.connection)}
        return self._change(changed, node_commands.c.id == command_id, node_commands.c.status.in_(before))

    def _ordered(self, condition: Any) -> list[NodeCommand]:
        order = node_commands.c.created_at, node_commands.c.step, node_commands.c.attempt
        return [_command_of(row) for row in self._find(condition, order_by=order)]


_NEW_COLUMNS = tuple(field.name for field in fields(NewCommand))
_COLUMNS = tuple(field.name for field in fields(NodeCommand))


def _command_of(row: Row[Any]) -> NodeCommand:
    values = {name: getattr(row, name) for name in _COLUMNS}
    values["command"] = Command.model_validate(row.command)
    values["answer"] = None if row.answer is None else Envelope.model_validate(row.answer)
    return NodeCommand(**values)


def _json(document: BaseModel) -> dict[str, Any]:
    return document.model_dump(mode="json", exclude_none=True)
