"""Record streams of a real server with the demo brain, for the unit tests of the web UI's state.

Starts a server and a connector on temporary folders, has a few conversations, and writes the events of each, with what
the server shows at some moments, to web/src/state/session/recorded.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[1]
RECORDED = ROOT / "web" / "src" / "state" / "session" / "recorded"
ARTEL = str(Path(sys.executable).with_name("artel"))
PASSWORD = "correct horse battery staple"  # noqa: S105 - of an account that lives as long as this script
WAIT_SECONDS = 60.0
QUIET_SECONDS = 1.0  # nothing came for so long: the stream has settled
TURN_ENDS = ("turn_completed", "turn_failed", "turn_cancelled")


class Recording:
    """A conversation whose events are recorded while it goes on."""

    def __init__(self, http: httpx.Client, project_id: int) -> None:
        self.http = http
        self.session_id = http.post("/my/chat/sessions", json={"project_id": project_id}).json()["session_id"]
        self.events: list[dict[str, Any]] = []
        self.snapshots: list[dict[str, Any]] = []
        self._heard_at = time.monotonic()
        self._path = f"/my/chat/{self.session_id}"
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        fields: dict[str, str] = {}
        with self.http.stream("GET", f"{self._path}/events", params={"after": 0}, timeout=None) as response:
            for line in response.iter_lines():
                if line:
                    name, _, value = line.partition(":")
                    fields[name] = value.removeprefix(" ")
                    continue
                if "data" in fields:
                    number = {"number": int(fields["id"])} if "id" in fields else {}
                    self.events.append(json.loads(fields["data"]) | {"type": fields["event"]} | number)
                    self._heard_at = time.monotonic()
                fields = {}

    def say(self, content: str, target: str | None = None) -> None:
        body = {"content": content} | ({} if target is None else {"target_agent": target})
        self.http.post(f"{self._path}/message", json=body, headers={"Prefer": "respond-async"}).raise_for_status()

    def until(self, types: tuple[str, ...], count: int = 1) -> None:
        """Wait for the so-many-th event of these types, and for the quiet after it."""
        wait_until(lambda: sum(event["type"] in types for event in self.events) >= count)
        wait_until(lambda: time.monotonic() - self._heard_at > QUIET_SECONDS)

    def snapshot(self) -> None:
        """Record what the server shows now, as the page loads it."""
        session = self.http.get(f"/my/chat/sessions/{self.session_id}").json()
        timeline = self.http.get(f"{self._path}/timeline", params={"last": 50}).json()
        turn_ids = {item["turn_id"] for item in timeline["items"] if item["turn_id"]}
        turns = [self.http.get(f"{self._path}/turns/{turn_id}").json() for turn_id in sorted(turn_ids)]
        pending = {"session_id": self.session_id, "status": "pending"}
        plans = self.http.get("/my/workflows", params={"session_id": self.session_id}).json()["items"]
        last_event = session.pop("last_event")
        del session["messages"]
        self.snapshots.append(
            {
                "position": len(self.events),
                "snapshot": {
                    "session": session,
                    "lastEvent": last_event,
                    "timeline": timeline,
                    "turns": [turn for turn in turns if turn["finished_at"] is None],
                    "approvals": self.http.get("/my/approvals", params=pending).json()["items"],
                    "plans": plans,
                },
            }
        )

    def decide(self, decision: str) -> None:
        pending = {"session_id": self.session_id, "status": "pending"}
        (approval,) = self.http.get("/my/approvals", params=pending).json()["items"]
        answer = self.http.post(f"/my/approvals/{approval['id']}/confirm", json={"decision": decision})
        answer.raise_for_status()

    def write(self, name: str) -> None:
        RECORDED.mkdir(parents=True, exist_ok=True)
        document = {"sessionId": self.session_id, "events": self.events, "snapshots": self.snapshots}
        (RECORDED / f"{name}.json").write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n")
        print(f"{name}: {len(self.events)} events, {len(self.snapshots)} snapshots")


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds; raise TimeoutError after a minute."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"The server did not do what was expected within {WAIT_SECONDS} seconds.")
        time.sleep(0.05)


def record_direct(http: httpx.Client, project_id: int) -> None:
    """Record questions to agents: two at once, so that one waits, and one that is sent again."""
    recording = Recording(http, project_id)
    recording.say("What can you do?", "coder")
    recording.say("17 * 23", "writer")
    recording.until(TURN_ENDS, 2)
    recording.snapshot()
    turn_id = next(event["turn_id"] for event in recording.events if event["type"] == "message_created")
    http.post(f"/my/chat/{recording.session_id}/turns/{turn_id}/retry", headers={"Prefer": "respond-async"})
    recording.until(TURN_ENDS, 3)
    recording.snapshot()
    recording.write("direct")


def record_plan(http: httpx.Client, project_id: int) -> None:
    """Record a plan of three tasks that is approved."""
    recording = Recording(http, project_id)
    recording.say("Research how bees find flowers, then write a summary of it, then review the summary")
    recording.until(("plan_request",))
    recording.snapshot()
    recording.decide("approve")
    recording.until(TURN_ENDS)
    recording.snapshot()
    recording.write("plan")


def record_files(http: httpx.Client, project_id: int) -> None:
    """Record file calls: a write that is allowed, a read, an undo, a delete that is refused."""
    recording = Recording(http, project_id)
    recording.say("write hello to notes.txt", "coder")
    recording.until(("tool_request",))
    recording.snapshot()
    recording.decide("approve")
    recording.until(TURN_ENDS)
    recording.say("read notes.txt", "coder")
    recording.until(TURN_ENDS, 2)
    recording.say("delete notes.txt", "coder")
    recording.until(("tool_request",), 2)
    recording.decide("reject")
    recording.until(TURN_ENDS, 3)
    recording.snapshot()
    recording.write("files")


@contextmanager
def running_server(folder: Path) -> Iterator[tuple[httpx.Client, int]]:
    """Run a server with an account, a project and a connected folder."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("ARTEL_", "OPENAI_"))}
    environment = inherited | {
        "ARTEL_DATA_DIR": str(folder / "data"),
        "ARTEL_CONFIG_DIR": str(folder / "config"),
        "ARTEL_LOG_LEVEL": "error",
    }
    serve = [ARTEL, "serve", "--port", "0", "--json"]
    with subprocess.Popen(serve, env=environment, stdout=subprocess.PIPE, text=True, cwd=folder) as server:
        assert server.stdout is not None  # noqa: S101 - for the type
        url = json.loads(server.stdout.readline())["url"]
        account = {"email": "ada@example.org", "password": PASSWORD}
        token = httpx.post(f"{url}/auth/register", json=account, timeout=WAIT_SECONDS).json()["access_token"]
        http = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=WAIT_SECONDS)
        project_id = http.post("/my/projects", json={"name": "Website"}).json()["id"]
        work = folder / "site"
        work.mkdir()
        connect = [ARTEL, "connect", str(work), "--project", str(project_id), "--ask", "browser"]
        access = environment | {"ARTEL_SERVER": url, "ARTEL_TOKEN": token}
        with subprocess.Popen(connect, env=access, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as connector:
            try:
                wait_until(lambda: http.get(f"/my/projects/{project_id}/connector").json()["online"])
                yield http, project_id
            finally:
                connector.terminate()
                server.terminate()


def main() -> int:
    """Record all conversations."""
    with tempfile.TemporaryDirectory() as folder, running_server(Path(folder)) as (http, project_id):
        record_direct(http, project_id)
        record_plan(http, project_id)
        record_files(http, project_id)
    return 0


if __name__ == "__main__":
    sys.exit(main())
