"""Check the links of the documentation and the navigation of its site; --site FOLDER checks a site that was built.

Quick, so that it is part of `make lint`; `make docs-site` builds the site strictly, which checks the links once more.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[1]
SITE = "zensical.toml"
SECTIONS = ("Home", "Quickstart", "How to", "Concepts", "Architecture", "Reference", "Decisions", "Glossary")
_CODE = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$|`[^`\n]+`", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(!?)\[[^\]]*\]\(([^)\s]*)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def pages(root: Path) -> list[Path]:
    """Return all pages: those of the site, and those that are read in the repository only."""
    return sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "deploy").rglob("*.md")])


def broken_links(root: Path) -> Iterator[str]:
    """Yield what is wrong with the links of all pages."""
    for page in pages(root):
        text = _CODE.sub(lambda code: "\n" * code[0].count("\n"), page.read_text(encoding="utf-8"))
        for link in _LINK.finditer(text):
            where = f"{page.relative_to(root)}:{text.count(chr(10), 0, link.start()) + 1}"
            if problem := _problem(root, page, link[2], is_image=bool(link[1])):
                yield f"{where}: {link[2]}: {problem}"


def _problem(root: Path, page: Path, link: str, *, is_image: bool) -> str | None:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return "an image of another server is not shown without a network" if is_image else None
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    docs = root / "docs"
    if not target.exists():
        return "there is no such file"
    if page.is_relative_to(docs) and not target.is_relative_to(docs):
        return "the site has only what is in docs/: write the path as code"
    if parts.fragment and parts.fragment not in _anchors(target):
        return "the page has no such heading"
    return None


@cache
def _anchors(page: Path) -> frozenset[str]:
    """Return the anchors of the headings of a page, as GitHub and the site make them."""
    headings = _HEADING.findall(page.read_text(encoding="utf-8"))
    return frozenset(re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings)


def navigation_problems(root: Path) -> Iterator[str]:
    """Yield what is wrong with the navigation of the site: its order, and pages that are missing or not there."""
    nav = tomllib.loads((root / SITE).read_text(encoding="utf-8"))["project"]["nav"]
    sections = tuple(name for entry in nav for name in entry)
    if sections != SECTIONS:
        yield f"{SITE}: the sections are {', '.join(sections)}, not {', '.join(SECTIONS)}"
    named = list(_paths(nav))
    existing = {str(page.relative_to(root / "docs")) for page in (root / "docs").rglob("*.md")}
    yield from (f"{SITE}: {path} does not exist" for path in named if path not in existing)
    yield from (f"{SITE}: docs/{path} is not in the navigation" for path in sorted(existing - set(named)))
    yield from (
        f"{SITE}: {path} is twice in the navigation" for path in sorted({p for p in named if named.count(p) > 1})
    )


def _paths(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        for item in entry.values() if isinstance(entry, dict) else entry:
            yield from _paths(item)


class _Loaded(HTMLParser):
    """Collects what a browser loads with a page, and where its links lead."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag == "link" and values.get("rel") in ("stylesheet", "icon", "preload", "preconnect"):
            self.loaded.append(values["href"])
        elif "src" in values:
            self.loaded.append(values["src"])


def site_problems(site: Path) -> Iterator[str]:
    """Yield what a browser would load from other servers, and links of the site that lead nowhere."""
    found = sorted(site.rglob("*.html"))
    if not found:
        yield f"{site}: no page was built"
    for page in found:
        parser = _Loaded()
        parser.feed(page.read_text(encoding="utf-8"))
        name = page.relative_to(site)
        for address in parser.loaded:
            if urlsplit(address).netloc:
                yield f"{name}: loads {address}, which needs a network"
        for address in (*parser.loaded, *parser.links):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc or not parts.path or parts.path.startswith("/"):
                continue
            target = page.parent / unquote(parts.path)
            if not (target.is_file() or (target / "index.html").is_file()):
                yield f"{name}: {address} does not exist"


def main(arguments: list[str]) -> int:
    """Print all problems; return the exit code."""
    if arguments[:1] == ["--site"]:
        problems = list(site_problems(Path(arguments[1])))
    else:
        problems = [*broken_links(ROOT), *navigation_problems(ROOT)]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
