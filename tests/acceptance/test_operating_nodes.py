"""What operators of nodes use: the commands of the page, and the dead letters of the bus."""

import asyncio
import json
import re
from pathlib import Path
from uuid import uuid4

import typer

from artel.bus.bus import QueueSpec
from artel.bus.rabbit import RabbitBus
from artel.cli.command_line import ExitCode
from artel.cli.main import app
from artel.contract.envelope import Command, Envelope
from tests.buses import Inbox, RabbitWorld, wait_for_dead_letters
from tests.deadlines import eventually
from tests.running import artel, clean_environment
from tests.services import ServiceRun

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "operate-nodes.md"


def test_commands_and_exit_codes_of_the_page_exist() -> None:
    text = PAGE.read_text(encoding="utf-8")
    root = typer.main.get_command(app)
    group = root.commands["node"]  # type: ignore[attr-defined]

    used = set(re.findall(r"artel node ([a-z-]+)", text))
    assert {"run", "dead-letters"} <= used
    assert used - {"list", "show", "pause", "resume", "stop", "drain"} <= set(group.commands)
    codes = re.findall(r"^\| (\d+) \|", text, re.MULTILINE)
    assert {int(code) for code in codes} == {0, 2, 3, 5, 6, 130} <= {code.value for code in ExitCode}


def test_dead_letters_are_shown_with_reason_and_content(services: ServiceRun, tmp_path: Path) -> None:
    name, url = f"t{uuid4().hex[:12]}", services.rabbitmq()
    late = Envelope.of(Command(action="write"), source="tests")

    async def make_dead_letters() -> None:
        bus = await RabbitBus.connect(url, name="tests")
        subscription = await bus.subscribe(QueueSpec(name, (f"cmd.{name}.*",)), Inbox())
        await RabbitWorld(url).send_raw(f"cmd.{name}.write", b"{garbage\x1b[31m")
        await wait_for_dead_letters(bus, name)
        await subscription.cancel()
        await bus.publish(f"cmd.{name}.write", late, ttl_seconds=0.05)
        await wait_for_dead_letters(bus, name, count=2)
        await bus.close()

    asyncio.run(make_dead_letters())
    env = clean_environment(tmp_path, ARTEL_BUS_URL=url)

    def both() -> dict[str, dict[str, str]] | None:
        shown = artel("node", "dead-letters", "--limit", "10000", "--json", env=env)
        assert shown.returncode == 0, shown.stderr
        found = {each["reason"]: each for each in json.loads(shown.stdout) if each["queue"] == name}
        return found if set(found) == {"invalid", "expired"} else None

    ours = eventually(both)  # another test that reads them at the same time hides some
    assert ours
    assert ours["expired"]["id"] == late.id
    assert json.loads(ours["expired"]["message"])["action"] == "write"
    assert ours["invalid"]["message"] == "{garbage\x1b[31m"
    assert ours["invalid"]["problem"].startswith("The message is not JSON: ")
    assert ours["expired"]["problem"] == ""

    table = artel("node", "dead-letters", "--bus", url, env=clean_environment(tmp_path))
    assert table.stdout.startswith("reason ")
    assert "\x1b" not in table.stdout
    without = artel("node", "dead-letters", env=clean_environment(tmp_path))
    assert without.returncode == 2
    assert "ARTEL_BUS_URL" in without.stderr
