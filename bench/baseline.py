"""The bare baseline: FastAPI on uvicorn, rows in SQLite, a model called with aiohttp; no accounts, limits or agents.

`python -m bench.baseline DATABASE MODEL_URL` prints one line of JSON with its url.
"""

import asyncio
import json
import socket
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

database = sqlite3.connect(sys.argv[1] if len(sys.argv) > 1 else ":memory:", check_same_thread=False)
database.executescript(
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
    "CREATE TABLE projects (id INTEGER PRIMARY KEY, body TEXT);"
    "CREATE TABLE messages (id INTEGER PRIMARY KEY, role TEXT, content TEXT);"
)
subscribers: dict[str, set[asyncio.Queue[bytes]]] = {}


class Message(BaseModel):
    """A user's message."""

    content: str


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open one HTTP client for the model."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        app.state.model_client = session
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/my/projects/{project_id}")
async def get_project(project_id: int) -> dict[str, Any]:
    """Return one row."""
    row = database.execute("SELECT body FROM projects WHERE id = ?", (project_id,)).fetchone()
    return dict(json.loads(row[0]))


@app.post("/my/projects")
async def create_project(request: Request) -> dict[str, Any]:
    """Store one row."""
    body = await request.json()
    database.execute("INSERT INTO projects (body) VALUES (?)", (json.dumps(body),))
    database.commit()
    return dict(body)


@app.post("/message", response_model=None)
async def message(new: Message, request: Request) -> dict[str, str] | StreamingResponse:
    """Store the message, call the model, store and return its answer."""
    _store("user", new.content)
    body = {"model": "gpt-4", "messages": [{"role": "user", "content": new.content}]}
    if "text/event-stream" in request.headers.get("accept", ""):
        return StreamingResponse(_stream(body | {"stream": True}), media_type="text/event-stream")
    async with app.state.model_client.post(f"{sys.argv[2]}/chat/completions", json=body) as response:
        answer = (await response.json())["choices"][0]["message"]["content"]
    _store("assistant", answer)
    return {"content": answer}


async def _stream(body: dict[str, Any]) -> AsyncIterator[bytes]:
    pieces = []
    async with app.state.model_client.post(f"{sys.argv[2]}/chat/completions", json=body) as response:
        async for line in response.content:
            if line.startswith(b"data: {"):
                text = json.loads(line[6:])["choices"][0]["delta"].get("content") if b'"delta"' in line else None
                if text:
                    pieces.append(text)
                    yield b"event: message_delta\ndata: %s\n\n" % json.dumps({"text": text}).encode()
    _store("assistant", "".join(pieces))


def _store(role: str, content: str) -> None:
    database.execute("INSERT INTO messages (role, content) VALUES (?, ?)", (role, content))
    database.commit()


@app.get("/events/{group}")
async def events(group: str) -> StreamingResponse:
    """Stream the events of a group."""
    queue: asyncio.Queue[bytes] = asyncio.Queue()
    subscribers.setdefault(group, set()).add(queue)

    async def stream() -> AsyncIterator[bytes]:
        try:
            yield b": hello\n\n"
            while True:
                yield await queue.get()
        finally:
            subscribers[group].discard(queue)

    return StreamingResponse(stream(), media_type="text/event-stream")


@app.post("/publish/{group}")
async def publish(group: str, new: Message) -> dict[str, str]:
    """Store the message, and send an event to the subscribers of the group."""
    _store("user", new.content)
    for queue in subscribers.get(group, ()):
        queue.put_nowait(b"event: message_created\ndata: {}\n\n")
    return {}


async def main() -> None:
    """Serve on a free port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    config = uvicorn.Config(app, access_log=False, log_level="error", timeout_graceful_shutdown=1)
    print(json.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}"}), flush=True)
    await uvicorn.Server(config).serve([listener])


if __name__ == "__main__":
    import uvloop

    uvloop.run(main())
