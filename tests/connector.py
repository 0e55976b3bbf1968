"""A scripted connector, which can also violate the protocol."""

import json
import queue
import socket as sockets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from artel.contract.connector import MAX_FRAME_BYTES, PROTOCOL
from tests.people import Person

SECONDS = 60.0


class ScriptedConnector:
    """The other end of a project's connector socket."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.calls: queue.Queue[dict[str, Any]] = queue.Queue()

    def hear(self) -> dict[str, Any]:
        """Return the next message of the server."""
        message: dict[str, Any] = json.loads(self.socket.recv(SECONDS))
        return message

    def say(self, message: Any) -> None:
        """Send any message."""
        self.socket.send(message if isinstance(message, str | bytes) else json.dumps(message))

    def answer(self, call: dict[str, Any], **result: Any) -> None:
        """Send the answer to a call."""
        self.say({"jsonrpc": "2.0", "id": call["id"], "result": {"success": True, **result}})

    def close_code(self) -> tuple[int, str]:
        """Wait until the server closes the connection; return the code and the reason."""
        frame = None
        try:
            while True:
                self.socket.recv(SECONDS)
        except ConnectionClosed as closed:
            frame = closed.rcvd
        assert frame is not None
        return frame.code, frame.reason

    def serve(self, answers: Callable[[str, dict[str, Any]], dict[str, Any]]) -> None:
        """Send answers to all calls until the connection ends."""
        try:
            while True:
                call = json.loads(self.socket.recv())
                if "id" not in call:
                    continue
                self.answer(call, **answers(call["method"], call["params"]))
        except ConnectionClosed:
            return


def hello(person: Person, number: int, /, **other: Any) -> dict[str, Any]:
    """Return a hello."""
    params = {
        "protocol": PROTOCOL,
        "connector_id": "connector-of-a-test",
        "user_id": person.user_id,
        "project_id": number,
        "workspace_name": "work",
        "read_only": False,
        "features": [],
    }
    return {"jsonrpc": "2.0", "id": "h", "method": "hello", "params": params | other}


@contextmanager
def socket(
    person: Person,
    project_id: int,
    *,
    token: str | None = None,
    protocol: str = PROTOCOL,
    connection: sockets.socket | None = None,
) -> Iterator[Any]:
    """Open a project's socket without saying anything; over an open connection, if there is one."""
    url = str(person.http.base_url).replace("http://", "ws://").rstrip("/")
    with connect(
        f"{url}/my/projects/{project_id}/connector",
        additional_headers={"Authorization": f"Bearer {token or person.token}"},
        subprotocols=[protocol],  # type: ignore[list-item]
        max_size=MAX_FRAME_BYTES,
        compression=None,
        sock=connection,
    ) as opened:
        yield ScriptedConnector(opened)


@contextmanager
def connected(
    person: Person, project_id: int, connection: sockets.socket | None = None, **other: Any
) -> Iterator[ScriptedConnector]:
    """Be a project's connector."""
    with socket(person, project_id, connection=connection) as connector:
        connector.say(hello(person, project_id, **other))
        welcome = connector.hear()
        assert "result" in welcome, welcome
        yield connector
