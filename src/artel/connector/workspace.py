"""The user's folder as the server sees it: one call in, one result out, never an exception."""

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

CHANGING = frozenset({"workspace/write", "workspace/edit", "workspace/delete", "workspace/run", "workspace/undo"})


class Workspace:
    """Carries out calls for one user; from as many threads as there are calls."""

    def __init__(self, user_id: int, reader: Reader, searcher: Searcher, writer: Writer, commands: Commands) -> None:
        self._user_id = user_id
        self._epoch = 0
        self._lock = threading.Lock()
        self._acts: dict[str, Callable[[Any, Deadline], Result]] = {
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
        """Return what came of a call."""
        try:
            deadline.require()
            self._check(call)
            return self._acts[method](call, deadline)
        except CallRefused as refused:
            more = {name: value for name, value in refused.more.items() if value is not None}
            return Result(success=False, error=refused.message, code=refused.code, **more)
        except PathError as error:
            return Result.model_validate({"success": False, "error": error.message, "code": error.code})
        except OSError as error:  # our own files: the journal, what is kept for undo
            return Result(success=False, error=f"The connector has trouble: {error.strerror}", code="failed")

    def _check(self, call: Call) -> None:
        """Raise unless the call is for the user whose folder it is, from whoever holds the worker space now."""
        if call.user_id != self._user_id:
            raise CallRefused("wrong_user", f"User {call.user_id} is not authorized to access this path")
        with self._lock:
            if call.epoch < self._epoch:
                raise CallRefused("old_epoch", "The worker space has moved to another host since")
            self._epoch = call.epoch
