"""AgentOS, the server of Agno, with one agent: `agno_server.py DATABASE MODEL_URL` prints a line of JSON with its url.

It runs in the environment of the peers (`make bench-peers`), as its documentation shows it: sessions in SQLite, the
model through OpenAI's API. Telemetry is off, so that nothing leaves the machine.
"""

import json
import socket
import sys

import uvicorn
from agno.agent import Agent
from agno.db.sqlite import SqliteDb
from agno.models.openai import OpenAIChat
from agno.os import AgentOS


def main(database: str, model_url: str) -> None:
    """Serve on a free port."""
    agent = Agent(
        id="bench",
        name="bench",
        instructions="You help.",
        model=OpenAIChat(id="gpt-4", api_key="none", base_url=model_url),
        db=SqliteDb(db_file=database),
        telemetry=False,
    )
    app = AgentOS(agents=[agent], telemetry=False).get_app()
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(json.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}"}), flush=True)
    uvicorn.Server(uvicorn.Config(app, access_log=False, log_level="error")).run([listener])


if __name__ == "__main__":
    main(*sys.argv[1:])
