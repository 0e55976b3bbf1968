"""The section *Nodes* of the page, for administrators."""

import pytest
from playwright.sync_api import Page, expect

from tests.actors.bus_node import NodesInThread
from tests.browser.visits import Complaints, arrive, width_of_contents
from tests.conftest import StartServer
from tests.people import Person
from tests.running import Server
from tests.services import ServiceRun

HOSTILE = '<img src=x onerror="alert(1)">'


@pytest.fixture(scope="module")
def bus_url(services: ServiceRun) -> str:
    return services.own_rabbitmq()


@pytest.fixture(scope="module")
def server(start_shared_server: StartServer, bus_url: str) -> Server:
    return start_shared_server(ARTEL_BUS_URL=bus_url)


@pytest.mark.req("AGT-08.2", "AGT-08.3")
def test_an_administrator_sees_what_nodes_do_and_controls_them(
    page: Page, server: Server, bus_url: str, complaints: Complaints
) -> None:
    administrator, user = Person.register(server.url), Person.register(server.url)
    with NodesInThread(bus_url) as nodes:
        writer = nodes.start("writer-1", tasks=("t1",), slots=2, labels={"env": "test"}, display_name=HOSTILE)
        nodes.start("critic-1", node_type="critic", capabilities=("review_text",), labels={"env": "prod"})
        arrive(page, administrator)
        page.get_by_role("link", name="Nodes").click()

        expect(page.get_by_role("heading", level=1, name="Nodes")).to_be_focused()
        cards = page.get_by_role("list", name="Nodes").locator(":scope > li")
        expect(cards).to_have_count(2)
        card = cards.filter(has_text="writer-1")
        expect(card.get_by_role("heading", name=HOSTILE)).to_be_visible()
        for text in ("alive", "write_article: execute, for 12 s", "1 of 2", "81 MB", "writer-1 · writer"):
            expect(card).to_contain_text(text)
        page.set_viewport_size({"width": 360, "height": 740})
        assert width_of_contents(page) <= 360

        page.get_by_label("Only nodes with these labels").fill("env in (test")
        complaints.expected.append("422")
        page.keyboard.press("Enter")
        expect(page.get_by_text("at character 13: expected a comma or )")).to_be_visible()
        page.get_by_label("Only nodes with these labels").fill("env=none")
        page.keyboard.press("Enter")
        expect(page.get_by_text("No node has these labels.")).to_be_visible()
        expect(page.get_by_text("artel node run --kind writer")).to_be_hidden()
        page.get_by_label("Only nodes with these labels").fill("env in (test)")
        page.keyboard.press("Enter")
        expect(cards).to_have_count(1)

        card.get_by_role("button", name="Pause writer-1").press("Enter")
        page.get_by_role("alertdialog").get_by_role("button", name="Do it").press("Enter")
        expect(page.get_by_role("alertdialog")).to_be_hidden()
        assert nodes.run(writer.signalled()).control_type == "pause"
        writer.phase = "Paused"
        nodes.run(writer.beat())
        expect(card.get_by_role("button", name="Resume writer-1")).to_be_visible()

    page.context.clear_cookies()
    page.goto(f"/?#token={user.token}")
    expect(page.get_by_role("heading", name="Projects", exact=True)).to_be_focused()
    expect(page.get_by_role("link", name="Nodes")).to_be_hidden()
    complaints.expected.append("403")
    page.goto("/#/nodes")
    expect(page.get_by_text("Only an administrator of this server may do this.")).to_be_visible()
