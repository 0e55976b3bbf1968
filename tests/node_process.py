"""Nodes as real processes."""

import json
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml

from tests import running
from tests.running import ARTEL, START_SECONDS, STOP_SECONDS, clean_environment

OUTPUT = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "text": {"type": "string"}, "word_count": {"type": "integer"}},
    "required": ["title", "text", "word_count"],
    "additionalProperties": False,
}


def agent_yaml(folder: Path, **sections: Any) -> Path:
    """Write the file of a writer with a name and a type of its own, because tests share the broker."""
    mark = uuid4().hex[:12]
    topic = {"type": "object", "properties": {"topic": {"type": "string"}}, "required": ["topic"]}
    agent: dict[str, Any] = {
        "name": f"agent.writer.p{mark}",
        "type": f"writer_{mark}",
        "brain": {"model": "gpt-4", "system_prompt": "You are a writer."},
        "capabilities": [
            {
                "name": "write_article",
                "input_schema": topic,
                "output_schema": OUTPUT,
                "prompt_template": "Write about {topic}.",
            }
        ],
        "registry": {"enabled": False},
    }
    file = folder / f"{agent['name']}.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump({"agent": agent | sections}))
    return file


@dataclass
class NodeProcess:
    """`artel node run` in a process of its own."""

    process: running.Process
    names: list[str]
    log: Path

    @classmethod
    def start(
        cls,
        folder: Path,
        url: str,
        arguments: list[str],
        *,
        cwd: Path | None = None,
        module: str = "artel.cli.main",
        variables: Mapping[str, str] | None = None,
    ) -> "NodeProcess":
        """Start it and wait until its nodes are ready."""
        node = cls._launch(folder, url, arguments, cwd, module, dict(variables or {}))
        line = running._first_line(node.process, time.monotonic() + START_SECONDS)
        if not line:
            node.process.kill()
            raise AssertionError(f"the node did not start:\n{node.log.read_text()[-3000:]}")
        node.names = [each["name"] for each in json.loads(line)["nodes"]]
        return node

    @classmethod
    def _launch(
        cls, folder: Path, url: str, arguments: list[str], cwd: Path | None, module: str, variables: dict[str, str]
    ) -> "NodeProcess":
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / "node.log"
        env = clean_environment(folder, ARTEL_BUS_URL=url, **variables)
        for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
            if name not in variables:
                env.pop(name, None)
        command = [ARTEL, "node", "run", *arguments, "--json"]
        with log.open("a") as stderr:
            process = running._start(command, env, stderr, module, str(cwd or "/"))
        return cls(process, [], log)

    def log_lines(self) -> list[dict[str, Any]]:
        """Return the log."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def stop(self) -> int:
        """Stop it with SIGTERM and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self.process.send_signal(signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        """Wait for its end and return its exit code."""
        try:
            return self.process.wait(STOP_SECONDS)
        finally:
            self.process.kill()
            assert self.process.stdout
            self.process.stdout.close()
