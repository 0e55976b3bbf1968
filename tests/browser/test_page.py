"""The page at `/` and the documentation at `/docs` in a browser: sign-in, projects and agents."""

import json
import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.visits import Complaints, Held, arrive, open_project, show_agents, width_of_contents
from tests.people import PASSWORD, Person

STARTER_PACK = ["agent_coder", "agent_analyzer", "agent_writer", "agent_researcher"]


def agent_names(page: Page) -> Locator:
    return page.get_by_role("list", name="Agents").get_by_role("heading", level=3)


def card_of(page: Page, agent: str) -> Locator:
    heading = page.get_by_role("heading", name=agent, exact=True)
    return page.get_by_role("list", name="Agents").get_by_role("listitem").filter(has=heading)


def stored(page: Page) -> dict[str, str]:
    """Return what the page stores in the browser."""
    kept: dict[str, str] = page.evaluate("({ ...localStorage, ...sessionStorage })")
    return kept | {cookie["name"]: cookie["value"] for cookie in page.context.cookies()}


@pytest.mark.req("SEC-04.1")
def test_the_link_of_up_signs_in_once_and_for_every_tab(page: Page, person: Person, complaints: Complaints) -> None:
    person.project("Website")
    code = person.http.post("/auth/codes").json()["code"]

    page.goto(f"/#code={code}")

    expect(page.get_by_role("banner")).to_contain_text(person.email)
    history = page.context.new_cdp_session(page).send("Page.getNavigationHistory")
    assert [entry["url"] for entry in history["entries"] if "code" in entry["url"]] == []
    [cookie] = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
    assert page.evaluate("[{ ...localStorage, ...sessionStorage }, document.cookie]") == [{}, ""]
    second = page.context.new_page()
    second.goto("/")
    expect(second.get_by_role("link", name="Website", exact=True)).to_be_visible()
    second.close()
    page.reload()
    expect(page.get_by_role("link", name="Website", exact=True)).to_be_visible()
    complaints.expected.append("403")
    page.context.clear_cookies()
    page.goto(f"/?again#code={code}")
    expect(page.get_by_text("This link has expired. Run artel link to get a new one.")).to_be_visible()
    expect(page.locator("#sign-in-reason code")).to_have_text("artel link")
    expect(page.get_by_label("E-mail address")).to_be_focused()


def test_the_token_of_a_link_is_exchanged_and_leaves_address_and_history(page: Page, person: Person) -> None:
    person.project("Website")

    arrive(page, person)

    expect(page.get_by_role("banner")).to_contain_text(person.email)
    expect(page.get_by_role("link", name="Website", exact=True)).to_be_visible()
    assert person.token not in page.url
    history = page.context.new_cdp_session(page).send("Page.getNavigationHistory")
    assert [entry["url"] for entry in history["entries"] if "token" in entry["url"]] == []
    assert person.token not in stored(page).values()


@pytest.mark.req("SEC-04.2")
@pytest.mark.parametrize("proof", ["code", "token"])
def test_sign_in_link_asks_before_replacing_session(
    page: Page, person: Person, other: Person, complaints: Complaints, proof: str
) -> None:
    complaints.expected.append("409")
    other.project("Of somebody else")
    open_project(page, person)
    elsewhere = page.context.new_page()
    elsewhere.goto("/")
    expect(elsewhere.get_by_role("banner")).to_contain_text(person.email)
    foreign = other.token if proof == "token" else other.http.post("/auth/codes").json()["code"]
    question = page.get_by_role("alertdialog", name="Change the account?")

    page.goto(f"/#{proof}={foreign}")
    expect(question).to_contain_text(f"Sign in as {other.email}? You are signed in as {person.email}.")
    question.get_by_role("button", name="Stay signed in").click()

    expect(page.get_by_role("heading", name="Projects", exact=True)).to_be_focused()
    expect(page.get_by_role("banner")).to_contain_text(person.email)
    page.goto(f"/#{proof}={foreign}")
    question.get_by_role("button", name="Change account").click()
    expect(page.get_by_role("link", name="Of somebody else")).to_be_visible()
    expect(page.get_by_role("banner")).to_contain_text(other.email)
    expect(page.get_by_role("link", name="Website")).to_have_count(0)
    expect(elsewhere.get_by_role("banner")).to_contain_text(other.email)
    assert foreign not in page.url
    elsewhere.close()


def test_a_newcomer_registers_creates_a_project_and_meets_the_team(page: Page) -> None:
    newcomer = f"newcomer.{id(page)}@example.org"
    page.goto("/")
    page.get_by_role("button", name="Create an account").click()
    page.get_by_label("E-mail address").fill(newcomer)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Create account").click()

    expect(page.get_by_role("banner")).to_contain_text(newcomer)
    expect(page.get_by_role("heading", name="No projects yet")).to_be_visible()
    page.get_by_label("Name of a new project").fill("My first project")
    page.get_by_role("button", name="Create project").click()

    expect(page.get_by_role("heading", level=1, name="My first project")).to_be_focused()
    show_agents(page)
    expect(agent_names(page)).to_have_text(STARTER_PACK)
    coder = card_of(page, "agent_coder")
    for text in ("developer", "gpt-4", "0.3", "4096", "tool_run_command", "local"):
        expect(coder).to_contain_text(text)


@pytest.mark.req("SEC-04.5")
@pytest.mark.parametrize("is_open", [True, False])
def test_registration_is_offered_only_when_open(page: Page, is_open: bool) -> None:
    state = json.dumps({"account": None, "registration_open": is_open})
    page.route("**/auth/browser", lambda route: route.fulfill(body=state))
    page.goto("/")

    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    expect(page.get_by_role("button", name="Create an account")).to_have_count(int(is_open))


def test_a_text_of_the_server_is_shown_with_code_and_never_as_html(page: Page, complaints: Complaints) -> None:
    complaints.expected.append("401")
    detail = "Run `artel <b>x</b>`, not <i>that</i>, nor ` this."
    problem = json.dumps({"status": 401, "code": "x", "detail": detail})
    page.goto("/")
    page.get_by_label("E-mail address").fill("ada@example.org")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.route("**/auth/browser", lambda route: route.fulfill(status=401, body=problem))
    page.get_by_role("button", name="Sign in").click()

    expect(page.get_by_role("alert")).to_have_text("Run artel <b>x</b>, not <i>that</i>, nor ` this.")
    expect(page.get_by_role("alert").locator("code")).to_have_text("artel <b>x</b>")


def test_a_known_user_signs_in_and_out(page: Page, person: Person) -> None:
    page.goto("/")
    page.get_by_label("E-mail address").fill(person.email)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("banner")).to_contain_text(person.email)

    page.get_by_role("button", name="Sign out").click()

    expect(page.get_by_text("You are signed out.")).to_be_visible()
    expect(page.get_by_label("Password", exact=True)).to_have_value("")
    assert stored(page) == {}
    assert person.email not in page.content()
    page.reload()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


@pytest.mark.req("SEC-04.6")
def test_a_user_sees_and_ends_logins_and_changes_the_password(
    page: Page, person: Person, complaints: Complaints
) -> None:
    complaints.expected.append("403")
    form = {"username": person.email, "password": PASSWORD}
    elsewhere = person.http.post("/auth/token", data=form, headers={"User-Agent": "another device"}).json()
    arrive(page, person)
    page.get_by_role("button", name="Account").click()
    dialog = page.get_by_role("dialog", name="Account")
    items = dialog.get_by_role("list", name="Logins").get_by_role("listitem")
    expect(items).to_have_count(3)
    expect(items.filter(has_text="this browser")).to_have_count(1)

    items.filter(has_text="another device").get_by_role("button").click()
    expect(items).to_have_count(2)
    ended = {"Authorization": f"Bearer {elsewhere['access_token']}"}
    assert person.http.get("/auth/me", headers=ended).status_code == 401

    for old, message in (("not my password", "The old password is wrong"), (PASSWORD, "")):
        dialog.get_by_label("Old password").fill(old)
        dialog.get_by_label("New password").fill("seven green bottles")
        dialog.get_by_role("button", name="Change password").click()
        if message:
            expect(dialog.get_by_role("alert")).to_contain_text(message)
    expect(dialog).to_have_count(0)
    page.reload()
    expect(page.get_by_role("banner")).to_contain_text(person.email)


def test_a_wrong_password_is_explained_and_nothing_is_stored(
    page: Page, person: Person, complaints: Complaints
) -> None:
    complaints.expected.append("401")
    page.goto("/")
    page.get_by_label("E-mail address").fill(person.email)
    page.get_by_label("Password", exact=True).fill("not my password")

    with page.expect_response("**/auth/browser") as answered:
        page.get_by_role("button", name="Sign in").click()

    expect(page.get_by_role("alert")).to_have_text(answered.value.json()["detail"])
    expect(page.get_by_label("E-mail address")).to_have_value(person.email)
    assert answered.value.status == 401
    assert stored(page) == {}


@pytest.mark.parametrize(
    ("status", "detail"),
    [(403, "Registration is closed."), (422, "The request is not valid."), (429, "Try again in 7 seconds.")],
)
def test_refused_form_shows_error(page: Page, complaints: Complaints, status: int, detail: str) -> None:
    complaints.expected.append(str(status))
    problem = json.dumps({"status": status, "code": "x", "detail": detail})
    page.route("**/auth/register", lambda route: route.fulfill(status=status, body=problem))
    page.goto("/")
    page.get_by_role("button", name="Create an account").click()
    page.get_by_label("E-mail address").fill("ada@example.org")
    page.get_by_label("Password", exact=True).fill(PASSWORD)

    page.get_by_role("button", name="Create account").click()

    expect(page.get_by_role("alert")).to_have_text(detail)
    assert stored(page) == {}


def test_unreachable_server_is_shown_with_retry(page: Page, person: Person, complaints: Complaints) -> None:
    complaints.expected += ["ERR_FAILED", "request failed"]
    person.project("Website")
    page.route("**/my/projects*", lambda route: route.abort())
    page.goto(f"/#token={person.token}")
    expect(page.get_by_role("alert")).to_contain_text("can't be reached")

    page.unroute_all()
    page.get_by_role("button", name="Try again").click()

    expect(page.get_by_role("link", name="Website")).to_be_visible()


def test_invalid_login_leads_to_sign_in_form(page: Page, person: Person, complaints: Complaints) -> None:
    complaints.expected.append("401")
    open_project(page, person)
    page.get_by_role("button", name="Rename").click()
    page.context.clear_cookies()

    page.get_by_role("dialog").get_by_role("button", name="Rename").click()

    expect(page.get_by_role("status").filter(has_text="You were signed out")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_label("E-mail address")).to_be_focused()
    assert stored(page) == {}


def test_names_are_shown_as_text_not_html(page: Page, person: Person) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    person.agent(open_project(page, person, hostile), role=hostile, system_prompt=hostile)
    page.reload()

    expect(page.get_by_role("heading", level=1)).to_have_text(hostile)
    expect(card_of(page, "agent_reviewer").get_by_text(hostile)).to_have_count(2)  # role and prompt
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("alertdialog")).to_contain_text(hostile)
    expect(page.get_by_role("main").locator("img")).to_have_count(0)


def test_a_project_is_renamed_and_deleted(page: Page, person: Person) -> None:
    person.project("Stays")
    open_project(page, person, "Before")
    page.get_by_role("button", name="Rename").click()
    page.get_by_role("dialog").get_by_label("Name").fill("After")
    page.get_by_role("dialog").get_by_role("button", name="Rename").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("After")

    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("alertdialog")).to_contain_text("After")
    page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()

    expect(page.get_by_role("heading", name="Projects", exact=True)).to_be_focused()
    expect(page.get_by_role("main").get_by_role("listitem").get_by_role("link")).to_have_text(["Stays"])
    assert [item["name"] for item in person.http.get("/my/projects").json()["items"]] == ["Stays"]


def test_an_agent_is_added_changed_and_deleted_for_good(page: Page, person: Person) -> None:
    project_id = open_project(page, person)
    dialog = page.get_by_role("dialog")

    page.get_by_role("button", name="Add an agent").click()
    dialog.get_by_label("Name").fill("agent_reviewer")
    dialog.get_by_label("Role").fill("reviewer")
    dialog.get_by_label("Model").fill("gpt-4o")
    dialog.get_by_label("System prompt").fill("Review.")
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="agent_reviewer")).to_be_focused()
    page.reload()
    expect(agent_names(page)).to_have_text([*STARTER_PACK, "agent_reviewer"])

    page.get_by_role("button", name="Edit agent_reviewer").click()
    expect(dialog.get_by_label("System prompt")).to_have_value("Review.")
    dialog.get_by_label("Role").fill("critic")
    dialog.get_by_label("Temperature").fill("0.25")
    dialog.get_by_label("Max. tokens").fill("512")
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_role("button", name="Edit agent_reviewer")).to_be_focused()
    page.reload()
    for text in ("critic", "0.25", "512", "gpt-4o"):
        expect(card_of(page, "agent_reviewer")).to_contain_text(text)
    [agent] = person.http.get(f"/my/projects/{project_id}/agents", params={"offset": 4}).json()["items"]
    assert (agent["role"], agent["temperature"], agent["max_tokens"]) == ("critic", 0.25, 512)

    page.get_by_role("button", name="Delete agent_reviewer").click()
    expect(page.get_by_role("alertdialog")).to_contain_text("agent_reviewer")
    page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="agent_researcher")).to_be_focused()
    page.reload()
    expect(agent_names(page)).to_have_text(STARTER_PACK)


def test_editing_sends_only_what_was_changed(page: Page, person: Person) -> None:
    project_id = open_project(page, person)
    page.get_by_role("button", name="Edit agent_coder").click()
    agents = f"/my/projects/{project_id}/agents"
    agent_id = person.http.get(agents).json()["items"][0]["id"]
    person.http.patch(f"{agents}/{agent_id}", json={"model": "changed-elsewhere"})

    page.get_by_role("dialog").get_by_label("Role").fill("architect")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()

    expect(card_of(page, "agent_coder")).to_contain_text("architect")
    expect(card_of(page, "agent_coder")).to_contain_text("changed-elsewhere")


def test_taken_name_is_shown_in_dialog(page: Page, person: Person, complaints: Complaints) -> None:
    complaints.expected.append("409")
    open_project(page, person)
    page.get_by_role("button", name="Add an agent").click()
    dialog = page.get_by_role("dialog")
    for label, text in {"Name": "agent_coder", "Role": "r", "Model": "m", "System prompt": "p"}.items():
        dialog.get_by_label(label).fill(text)

    dialog.get_by_role("button", name="Save").click()

    expect(dialog.get_by_role("alert")).to_contain_text("agent_coder")
    expect(dialog.get_by_label("Role")).to_have_value("r")


def test_a_button_is_busy_while_it_works_and_works_once(page: Page, person: Person) -> None:
    held = Held()
    arrive(page, person)
    page.route("**/my/projects", held.hold)
    page.get_by_label("Name of a new project").fill("Once")
    button = page.get_by_role("button", name="Create project")

    button.click()
    expect(button).to_have_attribute("aria-disabled", "true")
    button.focus()
    page.keyboard.press("Enter")
    held.let_go()

    expect(page.get_by_role("heading", level=1, name="Once")).to_be_visible()
    assert len(held.routes) == 1
    assert person.http.get("/my/projects").json()["total"] == 1


def test_all_pages_of_projects_can_be_seen(page: Page, person: Person) -> None:
    names = [person.project(f"Project {number}")["name"] for number in range(52)]
    arrive(page, person)
    links = page.get_by_role("main").get_by_role("listitem").get_by_role("link")
    expect(links).to_have_count(50)

    page.get_by_role("button", name="Show more").click()

    expect(links).to_have_text(names)
    expect(links.nth(50)).to_be_focused()
    expect(page.get_by_role("button", name="Show more")).to_have_count(0)


def test_everything_works_by_keyboard(page: Page, person: Person) -> None:
    arrive(page, person)
    press = page.keyboard.press

    press("Tab")
    expect(page.get_by_label("Name of a new project")).to_be_focused()
    page.keyboard.type("By keyboard")
    press("Enter")
    expect(page.get_by_role("heading", level=1, name="By keyboard")).to_be_focused()
    press("Tab")
    press("Tab")
    expect(page.get_by_role("link", name="Agents", exact=True)).to_be_focused()
    press("Enter")
    expect(agent_names(page)).to_have_text(STARTER_PACK)
    page.get_by_role("heading", level=1).focus()

    # From the heading on, Tab reaches all that can be used, in the order of the page, and one sees where one is.
    tools = [card_of(page, agent).get_by_text("Tools (").inner_text() for agent in STARTER_PACK]
    expected = ["Rename", "Delete", "Chat", "Agents", "Worker space", "Add an agent"]
    for agent, summary in zip(STARTER_PACK, tools, strict=True):
        expected += ["System prompt", summary, f"Edit {agent}", f"Delete {agent}"]
    reached = []
    for _ in expected:
        press("Tab")
        reached.append(page.evaluate("document.activeElement.ariaLabel ?? document.activeElement.innerText"))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", reached
    assert reached == expected

    # The last one deletes the last agent: first not, then yes.
    press("Enter")
    expect(page.get_by_role("alertdialog").get_by_role("button", name="Cancel")).to_be_focused()
    press("Escape")
    expect(page.get_by_role("alertdialog")).to_have_count(0)
    expect(page.get_by_role("button", name="Delete agent_researcher")).to_be_focused()
    press("Enter")
    press("Tab")
    press("Enter")
    expect(page.get_by_role("heading", name="agent_writer")).to_be_focused()
    expect(agent_names(page)).to_have_text(STARTER_PACK[:3])


def test_a_banner_says_that_the_demo_brain_answers(page: Page, person: Person) -> None:
    open_project(page, person, agents=False)
    banner = page.get_by_text("The demo brain answers here")
    expect(banner).to_be_hidden()
    page.get_by_label("To", exact=True).select_option("agent_coder")
    page.get_by_role("textbox", name="Message").fill("17 * 23")

    page.keyboard.press("Enter")

    expect(page.get_by_role("region", name="Messages")).to_contain_text("391")
    expect(banner).to_contain_text("OPENAI_API_KEY")
    page.reload()
    expect(banner).to_be_visible()


def test_back_and_forward_go_between_list_and_project(page: Page, person: Person) -> None:
    open_project(page, person, agents=False)
    page.go_back()
    expect(page.get_by_role("heading", name="Projects", exact=True)).to_be_focused()
    page.go_forward()
    expect(page.get_by_role("heading", level=1, name="Website")).to_be_focused()


def test_late_response_does_not_replace_current_page(page: Page, person: Person) -> None:
    held = Held()
    project_id = open_project(page, person, agents=False)
    page.go_back()
    page.route(f"**/my/projects/{project_id}", held.hold)
    with page.expect_request(f"**/my/projects/{project_id}"):
        page.get_by_role("link", name="Website").click()
    expect(page.get_by_text("Loading…")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Projects", exact=True)).to_be_focused()

    with page.expect_response(f"**/my/projects/{project_id}") as late:
        held.let_go()
    late.value.finished()
    page.evaluate(
        "fetch('/healthz').then((answer) => answer.text())"
    )  # whatever came before it, the page has dealt with

    expect(page.get_by_role("heading", level=1)).to_have_text("Projects")


def test_nothing_is_wider_than_a_phone(page: Page, person: Person) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto("/")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert width_of_contents(page) == 360

    name = "w" * 200
    project_id = open_project(page, person, name)
    person.agent(project_id, name="a" * 63, role="r" * 64, model="m" * 200, system_prompt="p" * 1000)
    page.reload()
    expect(agent_names(page)).to_have_count(5)
    for summary in page.get_by_text("System prompt").filter(visible=True).all():
        summary.click()
    assert width_of_contents(page) == 360

    for opener in ("Rename", "Delete", "Add an agent", f"Edit {'a' * 63}", f"Delete {'a' * 63}"):
        page.get_by_role("button", name=opener, exact=True).click()
        expect(page.locator("dialog[open]")).to_be_visible()
        assert width_of_contents(page) == 360, opener
        page.keyboard.press("Escape")

    page.get_by_role("link", name="All projects").click()
    expect(page.get_by_role("link", name=name)).to_be_visible()
    assert width_of_contents(page) == 360


def test_the_documentation_of_the_api_is_one_link_away(page: Page) -> None:
    page.goto("/")
    page.get_by_role("link", name="API").click()

    expect(page).to_have_url(re.compile("/docs$"))
    expect(page.get_by_role("heading", name="Artel")).to_be_visible()
    page.get_by_text("List Projects").click()
    expect(page.get_by_text("List your projects, oldest first.")).to_be_visible()
    page.wait_for_load_state("networkidle")
