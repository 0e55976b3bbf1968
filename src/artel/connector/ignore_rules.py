"""Rules that hide files: `.artelignore` from agents, `.gitignore` from listings and searches; both in git's syntax."""

import re
import unicodedata
from typing import TYPE_CHECKING

from artel.connector.errors import CallRefused
from artel.paths.beneath import Beneath
from artel.paths.errors import FileMissing, FolderMoved, PathError
from artel.paths.policy import Parts

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


class ArtelIgnore:
    """The user's `.artelignore`, read for every call; while it is invalid all calls are refused."""

    def __init__(self, files: Beneath) -> None:
        self._files = files
        self._cached = b"", Ignored(None)

    def now(self) -> Ignored:
        """Return the current rules; raise CallRefused if they are invalid."""
        try:
            text = self._files.read(ARTELIGNORE).data
        except FileMissing:
            text = b""
        except FolderMoved:
            raise
        except PathError as error:
            raise _unusable(error.message) from None
        if text != self._cached[0]:
            self._cached = text, Ignored(_parsed(text))
        return self._cached[1]


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
            spec = self._spec(parts[:depth])
            if spec is not None:
                found = spec.check_file("/".join(parts[depth:]) + ("/" if is_folder else "")).include
                if found is not None:
                    return found
        return False

    def _spec(self, folder: Parts) -> "GitIgnoreSpec | None":
        if folder not in self._specs:
            self._specs[folder] = self._read(folder)
        return self._specs[folder]

    def _read(self, folder: Parts) -> "GitIgnoreSpec | None":
        """Return a folder's rules, without expensive ones: agents may write this file."""
        try:
            text = self._files.read("/".join((*folder, GITIGNORE))).data.decode()
            return _compiled([line for line in text.splitlines()[:MAX_LINES] if _is_simple(line)])
        except (PathError, ValueError):
            return None


def _parsed(text: bytes) -> "GitIgnoreSpec":
    lines = text.decode(errors="surrogateescape").splitlines()
    if len(lines) > MAX_LINES or not all(map(_is_simple, lines)):
        raise _unusable("it has too many lines, or one with too many stars")
    try:
        return _compiled([_folded(line) for line in lines])
    except ValueError as error:
        raise _unusable(str(error)) from None


def _compiled(lines: list[str]) -> "GitIgnoreSpec":
    from pathspec import GitIgnoreSpec  # a slow import that few folders need

    return GitIgnoreSpec.from_lines(lines, backend="simple")


def _is_simple(line: str) -> bool:
    return line.count("**") < MAX_STARS and all(len(_STARS.findall(name)) <= MAX_STARS for name in line.split("/"))


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


def _unusable(reason: str) -> CallRefused:
    return CallRefused("refused", f"The user's {ARTELIGNORE} is invalid ({reason}), so all calls are refused")
