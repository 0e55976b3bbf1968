"""Changes of the connector's mode that the server asks for.

The user makes them on the page, but the server may be hostile. So the options that the connector was started with are
the limit: a change may only make it stricter than these, never allow what they don't.
"""

import threading
from collections.abc import Callable

from artel.connector.decisions import MODE_WORDS, Decider, ProposedAction, Subject
from artel.connector.errors import CallRefused, Deadline
from artel.contract.connector import CallResult, Mode, SettingsCall

# Who can let a plain write through in each mode; "anyone" is the agent itself. Fewer is stricter.
_DECIDERS: dict[Mode, frozenset[str]] = {
    "read-only": frozenset(),
    "terminal": frozenset({"terminal"}),
    "browser": frozenset({"server"}),
    "both": frozenset({"terminal", "server"}),
    "yes": frozenset({"terminal", "server", "anyone"}),
}
_CONSENT = "Whoever controls the server, or has your token, could then approve writes without this terminal."


class RemoteSettings:
    """Carries out `workspace/settings`; calls `on_change` with each new mode."""

    def __init__(
        self, decider: Decider, *, has_terminal: bool, is_fixed: bool, on_change: Callable[[Mode], object]
    ) -> None:
        """`is_fixed`: the server may only make it stricter than it is now."""
        self._decider = decider
        self._has_terminal = has_terminal
        self._is_fixed = is_fixed
        self._on_change = on_change
        self._lock = threading.Lock()
        self._started: Mode = decider.mode
        self._asking: Mode = decider.mode  # the mode while it is not read-only
        # The terminal is where the user sits: it may always decide, unless nothing may be written at all.
        self._allowed = _DECIDERS[self._started] | (frozenset() if self._started == "read-only" else {"terminal"})

    def change(self, call: SettingsCall, _deadline: Deadline) -> CallResult:
        """Change the mode and return it; raise CallRefused if that is not, or not yet, allowed."""
        with self._lock:
            if self._started == "read-only" and (call.ask is not None or call.read_only is False):
                raise CallRefused("refused", "The connector was started with --read-only. Start it again without it.")
            current = self._decider.mode
            asking: Mode = call.ask or self._asking
            is_read_only = current == "read-only" if call.read_only is None else call.read_only
            wanted: Mode = "read-only" if is_read_only else asking
            if call.ask is not None and is_read_only and call.read_only is None:
                raise CallRefused("refused", "The folder is read-only. Allow writes first, then choose where to ask.")
            if wanted != current:
                self._require_allowed(current, wanted)
                self._decider.mode = wanted
                self._on_change(wanted)
            if wanted != "read-only":
                self._asking = wanted
            return CallResult(success=True, mode=wanted)

    def _require_allowed(self, current: Mode, wanted: Mode) -> None:
        if self._is_fixed and not _DECIDERS[wanted] < _DECIDERS[current]:
            reason = "The connector was started with --no-remote-settings, so it can only be made stricter from here."
            raise CallRefused("refused", f"{reason} Start it again with other options.")
        if "terminal" in _DECIDERS[wanted] and not self._has_terminal and wanted != "yes":
            raise CallRefused("refused", "The connector has no terminal to ask in. Start `artel connect` in one.")
        if not _DECIDERS[wanted] <= self._allowed:
            self._require_consent(wanted)

    def _require_consent(self, wanted: Mode) -> None:
        """Raise CallRefused unless the user has agreed at the terminal, which then holds until the connector ends."""
        subject = Subject("change", f"the mode to: {MODE_WORDS[wanted]}", wanted)
        shown = f"now: {MODE_WORDS[self._decider.mode]}\nthen: {MODE_WORDS[wanted]}\n"
        self._decider.consent(ProposedAction(subject, "the server", shown, None, is_granted=False, warning=_CONSENT))
        self._allowed |= _DECIDERS[wanted]
