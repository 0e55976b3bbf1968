"""Helpers of browser tests: held requests, widths, and errors that the browser reports."""

from dataclasses import dataclass, field

from playwright.sync_api import ConsoleMessage, Dialog, Page, Request, Route

from tests.depth import by_depth

# The longest that opening may take: a second, measured where nothing else runs.
MOST_MILLISECONDS = by_depth(120_000, 1_000)


@dataclass
class Complaints:
    """Errors of the browser: script errors, policy violations, failed requests, dialogs of scripts."""

    expected: list[str] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    cut_off: list[str] = field(default_factory=list)  # what was asked for and then given up, since the page was loaded

    def listen(self, page: Page) -> None:
        page.on("domcontentloaded", lambda _: self.cut_off.clear())  # a page that is left ends what it asked
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.heard.append(f"uncaught: {error}"))
        page.on("dialog", self._dialog)
        page.on("requestfailed", self._failed)

    def unexpected(self) -> list[str]:
        return [text for text in [*self.heard, *self.cut_off] if not any(part in text for part in self.expected)]

    def _dialog(self, dialog: Dialog) -> None:
        self.heard.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _failed(self, request: Request) -> None:
        is_read = request.method == "GET" or request.url.endswith("/price")  # the price of a plan that is being edited
        if not is_read or request.failure != "net::ERR_ABORTED":
            self.heard.append(f"request failed: {request.url}")
        elif not request.url.endswith(("/events", "/icon.svg")):  # those the page ends itself
            self.cut_off.append(f"request given up: {request.url}")

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.heard.append(f"{message.type}: {message.text}")


class Held:
    """Requests that wait until the test releases them; later ones do not wait."""

    def __init__(self) -> None:
        self.routes: list[Route] = []
        self._is_open = False

    def hold(self, route: Route) -> None:
        self.routes.append(route)
        if self._is_open:
            route.continue_()

    def release(self) -> None:
        self._is_open = True
        for route in list(self.routes):  # those that arrive meanwhile do not wait
            route.continue_()


def width_of_contents(page: Page) -> int:
    """Return the scroll width of the page or of its widest dialog."""
    widest: int = page.evaluate(
        """Math.max(document.documentElement.scrollWidth,
          ...[...document.querySelectorAll("dialog[open]")].map((d) => innerWidth + d.scrollWidth - d.clientWidth))"""
    )
    return widest
