"""Carries out `workspace/search`: text or regular expression, with limits on files, bytes, matches and time."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from artel.connector.errors import CallRefused, Deadline
from artel.connector.file_reader import pattern_filter
from artel.connector.rules import Rules
from artel.contract.connector import CallResult, SearchCall
from artel.paths.beneath import Beneath, Entry, Rule
from artel.paths.errors import PathError

MAX_MATCHES = 1_000
MAX_QUERY = 2_000
MAX_FILE_BYTES = 2_000_000
MAX_BYTES = 200_000_000
MAX_SECONDS = 20.0
SPARE_SECONDS = 0.5  # of the call's time, left to send the answer
LINE_CHARACTERS = 500

Found = list[tuple[int, str]]

# Only what Python may need to start.
_ENVIRONMENT = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH") if name in os.environ}


class OutOfTime(Exception):
    """The search reached its time or byte limit."""


class ExpressionMatcher:
    """Matches a regular expression in a child process, which is killed when the time is over.

    Catastrophic backtracking in Python's `re` can take forever and holds the GIL.
    """

    def __init__(self, expression: str, most: int, seconds: float) -> None:
        self._options = {"expression": expression, "most": most, "seconds": seconds}
        command = [sys.executable, "-I", "-S", str(Path(__file__).with_name("matcher.py"))]
        self._process = subprocess.Popen(  # noqa: S603 - our own file, without arguments
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=_ENVIRONMENT, cwd="/"
        )
        self._is_stopped = False
        self._killer = threading.Timer(seconds, self.stop)
        self._killer.daemon = True
        self._killer.start()

    def begin(self) -> None:
        """Send the expression to the process; raise CallRefused if it is invalid."""
        ready = self._exchange(json.dumps(self._options).encode() + b"\n")
        if ready:
            raise CallRefused("failed", f"Not a valid regular expression: {ready['error']}")

    def find(self, data: bytes) -> Found:
        """Return number and text of each line that matches."""
        return [(number, line) for number, line in self._exchange(b"%d\n" % len(data) + data)]

    def stop(self) -> None:
        """Kill the process; a waiting `find` raises OutOfTime."""
        self._is_stopped = True
        self._process.kill()

    def close(self) -> None:
        """Kill and reap the process."""
        self._killer.cancel()
        self._process.kill()
        self._process.communicate()

    def _exchange(self, data: bytes) -> Any:
        stdin, stdout = self._process.stdin, self._process.stdout
        try:
            if stdin and stdout:
                stdin.write(data)
                stdin.flush()
                line = stdout.readline()
                if line.endswith(b"\n"):
                    return json.loads(line)
        except OSError:  # the process has ended
            pass
        if self._is_stopped:
            raise OutOfTime
        raise CallRefused("failed", "The search for the expression failed; it may need too much memory")


class FileSearcher:
    """Carries out `workspace/search`."""

    def __init__(self, files: Beneath, rules: Rules) -> None:
        self._files = files
        self._rules = rules
        self._running: set[ExpressionMatcher] = set()
        self._is_over = False

    def stop(self) -> None:
        """Stop running searches, which return what they have found, and refuse new ones."""
        self._is_over = True
        for matcher in list(self._running):
            matcher.stop()

    def search(self, call: SearchCall, deadline: Deadline) -> CallResult:
        """Return the lines that match, file by file in the order of names."""
        if not call.query or len(call.query) > MAX_QUERY:
            raise CallRefused("failed", f"The query must have 1 to {MAX_QUERY} characters")
        most = max(1, min(call.most, MAX_MATCHES))
        entries, is_cut = self._entries(call, deadline)
        time = Deadline(min(MAX_SECONDS, deadline.left - SPARE_SECONDS))
        matches: list[dict[str, str | int]] = []
        searched, reason = 0, "files" if is_cut else None
        try:
            with self._matching(call, most, time) as find:
                for path, data in self._contents(entries, self._rules.reading(call, call.path), time):
                    found = find(data)
                    searched += 1
                    matches += [{"path": path, "line": number, "text": text} for number, text in found]
                    if len(matches) >= most:
                        reason = "matches"
                        break
        except OutOfTime:
            reason = "time"
        return CallResult(
            success=True, matches=matches[:most], files_searched=searched, is_cut=reason is not None, cut_by=reason
        )

    @contextmanager
    def _matching(self, call: SearchCall, most: int, time: Deadline) -> Iterator[Callable[[bytes], Found]]:
        """Yield the function that finds lines in a file; for an expression it runs in another process meanwhile."""
        if not call.regex:
            yield partial(_find_text, call.query, most)
            return
        with closing(ExpressionMatcher(call.query, most, time.left)) as matcher:
            self._running.add(matcher)
            try:
                matcher.begin()
                yield matcher.find
            finally:
                self._running.discard(matcher)

    def _entries(self, call: SearchCall, deadline: Deadline) -> tuple[list[Entry], bool]:
        """Return the files to search, and whether the list is cut."""
        rule, keep = self._rules.reading(call, call.path, is_folder=True), pattern_filter(call.path, call.pattern)
        entry = self._files.stat(call.path, rule)
        if entry.type == "file":
            return [entry], False
        listing = self._files.list(
            call.path,
            rule,
            recursive=True,
            hidden=self._rules.hidden(deadline, recursive=True),
            keep=lambda entry: entry.type == "file" and keep(entry),
        )
        return listing.entries, listing.is_cut

    def _contents(self, entries: list[Entry], rule: Rule, time: Deadline) -> Iterator[tuple[str, bytes]]:
        left = MAX_BYTES
        for entry in entries:
            if self._is_over or not time.left or left <= 0:
                raise OutOfTime
            if entry.size > MAX_FILE_BYTES:
                continue
            try:
                data = self._files.read(entry.path, rule, most=MAX_FILE_BYTES).data
            except PathError:  # a secret, deleted meanwhile, or not readable
                continue
            left -= len(data)
            if b"\0" not in data:
                yield entry.path, data


def _find_text(text: str, most: int, data: bytes) -> Found:
    """Return number and text of each line that contains a text."""
    if text.encode() not in data:  # most files: avoids decoding and splitting
        return []
    lines = enumerate(data.decode(errors="replace").split("\n"), 1)
    return [(number, line[:LINE_CHARACTERS]) for number, line in lines if text in line][:most]
