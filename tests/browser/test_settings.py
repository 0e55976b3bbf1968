"""Models and the first visit in the web UI, on a server that starts without any model."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.conftest import StartServer
from tests.model_server import ModelServer
from tests.people import Person, client
from tests.running import Server, clean_environment

CLOSED = "http://127.0.0.1:9/v1"


@pytest.fixture(scope="module")
def server(start_shared_server: StartServer) -> Server:
    return start_shared_server()


@pytest.fixture(scope="module")
def first(server: Server) -> Person:
    """The first account of the server, its administrator."""
    return Person.register(server.url)


@pytest.fixture
def administrator(server: Server, first: Person) -> Iterator[Person]:
    """The administrator of a server without providers."""
    person = replace(first, http=client(server.url, first.token))
    yield person
    for provider in person.get("/admin/providers")["items"]:
        person.http.delete(f"/admin/providers/{provider['id']}").raise_for_status()
    unset = {"default_model": None, "planner_model": None}
    person.http.patch("/admin/settings", json=unset).raise_for_status()


@pytest.fixture
def models() -> Iterator[ModelServer]:
    with ModelServer().running_in_thread() as running:
        running.models = ["gpt-4o-mini", "house-model"]
        yield running


def open_with_link(page: Page, person: Person) -> None:
    code = person.http.post("/auth/codes").json()["code"]
    page.goto(f"/#code={code}")


def test_first_visit_leads_from_a_refused_address_to_a_model_and_a_first_task(
    page: Page, administrator: Person, models: ModelServer
) -> None:
    open_with_link(page, administrator)
    expect(page.get_by_role("heading", level=1, name="Welcome to Artel")).to_be_visible()

    page.get_by_role("radio", name="Other server").check()
    page.get_by_role("textbox", name="Address").fill(CLOSED)
    page.get_by_role("button", name="Test and use").click()
    expect(page.get_by_role("alert").filter(has_text=f"{CLOSED}/models can't be reached")).to_be_visible()
    page.get_by_role("textbox", name="Name", exact=True).fill("House")
    page.get_by_role("textbox", name="Address").fill(models.url)
    page.get_by_role("button", name="Test and use").click()

    expect(page.get_by_role("combobox", name="Agents use")).to_have_value("house/gpt-4o-mini")
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Not now").click()
    page.get_by_role("button", name="Explain this folder").click()
    expect(page.get_by_role("textbox", name="Message")).not_to_be_empty()
    [project] = administrator.get("/my/projects")["items"]
    agents = administrator.get(f"/my/projects/{project['id']}/agents")["items"]
    assert {agent["model"] for agent in agents} == {"house/gpt-4o-mini"}

    page.goto("/")
    expect(page.get_by_role("textbox", name="Message")).to_be_visible()


def test_added_provider_is_tested_and_its_models_are_listed(
    page: Page, administrator: Person, models: ModelServer
) -> None:
    open_with_link(page, administrator)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.goto("/manage/models")
    page.get_by_role("button", name="Add a provider").click()
    dialog = page.get_by_role("dialog", name="Add a provider")
    dialog.get_by_role("combobox", name="Provider").select_option("openai_compatible")
    dialog.get_by_role("textbox", name="Name", exact=True).fill("House")
    dialog.get_by_role("textbox", name="Address").fill(CLOSED)
    dialog.get_by_role("button", name="Test and add").click()
    expect(dialog.get_by_role("alert").filter(has_text=f"{CLOSED}/models can't be reached")).to_be_visible()
    dialog.get_by_role("textbox", name="Address").fill(models.url)
    dialog.get_by_label("Key").fill("sk-secret-x7Qd")
    dialog.get_by_role("button", name="Test and add").click()

    provider = page.get_by_role("region", name="Providers").get_by_role("listitem")
    expect(provider).to_contain_text("House")
    expect(provider).to_contain_text("Key …x7Qd")
    expect(provider).to_contain_text("2 models")
    table = page.get_by_role("table", name="Models")
    expect(table.get_by_role("row").filter(has_text="house/house-model")).to_be_visible()
    expect(page.get_by_text("sk-secret")).to_have_count(0)
    page.get_by_role("combobox", name="New agents").select_option("house/house-model")

    expect(table.get_by_role("row").filter(has_text="house/house-model")).to_contain_text("Default")
    assert administrator.get("/my/models")["default_model"] == "house/house-model"


def test_administrator_opens_and_closes_registration(page: Page, tmp_path: Path) -> None:
    browser, env = page.context.browser, clean_environment(tmp_path)
    assert browser is not None
    del env["ARTEL_REGISTRATION_OPEN"]  # it would win
    own = Server.start(tmp_path, env)
    try:
        code = Person.register(own.url).http.post("/auth/codes").json()["code"]  # the first account is let in
        page.goto(f"{own.url}/manage/users#code={code}")
        switch = page.get_by_role("switch", name="Anybody may register")
        stranger = browser.new_context(base_url=own.url).new_page()
        for is_open in (True, False):
            expect(switch).to_be_checked(checked=not is_open)
            switch.click()
            expect(switch).to_be_checked(checked=is_open)
            expect(page.get_by_text("Saved").last).to_be_visible()
            stranger.goto("/")
            expect(stranger.get_by_role("button", name="Sign in", exact=True)).to_be_visible()
            expect(stranger.get_by_role("button", name="Create an account")).to_have_count(int(is_open))
        stranger.context.close()
        page.goto("about:blank")
    finally:
        own.stop()


@pytest.mark.req("AGT-02.1")
def test_kinds_of_memories_and_parts_of_the_server_are_in_the_chosen_language(
    page: Page, administrator: Person
) -> None:
    project = administrator.project()
    agent = project["agents"][0]["id"]
    url = f"/my/projects/{project['id']}/agents/{agent}/context"
    note = {"content": "Remember the lighthouse.", "type": "decision", "success": True}
    administrator.http.post(url, json=note).raise_for_status()
    open_with_link(page, administrator)
    expect(page.get_by_role("main").get_by_role("heading").first).to_be_visible()
    page.goto("/settings")
    page.get_by_role("combobox", name="Language").select_option("Русский")
    expect(page.get_by_role("heading", level=1, name="Настройки")).to_be_visible()

    page.goto(f"/p/{project['id']}/agents/{agent}")
    page.get_by_role("tab", name="Память").click()
    expect(page.get_by_text("Remember the lighthouse.")).to_be_visible()
    expect(page.get_by_text("Решение", exact=True)).to_be_visible()
    page.get_by_role("tab", name="Инструменты").click()
    expect(page.get_by_text("Прочитать файл вашей папки")).to_be_visible()
    expect(page.get_by_text("not instructions")).to_have_count(0)

    page.goto("/manage/system")
    parts = page.get_by_role("table").first
    expect(parts).to_contain_text("База данных")
    expect(parts.get_by_role("row").filter(has_text="Индекс памяти")).to_contain_text("работает")
