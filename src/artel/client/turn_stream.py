"""The events of a turn, read over as many connections as it takes."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from artel.client.api_client import ApiClient, ResponseLost, ServerRefused, ServerUnreachable
from artel.client.sse import ServerEvent, read_events
from artel.client.turn import ENDINGS
from artel.errors import Kind
from artel.ids import uuid7
from artel.retry import Backoff

OUTCOMES = frozenset({"agent_failed", "timeout"})  # error codes that mean the turn has ended
CONNECTION_LOST = "connection_lost"  # made by the client, not sent by the server
BACKOFF = Backoff(0.1, 3.0)
RECONNECT_SECONDS = 30.0  # give up when the server was not reachable for so long


class TurnStream:
    """Sends a message exactly once and reads all events of its turn, reconnecting when the connection breaks."""

    def __init__(
        self,
        api: ApiClient,
        session_id: str,
        content: str,
        agent: str | None = None,
        *,
        retry_of: str | None = None,
        attachments: Sequence[str] = (),
        continues: str | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Prepare the request; the server repeats the message of `retry_of`, or goes on with the answer `continues`."""
        self._api = api
        self._path = f"/my/chat/{session_id}"
        key = uuid7()
        self._request: dict[str, Any] = {"method": "POST", "path": f"{self._path}/message"}
        if retry_of is not None or continues is not None:
            step = f"{continues}/continue" if continues else f"{retry_of}/retry"
            self._request |= {"path": f"{self._path}/turns/{step}", "headers": {"Idempotency-Key": key}}
        else:
            target: dict[str, Any] = {"target_agent": agent} if agent else {}
            files = {"attachments": list(attachments)} if attachments else {}
            self._request["json"] = {"content": content, "idempotency_key": key} | target | files
        self._sleep = sleep
        self._sent = False
        self._last = 0
        self._ended = False
        self.turn_id: str | None = None

    def events(self) -> Iterator[ServerEvent]:
        """Yield the events until the turn ends. Calling it again continues after the last event read."""
        waited, failures = 0.0, 0
        while not self._ended:
            try:
                for event in self._connection():
                    waited, failures = 0.0, 0
                    yield event
                error: ServerUnreachable | ServerRefused = ResponseLost(
                    f"{self._api.server} closed the stream before the turn ended."
                )
            except (ServerUnreachable, ServerRefused) as failure:
                # Reconnect if the server may have the message and is unavailable now.
                self._sent = self._sent or isinstance(failure, ResponseLost)
                if not self._sent or failure.kind is not Kind.UNAVAILABLE or failure.code in OUTCOMES:
                    raise
                error = failure
            if self._ended:
                return
            yield ServerEvent(CONNECTION_LOST, {})
            if waited >= RECONNECT_SECONDS:
                raise error
            pause = BACKOFF.seconds(failures)
            self._sleep(pause)
            waited, failures = waited + pause, failures + 1

    def cancel(self) -> None:
        """Cancel the turn on the server, unless it has ended."""
        if self.turn_id is None:  # not known yet: the same idempotency key returns it
            headers = self._request.get("headers", {}) | {"Prefer": "respond-async"}
            accepted = self._api.call(**self._request | {"headers": headers})
            self.turn_id = accepted["turn_id"]
        try:
            self._api.call("POST", f"{self._path}/turns/{self.turn_id}/cancel")
        except ServerRefused as refused:
            if refused.kind is not Kind.CONFLICT:
                raise

    def _connection(self) -> Iterator[ServerEvent]:
        """Yield the events of one connection. A JSON response is a turn that is accepted, or already completed."""
        call = self._request
        if self.turn_id is not None:
            headers = {"Last-Event-ID": str(self._last)}
            call = {"method": "GET", "path": f"{self._path}/events", "headers": headers}
        with self._api.stream(**call) as response:
            self._sent = True
            if response.headers.get("content-type", "").startswith("text/event-stream"):
                yield from self._read(response)
                return
            response.read()
            answer = response.json()
            self.turn_id = answer["turn_id"]
            if "content" not in answer:
                yield from self._connection()
                return
            self._ended = True
            turn = {"turn_id": self.turn_id}
            yield ServerEvent("message_completed", turn | {"role": "assistant"} | answer)
            yield ServerEvent("turn_completed", turn | {"status": "completed", "usage": answer.get("usage")})

    def _read(self, response: Any) -> Iterator[ServerEvent]:
        """Yield the new events of this turn until it ends."""
        for event in read_events(response.iter_bytes()):
            if event.number is not None:
                if event.number <= self._last:
                    continue
                self._last = event.number
            turn_id = event.data.get("turn_id")
            self.turn_id = self.turn_id or turn_id
            if turn_id not in (None, self.turn_id):
                continue
            self._ended = event.type in ENDINGS
            yield event
            if self._ended:
                return


class FollowStream(TurnStream):
    """Reads the events of a workflow's turn after an event number; it never cancels the workflow."""

    def __init__(self, api: ApiClient, workflow: Mapping[str, Any], after: int) -> None:
        super().__init__(api, workflow["session_id"], "")
        self.turn_id = str(workflow["turn_id"])
        self._last = after
        self._sent = True

    def cancel(self) -> None:
        """Stop following; the workflow continues."""
        raise KeyboardInterrupt


class RetryStream(TurnStream):
    """Retries a workflow exactly once and reads the events of the new turn."""

    def __init__(
        self, api: ApiClient, workflow: Mapping[str, Any], *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        super().__init__(api, workflow["session_id"], "", sleep=sleep)
        self._workflow_path = f"/my/workflows/{workflow['id']}"
        self._old_turn_id = workflow["turn_id"]
        self._has_tried = False

    def cancel(self) -> None:
        """Cancel the workflow, if its retry has started."""
        if self.turn_id is None and self._current_turn_id() == self._old_turn_id:
            raise KeyboardInterrupt  # there is nothing to cancel
        self._api.call("POST", f"{self._workflow_path}/cancel")

    def _connection(self) -> Iterator[ServerEvent]:
        """Yield the events of one connection; the first one subscribes before it starts the retry, to miss no event."""
        headers = {} if self.turn_id is None else {"Last-Event-ID": str(self._last)}
        with self._api.stream("GET", f"{self._path}/events", headers=headers) as response:
            if self.turn_id is None:
                # If the response to an earlier attempt was lost, the workflow has a new turn already.
                turn_id = self._current_turn_id() if self._has_tried else self._old_turn_id
                if turn_id == self._old_turn_id:
                    self._has_tried = True
                    turn_id = str(self._api.call("POST", f"{self._workflow_path}/retry")["turn_id"])
                self.turn_id, self._sent = turn_id, True
            yield from self._read(response)

    def _current_turn_id(self) -> str:
        return str(self._api.call("GET", self._workflow_path)["turn_id"])
