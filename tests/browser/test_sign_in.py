"""Sign-in, accounts and projects in the web UI: links, forms, logins, and what happens when the server refuses."""

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.pages import sign_in
from tests.browser.visits import Complaints, Held, width_of_contents
from tests.conftest import StartServer
from tests.people import PASSWORD, Person
from tests.running import Server

pytestmark = pytest.mark.usefixtures("violations")

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def server(start_shared_server: StartServer) -> Server:
    """A server without a model, whose administrator is somebody else: nobody is led to the first-run page."""
    started = start_shared_server()
    Person.register(started.url)
    return started


def stored(page: Page) -> str:
    """Return what the page stores in the browser, where its scripts can read it."""
    kept: str = page.evaluate("JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])")
    return kept


def composer(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Message")


def expect_account(page: Page, person: Person) -> None:
    page.get_by_role("button", name="Account", exact=True).click()
    expect(page.get_by_role("menu")).to_contain_text(person.email)
    page.keyboard.press("Escape")


def project_of(page: Page, name: str) -> Locator:
    return page.get_by_role("navigation", name="Conversations").get_by_role("button", name=name, exact=True)


def refuse(status: int, detail: str) -> Callable[[Route], None]:
    body = json.dumps({"status": status, "code": "x", "detail": detail})
    return lambda route: route.fulfill(status=status, body=body)


@pytest.mark.req("SEC-04.1")
def test_link_signs_in_once_and_for_every_tab(page: Page, person: Person, complaints: Complaints) -> None:
    person.project("Website")
    code = person.http.post("/auth/codes").json()["code"]

    page.goto(f"/#code={code}")

    expect(composer(page)).to_be_focused()
    expect_account(page, person)
    [cookie] = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
    assert code not in stored(page)
    second = page.context.new_page()
    second.goto("/")
    expect(composer(second)).to_be_focused()
    page.reload()
    expect(composer(page)).to_be_focused()

    page.goto(f"/?again#token={person.token}")  # the same account: nothing to ask
    expect(composer(page)).to_be_focused()
    history = page.context.new_cdp_session(page).send("Page.getNavigationHistory")
    assert [entry["url"] for entry in history["entries"] if re.search("code|token", entry["url"])] == []
    assert person.token not in stored(page)

    page.get_by_role("button", name="Account", exact=True).click()
    page.get_by_role("menuitem", name="Sign out").click()
    expect(page.get_by_text("You are signed out.")).to_be_visible()
    expect(second.get_by_role("heading", name="Sign in")).to_be_visible()  # the other tab has noticed
    second.close()
    complaints.expected += ["401", "403"]  # 401: what was on its way when the login ended
    page.goto(f"/?once-more#code={code}")
    expect(page.get_by_text("This link has expired. Run artel link to get a new one.")).to_be_visible()
    expect(page.get_by_role("status").locator("code")).to_have_text("artel link")
    expect(page.get_by_label("E-mail address")).to_be_focused()
    assert "code" not in page.url


@pytest.mark.req("SEC-04.2")
def test_link_of_another_account_asks_before_it_replaces_the_login(
    page: Page, person: Person, other: Person, complaints: Complaints
) -> None:
    complaints.expected.append("409")
    person.project("Mine")
    other.project("Of somebody else")
    sign_in(page, person)
    expect(project_of(page, "Mine")).to_be_visible()
    elsewhere = page.context.new_page()
    elsewhere.goto("/")
    expect(project_of(elsewhere, "Mine")).to_be_visible()
    question = page.get_by_role("alertdialog", name="Change the account?")

    for proof in ("code", "token"):
        foreign = other.token if proof == "token" else other.http.post("/auth/codes").json()["code"]
        page.goto(f"/#{proof}={foreign}")
        expect(question).to_contain_text(f"Sign in as {other.email}? You are signed in as {person.email}.")
        assert foreign not in page.url
        question.get_by_role("button", name="Stay signed in").click()
        expect(composer(page)).to_be_focused()
        expect_account(page, person)

    page.goto(f"/?token#token={other.token}")
    question.get_by_role("button", name="Change account").click()
    expect(project_of(page, "Of somebody else")).to_be_visible()
    expect_account(page, other)
    expect(project_of(elsewhere, "Of somebody else")).to_be_visible()
    elsewhere.close()


@pytest.mark.req("SEC-04.5")
def test_newcomer_registers_where_that_is_open_and_signs_in_again(page: Page, complaints: Complaints) -> None:
    complaints.expected += ["401", "403", "422", "429"]
    newcomer = f"newcomer.{id(page)}@example.org"
    closed = json.dumps({"account": None, "registration_open": False})
    page.route("**/auth/browser", lambda route: route.fulfill(body=closed))
    page.goto("/")
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    expect(page.get_by_role("button", name="Create an account")).to_have_count(0)
    page.unroute_all()
    page.goto("/")
    page.get_by_role("button", name="Create an account").click()
    page.get_by_label("E-mail address").fill(newcomer)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    for status, detail in ((403, "Registration is closed."), (422, "Not valid."), (429, "Try again in 7 seconds.")):
        page.route("**/auth/register", refuse(status, detail))
        page.get_by_role("button", name="Create account").click()
        expect(page.get_by_role("alert")).to_contain_text(detail)
        page.unroute_all()

    page.get_by_role("button", name="Create account").click()
    expect(composer(page)).to_be_focused()
    expect(project_of(page, "My project")).to_be_visible()
    page.get_by_role("link", name="Agents", exact=True).click()
    for agent in ("Coder", "Analyzer", "Writer", "Researcher"):
        expect(page.get_by_role("list", name="Agents").get_by_text(agent, exact=True)).to_be_visible()

    page.get_by_role("button", name="Account", exact=True).click()
    page.get_by_role("menuitem", name="Sign out").click()
    expect(page.get_by_text("You are signed out.")).to_be_visible()
    expect(page.get_by_label("Password", exact=True)).to_have_value("")
    assert page.context.cookies() == []
    assert newcomer not in page.content() + stored(page)

    page.get_by_label("E-mail address").fill(newcomer)
    page.get_by_label("Password", exact=True).fill("not my password")
    with page.expect_response("**/auth/browser") as answered:
        page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_have_text(answered.value.json()["detail"])
    assert answered.value.status == 401
    expect(page.get_by_label("E-mail address")).to_have_value(newcomer)
    page.route("**/auth/browser", refuse(401, "Run `artel <b>x</b>`, not <i>that</i>, nor ` this."))
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_have_text("Run artel <b>x</b>, not <i>that</i>, nor ` this.")
    expect(page.get_by_role("alert").locator("code")).to_have_text("artel <b>x</b>")
    page.unroute_all()
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="Agents")).to_be_visible()  # where the newcomer was


@pytest.mark.req("SEC-04.6")
def test_api_key_is_made_shown_once_used_and_ended(page: Page, person: Person) -> None:
    sign_in(page, person)
    page.goto("/settings/account")
    page.get_by_role("button", name="New key").click()
    page.get_by_role("textbox", name="Name").fill("Nightly report")
    page.get_by_role("combobox", name="Valid for").select_option("1 day")
    page.get_by_role("button", name="Make the key").click()
    shown = page.get_by_role("dialog", name="Your key").get_by_role("textbox", name="Your key")
    headers = {"Authorization": f"Bearer {shown.input_value()}"}
    assert person.http.get("/auth/me", headers=headers).json()["user_id"] == person.user_id
    page.keyboard.press("Escape")
    expect(shown).to_have_count(0)

    key = page.get_by_role("region", name="Where you are signed in").get_by_role("listitem").filter(has_text="Nightly")
    key.get_by_role("button", name="End").click()
    expect(key).to_have_count(0)
    assert person.http.get("/auth/me", headers=headers).status_code == 401


@pytest.mark.req("SEC-04.6")
def test_user_ends_another_login_changes_the_password_and_is_signed_out_when_the_login_ends(
    page: Page, person: Person, complaints: Complaints
) -> None:
    complaints.expected += ["401", "403"]
    form = {"username": person.email, "password": PASSWORD}
    elsewhere = person.http.post("/auth/token", data=form, headers={"User-Agent": "another device"}).json()
    sign_in(page, person)
    page.goto("/settings/account")
    items = page.get_by_role("region", name="Where you are signed in").get_by_role("listitem")
    expect(items).to_have_count(3)
    expect(items.filter(has_text="this one")).to_have_count(1)

    items.filter(has_text="another device").get_by_role("button").click()
    expect(items).to_have_count(2)
    ended = {"Authorization": f"Bearer {elsewhere['access_token']}"}
    assert person.http.get("/auth/me", headers=ended).status_code == 401

    for old, message in (("not my password", "The old password is wrong"), (PASSWORD, "")):
        page.get_by_label("Password now").fill(old)
        page.get_by_label("New password").fill("seven green bottles")
        page.get_by_role("button", name="Change password").click()
        if message:
            expect(page.get_by_role("alert").filter(has_text=message)).to_be_visible()
    expect(page.get_by_role("status", name="Notices")).to_contain_text("password")
    expect(page.get_by_label("New password")).to_have_value("")
    page.reload()
    expect(page.get_by_role("heading", name=person.email)).to_be_visible()

    page.get_by_label("Password now").fill("seven green bottles")
    page.get_by_label("New password").fill(PASSWORD)
    page.context.clear_cookies()
    # A request in the background may be refused first, and the form is gone then.
    page.evaluate("document.querySelector('form [type=submit]')?.click()")
    expect(page.get_by_role("status").filter(has_text="You were signed out")).to_be_visible()
    expect(page.get_by_label("E-mail address")).to_be_focused()
    assert person.email not in page.content() + stored(page)


def test_project_is_made_once_although_the_server_is_away_or_slow(
    page: Page, person: Person, complaints: Complaints
) -> None:
    complaints.expected += ["ERR_FAILED", "request failed"]
    person.project(HOSTILE)
    code = person.http.post("/auth/codes").json()["code"]
    page.route("**/my/projects?*", lambda route: route.abort())
    page.goto(f"/#code={code}")
    expect(page.get_by_role("alert")).to_contain_text("can't be reached")
    page.unroute_all()
    page.get_by_role("button", name="Try again").click()
    expect(composer(page)).to_be_focused()
    expect(page.get_by_text("The demo answers here")).to_be_visible()

    held = Held()
    page.route("**/my/projects", held.hold)
    project_of(page, HOSTILE).click()
    page.get_by_role("menuitem", name="New project").click()
    dialog = page.get_by_role("dialog", name="New project")
    dialog.get_by_label("Name of the new project").fill("Second")
    button = dialog.get_by_role("button", name="Create project")
    button.click()
    expect(button).to_have_attribute("aria-disabled", "true")
    button.focus()
    page.keyboard.press("Enter")  # a busy button works once
    held.release()
    expect(project_of(page, "Second")).to_be_visible()
    page.unroute_all()
    assert [item["name"] for item in person.get("/my/projects")["items"]] == [HOSTILE, "Second"]
    expect(composer(page)).to_be_focused()
    page.go_back()
    expect(project_of(page, HOSTILE)).to_be_visible()
    page.go_forward()
    expect(project_of(page, "Second")).to_be_visible()


def test_late_answer_changes_nothing_and_a_project_is_renamed_and_deleted(
    page: Page, person: Person, complaints: Complaints
) -> None:
    complaints.expected.append("404")
    first, second = person.project(HOSTILE)["id"], person.project("Second")["id"]
    sign_in(page, person)
    page.goto(f"/p/{first}/c/new")
    project_of(page, HOSTILE).click()
    page.get_by_role("menuitemradio", name="Second").click()
    expect(project_of(page, "Second")).to_be_visible()
    late = Held()
    page.route(f"**/my/projects/{first}", late.hold)
    with page.expect_request(f"**/my/projects/{first}"):
        page.go_back()
    page.go_forward()
    expect(project_of(page, "Second")).to_be_visible()
    late.release()
    page.evaluate("fetch('/healthz').then((answer) => answer.text())")
    expect(page).to_have_url(re.compile(f"/p/{second}/"))
    expect(project_of(page, "Second")).to_be_visible()
    page.unroute_all()

    page.goto(f"/p/{first}/settings")
    page.get_by_label("Name of the project").fill(f"{HOSTILE} renamed")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status", name="Notices")).to_contain_text("Saved")
    page.reload()
    expect(page.get_by_label("Name of the project")).to_have_value(f"{HOSTILE} renamed")
    page.get_by_role("button", name="Delete project").click()
    question = page.get_by_role("alertdialog")
    expect(question).to_contain_text(f"{HOSTILE} renamed")
    question.get_by_role("textbox").fill("Second")
    question.get_by_role("button", name="Delete project").click()
    expect(question).to_be_visible()  # the name differs
    question.get_by_role("textbox").fill(f"{HOSTILE} renamed")
    question.get_by_role("button", name="Delete project").click()
    expect(project_of(page, "Second")).to_be_visible()
    expect(page.locator("img[src=x]")).to_have_count(0)
    assert [item["name"] for item in person.get("/my/projects")["items"]] == ["Second"]
    page.goto(f"/p/{first}/c/new")
    expect(page.get_by_text("This project doesn't exist, or isn't yours.")).to_be_visible()
    page.get_by_role("button", name="All projects").click()
    expect(project_of(page, "Second")).to_be_visible()


def test_nothing_is_wider_than_a_phone(page: Page, person: Person) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto("/")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert width_of_contents(page) == 360
    page.get_by_role("link", name="API").click()
    expect(page).to_have_url(re.compile("/docs$"))
    expect(page.get_by_role("heading", name="Artel")).to_be_visible()
    page.get_by_text("List Projects").click()
    expect(page.get_by_text("List your projects, oldest first.")).to_be_visible()
    page.wait_for_load_state("networkidle")

    name = "w" * 200
    project = person.project(name)["id"]
    agent = person.agent(project, name="a" * 63, role="r" * 64, model="m" * 200, system_prompt="p" * 1000)
    person.say(person.session(project), "m" * 400)
    sign_in(page, person)
    assert width_of_contents(page) == 360
    page.get_by_role("button", name="Open the menu").click()
    drawer = page.get_by_role("dialog", name="Pages")
    expect(drawer.get_by_role("button", name=name)).to_be_visible()
    assert width_of_contents(page) == 360
    drawer.get_by_role("link", name="Agents", exact=True).click()
    expect(drawer).to_have_count(0)
    parts = (f"agents/{agent['id']}", "agents", "plans", "files", "memory", "activity", "settings")
    for path in (*(f"/p/{project}/{part}" for part in parts), "/inbox", "/settings", "/settings/account", "/welcome"):
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        assert width_of_contents(page) == 360, path
        assert wider_than(page, 360) == [], path


def wider_than(page: Page, width: int) -> list[str]:
    """Return the elements that reach beyond the screen without a scroll bar of their own that leads there."""
    found: list[str] = page.evaluate(
        """(width) => [...document.querySelectorAll("main *, dialog[open] *")].filter((element) => {
          const box = element.getBoundingClientRect();
          if (box.right <= width + 1 || box.width <= 1) return false;
          for (let above = element.parentElement; above; above = above.parentElement)
            if (above.scrollWidth > above.clientWidth && getComputedStyle(above).overflowX !== "visible")
              return !above.closest("[tabindex], pre, table, [role=tablist], nav, .ellipsis") ;
          return true;
        }).map((element) => element.outerHTML.slice(0, 120))""",
        width,
    )
    return found
