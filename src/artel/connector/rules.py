"""Which paths agents may read and write; `Beneath` applies a rule to the requested path and to the resolved one."""

from artel.connector.deadline import Deadline
from artel.connector.errors import CallRefused
from artel.connector.ignore_rules import ArtelIgnore, GitIgnore, Ignored
from artel.contract.connector import Call
from artel.paths.beneath import Beneath, Hidden, Rule, allow_all
from artel.paths.errors import DeniedByProject, FileChanged, FileMissing, ReadDenied, WriteDenied
from artel.paths.policy import Parts, is_protected, is_secret, matches


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
    """The rules of one workspace."""

    def __init__(self, files: Beneath) -> None:
        self._files = files
        self._ignore = ArtelIgnore(files)

    def reading(self, call: Call, path: str, *, is_folder: bool = False) -> Rule:
        """Return the rule for reading: hidden files are reported as missing, secrets as denied."""
        ignored, project = self._ignore.now(), _project_rule(call, path)

        def rule(parts: Parts) -> None:
            if ignored.hides(parts, is_folder=is_folder):
                raise FileMissing(path)
            if is_secret(parts):
                raise ReadDenied(path)
            project(parts)

        return rule

    def writing(self, call: Call, path: str, *, is_approved: bool) -> WriteRule:
        """Return the rule for writing."""
        return WriteRule(self._ignore.now(), _project_rule(call, path), path, is_approved=is_approved)

    def restoring(self, path: str) -> Rule:
        """Return the rule for undo, without the project's rules: the old content was there before."""
        return WriteRule(self._ignore.now(), allow_all, path, is_approved=True)

    def hidden(self, deadline: Deadline, *, recursive: bool) -> Hidden:
        """Return the filter of a listing; a recursive one also hides what git ignores."""
        git, ignored = GitIgnore(self._files), self._ignore.now()

        def is_hidden(parts: Parts, is_folder: bool) -> bool:
            deadline.require()
            if ignored.hides(parts, is_folder=is_folder) or is_secret(parts[:-1]):
                return True
            return recursive and git.hides(parts, is_folder=is_folder)

        return is_hidden


def _project_rule(call: Call, path: str) -> Rule:
    """Return the rule of the project's allowed and denied paths."""
    allowed, denied = tuple(call.allowed_paths), tuple(call.denied_paths)

    def rule(parts: Parts) -> None:
        if matches(parts, denied) or (allowed and not matches(parts, allowed)):
            raise DeniedByProject(path)

    return rule
