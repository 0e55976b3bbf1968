"""Which paths agents may read and write; `Beneath` applies a rule to the requested path and to the resolved one.

`.artelignore` hides files from agents, `.gitignore` from listings and searches; both in git's syntax.
"""

import re
import unicodedata
from typing import TYPE_CHECKING

from artel.connector.errors import CallRefused, Deadline
from artel.contract.connector import Call
from artel.paths.beneath import Beneath, Hidden, Rule, allow_all
from artel.paths.errors import (
    DeniedByProject,
    FileChanged,
    FileMissing,
    FolderMoved,
    PathError,
    ReadDenied,
    WriteDenied,
)
from artel.paths.policy import Parts, is_protected, is_secret, matches

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

ARTELIGNORE, GITIGNORE = ".artelignore", ".gitignore"
MAX_LINES = 1_000
_STARS = re.compile(r"\*+")
MAX_STARS = 3  # in one name: more can cause catastrophic backtracking on hostile names


class Ignored:
    """The files that are hidden from agents now.

    Matches case-insensitively, as some file systems do: hiding too much is safe, hiding too little is not.
    """

    def __init__(self, spec: "GitIgnoreSpec | None") -> None:
        self._spec = spec

    def hides(self, parts: Parts, *, is_folder: bool) -> bool:
        """Return whether a path, or a folder that it is in, is hidden.

        Test the path in its own form first (file, or `folder/`), then in the other form, which may also hide it.
        """
        if self._spec is None or not parts:
            return False
        path = _folded("/".join(parts))
        forms = (f"{path}/", path) if is_folder else (path, f"{path}/")
        matched = (self._spec.check_file(form).include for form in forms)
        return next((include for include in matched if include is not None), False)


class GitIgnore:
    """The `.gitignore` files of all folders, for one listing or search; each is read once."""

    def __init__(self, files: Beneath) -> None:
        self._files = files
        self._specs: dict[Parts, GitIgnoreSpec | None] = {}

    def hides(self, parts: Parts, *, is_folder: bool) -> bool:
        """Return whether a path in a visible folder is ignored; the nearest matching rule wins."""
        if parts[-1] == ".git":
            return True
        for depth in range(len(parts) - 1, -1, -1):
            folder = parts[:depth]
            if folder not in self._specs:
                self._specs[folder] = self._read(folder)
            spec = self._specs[folder]
            if spec is not None:
                found = spec.check_file("/".join(parts[depth:]) + ("/" if is_folder else "")).include
                if found is not None:
                    return found
        return False

    def _read(self, folder: Parts) -> "GitIgnoreSpec | None":
        """Return a folder's rules, without expensive ones: agents may write this file."""
        try:
            text = self._files.read("/".join((*folder, GITIGNORE))).data.decode()
            return _compiled([line for line in text.splitlines()[:MAX_LINES] if _is_simple(line)])
        except (PathError, ValueError):
            return None


class WriteRule:
    """Raises for paths that may not be written, and collects the names of the file (requested and resolved)."""

    def __init__(self, ignored: Ignored, project: Rule, path: str, *, is_approved: bool) -> None:
        self._ignored = ignored
        self._project = project
        self._path = path
        self._is_approved = is_approved
        self.names: list[Parts] = []

    @property
    def is_protected(self) -> bool:
        """Whether the file always needs the user's approval."""
        return any(map(is_protected, self.names))

    def __call__(self, parts: Parts) -> None:
        if is_secret(parts) or self._ignored.hides(parts, is_folder=False):
            raise WriteDenied(self._path)
        self._project(parts)
        if is_protected(parts) and self.names and parts != self.names[0]:  # the user was shown another name
            raise CallRefused("refused", f"{self._path} is a link to a protected file. Use the path of the file itself")
        if is_protected(parts) and not self._is_approved:
            raise CallRefused("approval_needed", f"Writing to {self._path} needs the user's approval")
        if parts not in self.names:
            self.names.append(parts)

    def again(self, parts: Parts) -> None:
        """Raise FileChanged for a name that was not checked before the decision: a link was changed meanwhile."""
        if parts not in self.names:
            raise FileChanged(self._path)


class Rules:
    """The rules of a workspace: `.artelignore`, the project's rules, and the lists of secret and protected files."""

    def __init__(self, files: Beneath) -> None:
        self._files = files
        self._cached = b"", Ignored(None)

    def reading(self, call: Call, path: str, *, is_folder: bool = False) -> Rule:
        """Return the rule for reading: hidden files are reported as missing, secrets as denied."""
        ignored, project = self._ignored(), _project_rule(call, path)

        def rule(parts: Parts) -> None:
            if ignored.hides(parts, is_folder=is_folder):
                raise FileMissing(path)
            if is_secret(parts):
                raise ReadDenied(path)
            project(parts)

        return rule

    def writing(self, call: Call, path: str, *, is_approved: bool) -> WriteRule:
        return WriteRule(self._ignored(), _project_rule(call, path), path, is_approved=is_approved)

    def restoring(self, path: str) -> Rule:
        """Return the rule for undo, without the project's rules: the old content was there before."""
        return WriteRule(self._ignored(), allow_all, path, is_approved=True)

    def hidden(self, deadline: Deadline, *, recursive: bool) -> Hidden:
        """Return the filter of a listing; a recursive one also hides what git ignores."""
        git, ignored = GitIgnore(self._files), self._ignored()

        def is_hidden(parts: Parts, is_folder: bool) -> bool:
            deadline.require()
            if ignored.hides(parts, is_folder=is_folder) or is_secret(parts[:-1]):
                return True
            return recursive and git.hides(parts, is_folder=is_folder)

        return is_hidden

    def _ignored(self) -> Ignored:
        """Return what the user's `.artelignore` hides now; raise CallRefused while it is invalid."""
        try:
            text = self._files.read(ARTELIGNORE).data
        except FileMissing:
            text = b""
        except FolderMoved:
            raise
        except PathError as error:
            raise _unusable(error.message) from None
        if text != self._cached[0]:
            lines = text.decode(errors="surrogateescape").splitlines()
            if len(lines) > MAX_LINES or not all(map(_is_simple, lines)):
                raise _unusable("it has too many lines, or one with too many stars")
            try:
                self._cached = text, Ignored(_compiled([_folded(line) for line in lines]))
            except ValueError as error:
                raise _unusable(str(error)) from None
        return self._cached[1]


def _project_rule(call: Call, path: str) -> Rule:
    """Return the rule of the project's allowed and denied paths."""
    allowed, denied = tuple(call.allowed_paths), tuple(call.denied_paths)

    def rule(parts: Parts) -> None:
        if matches(parts, denied) or (allowed and not matches(parts, allowed)):
            raise DeniedByProject(path)

    return rule


def _compiled(lines: list[str]) -> "GitIgnoreSpec":
    from pathspec import GitIgnoreSpec  # a slow import that few folders need

    return GitIgnoreSpec.from_lines(lines, backend="simple")


def _is_simple(line: str) -> bool:
    return line.count("**") < MAX_STARS and all(len(_STARS.findall(name)) <= MAX_STARS for name in line.split("/"))


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


def _unusable(reason: str) -> CallRefused:
    return CallRefused("refused", f"The user's {ARTELIGNORE} is invalid ({reason}), so all calls are refused")
