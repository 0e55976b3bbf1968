"""A browser and a page whose errors fail the test."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.visits import Complaints
from tests.model_server import ModelServer
from tests.running import Server

PATIENCE_MILLISECONDS = 120_000  # the machine may be busy
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="session", params=["sqlite"])
def backend() -> str:
    """Only one database: the page sees the HTTP API, which is tested on both."""
    return "sqlite"


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE_MILLISECONDS)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))
        yield launched
        launched.close()


@pytest.fixture
def complaints() -> Complaints:
    return Complaints()


@pytest.fixture
def page(browser: Browser, server: Server, complaints: Complaints) -> Iterator[Page]:
    """A page in a profile of its own; browser errors fail the test."""
    context = browser.new_context(base_url=server.url, viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    context.set_default_timeout(PATIENCE_MILLISECONDS)
    opened = context.new_page()
    complaints.listen(opened)
    yield opened
    given_up = list(complaints.cut_off)
    context.close()
    complaints.cut_off = given_up  # not what was on its way when the page was closed
    assert complaints.unexpected() == []


@pytest.fixture(scope="module")
def models() -> Iterator[ModelServer]:
    with ModelServer().running_in_thread() as models:
        yield models


@pytest.fixture
def violations(page: Page, complaints: Complaints) -> Iterator[list[str]]:
    """What the page did against its content policy; anything fails the test."""
    found: list[str] = []
    complaints.expected.append("request given up")  # the web UI aborts the reads of a view that is left
    page.expose_function("reportViolation", lambda violation: found.append(violation))  # noqa: PLW0108 - Playwright takes no built-in
    page.add_init_script(
        """document.addEventListener("securitypolicyviolation",
          (event) => window.reportViolation(`${event.violatedDirective}: ${event.blockedURI} ${event.sample}`))"""
    )
    yield found
    assert found == []
