"""The chat page of a user who sends requests to the orchestrator."""

from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Locator, Page

from tests.actors.chat_page import ChatPage
from tests.actors.plan_user import PlanUser
from tests.actors.team import Team


@dataclass
class PlanPage:
    """A chat page with an open session, and its user."""

    chat: ChatPage
    user: PlanUser

    @property
    def page(self) -> Page:
        return self.chat.page

    @property
    def team(self) -> Team:
        return self.user.team

    @property
    def plan(self) -> Locator:
        return self.page.locator("#messages > .plan")

    @property
    def state(self) -> Locator:
        return self.plan.locator(".top .badge")

    def task(self, name: str) -> Locator:
        return self.plan.locator(f'.task[data-task="{name}"]')

    def button(self, name: str) -> Locator:
        return self.plan.get_by_role("button", name=name, exact=True)

    def ask(self, text: str = "Please do it all.") -> None:
        self.chat.send(f"{self.team.mark} {text}", "")

    def workflow(self) -> dict[str, Any]:
        """Return the newest workflow of the conversation."""
        [newest, *_] = self.user.person.get("/my/workflows", session_id=self.user.session)["items"]
        found: dict[str, Any] = newest
        return found
