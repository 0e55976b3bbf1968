"""Nodes on RabbitMQ: the round trip of a command, an idle node process, and the heartbeats of 50 nodes."""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import aio_pika
from aio_pika.abc import AbstractIncomingMessage

from artel.bus.bus import Delivery, QueueSpec
from artel.bus.rabbit import RabbitBus
from artel.bus.topology import command_key, command_queue, event_queue
from artel.contract.envelope import Command, Envelope, Event, Result
from artel.contract.node_messages import NODE_HEARTBEAT, REGISTRY
from artel.contract.passport import NOT_READY_SECONDS
from artel.logs import configure_logs
from bench.figure import Figure, percentile
from bench.processes import ROOT, Running, started, stop
from tests.running import ARTEL, clean_environment
from tests.services import ServiceRun

BENCH = "nodes"
COMMANDS, WARM_UP = 300, 50
NODES, NODES_PER_PROCESS = 50, 10
WATCH_SECONDS = 25.0  # more than two heartbeats of each node
READY_SECONDS = 120.0

# The demo brain answers at once: what is measured is everything but the model.
AGENT = """
agent:
  name: bench.node.{number:03}
  type: bench
  brain: {{provider: openai, model: gpt-4o, system_prompt: You repeat what is said.}}
  capabilities:
    - name: repeat
      description: Repeats a text.
      prompt_template: "{{text}}"
      input_schema:
        type: object
        properties: {{text: {{type: string}}}}
        required: [text]
  agent_loop: {{enable_understanding: false, enable_self_critique: false}}
"""


def run() -> Iterator[Figure]:
    """Start a broker, then one node, then 50 nodes."""
    configure_logs("auto", "warning")
    services = ServiceRun.create()
    try:
        url = services.rabbitmq()
        yield from asyncio.run(_one_node(url))
        yield asyncio.run(_many_nodes(url))
    finally:
        services.stop()


async def _one_node(url: str) -> list[Figure]:
    async with _registry(url) as registry:
        with node_process(url, [1]) as (node, begun):
            await registry.until_alive(1)
            ready_seconds = registry.registered["bench.node.001"] - begun
            node.settle()
            resident = node.megabytes()
            milliseconds = await _round_trips(registry.bus)
    with started([sys.executable, "-m", "bench.bare_responder", url, "bench.bare"], None) as bare:
        bare_milliseconds = await _bare_round_trips(url)
        bare_resident, bare_seconds = bare.megabytes(), bare.ready_seconds
    baseline = percentile(bare_milliseconds, 0.5)
    note = "baseline: aio-pika alone, without confirmations"
    return [
        Figure(BENCH, "command round trip without the model, P50", percentile(milliseconds, 0.5), "ms", 8.0,
               baseline=baseline, note=note),
        Figure(BENCH, "command round trip without the model, P95", percentile(milliseconds, 0.95), "ms",
               baseline=percentile(bare_milliseconds, 0.95)),
        Figure(BENCH, "node: start to registration", ready_seconds, "s", 3.0, baseline=bare_seconds),
        Figure(BENCH, "node: resident memory, idle", resident, "MB", 120.0, baseline=bare_resident),
    ]  # fmt: skip


async def _many_nodes(url: str) -> Figure:
    async with _registry(url) as registry, AsyncExitStack() as stack:
        for first in range(1, NODES + 1, NODES_PER_PROCESS):
            stack.enter_context(node_process(url, range(first, first + NODES_PER_PROCESS)))
        await registry.until_alive(NODES)
        since = time.monotonic()
        await asyncio.sleep(WATCH_SECONDS)
        gaps = [_longest_gap(times, since, time.monotonic()) for times in registry.heartbeats.values()]
        assert len(gaps) == NODES, f"{len(gaps)} nodes"
    name = f"{NODES} nodes in {NODES // NODES_PER_PROCESS} processes: longest time between two heartbeats"
    return Figure(BENCH, name, max(gaps), "s", NOT_READY_SECONDS, note="interval 10 s")


def _longest_gap(times: Sequence[float], since: float, until: float) -> float:
    """Return the longest time without a heartbeat in a period, at whose begin there was one before."""
    before = [at for at in times if at <= since][-1:]
    moments = [*before, *(at for at in times if at > since), until]
    return max(after - at for at, after in pairwise(moments))


@dataclass
class _Registry:
    """Registers nodes and notes their heartbeats, as a server does."""

    bus: RabbitBus
    registered: dict[str, float] = field(default_factory=dict)
    heartbeats: dict[str, list[float]] = field(default_factory=dict)

    async def register(self, delivery: Delivery) -> None:
        match delivery.envelope.data:
            case Command(params={"passport": {"metadata": {"name": str(name)}}}):
                self.registered.setdefault(name, time.monotonic())
        result = Envelope.of(Result(output={"epoch": 1}), source=REGISTRY)
        await self.bus.reply(delivery, result)

    async def heartbeat(self, delivery: Delivery) -> None:
        match delivery.envelope.data:
            case Event(event_type=event, event_data={"name": str(name)}) if event == NODE_HEARTBEAT:
                self.heartbeats.setdefault(name, []).append(time.monotonic())

    async def until_alive(self, count: int) -> None:
        """Wait until so many nodes have sent a heartbeat."""
        async with asyncio.timeout(READY_SECONDS):
            while len(self.heartbeats) < count:  # noqa: ASYNC110 - it is filled by the bus
                await asyncio.sleep(0.005)


@asynccontextmanager
async def _registry(url: str) -> AsyncIterator[_Registry]:
    bus = await RabbitBus.connect(url)
    try:
        registry = _Registry(bus)
        commands = QueueSpec(command_queue(REGISTRY), ("cmd.registry.*",))
        await bus.subscribe(commands, registry.register, at_once=20)
        await bus.subscribe(QueueSpec(event_queue("bench"), ("evt.node.*",)), registry.heartbeat, at_once=20)
        yield registry
    finally:
        await bus.close(grace_seconds=1)


@contextmanager
def node_process(url: str, numbers: Sequence[int]) -> Iterator[tuple[Running, float]]:
    """Run `artel node run` with one file per node; yield the process and the time when it was started."""
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for number in numbers:
            files.append(Path(folder) / f"node{number}.yaml")
            files[-1].write_text(AGENT.format(number=number))
        env = clean_environment(Path(folder))
        begun = time.monotonic()
        with (Path(folder) / "log").open("w") as log:
            process = subprocess.Popen(
                [ARTEL, "node", "run", *map(str, files), "--bus", url], env=env, stdout=log, stderr=log, cwd=ROOT
            )
        try:
            yield Running(url, process.pid), begun
        except BaseException:
            sys.stderr.write((Path(folder) / "log").read_text()[-2000:])
            raise
        finally:
            stop(process)


async def _round_trips(bus: RabbitBus) -> list[float]:
    """Return the milliseconds from sending a command to its result."""
    key, measured = command_key("bench.node.001", "repeat"), []
    for number in range(WARM_UP + COMMANDS):
        command = Command(action="repeat", params={"text": f"{number} * 2"}, timeout_seconds=30)
        envelope = Envelope.of(command, source="bench")
        begun = time.perf_counter()
        answer = await bus.request(key, envelope, timeout_seconds=30)
        measured.append((time.perf_counter() - begun) * 1000)
        assert isinstance(answer.data, Result), answer.data
    return measured[WARM_UP:]


async def _bare_round_trips(url: str) -> list[float]:
    """Return the milliseconds of a request and its reply with aio-pika alone."""
    connection = await aio_pika.connect(url)
    async with connection:
        channel = await connection.channel(publisher_confirms=False)
        replies = await channel.declare_queue(exclusive=True)
        arrived = asyncio.Event()

        async def received(_message: AbstractIncomingMessage) -> None:
            arrived.set()

        await replies.consume(received, no_ack=True)
        measured = []
        for number in range(WARM_UP + COMMANDS):
            arrived.clear()
            body = aio_pika.Message(b'{"text": "hello"}', reply_to=replies.name, correlation_id=str(number))
            begun = time.perf_counter()
            await channel.default_exchange.publish(body, routing_key="bench.bare")
            await arrived.wait()
            measured.append((time.perf_counter() - begun) * 1000)
    return measured[WARM_UP:]
