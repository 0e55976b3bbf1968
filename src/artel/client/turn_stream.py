"""One message to a session, and everything that happens because of it, over as many connections as it takes."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from artel.client.api_client import ApiClient, ConnectionLost, ServerRefused, ServerUnreachable
from artel.client.sse import ServerEvent, read_events
from artel.client.turn import ENDINGS
from artel.errors import Kind
from artel.ids import uuid7

OUTCOMES = frozenset({"agent_failed", "timeout"})  # refusals that say how the turn ended
CONNECTION_LOST = "connection_lost"  # our own: the server has no say in it
PATIENCE_SECONDS = 30.0  # without a word from a server that had the message


class TurnStream:
    """Sends the message once, however often the line breaks, and reads the events of its turn without a hole."""

    def __init__(
        self,
        api: ApiClient,
        session_id: str,
        content: str,
        agent: str | None = None,
        *,
        retry_of: str | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Take what to send; with `retry_of` the server sends the message of that turn again."""
        self._api = api
        self._place = f"/my/chat/{session_id}"
        key = uuid7()
        self._request: dict[str, Any] = {"method": "POST", "path": f"{self._place}/message"}
        if retry_of is not None:
            self._request |= {"path": f"{self._place}/turns/{retry_of}/retry", "headers": {"Idempotency-Key": key}}
        else:
            target = {"target_agent": agent} if agent else {}
            self._request["json"] = {"content": content, "idempotency_key": key} | target
        self._sleep = sleep
        self._sent = False
        self._last = 0
        self._ended = False
        self.turn_id: str | None = None

    def events(self) -> Iterator[ServerEvent]:
        """Return what happens, to the end of the turn. When left early it can be called again, and goes on."""
        waited, pause = 0.0, 0.1
        while not self._ended:
            try:
                for event in self._connection():
                    waited, pause = 0.0, 0.1
                    yield event
                trouble: ServerUnreachable | ServerRefused = ConnectionLost(
                    f"{self._api.server} ended the stream too early."
                )
            except (ServerUnreachable, ServerRefused) as failure:
                if not self._passes(failure):
                    raise
                trouble = failure
            if self._ended:
                return
            yield ServerEvent(CONNECTION_LOST, {})
            if waited >= PATIENCE_SECONDS:
                raise trouble
            self._sleep(pause)
            waited, pause = waited + pause, min(pause * 2, 3.0)

    def cancel(self) -> None:
        """Ask the server to stop working on the message; an answer that is finished stays."""
        if self.turn_id is None:  # interrupted before the server said which turn it is
            headers = self._request.get("headers", {}) | {"Prefer": "respond-async"}
            accepted = self._api.call(**self._request | {"headers": headers})
            self.turn_id = accepted["turn_id"]
        try:
            self._api.call("POST", f"{self._place}/turns/{self.turn_id}/cancel")
        except ServerRefused as refused:
            if refused.kind is not Kind.CONFLICT:
                raise

    def _passes(self, failure: ServerUnreachable | ServerRefused) -> bool:
        """Return whether the trouble may pass: the server has, or may have, the message and does not answer now."""
        if isinstance(failure, ConnectionLost):
            self._sent = True
        return self._sent and failure.kind is Kind.UNAVAILABLE and failure.code not in OUTCOMES

    def _connection(self) -> Iterator[ServerEvent]:
        """Return the events that one connection brings."""
        if self.turn_id is None:
            call = self._request
        else:
            call = {"method": "GET", "path": f"{self._place}/events", "headers": {"Last-Event-ID": str(self._last)}}
        with self._api.stream(**call) as response:
            self._sent = True
            if not response.headers.get("content-type", "").startswith("text/event-stream"):
                response.read()
                yield from self._answered(response.json())
                return
            yield from self._read(response)

    def _read(self, response: Any) -> Iterator[ServerEvent]:
        """Return what is new in a stream, to the end of the turn."""
        for event in read_events(response.iter_bytes()):
            if self._is_new(event):
                yield event
            if self._ended:
                return

    def _answered(self, answer: dict[str, Any]) -> Iterator[ServerEvent]:
        """Take an answer that is no stream: the turn was accepted, and its events follow, or it is over already."""
        self.turn_id = answer["turn_id"]
        if "content" not in answer:
            yield from self._connection()
            return
        self._ended = True
        turn = {"turn_id": self.turn_id}
        yield ServerEvent("message_completed", turn | {"role": "assistant"} | answer)
        yield ServerEvent("turn_completed", turn | {"status": "completed", "usage": answer.get("usage")})

    def _is_new(self, event: ServerEvent) -> bool:
        """Note where the stream stands; say whether the event is one of this turn that was not read before."""
        turn_id = event.data.get("turn_id")
        if event.number is not None:
            if event.number <= self._last:
                return False
            self._last = event.number
        if self.turn_id is None:
            self.turn_id = turn_id
        if turn_id not in (None, self.turn_id):
            return False
        self._ended = event.type in ENDINGS
        return True


class FollowStream(TurnStream):
    """Reads the events of a workflow's turn after a number; whoever stops reading stops nothing else."""

    def __init__(
        self, api: ApiClient, workflow: Mapping[str, Any], after: int, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        super().__init__(api, workflow["session_id"], "", sleep=sleep)
        self.turn_id = str(workflow["turn_id"])
        self._last = after
        self._sent = True

    def cancel(self) -> None:
        """Let it go on without us."""
        raise KeyboardInterrupt


class RetryStream(TurnStream):
    """Lets a workflow be tried again, once, and reads the events of the turn that this begins."""

    def __init__(
        self, api: ApiClient, workflow: Mapping[str, Any], *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        super().__init__(api, workflow["session_id"], "", sleep=sleep)
        self._workflow = f"/my/workflows/{workflow['id']}"
        self._before = workflow["turn_id"]
        self._tried = False

    def cancel(self) -> None:
        """Ask the server to stop; what is done stays."""
        if self.turn_id is None and self._turn_now() == self._before:
            raise KeyboardInterrupt  # nothing was begun that could be stopped
        self._api.call("POST", f"{self._workflow}/cancel")

    def _connection(self) -> Iterator[ServerEvent]:
        """Return the events that one connection brings; the first listens before anything can happen."""
        headers = {} if self.turn_id is None else {"Last-Event-ID": str(self._last)}
        with self._api.stream("GET", f"{self._place}/events", headers=headers) as response:
            if self.turn_id is None:
                self.turn_id = self._begin()
                self._sent = True
            yield from self._read(response)

    def _begin(self) -> str:
        """Return the turn that tries again: a new one, or the one of an attempt whose answer was lost."""
        if self._tried and (now := self._turn_now()) != self._before:
            return now
        self._tried = True
        return str(self._api.call("POST", f"{self._workflow}/retry")["turn_id"])

    def _turn_now(self) -> str:
        return str(self._api.call("GET", self._workflow)["turn_id"])
