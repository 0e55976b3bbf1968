"""Every page of the web UI with the content of `tests.sample_project`, for screenshots and accessibility checks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.people import Person
from tests.sample_project import Sample

# What is still loading; pictures and checks wait for its end.
LOADING = "[role=status]:has(.unseen) >> text=/^Loading/"
PAINTED = "await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
FOLLOW_LINK = f"""async (path) => {{
  history.pushState(null, "", path);
  dispatchEvent(new PopStateEvent("popstate"));
  {PAINTED};
}}"""


@dataclass(frozen=True)
class View:
    """A page in one state: where it is, and what to do there before it is looked at."""

    name: str
    path: str
    show: Callable[[Page], None] | None = None
    is_signed_in: bool = True

    def open(self, page: Page, *, follow_link: bool = False) -> None:
        """Load the view, or go there like a link on the page that is open; wait until all of it is there."""
        if follow_link:
            page.evaluate(FOLLOW_LINK, self.path)
        else:
            page.goto(self.path)
        settle(page)
        if self.show:
            self.show(page)
            settle(page)


def settle(page: Page) -> None:
    """Wait until a page has its heading and loads nothing more."""
    expect(page.get_by_role("heading").first).to_be_visible()
    expect(page.locator(LOADING)).to_have_count(0)
    page.wait_for_load_state("load")


def show_in(page: Page, scheme: Any) -> None:
    """Show the page in a theme, and wait until it is painted."""
    page.emulate_media(color_scheme=scheme)
    page.wait_for_function("(scheme) => matchMedia(`(prefers-color-scheme: ${scheme})`).matches", arg=scheme)
    page.evaluate(f"async () => {{ {PAINTED}; }}")


def sign_in(page: Page, person: Person, path: str = "/inbox") -> None:
    """Sign the browser in with a link as `artel up` prints it."""
    code = person.http.post("/auth/codes").json()["code"]
    page.goto(f"{path}#code={code}")
    expect(page.get_by_role("navigation").or_(page.get_by_role("heading", level=1)).first).to_be_visible()


def new_context(browser: Browser, url: str, *, width: int, height: int, scheme: Any = "light") -> BrowserContext:
    """Return a browser profile: below 600 pixels that of a phone, with touch."""
    is_phone = width < 600
    return browser.new_context(
        base_url=url,
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="Europe/Berlin",
        has_touch=is_phone,
        is_mobile=is_phone,
    )


def views(sample: Sample) -> list[View]:
    """Return all views of a filled server."""
    return [*_conversations(sample), *_pages(sample), *_agents(sample), *_settings(sample), *_entry()]


def _conversations(sample: Sample) -> list[View]:
    base = f"/p/{sample.project_id}"
    chat = {name: f"{base}/c/{session}" for name, session in sample.sessions.items()}
    return [
        View("chat", chat["hours"], _wait_for_formulas),
        View("chat-details", chat["hours"], _open_details),
        View("chat-new", f"{base}/c/new"),
        View("chat-changed-file", chat["timetable"]),
        View("chat-question", chat["greeting"], _wait_for("A question for you")),
        View("chat-question-diff", chat["greeting"], _show_diff),
        View("chat-plan-waits", chat["move"], _wait_for("A question for you")),
        View("chat-plan-done", chat["launch"], _open_plan),
        View("palette", chat["hours"], _open_palette),
        View("shortcuts", f"{base}/plans", _open_shortcuts),
    ]


def _pages(sample: Sample) -> list[View]:
    base = f"/p/{sample.project_id}"
    parts = ("inbox", "plans", "files", "files/changes", "files/grants", "files/agents", "memory", "activity")
    return [
        *(View(part.replace("/", "-"), f"{base}/{part}") for part in parts),
        View("memory-search", f"{base}/memory", _search_memory),
        View("activity-table", f"{base}/activity", lambda page: page.get_by_role("button", name="Table").click()),
    ]


def _agents(sample: Sample) -> list[View]:
    agents = f"/p/{sample.project_id}/agents"
    coder = f"{agents}/{sample.agents['agent_coder']}"
    tabs = {"model": "Model", "tools": "Tools", "loop": "How it works", "memory": "Memory", "activity": "Activity"}
    return [
        View("agents", agents),
        View("agents-new", agents, lambda page: page.get_by_role("button", name="New agent").click()),
        View("agent", coder),
        *(View(f"agent-{name}", coder, _choose_tab(tab)) for name, tab in tabs.items()),
        View("agent-try", coder, lambda page: page.get_by_role("button", name="Try it").click()),
    ]


def _settings(sample: Sample) -> list[View]:
    project = f"/p/{sample.project_id}/settings"
    parts = [f"settings/{part}" for part in ("account", "usage", "shortcuts")]
    manage = [f"manage/{part}" for part in ("models", "users", "usage", "nodes", "audit", "system")]
    return [
        View("project-settings", project),
        View("project-settings-approvals", f"{project}/approvals"),
        View("project-settings-tools", f"{project}/tools"),
        View("settings", "/settings"),
        *(View(part.replace("/", "-"), f"/{part}") for part in [*parts, *manage]),
        View("settings-key", "/settings/account", lambda page: page.get_by_role("button", name="New key").click()),
        View("manage-node-add", "/manage/nodes", lambda page: page.get_by_role("button", name="Add a node").click()),
        View("not-found", f"/p/{sample.project_id + 1000}/c/new"),
    ]


def _entry() -> list[View]:
    return [
        View("welcome-model", "/welcome"),
        View("welcome-folder", "/welcome", _step("Folder")),
        View("welcome-task", "/welcome", _step("First task")),
        View("sign-in", "/inbox", is_signed_in=False),
    ]


def _wait_for(region: str) -> Callable[[Page], None]:
    return lambda page: expect(page.get_by_role("region", name=region)).to_be_visible()


def _wait_for_formulas(page: Page) -> None:
    expect(page.get_by_role("log").locator("math").last).to_be_attached()


def _open_details(page: Page) -> None:
    _wait_for_formulas(page)
    page.get_by_role("log").get_by_role("button", name="Details").last.click()
    expect(page.get_by_role("complementary", name="Details")).to_be_visible()


def _show_diff(page: Page) -> None:
    bar = page.get_by_role("region", name="A question for you")
    button, changes = bar.get_by_role("button", name="Show diff"), page.get_by_role("region", name="Changes of app.py")
    expect(button.or_(changes).first).to_be_visible()
    if button.is_visible():
        button.click()
    expect(changes).to_be_visible()


def _open_plan(page: Page) -> None:
    page.get_by_role("log").get_by_role("button", name="Open").first.click()
    expect(page.get_by_role("complementary", name="Details")).to_be_visible()


def _open_palette(page: Page) -> None:
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Go to").fill("a")


def _open_shortcuts(page: Page) -> None:
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()


def _search_memory(page: Page) -> None:
    page.get_by_role("textbox", name="What do you want to know?").fill("Who signs the letters?")
    page.keyboard.press("Enter")
    expect(page.get_by_text("match").first).to_be_visible()


def _choose_tab(name: str) -> Callable[[Page], None]:
    return lambda page: page.get_by_role("tab", name=name).click()


def _step(name: str) -> Callable[[Page], None]:
    return lambda page: page.get_by_role("list", name="Steps").get_by_role("button", name=name).click()
