"""Validation of paths, and which files are secret or protected. Pure functions: nothing here touches a file."""

import functools
import re
import unicodedata
from collections.abc import Callable
from fnmatch import fnmatchcase, translate

from artel.paths.errors import InvalidPath, OutsideWorkspace

MAX_PATH_BYTES = 1_024
MAX_NAME_BYTES = 255
MAX_DEPTH = 64
# Control characters, invisible format characters (zero width, right to left), surrogates, line separators.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_DRIVE = re.compile(r"[A-Za-z]:")

MAX_PARSED = 64  # lists of globs that are held parsed

Parts = tuple[str, ...]
_NameTest = Callable[[str], object]  # true if a name matches
_Runs = tuple[tuple[_NameTest, ...], ...]


def _globs(*lines: str) -> Parts:
    return tuple(glob for line in lines for glob in line.split())


# Credentials: not to be read or written. `a` is a file, `a/b` a file in a folder, `a/**` a folder or file of that name
# with all in it, `a/**/b` a file anywhere below a folder; each at any depth, case-insensitive.
SECRET = _globs(
    ".env .env-* .env_* *.env *.env.* .envrc .envrc.*",
    "secrets/** .secrets/** secrets.json secrets.toml secrets.yaml secrets.yml",
    # Keys
    "*.pem *.key *.p8 *.p12 *.pfx *.pkcs12 *.jks *.jceks *.keystore *.keytab *.kdb *.kdbx *.ovpn *.ppk *.agekey",
    "id_rsa* id_dsa* id_ecdsa* id_ed25519* .ssh/** .gnupg/** .password-store/**",
    # Clouds and containers
    "credentials.json service-account*.json service_account*.json .aws/** .azure/** .oci/** .boto .s3cfg .vault-token",
    "*.tfstate *.tfstate.* *.tfvars *.tfvars.json .terraformrc .terraform.d/**",
    ".kube/** kubeconfig *.kubeconfig .dockercfg .docker/config.json .config/containers/auth.json",
    ".config/doctl/** .config/gcloud/** .config/gh/** .config/git/credentials .config/hub",
    # Logins of programs and package managers
    ".netrc _netrc .authinfo .authinfo.gpg .pgpass .my.cnf .mylogin.cnf .htpasswd .git-credentials",
    ".pypirc .npmrc .yarnrc .yarnrc.yml .cargo/credentials* .gem/credentials .bundle/config .composer/auth.json",
    ".config/composer/auth.json .gradle/gradle.properties .m2/settings.xml .m2/settings-security.xml",
    # The configuration of git: the URLs of remotes may contain tokens
    "*.git/**/config *.git/**/config.lock *.git/**/config.worktree* *.git/modules/**",
    "git~*/**/config git~*/**/config.lock git~*/**/config.worktree* git~*/modules/**",
    # Typed commands
    ".bash_history .zsh_history .mysql_history .psql_history",
)
# Templates of a `.env` and public keys.
NOT_SECRET = _globs("*.env.example *.env.sample *.env.template *.env.dist id_*.pub")
# Not to be written without an approval for exactly this write: files that programs execute or are configured by without
# being asked to: on entering a folder, opening it in an editor, starting an interpreter, committing or pushing. Not
# listed: code that runs when a user builds, tests or starts the project, such as a Makefile or conftest.py.
PROTECTED = _globs(
    "artel.yaml .artelignore",
    # Version control. With HEAD a folder with `config`, `objects` and `refs` becomes a bare repository.
    "*.git/** git~*/** head config config.worktree .gitattributes .gitconfig .gitmodules .lfsconfig .hg/** .hgrc",
    ".jj/** .svn/**",
    # Hooks
    ".githooks/** .husky/** hooks/pre-* hooks/post-* hooks/applypatch-msg hooks/commit-msg hooks/fsmonitor*",
    "hooks/prepare-commit-msg hooks/push-to-checkout hooks/reference-transaction hooks/update",
    ".pre-commit-config.yaml .pre-commit-config.yml .pre-commit-hooks.yaml lefthook.* .lefthook.* lefthook-local.*",
    ".lefthook-local.* .lefthook/** .overcommit.yml .huskyrc .huskyrc.*",
    # Editors, debuggers and what they run in the background
    ".vscode/** .idea/** .run/** .fleet/** .zed/** .helix/** .nova/** .vs/** .settings/** .project .theia/**",
    "*.code-workspace *.sublime-project *.sublime-workspace .vim/** .vimrc _vimrc .exrc .lvimrc .ideavimrc .nvim/**",
    ".nvimrc .nvim.lua .emacs .emacs.d/** .dir-locals.el .dir-locals-2.el .ycm_extra_conf.py .kateproject",
    ".gdbinit .lldbinit .pdbrc .luarc.json .luarc.jsonc .pylintrc pylintrc .eslintrc .eslintrc.* eslint.config.*",
    "prettier.config.* stylelint.config.* directory.build.* build.rs rust-toolchain rust-toolchain.toml",
    # Development environments
    ".devcontainer/** .devcontainer.json devfile.yaml .devfile.yaml .gitpod.yml .gitpod.dockerfile .replit replit.nix",
    ".codesandbox/** .stackblitzrc .idx/** devbox.json flake.nix shell.nix devenv.nix devenv.yaml devenv.local.nix",
    # Shells and terminals
    ".bashrc .bash_* .profile .zshrc .zshenv .zprofile .zlogin .zlogout .cshrc .tcshrc .kshrc .login .logout",
    ".aliases .inputrc .envrc .direnv/** .autoenv .autoenv.* .autoenv_leave.* .screenrc .tmux.conf .xinitrc .xprofile",
    ".curlrc .wgetrc autorun.inf desktop.ini",
    # Continuous integration
    ".github/** .gitea/** .forgejo/** .gitlab-ci.yml .gitlab-ci.yaml .gitlab/** .circleci/** .cirrus.yml",
    ".cirrus.yaml .cirrus.star .travis.yml .travis.yaml .drone.yml .drone.yaml .drone.star .woodpecker.yml",
    ".woodpecker.yaml .woodpecker/** .buildkite/** .semaphore/** .teamcity/** .tekton/** .ci/** appveyor.yml",
    "appveyor.yaml .appveyor.yml azure-pipelines.yml azure-pipelines.yaml bitbucket-pipelines.yml",
    "bitbucket-pipelines.yaml bitrise.yml buildspec.yml buildspec.yaml cloudbuild.yml cloudbuild.yaml",
    "codemagic.yaml jenkinsfile jenkinsfile.* .readthedocs.yml .readthedocs.yaml netlify.toml vercel.json",
    # Package managers and interpreters
    ".cargo/** .npmrc .yarn/** .yarnrc .yarnrc.yml .pnpmfile.* bunfig.toml .bunfig.toml pip.conf pip.ini uv.toml",
    "mise.toml mise.*.toml .mise.toml .mise.*.toml .mise/** .tool-versions .mvn/** node_modules/**",
    "sitecustomize.py usercustomize.py *.pth pyvenv.cfg site-packages/** dist-packages/** bin/activate* bin/python*",
    "scripts/activate* ipython_*config.py ipython_*config.json jupyter_*config.py jupyter_*config.json",
    ".rprofile .renviron .irbrc .pryrc .octaverc .ghci .ocamlinit .iex.exs",
    # Coding agents
    "agent.md agents.md agents.*.md claude.md claude.*.md gemini.md qwen.md crush.md warp.md .agent/** .agents/**",
    ".claude/** .gemini/** .cursor/** .cursorrules .windsurf/** .windsurfrules .clinerules/** .cline/** .roo/**",
    ".roorules .codex/** .continue/** .kiro/** .junie/** .trae/** .augment/** .amazonq/** .factory/** .crush/**",
    ".crush.json crush.json .opencode/** opencode.json opencode.jsonc .aider.* .goosehints .mcp.json mcp.json",
)
_BACKUP = re.compile(r"(?:~|#|\.bak|\.backup|\.old|\.orig|\.save|\.sw[a-p]|\.~\d{1,9})\Z")
MAX_BACKUPS = 255  # as many suffixes as a name can have


def split_path(path: str) -> Parts:
    """Return the names of a relative path, () for the folder itself (`.`); raise PathError if it is invalid.

    Nothing is decoded or normalized, so the path that is checked is the one that is opened.
    """
    _refuse_invisible_characters(path)
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
    """Return whether a file holds credentials, so that agents may neither read nor write it."""
    names = _folded_all(parts)
    if _matches(names, NOT_SECRET) and not _matches(names[:-1], SECRET):
        return False
    return any(_matches(variant, SECRET) for variant in (names, *_without_backup(names)))


def is_protected(parts: Parts) -> bool:
    """Return whether writing a file needs an approval for exactly this write.

    Every file in a top-level folder whose name begins with a dot is protected: programs keep their configuration
    there, and no list can name them all.
    """
    names = _folded_all(parts)
    return (len(names) > 1 and names[0].startswith(".")) or _matches(names, PROTECTED)


def matches(parts: Parts, globs: tuple[str, ...]) -> bool:
    """Return whether a path matches one of the globs of an allow or deny list, case-insensitively.

    `**` matches any number of folders, also none; a glob without a slash matches a name at any depth.
    """
    names = _folded_all(parts)
    return any(_runs_match(names, runs) for runs in _parsed(globs))


def _refuse_invisible_characters(path: str) -> None:
    for character in path:
        if unicodedata.category(character) in _INVISIBLE:
            raise InvalidPath(f"The path has an invisible or invalid character (U+{ord(character):04X})")


def _matches(names: Parts, rules: tuple[str, ...]) -> bool:
    """Return whether folded names match one of the rules in SECRET, NOT_SECRET or PROTECTED."""
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
    """Return one regular expression for file names, one for folder names, and the rules with several names."""
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
        return any(_names_match(names[start : start + len(folder)], folder) for start in range(len(names)))
    if "/**/" in rule:
        folder_name, _, file_name = rule.partition("/**/")
        return fnmatchcase(names[-1], file_name) and any(fnmatchcase(name, folder_name) for name in names[:-1])
    pattern = tuple(rule.split("/"))
    return _names_match(names[-len(pattern) :], pattern)


def _names_match(names: Parts, pattern: Parts) -> bool:
    return len(names) == len(pattern) and all(map(fnmatchcase, names, pattern))


def _without_backup(names: Parts) -> list[Parts]:
    """Return the original names of a backup such as `.env~`, `#.env#`, `server.key.bak~` or `.server.key.swp`."""
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
    """Return a name as the most tolerant file system compares it (case, Unicode composition, NTFS suffixes)."""
    plain = unicodedata.normalize("NFKC", name).casefold()
    return plain.split(":", 1)[0].rstrip(". ") or plain


@functools.lru_cache(maxsize=MAX_PARSED)
def _parsed(globs: tuple[str, ...]) -> tuple[_Runs, ...]:
    """Return the runs of names between the `**` of each glob."""
    parsed = []
    for glob in globs:
        pattern = [_folded(part) for part in glob.split("/") if part not in ("", ".")]
        runs: list[list[_NameTest]] = [[]] if "/" in glob.strip("/") else [[], []]
        for name in pattern:
            if name == "**":
                runs.append([])
            else:
                runs[-1].append(_name_test(name))
        parsed.append(tuple(map(tuple, runs)))
    return tuple(parsed)


def _name_test(pattern: str) -> _NameTest:
    if any(sign in pattern for sign in "*?["):
        return re.compile(translate(pattern)).match
    return pattern.__eq__


def _runs_match(names: Parts, runs: _Runs) -> bool:
    """Return whether the first run is the beginning, the last run the end, and the others follow in between.

    The leftmost place of each run leaves the most room for the next, so no other place has to be tried.
    """
    first, last = runs[0], runs[-1]
    if len(runs) == 1:
        return len(names) == len(first) and _run_is_at(names, 0, first)
    position, end = len(first), len(names) - len(last)
    if position > end or not _run_is_at(names, 0, first) or not _run_is_at(names, end, last):
        return False
    for run in runs[1:-1]:
        while position + len(run) <= end and not _run_is_at(names, position, run):
            position += 1
        position += len(run)
        if position > end:
            return False
    return True


def _run_is_at(names: Parts, start: int, run: tuple[_NameTest, ...]) -> bool:
    return all(test(name) for test, name in zip(run, names[start : start + len(run)], strict=True))
