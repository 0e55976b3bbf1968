"""Every page of the web UI against axe-core, in both themes, on a desktop and on a phone."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, ViewportSize

from tests.conftest import StartServer
from tests.depth import IS_DEEP
from tests.model_server import ModelServer
from tests.sample_project import SampleModel, environment, sample
from tests.sample_views import View, new_context, show_in, sign_in, views

# Views with all kinds of controls, whose size on a touch screen is checked.
ON_PHONES = ("chat", "chat-new", "chat-question", "inbox", "files-changes", "agent-tools")
Look = tuple[ViewportSize, str, dict[str, Any]]
AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
# Width, theme and rules of each look. Themes differ in colours only, so that the rest is checked once per width.
# `make test` gives both looks to conversations, and the other views one each in turn.
LOOKS: tuple[Look, ...] = (
    ({"width": 1280, "height": 800}, "light", {}),
    ({"width": 390, "height": 844}, "dark", {}),
)
if IS_DEEP:
    LOOKS += (
        ({"width": 390, "height": 844}, "light", {"runOnly": ["color-contrast"]}),
        ({"width": 1280, "height": 800}, "dark", {"runOnly": ["color-contrast"]}),
    )
FINDINGS = """async (options) => {
  const { violations } = await axe.run(document, { ...options, resultTypes: ["violations"] });
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html.slice(0, 200)} ${node.failureSummary}`));
}"""


def looks_at(number: int, view: View) -> tuple[Look, ...]:
    """Return the looks that this run checks of a view."""
    is_whole = IS_DEEP or view.name.startswith("chat")
    return LOOKS if is_whole else (LOOKS[number % len(LOOKS)],)


def findings(page: Page, view: View, looks: Iterable[Look]) -> list[str]:
    """Return the serious findings on a view in these looks."""
    found: list[str] = []
    for size, scheme, rules in looks:
        page.set_viewport_size(size)
        show_in(page, scheme)
        found += [f"{view.name}, {size['width']} px, {scheme}: {text}" for text in page.evaluate(FINDINGS, rules)]
        if page.evaluate("document.documentElement.scrollHeight > innerHeight"):
            found.append(f"{view.name}, {size['width']} px: the document is longer than the window")
    return found


def small_targets(page: Page) -> list[str]:
    """Return the controls on a touch screen that are too small for a finger; links in a text are not among them."""
    small: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("button, summary, select, textarea, [role=tab], nav a")]
          .filter((control) => control.checkVisibility() && !control.matches(".reach"))
          .filter((control) => control.getBoundingClientRect().height < 40)
          .map((control) => control.outerHTML.slice(0, 120))"""
    )
    return small


def test_no_page_has_a_serious_finding(
    browser: Browser, start_shared_server: StartServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with ModelServer(SampleModel()).running_in_thread() as models:
        server = start_shared_server(**environment(models))
        with sample(server, models, tmp_path_factory.mktemp("sample")) as filled:
            context = new_context(browser, server.url, width=1280, height=800)
            context.add_init_script(path=AXE)
            page = context.new_page()
            shown = sorted(views(filled), key=lambda view: view.is_signed_in)
            found: list[str] = []
            is_plain = False  # nothing is open on the page, so that a link leads to the next view
            for number, view in enumerate(shown):
                if view.is_signed_in and not context.cookies():
                    sign_in(page, filled.admin)
                    is_plain = True
                page.set_viewport_size(LOOKS[0][0])
                view.open(page, follow_link=is_plain)
                is_plain = view.is_signed_in and view.show is None
                found += findings(page, view, looks_at(number, view))
            context.close()
            phone = new_context(browser, server.url, width=390, height=844)
            page = phone.new_page()
            sign_in(page, filled.admin)
            for view in shown:
                if view.name in ON_PHONES:
                    view.open(page)
                    found += [f"{view.name}, too small for a finger: {control}" for control in small_targets(page)]
            phone.close()
    assert not found, json.dumps(found, indent=1, ensure_ascii=False)
