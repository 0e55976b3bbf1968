"""The bare baseline: FastAPI on uvicorn with one query on SQLite, no accounts, no limits, no logs."""

import json
import sqlite3
import sys
from typing import Any

import uvicorn
from fastapi import FastAPI, Request

app = FastAPI()
database = sqlite3.connect(":memory:", check_same_thread=False)
database.execute("CREATE TABLE projects (id INTEGER PRIMARY KEY, body TEXT)")


@app.get("/my/projects/{project_id}")
async def get_project(project_id: int) -> dict[str, Any]:
    """Answer one row."""
    row = database.execute("SELECT body FROM projects WHERE id = ?", (project_id,)).fetchone()
    return dict(json.loads(row[0]))


@app.post("/my/projects")
async def create_project(request: Request) -> dict[str, Any]:
    """Store one row."""
    body = await request.json()
    database.execute("INSERT INTO projects (body) VALUES (?)", (json.dumps(body),))
    database.commit()
    return dict(body)


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), access_log=False, log_level="error")
