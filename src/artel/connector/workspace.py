"""Dispatches a call to the reader, searcher, writer or commands, and turns exceptions into results."""

import threading
from collections.abc import Callable
from typing import Any

from artel.connector.commands import Commands
from artel.connector.deadline import Deadline
from artel.connector.errors import CallRefused
from artel.connector.file_reader import Reader
from artel.connector.file_search import Searcher
from artel.connector.file_writer import Writer
from artel.contract.connector import Call, Result
from artel.paths.errors import PathError

MUTATING = frozenset({"workspace/write", "workspace/edit", "workspace/delete", "workspace/run", "workspace/undo"})


class Workspace:
    """Carries out calls for one user; thread-safe."""

    def __init__(self, user_id: int, reader: Reader, searcher: Searcher, writer: Writer, commands: Commands) -> None:
        self._user_id = user_id
        self._epoch = 0
        self._lock = threading.Lock()
        self._methods: dict[str, Callable[[Any, Deadline], Result]] = {
            "workspace/read": reader.read,
            "workspace/stat": reader.stat,
            "workspace/list": reader.list,
            "workspace/search": searcher.search,
            "workspace/write": writer.write,
            "workspace/edit": writer.edit,
            "workspace/delete": writer.delete,
            "workspace/undo": writer.undo,
            "workspace/run": commands.run,
        }

    def carry_out(self, method: str, call: Call, deadline: Deadline) -> Result:
        """Carry out a call and return its result; never raises."""
        try:
            deadline.require()
            self._check(call)
            return self._methods[method](call, deadline)
        except CallRefused as refused:
            more = {name: value for name, value in refused.more.items() if value is not None}
            return Result(success=False, error=refused.message, code=refused.code, **more)
        except PathError as error:
            return Result.model_validate({"success": False, "error": error.message, "code": error.code})
        except OSError as error:  # of the connector's own files: journal, undo store
            return Result(success=False, error=f"The connector failed: {error.strerror}", code="failed")

    def _check(self, call: Call) -> None:
        """Raise CallRefused for a call of another user, or with an outdated fencing token (`epoch`)."""
        if call.user_id != self._user_id:
            raise CallRefused("wrong_user", f"User {call.user_id} is not authorized to access this path")
        with self._lock:
            if call.epoch < self._epoch:
                raise CallRefused("old_epoch", "The worker space has moved to another host")
            self._epoch = call.epoch
