"""Carries out `workspace/complete`: names of files and folders for what the user types."""

from contextlib import suppress

from artel.connector.errors import Deadline, TooLate
from artel.connector.rules import Rules
from artel.contract.connector import CallResult, CompleteCall
from artel.paths.beneath import Beneath, Entry
from artel.paths.errors import PathError

MAX_SECONDS = 2.0
SPARE_SECONDS = 0.5  # of the call's time, left to send the answer
MAX_FOUND = 2_000  # matches that are ranked
_OFFERED = ("file", "directory")  # links are not followed


class _Enough(Exception):
    """So many matches were found that the search is over."""


class FileNameSearch:
    """Finds files and folders by a part of their path."""

    def __init__(self, files: Beneath, rules: Rules) -> None:
        self._files = files
        self._rules = rules

    def complete(self, call: CompleteCall, deadline: Deadline) -> CallResult:
        """Return the best matches among what agents may read and git does not ignore; `is_cut` if there are more.

        After two seconds return what was found by then.
        """
        word, found = call.query.casefold(), list[Entry]()
        rule, time = self._rules.reading(call, "."), Deadline(min(MAX_SECONDS, deadline.left - SPARE_SECONDS))

        def collect(entry: Entry) -> bool:
            if entry.type in _OFFERED and word in entry.path.casefold():
                with suppress(PathError):  # a secret, or denied by the project
                    rule(tuple(entry.path.split("/")))
                    found.append(entry)
            if len(found) > MAX_FOUND:
                raise _Enough
            return False  # what is found is in `found`, also if the time is over

        try:
            hidden = self._rules.hidden(time, recursive=True)
            is_cut = self._files.list(".", recursive=True, hidden=hidden, keep=collect).is_cut
        except (_Enough, TooLate):
            is_cut = True
        ranked = sorted(found, key=lambda entry: _rank(word, entry.path))
        names = [{"path": entry.path, "type": entry.type} for entry in ranked[: call.most]]
        return CallResult(success=True, files=names, is_cut=is_cut or len(found) > call.most)


def _rank(word: str, path: str) -> tuple[int, int, str]:
    """Return the sort key: names that begin with the word, names that contain it, then paths; short ones first."""
    name = path.rpartition("/")[2].casefold()
    place = 0 if name.startswith(word) else 1 if word in name else 2
    return place, path.count("/") if not word else len(path), path
