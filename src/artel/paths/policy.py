"""What a path may look like, and which names are not for everybody. Pure functions: nothing here touches a file."""

import functools
import re
import unicodedata
from fnmatch import fnmatchcase, translate

from artel.paths.errors import InvalidPath, OutsideWorkspace

MAX_PATH_BYTES = 1_024
MAX_NAME_BYTES = 255
MAX_DEPTH = 64
# Control characters, those without a shape of their own (zero width, right to left), halves of characters.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_DRIVE = re.compile(r"[A-Za-z]:")

Parts = tuple[str, ...]

# Not to be read, nor written: what opens other doors. `a` is a file, `a/b` a file in a folder, `a/**` a folder or file
# of that name with all in it, `a/**/b` a file anywhere below a folder; each at any depth, and whatever the case of the
# letters.
SECRET = (
    ".env",
    ".env-*",
    ".env_*",
    "*.env",
    "*.env.*",
    ".envrc",
    ".envrc.*",
    "secrets/**",
    ".secrets/**",
    "secrets.json",
    "secrets.toml",
    "secrets.yaml",
    "secrets.yml",
    "*.pem",
    "*.key",
    "*.p8",
    "*.p12",
    "*.pfx",
    "*.pkcs12",
    "*.jks",
    "*.jceks",
    "*.keystore",
    "*.keytab",
    "*.kdb",
    "*.kdbx",
    "*.ovpn",
    "*.ppk",
    "*.agekey",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    "credentials.json",
    "service-account*.json",
    "service_account*.json",
    "*.tfstate",
    "*.tfstate.*",
    "*.tfvars",
    "*.tfvars.json",
    ".terraformrc",
    ".terraform.d/**",
    ".ssh/**",
    ".gnupg/**",
    ".password-store/**",
    ".aws/**",
    ".azure/**",
    ".oci/**",
    ".kube/**",
    "kubeconfig",
    "*.kubeconfig",
    ".dockercfg",
    ".docker/config.json",
    ".config/containers/auth.json",
    ".config/doctl/**",
    ".config/gcloud/**",
    ".config/gh/**",
    ".config/git/credentials",
    ".config/hub",
    ".boto",
    ".s3cfg",
    ".vault-token",
    ".netrc",
    "_netrc",
    ".authinfo",
    ".authinfo.gpg",
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    ".pypirc",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".cargo/credentials*",
    ".gem/credentials",
    ".bundle/config",
    ".composer/auth.json",
    ".config/composer/auth.json",
    ".gradle/gradle.properties",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".git-credentials",
    "*.git/**/config",  # the addresses of remotes may carry tokens
    "*.git/**/config.lock",
    "*.git/**/config.worktree*",
    "*.git/modules/**",
    "git~*/**/config",
    "git~*/**/config.lock",
    "git~*/**/config.worktree*",
    "git~*/modules/**",
    ".htpasswd",
    ".bash_history",
    ".zsh_history",
    ".mysql_history",
    ".psql_history",
)
# Models of a `.env` and public keys are there to be read.
NOT_SECRET = ("*.env.example", "*.env.sample", "*.env.template", "*.env.dist", "id_*.pub")
# Not to be written without an approval of its own: what other programs run or obey.
PROTECTED = (
    "artel.yaml",
    ".artelignore",
    # Version control. HEAD is what makes a folder with `config`, `objects` and `refs` a bare repository.
    "*.git/**",
    "git~*/**",
    "head",
    "config",
    "config.worktree",
    ".gitattributes",
    ".gitconfig",
    ".gitmodules",
    ".hg/**",
    ".hgrc",
    ".jj/**",
    ".svn/**",
    # Hooks
    ".githooks/**",
    ".husky/**",
    "hooks/pre-*",
    "hooks/post-*",
    "hooks/applypatch-msg",
    "hooks/commit-msg",
    "hooks/fsmonitor*",
    "hooks/prepare-commit-msg",
    "hooks/push-to-checkout",
    "hooks/reference-transaction",
    "hooks/update",
    ".pre-commit-config.yaml",
    ".pre-commit-config.yml",
    ".pre-commit-hooks.yaml",
    "lefthook.*",
    ".lefthook.*",
    "lefthook-local.*",
    ".lefthook-local.*",
    ".lefthook/**",
    # Editors and debuggers
    ".vscode/**",
    ".idea/**",
    ".run/**",
    ".fleet/**",
    ".zed/**",
    ".helix/**",
    ".nova/**",
    ".devcontainer/**",
    ".devcontainer.json",
    "*.code-workspace",
    "*.sublime-project",
    "*.sublime-workspace",
    ".vim/**",
    ".vimrc",
    "_vimrc",
    ".exrc",
    ".ideavimrc",
    ".nvim/**",
    ".nvimrc",
    ".nvim.lua",
    ".emacs",
    ".emacs.d/**",
    ".dir-locals.el",
    ".dir-locals-2.el",
    ".gdbinit",
    ".lldbinit",
    # Shells and terminals
    ".bashrc",
    ".bash_*",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".cshrc",
    ".tcshrc",
    ".kshrc",
    ".login",
    ".logout",
    ".aliases",
    ".inputrc",
    ".envrc",
    ".screenrc",
    ".tmux.conf",
    ".xinitrc",
    ".xprofile",
    ".curlrc",
    ".wgetrc",
    # Continuous integration
    ".github/**",
    ".gitea/**",
    ".forgejo/**",
    ".gitlab-ci.yml",
    ".gitlab-ci.yaml",
    ".gitlab/**",
    ".circleci/**",
    ".cirrus.yml",
    ".cirrus.yaml",
    ".cirrus.star",
    ".travis.yml",
    ".travis.yaml",
    ".drone.yml",
    ".drone.yaml",
    ".drone.star",
    ".woodpecker.yml",
    ".woodpecker.yaml",
    ".woodpecker/**",
    ".buildkite/**",
    ".semaphore/**",
    ".teamcity/**",
    ".tekton/**",
    ".ci/**",
    "appveyor.yml",
    "appveyor.yaml",
    ".appveyor.yml",
    "azure-pipelines.yml",
    "azure-pipelines.yaml",
    "bitbucket-pipelines.yml",
    "bitbucket-pipelines.yaml",
    "bitrise.yml",
    "buildspec.yml",
    "buildspec.yaml",
    "cloudbuild.yml",
    "cloudbuild.yaml",
    "codemagic.yaml",
    "jenkinsfile",
    "jenkinsfile.*",
    # Package managers and interpreters
    ".cargo/**",
    ".npmrc",
    ".yarn/**",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnpmfile.*",
    "mise.toml",
    "mise.*.toml",
    ".mise.toml",
    ".mise.*.toml",
    ".mise/**",
    ".tool-versions",
    "sitecustomize.py",
    "usercustomize.py",
    "*.pth",
    "pyvenv.cfg",
    "site-packages/**",
    "dist-packages/**",
    # Coding agents
    "agents.md",
    "agents.*.md",
    "claude.md",
    "claude.*.md",
    "gemini.md",
    "qwen.md",
    ".claude/**",
    ".gemini/**",
    ".cursor/**",
    ".cursorrules",
    ".windsurf/**",
    ".windsurfrules",
    ".clinerules/**",
    ".roo/**",
    ".roorules",
    ".codex/**",
    ".continue/**",
    ".kiro/**",
    ".junie/**",
    ".opencode/**",
    "opencode.json",
    "opencode.jsonc",
    ".aider.*",
    ".goosehints",
    ".mcp.json",
    "mcp.json",
)
_BACKUP = re.compile(r"(?:~|#|\.bak|\.backup|\.old|\.orig|\.save|\.sw[a-p]|\.~\d{1,9})\Z")
MAX_BACKUPS = 255  # as many suffixes as a name can have


def split_path(path: str) -> Parts:
    """Return the names of a relative path; raise unless it is one. The folder itself (`.`) has none.

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
    """Return whether a file is kept from everybody."""
    names = _folded_all(parts)
    if _matches(names, NOT_SECRET) and not _matches(names[:-1], SECRET):
        return False
    return any(_matches(spelled, SECRET) for spelled in (names, *_without_backup(names)))


def is_protected(parts: Parts) -> bool:
    """Return whether writing to a file needs an approval of its own.

    That is so for every file in a top-level folder whose name begins with a dot: programs keep their configuration
    there, and new ones appear faster than a list can name them.
    """
    names = _folded_all(parts)
    return (len(names) > 1 and names[0].startswith(".")) or _matches(names, PROTECTED)


def matches(parts: Parts, globs: tuple[str, ...]) -> bool:
    """Return whether a path matches one of the globs of an allow or deny list, whatever the case of its letters.

    `**` stands for any number of folders, also none; a glob without a slash means a name at any depth.
    """
    names = _folded_all(parts)
    return any(_glob_matches(names, tuple(_folded(part) for part in _anchored(glob))) for glob in globs)


def _refuse_odd_characters(path: str) -> None:
    for character in path:
        if unicodedata.category(character) in _UNSEEN:
            raise InvalidPath(f"The path has a character that can't be seen or written (U+{ord(character):04X})")


def _matches(names: Parts, rules: tuple[str, ...]) -> bool:
    """Return whether folded names match one of our own rules."""
    if not names:
        return False
    files, folders, longer = _compiled(rules)
    return (
        files.match(names[-1]) is not None
        or any(folders.match(name) for name in names)
        or any(_rule_matches(names, rule) for rule in longer)
    )


@functools.cache
def _compiled(rules: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str], tuple[str, ...]]:
    """Return one pattern for names of files, one for names of folders, and the rules with more than one name."""
    short = [rule.removesuffix("/**") for rule in rules]
    longer = tuple(rule for rule, name in zip(rules, short, strict=True) if "/" in name)
    files = [rule for rule in rules if "/" not in rule]
    folders = [name for rule, name in zip(rules, short, strict=True) if name != rule and "/" not in name]
    return _any_of(files), _any_of(folders), longer


def _any_of(globs: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, globs)) or r"(?!)")


def _rule_matches(names: Parts, rule: str) -> bool:
    if rule.endswith("/**"):
        folder = tuple(rule[:-3].split("/"))
        return any(_same(names[at : at + len(folder)], folder) for at in range(len(names)))
    if "/**/" in rule:
        folder_name, _, file_name = rule.partition("/**/")
        return fnmatchcase(names[-1], file_name) and any(fnmatchcase(name, folder_name) for name in names[:-1])
    wanted = tuple(rule.split("/"))
    return _same(names[-len(wanted) :], wanted)


def _same(names: Parts, wanted: Parts) -> bool:
    return len(names) == len(wanted) and all(map(fnmatchcase, names, wanted))


def _without_backup(names: Parts) -> list[Parts]:
    """Return the names that a backup may be of: of `.env~`, `#.env#`, `server.key.bak~`, and of `.server.key.swp`."""
    if not names:
        return []
    name = names[-1].lstrip("#")
    for _ in range(MAX_BACKUPS):
        name, is_backup = _BACKUP.subn("", name)
        if not is_backup:
            break
    return [(*names[:-1], name), (*names[:-1], name.removeprefix(".").lstrip("#"))]


def _folded_all(parts: Parts) -> Parts:
    return tuple(map(_folded, parts))


def _folded(name: str) -> str:
    """Return a name as the most forgiving file system would compare it (letter case, composition, NTFS's endings)."""
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
