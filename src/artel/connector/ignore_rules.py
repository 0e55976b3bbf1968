"""What the user keeps from agents (`.artelignore`), and what clutters a search (`.gitignore`), both in git's syntax."""

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
MAX_STARS = 3  # in one name: regular expressions made from more can take for ever on names that are made for it


class Ignored:
    """What is kept from agents at this moment.

    Compared without regard to letter case, as some file systems do: a rule too many hides, a rule too few tells.
    """

    def __init__(self, spec: "GitIgnoreSpec | None") -> None:
        self._spec = spec

    def hides(self, parts: Parts, *, is_folder: bool) -> bool:
        """Return whether a path is kept from agents, by itself or because it is in a folder that is.

        A rule for what it is counts before one for what it is not; the latter still hides.
        """
        if self._spec is None or not parts:
            return False
        path = _folded("/".join(parts))
        forms = (f"{path}/", path) if is_folder else (path, f"{path}/")
        said = (self._spec.check_file(form).include for form in forms)
        return next((include for include in said if include is not None), False)


class ArtelIgnore:
    """The user's own rules, read for every call. While they can't be understood nothing is allowed."""

    def __init__(self, files: Beneath) -> None:
        self._files = files
        self._known = b"", Ignored(None)

    def now(self) -> Ignored:
        """Return what the rules say now."""
        try:
            text = self._files.read(ARTELIGNORE).data
        except FileMissing:
            text = b""
        except FolderMoved:
            raise
        except PathError as error:
            raise _unusable(error.message) from None
        if text != self._known[0]:
            self._known = text, Ignored(_understood(text))
        return self._known[1]


class GitIgnore:
    """What git would not show, for one listing or search; every folder's rules are read once."""

    def __init__(self, files: Beneath) -> None:
        self._files = files
        self._specs: dict[Parts, GitIgnoreSpec | None] = {}

    def hides(self, parts: Parts, *, is_folder: bool) -> bool:
        """Return whether something in a folder that is shown is left out; the rule nearest to it counts."""
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
        """Return a folder's rules. Agents may write them, so those that would take long are left out."""
        try:
            text = self._files.read("/".join((*folder, GITIGNORE))).data.decode()
            return _compiled([line for line in text.splitlines()[:MAX_LINES] if _is_simple(line)])
        except (PathError, ValueError):
            return None


def _understood(text: bytes) -> "GitIgnoreSpec":
    lines = text.decode(errors="surrogateescape").splitlines()
    if len(lines) > MAX_LINES or not all(map(_is_simple, lines)):
        raise _unusable("it has too many lines, or one with too many stars")
    try:
        return _compiled([_folded(line) for line in lines])
    except ValueError as error:
        raise _unusable(str(error)) from None


def _compiled(lines: list[str]) -> "GitIgnoreSpec":
    from pathspec import GitIgnoreSpec  # here, because few folders have rules, and it takes a while to import

    return GitIgnoreSpec.from_lines(lines, backend="simple")


def _is_simple(line: str) -> bool:
    return line.count("**") < MAX_STARS and all(len(_STARS.findall(name)) <= MAX_STARS for name in line.split("/"))


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


def _unusable(why: str) -> CallRefused:
    return CallRefused("refused", f"The user's {ARTELIGNORE} can't be used ({why}), so nothing is allowed")
