"""`artel node run`: a real process, and a client with plain pika and nothing of ours."""

import json
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pika  # type: ignore[import-untyped]
import pytest
import yaml

from tests.node_process import NodeProcess, agent_yaml
from tests.running import artel, clean_environment
from tests.services import ServiceRun

SOON = 60.0


class PlainClient:
    """What a program of somebody else does: CloudEvents as JSON, to an exchange and a key of the contract."""

    def __init__(self, url: str) -> None:
        self._connection = pika.BlockingConnection(pika.URLParameters(url))
        self._channel = self._connection.channel()
        self._replies = self._channel.queue_declare("", exclusive=True).method.queue

    def send(self, key: str, body: bytes, correlation_id: str = "c-1") -> None:
        properties = pika.BasicProperties(reply_to=self._replies, correlation_id=correlation_id)
        self._channel.basic_publish("mindbus.main", key, body, properties)

    def send_command(self, name: str, **data: Any) -> None:
        """Send a command that the broker never drops."""
        body = command("write_article", {"topic": "tea"})
        body["data"] |= data
        self.send(f"cmd.{name.replace('.', '_')}.write_article", json.dumps(body).encode(), body["id"])

    def answer(self) -> tuple[str | None, dict[str, Any]]:
        """Return the correlation id and the document of the next answer."""
        for _, properties, body in self._channel.consume(self._replies, auto_ack=True, inactivity_timeout=SOON):
            assert body is not None, "no answer came"
            return properties.correlation_id, json.loads(body)
        raise AssertionError("the queue is gone")

    def dead_letters(self, key: str) -> list[tuple[bytes, Any]]:
        """Return the dead letters with this key and the headers that say why."""
        deadline = time.monotonic() + SOON
        while time.monotonic() < deadline:
            found, tags = [], []
            while (got := self._channel.basic_get("mindbus.dead_letters"))[0]:
                tags.append(got[0].delivery_tag)
                if got[0].routing_key == key:
                    found.append((got[2], got[1].headers["x-first-death-reason"]))
            for tag in tags:
                self._channel.basic_nack(tag, requeue=True)
            if found:
                return found
        return []

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def client(services: ServiceRun) -> Iterator[PlainClient]:
    client = PlainClient(services.rabbitmq())
    yield client
    client.close()


def command(action: str, params: dict[str, Any]) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": str(uuid.uuid4()),
        "source": "somebody",
        "type": "ai.team.command",
        "time": datetime.now(UTC).isoformat(),
        "subject": "task-1",
        "data": {"action": action, "params": params, "timeout_seconds": 120},
    }


@pytest.mark.req("AGT-07.1", "AGT-07.2", "AGT-07.4", "AGT-05.1")
def test_client_with_plain_pika_gets_the_result_and_its_invalid_message_is_dead_lettered(
    services: ServiceRun, tmp_path: Path, client: PlainClient
) -> None:
    file = agent_yaml(tmp_path)
    (tmp_path / "artel.yaml").write_text("log_level: nonsense")  # of the current folder: not read
    node = NodeProcess.start(tmp_path, services.rabbitmq(), [str(file)], cwd=tmp_path)
    word = node.names[0].replace(".", "_")

    client.send(f"cmd.{word}.write_article", json.dumps(command("write_article", {"topic": "tea"})).encode())
    correlation_id, answer = client.answer()
    client.send(f"cmd.{word}.write_article", b"this is not JSON", "c-2")
    refused_id, refusal = client.answer()
    letters = client.dead_letters(f"cmd.{word}.write_article")
    code = node.stop()

    assert (correlation_id, answer["type"], answer["source"]) == ("c-1", "ai.team.result", node.names[0])
    assert answer["subject"] == "task-1"
    data = answer["data"]
    assert data["status"] == "SUCCESS"
    assert set(data["output"]) == {"title", "text", "word_count"}
    assert "# Tea\n" in data["output"]["text"]
    assert (data["metrics"]["llm_calls"], data["metrics"]["tool_calls"], data["metrics"]["model"]) == (4, 0, "demo")
    assert data["execution_time_ms"] >= 0
    assert (refused_id, refusal["type"]) == ("c-2", "ai.team.error")
    assert refusal["data"]["error"]["code"] == "INVALID_ARGUMENT"
    assert letters == [(b"this is not JSON", "rejected")]
    assert code == 0
    lines = node.log_lines()
    assert any("Singleton lock acquired" in line["event"] for line in lines)
    assert any("Singleton lock released (graceful shutdown)" in line["event"] for line in lines)
    assert {"node_started", "task_began", "task_ended", "node_stopped"} <= {line["event"] for line in lines}


@pytest.mark.req("AGT-07.1")
def test_command_of_a_plain_client_that_waited_for_its_node_for_too_long_is_not_carried_out(
    services: ServiceRun, tmp_path: Path, client: PlainClient
) -> None:
    file = agent_yaml(tmp_path)
    node = NodeProcess.start(tmp_path, services.rabbitmq(), [str(file)])
    name = node.names[0]
    assert node.stop() == 0

    client.send_command(name, timeout_seconds=0.1)
    node = NodeProcess.start(tmp_path, services.rabbitmq(), [str(file)])  # which takes longer
    _, late = client.answer()
    client.send_command(name)
    _, in_time = client.answer()
    assert node.stop() == 0

    assert late["data"]["error"]["code"] == "DEADLINE_EXCEEDED"
    assert in_time["data"]["status"] == "SUCCESS"
    assert [line["event"] for line in node.log_lines()].count("task_began") == 1


@pytest.mark.req("AGT-06.1")
def test_exit_codes_say_what_is_wrong(tmp_path: Path) -> None:
    env = clean_environment(tmp_path)
    good, bad = agent_yaml(tmp_path), tmp_path / "bad.yaml"
    bad.write_text(yaml.safe_dump({"agent": {"name": "x"}}))

    def code(*arguments: str) -> tuple[int, str]:
        done = artel("node", "run", *arguments, env=env)
        return done.returncode, done.stderr

    nothing, no_bus = code(), code(str(good))
    mistake = code(str(bad), "--bus", "amqp://127.0.0.1:1")
    missing = code(str(tmp_path / "none.yaml"), "--bus", "amqp://127.0.0.1:1")

    assert (nothing[0], no_bus[0], mistake[0], missing[0]) == (2, 2, 2, 3)
    assert "ARTEL_BUS_URL" in no_bus[1]
    assert "bad.yaml" in mistake[1]
