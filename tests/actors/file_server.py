"""A scripted connector that serves files from a thread."""

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from artel.tools.files import SHOWN_LINES
from tests.connector import connected
from tests.people import Person

Answers = Callable[[str, dict[str, Any]], dict[str, Any]]


@contextmanager
def serving(person: Person, project: int, answers: Answers, **hello: Any) -> Iterator[list[dict[str, Any]]]:
    """Run a connector; yield the list of its calls, without those that show a file before an approval."""
    calls: list[dict[str, Any]] = []

    def noted(method: str, params: dict[str, Any]) -> dict[str, Any]:
        if not is_for_approval(params):
            calls.append({"method": method, **params})
        return answers(method, params)

    with connected(person, project, **hello) as connector:
        thread = threading.Thread(target=connector.serve, args=(noted,))
        thread.start()
        try:
            yield calls
        finally:
            connector.socket.close()
            thread.join(10)


def is_for_approval(params: dict[str, Any]) -> bool:
    """Return whether a call shows the user what an approval is about: its hash, or the first lines of a file."""
    return bool(params.get("with_sha256")) or params.get("lines") == SHOWN_LINES


def file_content(_method: str, params: dict[str, Any]) -> dict[str, Any]:
    content = f"content of {params.get('path')}"
    return {"content": content, "size": len(content), "sha256": hashlib.sha256(content.encode()).hexdigest()}
