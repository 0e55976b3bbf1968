"""Take pictures of every page of the web UI, in both themes and three widths, from a real server with sample content.

`make screenshots` writes all of them to build/screenshots, and a selection with one animation to docs/images.
ONLY=word takes only the pages whose name contains the word, and leaves docs/images alone.
"""

import argparse
import io
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.model_server import ModelServer  # noqa: E402 - needs sys.path from the line above
from tests.people import close_clients  # noqa: E402 - needs sys.path from the line above
from tests.running import Server, clean_environment  # noqa: E402 - needs sys.path from the line above
from tests.sample_project import Sample, SampleModel, environment, sample  # noqa: E402 - as above
from tests.sample_views import View, new_context, settle, show_in, sign_in, views  # noqa: E402 - as above
from tests.services.browser import CHROMIUM  # noqa: E402 - needs sys.path from the line above
from tests.services.installed import look_up  # noqa: E402 - needs sys.path from the line above

BUILD = ROOT / "build" / "screenshots"
IMAGES = ROOT / "docs" / "images"
SIZES = {390: 844, 1280: 800, 2560: 1440}
SCHEMES = ("light", "dark")
# Pictures of the documentation: view, width and theme of each.
CHOSEN = {
    "chat": ("chat", 1280, "light"),
    "chat-dark": ("chat", 1280, "dark"),
    "chat-phone": ("chat", 390, "light"),
    "diff": ("chat-question-diff", 1280, "light"),
    "plan": ("chat-plan-waits", 1280, "light"),
    "agent": ("agent-tools", 1280, "light"),
    "memory": ("memory", 1280, "light"),
    "activity": ("activity", 1280, "light"),
    "models": ("manage-models", 1280, "light"),
    "nodes": ("manage-nodes", 1280, "light"),
}
MAX_ALL_BYTES = 1_500_000
MAX_ANIMATION_BYTES = 1_500_000
WAIT_MILLISECONDS = 30_000
FRAME_MILLISECONDS = 160
REQUEST = "Make a landing page for the harbour"
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--force-color-profile=srgb")


def main() -> int:
    """Take all pictures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help="only the pages whose name contains this")
    only = options.parse_args().only
    BUILD.mkdir(parents=True, exist_ok=True)
    with filled_server() as (filled, model), chromium() as browser:
        shown = [view for view in views(filled) if only in view.name]
        for width, height in SIZES.items():
            photograph(browser, filled, shown, width, height)
        if not only:
            select()
            animate(browser, filled, model)
    return 0


@contextmanager
def filled_server() -> Iterator[tuple[Sample, SampleModel]]:
    """Run a server with the sample content."""
    model = SampleModel()
    with tempfile.TemporaryDirectory() as temporary, ModelServer(model).running_in_thread() as models:
        folder = Path(temporary)
        server = Server.start(folder, clean_environment(folder, **environment(models)))
        try:
            with sample(server, models, folder) as filled:
                yield filled, model
        finally:
            close_clients()
            server.stop()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run the browser of this machine."""
    expect.set_options(timeout=WAIT_MILLISECONDS)
    path = look_up(CHROMIUM)
    if path is None:
        sys.exit(f"{CHROMIUM.title} is missing. On Debian: apt-get install {CHROMIUM.package}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield browser
        browser.close()


def photograph(browser: Browser, filled: Sample, shown: list[View], width: int, height: int) -> None:
    """Take the pictures of one width, in both themes."""
    signed_in = new_context(browser, filled.server.url, width=width, height=height)
    page = signed_in.new_page()
    sign_in(page, filled.admin)
    for view in shown:
        if view.is_signed_in:
            take(page, view, width)
    signed_in.close()
    stranger = new_context(browser, filled.server.url, width=width, height=height)
    page = stranger.new_page()
    for view in shown:
        if not view.is_signed_in:
            take(page, view, width)
    stranger.close()


def take(page: Page, view: View, width: int) -> None:
    """Take the picture of a view in both themes; name one that can't be shown."""
    try:
        view.open(page)
    except AssertionError as failure:
        print(f"{view.name} at {width}: {str(failure).splitlines()[0]}")
    for scheme in SCHEMES:
        show_in(page, scheme)
        page.screenshot(path=BUILD / f"{view.name}-{width}-{scheme}.png")


def select() -> None:
    """Copy the chosen pictures to the documentation, with few colours."""
    for name, (view, width, scheme) in CHOSEN.items():
        with Image.open(BUILD / f"{view}-{width}-{scheme}.png") as picture:
            small = picture.convert("RGB").quantize(128, dither=Image.Dither.NONE)
            small.save(IMAGES / f"{name}.png", optimize=True)
    total = sum((IMAGES / f"{name}.png").stat().st_size for name in CHOSEN)
    if total > MAX_ALL_BYTES:
        sys.exit(f"The pictures of the documentation have {total} bytes, more than {MAX_ALL_BYTES}.")


def animate(browser: Browser, filled: Sample, model: SampleModel) -> None:
    """Record a message, its plan, the approval and the answer."""
    model.pause = 0.04
    context = new_context(browser, filled.server.url, width=1280, height=800)
    page = context.new_page()
    sign_in(page, filled.admin, f"/p/{filled.project_id}/c/new")
    settle(page)
    frames = Frames(page)
    box = page.get_by_role("textbox", name="Message")
    expect(box).to_be_focused()
    for word in REQUEST.split(" "):
        page.keyboard.type(f"{word} ")
        frames.add()
    frames.hold(600)
    page.keyboard.press("Enter")
    panel = page.get_by_role("complementary", name="Details")
    approve = panel.get_by_role("button", name="Approve")
    frames.until(approve.is_visible)
    frames.hold(1800)
    approve.click()
    frames.until(
        lambda: "Plan · 5 of 5" in panel.inner_text() and "all links work" in page.get_by_role("log").inner_text()
    )
    frames.hold(2500)
    frames.save(IMAGES / "plan.webp")
    context.close()


class Frames:
    """Pictures of a page, one after the other; equal ones become one that is shown longer."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.pictures: list[Image.Image] = []
        self.durations: list[int] = []
        self._last = b""

    def add(self) -> None:
        """Take a picture."""
        taken = self.page.screenshot()
        if taken == self._last:
            self.durations[-1] += FRAME_MILLISECONDS
            return
        self._last = taken
        picture = Image.open(io.BytesIO(taken)).convert("RGB")
        self.pictures.append(picture.resize((1024, 640), Image.Resampling.LANCZOS))
        self.durations.append(FRAME_MILLISECONDS)

    def hold(self, milliseconds: int) -> None:
        """Show the last picture longer."""
        self.add()
        self.durations[-1] += milliseconds

    def until(self, condition: Any) -> None:
        """Take pictures until a condition holds, for a minute at most."""
        for _ in range(WAIT_MILLISECONDS // FRAME_MILLISECONDS):
            self.add()
            if condition():
                return
            self.page.wait_for_timeout(FRAME_MILLISECONDS)
        raise TimeoutError("The page did not show what the animation waits for.")

    def save(self, path: Path) -> None:
        """Write the animation."""
        durations = [min(duration, 2600) for duration in self.durations]
        first, *others = self.pictures
        first.save(
            path,
            save_all=True,
            append_images=others,
            duration=durations,
            loop=0,
            quality=60,
            method=4,
            minimize_size=True,
        )
        if path.stat().st_size > MAX_ANIMATION_BYTES:
            sys.exit(f"{path.name} has {path.stat().st_size} bytes, more than {MAX_ANIMATION_BYTES}.")


if __name__ == "__main__":
    sys.exit(main())
