"""What a path may look like, and which names are not for everybody. Pure functions: nothing here touches a file."""

import re
import unicodedata
from fnmatch import fnmatchcase

from artel.paths.errors import InvalidPath, OutsideWorkspace

MAX_PATH_BYTES = 1_024
MAX_NAME_BYTES = 255
MAX_DEPTH = 64
# Control characters, those without a shape of their own (zero width, right to left), halves of characters.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_DRIVE = re.compile(r"[A-Za-z]:")

Parts = tuple[str, ...]

# Not to be read, nor written: what opens other doors.
SECRET = (
    ".env",
    ".env.*",
    "*.env",
    "secrets/**",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "*.ppk",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ecdsa_sk",
    "id_ed25519",
    "id_ed25519_sk",
    ".ssh/**",
    ".gnupg/**",
    ".aws/**",
    ".azure/**",
    ".kube/**",
    ".docker/config.json",
    ".config/gcloud/**",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".pypirc",
    ".npmrc",
    ".git-credentials",
    ".htpasswd",
)
# Models of a `.env` are there to be read.
NOT_SECRET = (".env.example", ".env.sample", ".env.template", ".env.dist")
# Not to be written without an approval of its own: what other programs obey.
PROTECTED = (
    ".git/**",
    "git~*/**",
    ".gitattributes",
    ".gitmodules",
    ".hg/**",
    ".svn/**",
    ".githooks/**",
    ".husky/**",
    ".pre-commit-config.yaml",
    ".lefthook.yml",
    "lefthook.yml",
    ".vscode/**",
    ".idea/**",
    ".fleet/**",
    ".zed/**",
    ".devcontainer/**",
    ".devcontainer.json",
    "*.code-workspace",
    ".vimrc",
    ".exrc",
    ".nvimrc",
    ".nvim.lua",
    ".dir-locals.el",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".inputrc",
    ".envrc",
    ".github/**",
    ".gitlab-ci.yml",
    ".gitlab/**",
    ".circleci/**",
    ".travis.yml",
    ".drone.yml",
    ".woodpecker.yml",
    ".woodpecker/**",
    ".buildkite/**",
    ".ci/**",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    "jenkinsfile",
    "agents.md",
    "claude.md",
    ".claude/**",
    ".cursor/**",
    ".cursorrules",
    ".mcp.json",
    ".artelignore",
)


def split_path(path: str) -> Parts:
    """Answer the names of a relative path; raise unless it is one. The folder itself (`.`) has none.

    Nothing is decoded or normalised: what is checked is what is opened.
    """
    _refuse_odd_characters(path)
    if path.startswith("/") or "\\" in path or _DRIVE.match(path):
        raise OutsideWorkspace
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if ".." in parts:
        raise OutsideWorkspace
    if len(path.encode()) > MAX_PATH_BYTES:
        raise InvalidPath(f"The path is longer than {MAX_PATH_BYTES} bytes")
    if len(parts) > MAX_DEPTH:
        raise InvalidPath(f"The path is deeper than {MAX_DEPTH} folders")
    if any(len(part.encode()) > MAX_NAME_BYTES for part in parts):
        raise InvalidPath(f"A name in the path is longer than {MAX_NAME_BYTES} bytes")
    return parts


def is_secret(parts: Parts) -> bool:
    """Say whether a file is kept from everybody."""
    return _matches(parts, SECRET) and not _matches(parts[-1:], NOT_SECRET)


def is_protected(parts: Parts) -> bool:
    """Say whether writing to a file needs an approval of its own."""
    return _matches(parts, PROTECTED)


def matches(parts: Parts, globs: tuple[str, ...]) -> bool:
    """Say whether a path matches one of the globs of an allow or deny list, whatever the case of its letters.

    `**` stands for any number of folders, also none; a glob without a slash means a name at any depth.
    """
    names = tuple(_folded(part) for part in parts)
    return any(_glob_matches(names, tuple(_folded(part) for part in _anchored(glob))) for glob in globs)


def _refuse_odd_characters(path: str) -> None:
    for character in path:
        if unicodedata.category(character) in _UNSEEN:
            raise InvalidPath(f"The path has a character that can't be seen or written (U+{ord(character):04X})")


def _matches(parts: Parts, rules: tuple[str, ...]) -> bool:
    names = tuple(_folded(part) for part in parts)
    return any(_rule_matches(names, rule) for rule in rules)


def _rule_matches(names: Parts, rule: str) -> bool:
    """Match a rule of ours, at any depth: `a` is a name, `a/b` a name in a folder, `a/**` a folder with all in it."""
    if rule.endswith("/**"):
        folder = tuple(rule[:-3].split("/"))
        return any(_same(names[at : at + len(folder)], folder) for at in range(len(names)))
    wanted = tuple(rule.split("/"))
    return _same(names[-len(wanted) :], wanted)


def _same(names: Parts, wanted: Parts) -> bool:
    return len(names) == len(wanted) and all(map(fnmatchcase, names, wanted))


def _folded(name: str) -> str:
    """Answer a name as the most forgiving file system would compare it (letter case, composition, NTFS's endings)."""
    plain = unicodedata.normalize("NFKC", name).casefold()
    return plain.split(":", 1)[0].rstrip(". ") or plain


def _anchored(glob: str) -> Parts:
    parts = tuple(part for part in glob.split("/") if part not in ("", "."))
    return parts if "/" in glob.strip("/") else ("**", *parts)


def _glob_matches(names: Parts, pattern: Parts) -> bool:
    reached = {0}  # how much of the pattern the names so far can have used up
    for name in names:
        reached = _past_stars(reached, pattern)
        reached = {
            at if pattern[at] == "**" else at + 1
            for at in reached
            if at < len(pattern) and (pattern[at] == "**" or fnmatchcase(name, pattern[at]))
        }
        if not reached:
            return False
    return len(pattern) in _past_stars(reached, pattern)


def _past_stars(reached: set[int], pattern: Parts) -> set[int]:
    found = set(reached)
    for at in sorted(reached):
        place = at
        while place < len(pattern) and pattern[place] == "**":
            place += 1
            found.add(place)
    return found
