"""Which paths agents may read and write: what `Beneath` asks for every path, as asked for and without links."""

from artel.connector.deadline import Deadline
from artel.connector.errors import CallRefused
from artel.connector.ignore_rules import ArtelIgnore, GitIgnore, Ignored
from artel.contract.connector import Call
from artel.paths.beneath import Beneath, Hidden, Rule, everything
from artel.paths.errors import FileChanged, FileMissing, ReadDenied, RuledOut, WriteDenied
from artel.paths.policy import Parts, is_protected, is_secret, matches


class WriteRule:
    """Says no to what may not be written, and notes under which names the file goes."""

    def __init__(self, ignored: Ignored, project: Rule, path: str, *, is_approved: bool) -> None:
        self._ignored = ignored
        self._project = project
        self._path = path
        self._is_approved = is_approved
        self.names: list[Parts] = []

    @property
    def is_protected(self) -> bool:
        """Whether the file is one that the user is asked about in any case."""
        return any(map(is_protected, self.names))

    def __call__(self, parts: Parts) -> None:
        if is_secret(parts) or self._ignored.hides(parts, is_folder=False):
            raise WriteDenied(self._path)
        self._project(parts)
        if is_protected(parts) and self.names and parts != self.names[0]:  # the user was shown another name
            raise CallRefused("refused", f"{self._path} is a link to a protected file: name that file itself")
        if is_protected(parts) and not self._is_approved:
            raise CallRefused("approval_needed", f"Writing to {self._path} needs an approval of the user's own")
        if parts not in self.names:
            self.names.append(parts)

    def again(self, parts: Parts) -> None:
        """Say no to every name under which the file was not looked at before it was decided about."""
        if parts not in self.names:
            raise FileChanged(self._path)


class Rules:
    """The rules of one workspace."""

    def __init__(self, files: Beneath) -> None:
        self._files = files
        self._ignore = ArtelIgnore(files)

    def reading(self, call: Call, path: str, *, is_folder: bool = False) -> Rule:
        """Return the rule for reading: what the user has hidden is not there, secrets are not to be read."""
        ignored, project = self._ignore.now(), _of_project(call, path)

        def rule(parts: Parts) -> None:
            if ignored.hides(parts, is_folder=is_folder):
                raise FileMissing(path)
            if is_secret(parts):
                raise ReadDenied(path)
            project(parts)

        return rule

    def writing(self, call: Call, path: str, *, is_approved: bool) -> WriteRule:
        """Return the rule for writing."""
        return WriteRule(self._ignore.now(), _of_project(call, path), path, is_approved=is_approved)

    def restoring(self, path: str) -> Rule:
        """Return the rule for putting back what was there: it was allowed before, or was the user's own."""
        return WriteRule(self._ignore.now(), everything, path, is_approved=True)

    def hidden(self, deadline: Deadline, *, recursive: bool) -> Hidden:
        """Return what is left out of a listing; of one that goes into folders also what git leaves out."""
        git, ignored = GitIgnore(self._files), self._ignore.now()

        def is_hidden(parts: Parts, is_folder: bool) -> bool:
            deadline.require()
            if ignored.hides(parts, is_folder=is_folder) or is_secret(parts[:-1]):
                return True
            return recursive and git.hides(parts, is_folder=is_folder)

        return is_hidden


def _of_project(call: Call, path: str) -> Rule:
    """Return the project's own rules, for the name that was asked for and for the real one."""
    allowed, denied = tuple(call.allowed_paths), tuple(call.denied_paths)

    def rule(parts: Parts) -> None:
        if matches(parts, denied) or (allowed and not matches(parts, allowed)):
            raise RuledOut(path)

    return rule
