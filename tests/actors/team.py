"""A scripted model of a whole team: it makes the plan and does its tasks as the test says."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.model_server import Behaviour, Fail, ModelRequest, Say

DIAMOND = {"a": "", "b": "a", "c": "a", "d": "b c"}


CHAIN = {"a": "", "b": "a", "c": "b"}


@dataclass
class Team:
    """A model that answers the planner, every task and the merge as the test says.

    `needs` are the tasks of the plan with their dependencies, `does` the behaviour of single tasks; `called` are the
    tasks in the order of their model calls, `requests` their last requests.
    """

    mark: str
    needs: Mapping[str, str] = field(default_factory=dict)
    does: dict[str, Behaviour] = field(default_factory=dict)
    plans: list[Behaviour] = field(default_factory=list)
    agent: Callable[[str], str] = lambda _: "agent_coder"
    called: list[str] = field(default_factory=list)
    planned: int = 0
    merged: int = 0
    merges: list[ModelRequest] = field(default_factory=list)
    requests: dict[str, ModelRequest] = field(default_factory=dict)

    async def __call__(self, request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
        if request.schema_name == "plan":
            self.planned += 1
            plan = self.plans.pop(0) if self.plans else Say(json.dumps({"tasks": self.tasks()}))
            return await plan(request, http)
        task = next((name for name in self.needs if request.text.startswith(f"{self.mark} do {name}.")), None)
        if task is None:
            self.merged += 1
            self.merges.append(request)
            return await self.does.get("merge", Say("All of it, in one."))(request, http)
        self.called.append(task)
        self.requests[task] = request
        return await self.does.get(task, Say(f"Result of {task}."))(request, http)

    def tasks(self) -> list[dict[str, Any]]:
        return [
            {
                "id": name,
                "agent": self.agent(name),
                "description": f"{self.mark} do {name}.",
                "depends_on": after.split(),
            }
            for name, after in self.needs.items()
        ]


class Together:
    """Release requests when so many of them are in flight at the same time."""

    def __init__(self, parties: int) -> None:
        self.most = 0
        self._parties = parties
        self._inside = 0
        self._all = asyncio.Event()

    async def __call__(self, request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
        self._inside += 1
        self.most = max(self.most, self._inside)
        if self._inside >= self._parties:
            self._all.set()
        try:
            await asyncio.wait_for(self._all.wait(), 25)
        except TimeoutError:
            return await Fail(400, {"message": "It is alone."})(request, http)
        finally:
            self._inside -= 1
        return await Say("Done together.")(request, http)


@dataclass
class FirstThen:
    """Behave one way for the first calls, then another."""

    first: Behaviour
    times: int
    then: Behaviour

    async def __call__(self, request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
        self.times -= 1
        return await (self.first if self.times >= 0 else self.then)(request, http)
