"""Validation of paths, secret and protected names, and globs."""

import posixpath
import time
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from artel.paths.errors import InvalidPath, OutsideWorkspace, PathError
from artel.paths.policy import is_protected, is_secret, matches, split_path
from tests.depth import by_depth

TRICKY = st.sampled_from(
    [
        "..",
        ".",
        "",
        "a",
        "b c",
        "..x",
        "a..b",
        "...",
        ".env",
        "~",
        "%2e%2e",
        "．．",
        "‥",
        "C:",
        "\\",
        "..\\",
        "-",
        "*",
        "é",
    ]
)
ANY_PATH = st.lists(TRICKY | st.text(max_size=8), max_size=12).map("/".join) | st.text(max_size=60)


@pytest.mark.req("WSA-05.2", "TWS-04.1")
@given(path=ANY_PATH)
@example("../x")
@example("a/../../b")
@settings(max_examples=by_depth(150, 10_000))
def test_accepted_paths_stay_inside(path: str) -> None:
    try:
        parts = split_path(path)
    except PathError:
        return
    reached = posixpath.normpath(posixpath.join("/workspace", path))
    assert reached == posixpath.join("/workspace", *parts)
    assert reached == "/workspace" or reached.startswith("/workspace/")
    assert not {"", ".", ".."} & set(parts)
    assert not any(unicodedata.category(character) in {"Cc", "Cf", "Cs"} for character in path)


@pytest.mark.req("WSA-05.2", "WSA-06.5", "TWS-04.1")
@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../x",
        "a/..",
        "a/../b",
        "./../x",
        "a/../../workspace/b",
        "/etc/passwd",
        "/",
        "//x",
        "\\x",
        "a\\..\\b",
        "C:/x",
        "c:x",
        "C:\\x",
        "\\\\server\\share",
    ],
)
def test_paths_that_lead_out_are_refused(path: str) -> None:
    with pytest.raises(OutsideWorkspace, match=r"^Path is outside workspace bounds$"):
        split_path(path)


@pytest.mark.parametrize(
    "path",
    [
        "a\x00b",
        "a\nb",
        "a\x7fb",
        "a\u202eb",  # right to left
        "a\u200bb",  # no width
        "a\ufeffb",
        "a\u2028b",
        "\udc80",  # no UTF-8
        "x" * 256,
        "é" * 128,
        "/".join("x" * 100 for _ in range(11)),
        "/".join("a" * 65),
        "a/" * 5_000,
    ],
)
def test_invalid_paths_are_refused_with_a_reason(path: str) -> None:
    with pytest.raises(InvalidPath) as refused:
        split_path(path)
    assert len(refused.value.message) < 100


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        (".", ()),
        ("", ()),
        ("./", ()),
        ("a..b", ("a..b",)),
        ("..x/y", ("..x", "y")),
        ("./src//main.py", ("src", "main.py")),
        ("folder/", ("folder",)),
        ("%2e%2e/x", ("%2e%2e", "x")),
        ("~/x", ("~", "x")),
        ("a b/ü.txt", ("a b", "ü.txt")),
        ("/".join("a" * 64), tuple("a" * 64)),
    ],
)
def test_unusual_but_valid_names_are_accepted(path: str, parts: tuple[str, ...]) -> None:
    assert split_path(path) == parts


SECRETS = [
    ".env",
    "app/.env",
    ".ENV",
    ".env.local",
    ".env~",
    ".env-prod",
    ".env_test",
    "prod.env",
    "prod.env~",
    ".env.bak",
    "#.env#",
    ".envrc",
    "secrets/a",
    "x/Secrets/y/z",
    "ſecrets/a",
    "secrets/.env.example",
    "a/.ssh/.env.sample",
    "secrets.yml",
    "key.PEM",
    ".ssh/config",
    "home/.ssh/id_rsa",
    "id_ed25519",
    "id_rsa.bak",
    ".aws/credentials",
    ".docker/config.json",
    ".env.",
    ".env::$DATA",
    ".netrc",
    "certs/server.key",
    ".git/config",
    ".GIT/config",
    "sub/.git/config",
    "mirror.git/config",
    ".git/modules/lib/config",
    "terraform.tfstate",
    "terraform.tfstate.backup",
    "prod.tfvars",
    "x.auto.tfvars.json",
    ".dockercfg",
    ".yarnrc.yml",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".m2/settings.xml",
    ".config/gh/hosts.yml",
    "credentials.json",
    "service-account.json",
    "service-account-prod.json",
    ".vault-token",
    ".npmrc",
    ".my.cnf",
    ".bash_history",
]
SECRETS += [
    ".env ",
    ".id_rsa.swp",
    ".server.key.swo",
    "id_rsa.bak~",
    "#id_rsa.old#",
    "server.key.bak.orig~",
    "server.key.~2~",
    "id_rsa_work",
    "id_ed25519-github",
    "id_ecdsa_sk",
    "id_ed25519.2024",
    "prod.env.local",
    "prod.env.example.local",
    ".git/worktrees/feature/config.worktree",
    ".git/worktrees/feature/config",
    ".git/config.lock",
    "git~1/worktrees/x/config.worktree~",
]
OPEN = [
    "env",
    ".env.example",
    "a/.ENV.Sample",
    "prod.env.example",
    "staging.env.template",
    "id_rsa.pub",
    "keys/id_ed25519_work.pub",
    "id_card.py",
    "secrets.md",
    "mysecrets/a",
    "keys.py",
    "config.json",
    ".git/HEAD",
    ".git/logs/HEAD",
    ".git/worktrees/feature/HEAD",
    "mirror.git/src/config.py",
    "worktrees/feature/config.worktree",
    ".editorconfig.bak",
    ".gitignore",
    "main.tf",
    ".cargo/config.toml",
    "environment.py",
    "gh/hosts.yml",
    "settings.xml",
]


@pytest.mark.req("AGT-02.6", "SEC-06.1")
@pytest.mark.parametrize(("path", "expected"), [*((path, True) for path in SECRETS), *((path, False) for path in OPEN)])
def test_secret_files_are_recognized_case_insensitively(path: str, expected: bool) -> None:
    assert is_secret(tuple(path.split("/"))) is expected


PROTECTED_FILES = [
    "artel.yaml",
    "sub/ARTEL.yaml",
    ".artelignore",
    ".git/config",
    ".GIT/hooks/pre-commit",
    "sub/.git",
    "git~1/config",
    "mirror.git/packed-refs",
    "x/HEAD",
    "x/config",
    "x/hooks/post-update",
    ".gitconfig",
    ".gitattributes",
    ".github/workflows/x.yml",
    "sub/.gitea/workflows/x.yml",
    "sub/.forgejo/x",
    ".gitlab-ci.yml",
    ".cirrus.yml",
    "appveyor.yml",
    "Jenkinsfile",
    "lefthook.yaml",
    "lefthook.toml",
    ".husky/_/x",
    ".vscode/tasks.json",
    ".Idea/x",
    "sub/.helix/languages.toml",
    "sub/.vim/plugin/x.vim",
    ".bashrc",
    ".bash_aliases",
    ".envrc",
    ".gdbinit",
    ".tmux.conf",
    "sub/.cargo/config.toml",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    "mise.toml",
    "sitecustomize.py",
    "venv/lib/site-packages/rich/x.py",
    "a/AGENTS.md",
    "GEMINI.md",
    "CLAUDE.local.md",
    ".windsurfrules",
    ".clinerules",
    "sub/.clinerules/x.md",
    "sub/.codex/config.toml",
    "sub/.continue/x",
    "opencode.json",
    "sub/.kiro/x",
]
NEW_DOT_FOLDERS = [".tool-of-tomorrow/run", ".X/y/z.md", ".venv/bin/python", "．new/x", ".new./x", ".storybook/main.ts"]
PLAIN = [
    "git/settings",
    "src/github/x.py",
    "README.md",
    "vscode.txt",
    ".gitignore",
    ".prettierrc",
    "agents.md.txt",
    "docs/.hidden/x",
    "config/app.py",
    "src/hooks/useX.ts",
    "header.py",
    "objects/model.py",
    "refs.md",
    "src/.new/x",
    "Makefile",
    "package.json",
    "pyproject.toml",
    "tests/conftest.py",
    "src/build.py",
    "scripts/python_lint.py",
    "docs/agents-overview.md",
]


@pytest.mark.req("SEC-06.2", "SEC-06.3")
@pytest.mark.parametrize(
    ("path", "expected"),
    [*((path, True) for path in [*PROTECTED_FILES, *NEW_DOT_FOLDERS]), *((path, False) for path in PLAIN)],
)
def test_protected_files_are_recognized_by_name(path: str, expected: bool) -> None:
    assert is_protected(tuple(path.split("/"))) is expected


_WIDE = {chr(code): chr(code + 0xFEE0) for code in range(0x21, 0x7F)} | {"s": "ſ", "k": "\u212a"}


def _wide(letter: str) -> str:
    return _WIDE.get(letter, letter)


@st.composite
def variants(draw: st.DrawFn, paths: list[str], *, nested: bool) -> str:
    """Return a path that some file system treats as the same file."""
    path = draw(st.sampled_from(paths))
    shapes: st.SearchStrategy[Callable[[str], str]] = st.sampled_from((str.lower, str.upper, _wide, str))
    names = ["".join(draw(shapes)(letter) for letter in name) for name in path.split("/")]
    endings = st.sampled_from(["", "", ".", " ", ". .", "\u00a0", "::$DATA", ":x"])
    names = [name if ":" in name else name + draw(endings) for name in names]
    above = draw(st.lists(st.sampled_from(["a", ".", "", "b c", "secret"]), max_size=3)) if nested else []
    return draw(st.sampled_from(["/", "//", "/./"])).join([*(["."] if above else []), *above, *names])


def _is(check: Callable[[tuple[str, ...]], bool], path: str) -> bool:
    try:
        return check(split_path(path))
    except PathError:
        return True  # refused anyway


@pytest.mark.req("SEC-06.1")
@given(path=variants(SECRETS, nested=True))
@settings(max_examples=by_depth(250, 1_000))
def test_equivalent_paths_of_a_secret_file_are_secret(path: str) -> None:
    assert _is(is_secret, path)


@pytest.mark.req("SEC-06.2")
@given(path=variants(PROTECTED_FILES, nested=True))
@settings(max_examples=by_depth(250, 1_000))
def test_equivalent_paths_of_a_protected_file_are_protected(path: str) -> None:
    assert _is(is_protected, path) or _is(is_secret, path)


@pytest.mark.req("SEC-06.3")
@given(path=variants(NEW_DOT_FOLDERS, nested=False))
@settings(max_examples=200)
def test_equivalent_paths_of_a_top_level_dot_folder_are_protected(path: str) -> None:
    assert _is(is_protected, path)


@pytest.mark.req("AGT-02.6")
@pytest.mark.parametrize(
    ("glob", "path", "expected"),
    [
        ("*.py", "a.py", True),
        ("*.py", "x/y/a.PY", True),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/x/a.py", False),
        ("src/*.py", "x/src/a.py", False),
        ("src/**", "src/x/y", True),
        ("src/**/a.py", "src/a.py", True),
        ("src/**/a.py", "src/x/y/a.py", True),
        ("**/secrets/**", "a/secrets/b", True),
        ("**/secrets/**", "a/secretsx/b", False),
        ("**", "anything/at/all", True),
        ("docs/", "docs", True),
    ],
)
def test_globs_of_allow_and_deny_lists(glob: str, path: str, expected: bool) -> None:
    assert matches(tuple(path.split("/")), (glob,)) is expected


@pytest.mark.req("SEC-03.5")
@given(
    names=st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=6),
    pattern=st.lists(st.sampled_from(["a", "*", "**"]), min_size=2, max_size=6),
)
@example(names=["a", "b", "a", "a"], pattern=["**", "a", "a", "**"])
@example(names=["a", "b", "a"], pattern=["a", "**", "b", "**", "b", "a"])
@settings(max_examples=by_depth(200, 500))
def test_glob_matches_like_an_exhaustive_search(names: list[str], pattern: list[str]) -> None:
    def search(names: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
        if not pattern:
            return not names
        if pattern[0] == "**":
            return search(names, pattern[1:]) or (bool(names) and search(names[1:], pattern))
        return bool(names) and pattern[0] in ("*", names[0]) and search(names[1:], pattern[1:])

    assert matches(tuple(names), ("/".join(pattern),)) is search(tuple(names), tuple(pattern))


@pytest.mark.req("SEC-02.1")
def test_hostile_globs_take_no_time_on_deep_paths() -> None:
    # Trying every place for every `**` takes 40 seconds.
    globs = tuple("/".join(f"**/*a*[a{number}{step}]" for step in range(60)) + "/b" for number in range(100))
    began = time.process_time()

    found = [matches((*("a" * 15,) * 63, f"a{number}"), globs) for number in range(400)]

    assert not any(found)
    assert time.process_time() - began < 15
