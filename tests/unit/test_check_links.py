"""scripts/check_links.py finds broken links, pages without a place in the navigation, and what needs a network."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

PAGE = "# Page one\n\nText, and [a link](two.md#part-1-the-start).\n"
OTHER = "# Two\n\n## Part 1: the start\n\n[back](page.md)\n"


@pytest.fixture(scope="module")
def check() -> ModuleType:
    path = Path(__file__).parents[2] / "scripts" / "check_links.py"
    spec = importlib.util.spec_from_file_location("check_links", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def root(tmp_path: Path, check: ModuleType) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text(PAGE)
    (tmp_path / "docs" / "two.md").write_text(OTHER)
    (tmp_path / "README.md").write_text("[docs](docs/page.md)")
    sections = [f'{{ "{name}" = [] }}' for name in check.SECTIONS[1:]]
    nav = f'[project]\nnav = [{{ "Home" = ["page.md", "two.md"] }}, {", ".join(sections)}]\n'
    (tmp_path / "zensical.toml").write_text(nav)
    return tmp_path


def test_links_that_lead_somewhere_are_fine(root: Path, check: ModuleType) -> None:
    (root / "docs" / "two.md").write_text(
        OTHER + "\n```sh\n[no](link.md)\n```\n\n`[no](link.md)` [web](https://example.org)\n"
    )

    assert list(check.broken_links(root)) == []
    assert list(check.navigation_problems(root)) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[x](three.md)", "there is no such file"),
        ("[x](two.md#part-2)", "the page has no such heading"),
        ("[x](#nowhere)", "the page has no such heading"),
        ("[x](../README.md)", "the site has only what is in docs/"),
        ("![x](https://example.org/x.png)", "an image of another server"),
    ],
)
def test_broken_link_is_named_with_its_line(root: Path, check: ModuleType, text: str, problem: str) -> None:
    (root / "docs" / "page.md").write_text(f"# Page\n\n```\ncode\n```\n\n{text}\n")

    (found,) = check.broken_links(root)

    assert found.startswith("docs/page.md:7: ")
    assert problem in found


def test_pages_must_be_in_the_navigation_once(root: Path, check: ModuleType) -> None:
    (root / "docs" / "three.md").write_text("# Three\n")
    config = root / "zensical.toml"
    config.write_text(config.read_text().replace('"two.md"', '"two.md", "two.md", "four.md"'))

    assert list(check.navigation_problems(root)) == [
        "zensical.toml: four.md does not exist",
        "zensical.toml: docs/three.md is not in the navigation",
        "zensical.toml: two.md is twice in the navigation",
    ]


def test_sections_keep_their_order(root: Path, check: ModuleType) -> None:
    config = root / "zensical.toml"
    config.write_text(config.read_text().replace('"Glossary"', '"Words"'))

    (found,) = check.navigation_problems(root)

    assert "Words, not Home" in found


def test_site_that_loads_from_another_host_is_refused(tmp_path: Path, check: ModuleType) -> None:
    (tmp_path / "style.css").touch()
    page = tmp_path / "index.html"
    page.write_text(
        '<link rel="stylesheet" href="style.css"><a href="https://example.org">out</a><a href="#top">up</a>'
    )
    assert list(check.site_problems(tmp_path)) == []

    page.write_text('<script src="https://cdn.example.org/x.js"></script><a href="missing.html">x</a>')
    assert list(check.site_problems(tmp_path)) == [
        "index.html: loads https://cdn.example.org/x.js, which needs a network",
        "index.html: missing.html does not exist",
    ]
    page.unlink()
    assert list(check.site_problems(tmp_path)) == [f"{tmp_path}: no page was built"]
