"""The nodes of the operator in the web UI, for administrators."""

import re
from dataclasses import replace

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.actors.bus_node import NodesInThread
from tests.browser.visits import Complaints, width_of_contents
from tests.conftest import StartServer
from tests.people import Person, client
from tests.running import Server
from tests.services import ServiceRun

HOSTILE = '<img src=x onerror="alert(1)">'


@pytest.fixture(scope="module")
def bus_url(services: ServiceRun) -> str:
    return services.own_rabbitmq()


@pytest.fixture(scope="module")
def server(start_shared_server: StartServer, bus_url: str) -> Server:
    return start_shared_server(ARTEL_BUS_URL=bus_url)


@pytest.fixture(scope="module")
def first_account(server: Server) -> Person:
    return Person.register(server.url)


@pytest.fixture
def administrator(server: Server, first_account: Person) -> Person:
    """The first account of the server, with a client of this test."""
    return replace(first_account, http=client(server.url, first_account.token))


def is_beside(second: Locator, first: Locator) -> bool:
    """Whether an element begins where the other one ends, in the same line."""
    before, after = first.bounding_box(), second.bounding_box()
    assert before is not None
    assert after is not None
    return after["y"] <= before["y"] + 8 and after["x"] >= before["x"] + before["width"] - 1


@pytest.mark.req("AGT-08.2", "AGT-08.3")
@pytest.mark.usefixtures("violations")
def test_administrator_sees_what_nodes_do_and_controls_them(
    page: Page, administrator: Person, server: Server, bus_url: str, complaints: Complaints
) -> None:
    user = Person.register(server.url)
    with NodesInThread(bus_url) as nodes:
        writer = nodes.start("writer-1", tasks=("t1",), slots=2, labels={"env": "test"}, display_name=HOSTILE)
        nodes.start("critic-1", node_type="critic", capabilities=("review_text",), labels={"env": "prod"})
        project = administrator.project()["id"]
        page.goto(f"/p/{project}/activity#code={administrator.http.post('/auth/codes').json()['code']}")
        expect(page.get_by_role("table", name="Nodes")).to_contain_text("write_article: execute, for 12 sec")
        page.goto("/manage/nodes")

        rows = page.get_by_role("table", name="Nodes").get_by_role("row")
        expect(rows).to_have_count(3)  # with the head
        row = rows.filter(has_text="writer-1")
        task = "write_article: execute, for 12 sec"
        for text in (HOSTILE, "takes tasks", task, "1 of 2 busy", "80.5 MB", "env=test"):
            expect(row).to_contain_text(text)
        page.set_viewport_size({"width": 360, "height": 740})
        expect(page.get_by_role("button", name="Open the menu")).to_be_visible()
        assert width_of_contents(page) == 360
        assert is_beside(row.get_by_role("cell").last, row.get_by_role("cell").first)  # not in the middle of the card
        page.set_viewport_size({"width": 1280, "height": 800})

        labels = page.get_by_label("Only nodes with these labels")
        labels.fill("env in (test")
        complaints.expected.append("422")
        labels.press("Enter")
        expect(page.get_by_role("alert").filter(has_text="at character 13: expected a comma or )")).to_be_visible()
        expect(rows).to_have_count(3)
        labels.fill("env=none")
        labels.press("Enter")
        expect(page.get_by_text("No node has these labels.")).to_be_visible()
        labels.fill("env in (test)")
        labels.press("Enter")
        expect(rows).to_have_count(2)

        row.get_by_role("button", name="Actions for writer-1").press("Enter")
        page.get_by_role("menuitem", name="Passport").press("Enter")
        expect(page.get_by_role("dialog")).to_contain_text('"maxConcurrentTasks": 2')
        page.keyboard.press("Escape")
        row.get_by_role("button", name="Actions for writer-1").press("Enter")
        page.get_by_role("menuitem", name="Pause").press("Enter")
        assert nodes.run(writer.signalled()).control_type == "pause"
        writer.phase = "Paused"
        nodes.run(writer.beat())
        expect(row).to_contain_text("paused")
        row.get_by_role("button", name="Actions for writer-1").click()
        expect(page.get_by_role("menuitem", name="Go on")).to_be_visible()

    complaints.expected.append("401")  # the list is read again every few seconds
    page.context.clear_cookies()
    page.goto(f"/manage/nodes?user#code={user.http.post('/auth/codes').json()['code']}")
    expect(page.get_by_text("Only administrators")).to_be_visible()
    expect(page.get_by_role("link", name="Administration")).to_have_count(0)


@pytest.mark.req("AGT-08.2")
@pytest.mark.usefixtures("violations")
def test_agent_without_a_node_is_marked_and_the_command_for_a_node_is_shown(
    page: Page, administrator: Person, bus_url: str
) -> None:
    with NodesInThread(bus_url) as nodes:
        nodes.start("critic-2", node_type="critic", capabilities=("review_text",))
        project = administrator.project()["id"]
        administrator.agent(project, name="agent_far", runtime="node", capabilities=["dig_tunnels"])
        administrator.agent(project, name="agent_near", runtime="node", capabilities=["review_text"])
        page.goto(f"/p/{project}/c/new#code={administrator.http.post('/auth/codes').json()['code']}")
        to = page.get_by_role("combobox", name="To")
        expect(to.get_by_role("option", name="Far · node lost")).to_have_count(1)
        expect(to.get_by_role("option", name="Near", exact=True)).to_have_count(1)
        to.select_option("agent_far")
        expect(to).to_have_attribute("title", re.compile("No node that can do its work is alive"))

    page.goto("/manage/nodes")
    page.get_by_role("button", name="Add a node").click()
    dialog = page.get_by_role("dialog", name="Add a node")
    expect(dialog).to_contain_text("artel node run --kind writer")
    expect(dialog.get_by_role("button", name="Copy command")).to_have_count(3)
