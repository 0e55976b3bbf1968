"""The policy for tool calls: risk levels, path rules, rate limit, and which calls need an approval."""

import hashlib
import json
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Literal

from artel.contract.project_settings import PolicySettings, ToolRule
from artel.paths.errors import PathError
from artel.paths.policy import is_secret, matches, split_path

CALLS_PER_MINUTE = 60
MAX_PROJECTS = 1_000  # whose call times are held before those of idle ones are dropped
MANY_COMPARISONS = 200  # of entries with globs; more are made on a thread
LISTS = ("files", "matches", "left_out", "unreadable")  # fields of a result with lists of entries that have a path
HIGH_RISK_SECONDS = 600

Risk = Literal["normal", "high"]


class Level(StrEnum):
    """How much harm a tool can do."""

    SAFE = "safe"
    MODERATE = "moderate"
    RESTRICTED = "restricted"
    CRITICAL = "critical"


class NotCalled(Exception):
    """A call is refused before it reaches the tool; the message is for the model."""


# When tools were called in the last minute, by user and project.
ToolCalls = dict[tuple[int, int], deque[float]]


class RateLimit:
    """The limit on tool calls of all agents of a project together.

    `calls` holds the times and outlives the worker space, so that a clean-up or reset does not reset the limit.
    """

    def __init__(
        self,
        per_minute: int = CALLS_PER_MINUTE,
        now: Callable[[], float] = time.monotonic,
        calls: ToolCalls | None = None,
        key: tuple[int, int] = (0, 0),
    ) -> None:
        self._per_minute = per_minute
        self._now = now
        self._all: ToolCalls = {} if calls is None else calls
        self._key = key

    def take(self) -> None:
        """Count one call; raise NotCalled if there were too many in the last minute."""
        now = self._now()
        if self._key not in self._all and len(self._all) >= MAX_PROJECTS:  # drop idle projects, to bound memory
            for key in [key for key, calls in self._all.items() if not calls or calls[-1] <= now - 60]:
                del self._all[key]
        calls = self._all.setdefault(self._key, deque())
        while calls and calls[0] <= now - 60:
            calls.popleft()
        if len(calls) >= self._per_minute:
            wait = calls[0] + 60 - now
            raise NotCalled(f"{self._per_minute} tool calls were made in the last minute. Wait {wait:.0f} seconds.")
        calls.append(now)


@dataclass(frozen=True, slots=True)
class Policy:
    """The policy of a project."""

    APPROVAL_REASON: ClassVar[str] = "This project asks before each call."

    settings: PolicySettings = field(default_factory=PolicySettings)
    rate_limit: RateLimit = field(default_factory=RateLimit)

    def check(self, tool: str, level: Level, arguments: Mapping[str, Any], parameters: Collection[str] = ()) -> None:
        """Raise NotCalled if the call is not allowed; `parameters` are the names of the tool's parameters."""
        rule = self.settings.rule(tool)
        if not self.enabled(tool):
            raise NotCalled(self.settings.problem or f"{tool} is switched off in this project.")
        if level is not Level.SAFE:
            path = arguments.get("path", "." if rule.allowed_paths and "path" in parameters else None)
            denial = _denial(path, rule, secrets=True) if isinstance(path, str) else None
            if denial is not None:
                raise NotCalled(f"{tool} was not called: {denial}")
        self.rate_limit.take()

    def enabled(self, tool: str) -> bool:
        """Return whether a tool is switched on."""
        return self.settings.rule(tool).enabled

    def filtered(self, tool: str, data: Any) -> Any:
        """Return a tool's result without entries whose path the rules deny."""
        if not isinstance(data, dict):
            return data
        rule = self.settings.rule(tool)

        def is_allowed(entry: Any) -> bool:
            return not isinstance(entry, dict) or _denial(str(entry.get("path", "")), rule, secrets=False) is None

        return {
            name: list(filter(is_allowed, value)) if name in LISTS and isinstance(value, list) else value
            for name, value in data.items()
        }

    def filters_slowly(self, tool: str, data: Any) -> bool:
        """Return whether a result has so many entries, for so many globs, that it is filtered on a thread."""
        lists = [data.get(name) for name in LISTS] if isinstance(data, dict) else []
        entries = sum(len(found) for found in lists if isinstance(found, list))
        rule = self.settings.rule(tool)
        return entries * (1 + len(rule.allowed_paths) + len(rule.denied_paths)) > MANY_COMPARISONS

    def paths(self, tool: str) -> dict[str, list[str]]:
        """Return the globs for a tool's paths, which the connector applies to resolved paths."""
        rule = self.settings.rule(tool)
        return {"allowed_paths": rule.allowed_paths, "denied_paths": rule.denied_paths}

    def requires_approval(self, tool: str, level: Level) -> bool:
        """Return whether the user must approve each call of a tool."""
        is_known = level in (Level.SAFE, Level.MODERATE, Level.RESTRICTED)  # anything else counts as critical
        return not is_known or self.settings.rule(tool).requires_approval

    def seconds(self, risk: Risk) -> int:
        """Return after how many seconds a request for approval expires."""
        seconds = self.settings.approval_seconds
        return max(seconds, HIGH_RISK_SECONDS) if risk == "high" else seconds


def arguments_hash(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return the hash that an approval is bound to: of the tool and its arguments in canonical form."""
    canonical = json.dumps([tool, arguments], sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _denial(path: str, rule: ToolRule, *, secrets: bool) -> str | None:
    """Return why the rules deny a path, None if they allow it; `secrets` says whether to deny those, too."""
    try:
        parts = split_path(path)
    except PathError as refused:
        return refused.message
    if secrets and parts and is_secret(parts):
        return f"{path} may contain secrets."
    if matches(parts, tuple(rule.denied_paths)):
        return f"{path} is denied in this project."
    if rule.allowed_paths and not matches(parts, tuple(rule.allowed_paths)):
        return f"{path} is not among the paths allowed in this project."
    return None
