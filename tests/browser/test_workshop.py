"""Agents, memory, activity and the palette of the web UI, in a browser."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.pages import sign_in
from tests.browser.visits import Complaints
from tests.conftest import StartServer
from tests.deadlines import eventually
from tests.model_server import Fail, Hold, ModelServer
from tests.people import Person
from tests.running import Server


@pytest.fixture(scope="module")
def server(start_shared_server: StartServer, models: ModelServer) -> Server:
    """A server with a scripted model."""
    return start_shared_server(OPENAI_BASE_URL=models.url, OPENAI_API_KEY="none")


@pytest.mark.req("AGT-02.1")
@pytest.mark.usefixtures("violations", "models")
def test_agent_from_a_template_is_changed_tried_and_deleted(page: Page, person: Person) -> None:
    project = person.project()["id"]
    sign_in(page, person)
    page.goto(f"/p/{project}/agents")
    page.get_by_role("button", name="New agent").click()
    page.get_by_text("Reviewer", exact=True).click()
    expect(page.get_by_role("textbox", name="Name")).to_have_value("agent_reviewer")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1, name="Reviewer")).to_be_visible()

    page.get_by_role("textbox", name="Role").fill("strict reader")
    page.get_by_role("tab", name="Tools").click()
    read = page.get_by_role("switch", name="Read a file of your folder")
    expect(page.get_by_text("A text file, whole or some of its lines.")).to_be_visible()
    expect(page.get_by_text("not instructions")).to_have_count(0)  # that is for models
    was_on = read.is_checked()
    read.click()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Not saved yet")).to_have_count(0)
    page.reload()
    expect(page.get_by_role("textbox", name="Role")).to_have_value("strict reader")
    page.get_by_role("tab", name="Tools").click()
    expect(page.get_by_role("switch", name="Read a file of your folder")).to_be_checked(checked=not was_on)

    page.get_by_role("button", name="Try it").click()
    page.get_by_role("textbox", name="Message").fill("Hello")
    page.get_by_role("textbox", name="Message").press("Enter")
    expect(page.get_by_role("log").get_by_role("article")).not_to_be_empty()

    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name="Delete…").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("list", name="Agents").get_by_text("Coder")).to_be_visible()
    expect(page.get_by_role("list", name="Agents").get_by_text("Reviewer", exact=True)).to_have_count(0)
    assert [archive["agent"] for archive in person.get(f"/my/projects/{project}/archives")["items"]] == [
        "agent_reviewer"
    ]


@pytest.mark.usefixtures("violations", "models")
def test_memory_is_added_found_pinned_edited_and_forgotten_with_undo(page: Page, person: Person) -> None:
    project = person.project()["id"]
    sign_in(page, person)
    page.goto(f"/p/{project}/memory")
    expect(page.get_by_text("Agents remember what helps later")).to_be_visible()
    page.get_by_role("button", name="Add").click()
    page.get_by_role("textbox", name="What should be remembered?").fill("The harbour opens at nine.")
    page.get_by_role("dialog").get_by_role("button", name="Add").click()
    expect(page.get_by_role("dialog")).to_have_count(0)

    page.get_by_role("textbox", name="What do you want to know?").fill("When does the harbour open?")
    page.get_by_role("button", name="Search", exact=True).click()
    row = page.get_by_role("listitem").filter(has_text="harbour")
    expect(row).to_contain_text("match")
    row.get_by_role("button", name="Actions").click()
    page.get_by_role("menuitem", name="Pin").click()
    expect(row).to_contain_text("Pinned")
    row.get_by_role("button", name="Actions").click()
    page.get_by_role("menuitem", name="Edit").click()
    page.get_by_role("textbox", name="Memory").fill("The harbour opens at ten.")
    page.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("at ten")
    for answer in ("Undo", "Dismiss"):
        row.get_by_role("button", name="Actions").click()
        page.get_by_role("menuitem", name="Forget").click()
        expect(row).to_have_count(0)
        page.get_by_role("status", name="Notices").get_by_role("button", name=answer).last.click()
        expect(row).to_have_count(1 if answer == "Undo" else 0)
    page.goto(f"/p/{project}/memory")  # what waits for an undo is done when the page is left
    expect(page.get_by_text("Agents remember what helps later")).to_be_visible()


@pytest.mark.usefixtures("violations", "models")
def test_palette_and_keys_lead_to_pages_with_the_figures_of_a_conversation(page: Page, person: Person) -> None:
    project = person.project()["id"]
    person.say(person.session(project), "Which lighthouse is the oldest?")
    sign_in(page, person)
    page.keyboard.press("Control+k")
    typed = page.get_by_role("combobox", name="Go to")
    expect(typed).to_be_focused()
    typed.fill("activ")
    expect(page.get_by_role("dialog").get_by_role("option", selected=True)).to_contain_text("Activity")
    typed.press("Enter")
    expect(page.get_by_role("heading", level=1, name="Activity")).to_be_visible()
    expect(page.get_by_text("Healthy", exact=True)).to_be_visible()
    expect(page.get_by_role("img", name="Messages: 1 in all")).to_be_visible()
    page.get_by_role("button", name="Table").click()
    expect(page.get_by_role("columnheader", name="Tokens")).to_be_visible()

    page.keyboard.press("Control+k")
    typed.fill("lighthouse")
    expect(page.get_by_role("group", name="In conversations").get_by_role("option").first).to_contain_text("lighthouse")
    typed.press("Escape")
    expect(typed).to_have_count(0)
    page.get_by_role("heading", level=1).click()
    page.keyboard.press("g")
    page.keyboard.press("m")
    expect(page.get_by_role("heading", level=1, name="Memory")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(page.get_by_role("textbox", name="Message")).to_be_focused()


@pytest.mark.req("UWS-25.2")
@pytest.mark.usefixtures("violations")
def test_activity_shows_health_and_work_over_time_and_an_alert_after_five_failures(
    page: Page, person: Person, models: ModelServer
) -> None:
    project = person.project()
    session = person.session(project["id"])
    coder = next(agent["id"] for agent in project["agents"] if agent["name"] == "agent_coder")
    sign_in(page, person)
    page.goto(f"/p/{project['id']}/activity")
    expect(page.get_by_text("Healthy", exact=True)).to_be_visible()
    expect(page.get_by_text("No alerts.")).to_be_visible()
    work = page.get_by_role("region", name="Last hour")
    expect(work.get_by_text("4 agents, up for")).to_be_visible()
    expect(work.get_by_role("img", name="Tasks finished: nothing in this time")).to_be_visible()

    models.script(hold := Hold(), about="long report")
    models.script(*[Fail(400)] * 5, about="impossible")
    person.submit(session, "Write a long report.", "writer")
    eventually(lambda: hold.arrived)
    other = person.session(project["id"])
    for _ in range(5):
        assert person.post(other, "Do the impossible.").status_code >= 400

    reason = f"Agent {coder} has failed several times in a row"
    health = page.get_by_role("listitem").filter(has_text="1 problem")
    expect(health).to_contain_text(reason)
    expect(page.get_by_role("region", name="Alerts").get_by_role("listitem")).to_contain_text(reason)
    expect(work.get_by_role("img", name="Tasks finished: 5 in all")).to_be_visible()
    expect(work.get_by_role("img", name="Tasks under way: at most 1 at")).to_be_visible()

    hold.release()
    for agent in project["agents"]:
        person.http.post(f"/my/projects/{project['id']}/agents/{agent['id']}/deregister")
    page.reload()
    unhealthy = page.get_by_role("listitem").filter(has_text="Not working")
    expect(unhealthy).to_contain_text("4 of 4 agents are not on the bus")


@pytest.mark.usefixtures("violations", "models")
def test_agent_is_exported_and_imported_under_another_name(
    page: Page, person: Person, complaints: Complaints, tmp_path: Path
) -> None:
    complaints.expected += ["422", "/export"]  # a download ends the request of the page
    project = person.project()["id"]
    sign_in(page, person)
    page.goto(f"/p/{project}/agents")
    page.get_by_role("list", name="Agents").get_by_role("link", name="Coder").click()
    page.get_by_role("button", name="More actions").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="Export").click()
    exported = Path(download.value.path()).read_text()
    assert "agent_coder" in exported

    broken = tmp_path / "broken.yaml"
    broken.write_text(exported.replace("temperature:", "temprature:"))
    page.goto(f"/p/{project}/agents")
    page.get_by_role("button", name="Import…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("File (YAML)").set_input_files(broken)
    dialog.get_by_role("textbox", name="Name here").fill("agent_second")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("alert")).to_contain_text("temprature")
    dialog.get_by_label("File (YAML)").set_input_files(download.value.path())
    dialog.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1, name="Second")).to_be_visible()
    agents = {agent["name"]: agent for agent in person.get(f"/my/projects/{project}/agents")["items"]}
    same = ("role", "model", "system_prompt", "tools", "temperature")
    assert [agents["agent_second"][name] for name in same] == [agents["agent_coder"][name] for name in same]


@pytest.mark.req("CHT-10.4")
@pytest.mark.usefixtures("violations", "models")
def test_keys_walk_through_conversations_and_close_the_panel(page: Page, person: Person) -> None:
    project = person.project()["id"]
    older, newer = (person.session(project, title=title) for title in ("Older talk", "Newer talk"))
    person.say(older, "The first")
    person.say(newer, "The second")
    sign_in(page, person)
    page.goto(f"/p/{project}/c/{newer}")
    composer = page.get_by_role("textbox", name="Message")
    expect(composer).to_be_focused()
    expect(page.get_by_role("link", name="Newer talk")).to_have_attribute("aria-current", "page")
    page.keyboard.press("Alt+ArrowDown")
    expect(page).to_have_url(re.compile(f"{older}$"))
    expect(composer).to_be_focused()
    page.keyboard.press("Alt+ArrowDown")  # it is the last one
    page.keyboard.press("Alt+ArrowUp")
    expect(page).to_have_url(re.compile(f"{newer}$"))

    panel = page.get_by_role("complementary", name="Details")
    page.get_by_role("log").get_by_role("article").get_by_role("button", name="Details").click()
    expect(panel).to_be_visible()
    composer.focus()
    page.keyboard.type("@cod")
    expect(page.get_by_role("option", name="Coder Agent")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("option", name="Coder Agent")).to_have_count(0)
    expect(panel).to_be_visible()  # the completion was closed
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    page.get_by_role("log").get_by_role("article").get_by_role("button", name="Details").click()
    expect(panel).to_be_visible()
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    page.get_by_role("heading", level=1).click()
    page.keyboard.press("Escape")
    page.get_by_role("log").click()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_contain_text("Previous or next conversation")


@pytest.mark.req("CHT-10.4")
@pytest.mark.usefixtures("violations", "models")
def test_palette_opens_parts_of_settings_and_asks_an_agent(page: Page, person: Person) -> None:
    project = person.project()["id"]
    sign_in(page, person)
    page.goto(f"/p/{project}/agents")
    expect(page.get_by_role("list", name="Agents")).to_be_visible()
    typed = page.get_by_role("combobox", name="Go to")
    for words, address in (
        ("settings account", "/settings/account"),
        ("project tools", f"/p/{project}/settings/tools"),
    ):
        page.keyboard.press("Control+k")
        typed.fill(words)
        typed.press("Enter")
        expect(page).to_have_url(re.compile(f"{address}$"))
    page.keyboard.press("Control+k")
    typed.fill("ask writer")
    typed.press("Enter")
    expect(page.get_by_role("textbox", name="Message")).to_be_focused()
    expect(page.get_by_role("combobox", name="To")).to_have_value("agent_writer")
