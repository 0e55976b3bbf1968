"""AutoGen as a library behind one FastAPI handler: `autogen_server.py MODEL_URL` prints a line of JSON with its url.

It runs in the environment of the peers (`make bench-peers`). AutoGen has no server: each request makes an assistant
of its own, calls the model with it and forgets it.
"""

import json
import socket
import sys

import uvicorn
from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient
from fastapi import FastAPI
from pydantic import BaseModel


class Message(BaseModel):
    """A user's message."""

    content: str


def app_for(model_url: str) -> FastAPI:
    """Return the application with its one handler."""
    app = FastAPI()
    model = OpenAIChatCompletionClient(model="gpt-4", api_key="none", base_url=model_url)

    @app.post("/message")
    async def message(new: Message) -> dict[str, str]:
        """Return the answer of a new assistant."""
        assistant = AssistantAgent("bench", model_client=model, system_message="You help.")
        result = await assistant.run(task=new.content)
        return {"content": str(result.messages[-1].content)}

    return app


def main(model_url: str) -> None:
    """Serve on a free port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(json.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}"}), flush=True)
    uvicorn.Server(uvicorn.Config(app_for(model_url), access_log=False, log_level="error")).run([listener])


if __name__ == "__main__":
    main(*sys.argv[1:])
