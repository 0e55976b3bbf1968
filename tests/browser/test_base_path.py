"""Artel below a path of a host that others share: a reverse proxy that removes the prefix, in a browser."""

import asyncio
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.conftest import StartServer
from tests.cut_line import CutLine
from tests.people import Person
from tests.running import Server

PREFIX = "/tools/artel"


class PrefixProxy(CutLine):
    """A reverse proxy for one prefix, which it removes; the server has nothing at other paths of the host."""

    async def read_head(self, reader: asyncio.StreamReader) -> bytes:
        method, path, rest = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)
        is_below = path.startswith(f"{PREFIX}/".encode())
        target = path.removeprefix(PREFIX.encode()) if is_below else b"/assets/of-somebody-else"
        # One request for each connection, because only its first head is read.
        return b" ".join((method, target, re.sub(rb"(?i)\r\nconnection:[^\r]*", b"\r\nConnection: close", rest)))


@pytest.fixture(scope="module")
def server(start_shared_server: StartServer) -> Server:
    return start_shared_server(ARTEL_BASE_PATH=PREFIX)


@pytest.fixture
def address(server: Server) -> Iterator[str]:
    """The address of Artel on the shared host."""
    with PrefixProxy(urlsplit(server.url).port or 0).running() as proxy:
        yield f"{proxy.url}{PREFIX}"


@pytest.mark.usefixtures("violations")
def test_whole_ui_works_below_a_prefix_of_a_shared_host(page: Page, server: Server, address: str) -> None:
    administrator = Person.register(server.url)
    code = administrator.http.post("/auth/codes").json()["code"]

    page.goto(f"{address}/#code={code}")

    expect(page.get_by_role("heading", level=1, name="Welcome to Artel")).to_be_visible()
    page.get_by_role("button", name="Skip").click()
    expect(page.get_by_text(f"artel login --server {address} ")).to_be_visible()
    page.get_by_role("button", name="Just look around").click()
    composer = page.get_by_role("textbox", name="Message")
    expect(composer).to_be_focused()
    page.get_by_role("combobox", name="To").select_option("Coder")
    composer.fill("17 * 23")
    composer.press("Enter")
    answer = page.get_by_role("log", name="Messages").get_by_role("article")
    expect(answer).to_contain_text("391")
    expect(page).to_have_url(re.compile(f"^{re.escape(address)}/p/\\d+/c/[0-9a-f-]+$"))
    deep_link = page.url

    page.reload()
    expect(answer).to_contain_text("391")
    page.get_by_role("link", name="Agents", exact=True).click()
    expect(page).to_have_url(re.compile(f"^{re.escape(address)}/p/\\d+/agents"))
    second = page.context.new_page()
    second.goto(deep_link)
    expect(second.get_by_role("log", name="Messages").get_by_role("article")).to_contain_text("391")
    second.close()
    page.go_back()
    expect(answer).to_contain_text("391")

    page.get_by_role("link", name="Files", exact=True).click()
    page.get_by_role("tab", name="Another machine").click()
    expect(page.get_by_text(f"artel login --server {address}", exact=True)).to_be_visible()

    page.goto(f"{address}/docs")
    page.get_by_text("Healthz", exact=True).click()
    page.get_by_role("button", name="Try it out").click()
    page.get_by_role("button", name="Execute").click()
    expect(page.get_by_text(f"{address}/healthz", exact=True).first).to_be_visible()
    expect(page.locator(".live-responses-table")).to_contain_text('"status": "ok"')
