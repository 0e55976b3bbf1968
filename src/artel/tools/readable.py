"""Turns an HTML page into readable text, in a process of its own that can be killed.

Reads the page in UTF-8 from standard input; prints a JSON object with `title` and `text`. A page can be made so that
parsing it takes forever, overflows the stack or fills the memory: so it opens no files and no connections, imports
nothing of Artel, its CPU time and memory are limited, and a page that is too deep is not given to trafilatura.
Without trafilatura and lxml, which come with `artel-ai[web]`, the text of the whole page is returned.
"""

import importlib
import json
import resource
import sys
from html.parser import HTMLParser

CPU_SECONDS = 6
MEMORY_BYTES = 1_000_000_000
MAX_TEXT_CHARACTERS = 400_000
MAX_TITLE_CHARACTERS = 300
# trafilatura copies trees recursively. Ordinary pages are less than 50 deep, and have less than 20,000 elements.
MAX_DEPTH = 250
MAX_ELEMENTS = 50_000

_SKIPPED = frozenset({"script", "style", "noscript", "template", "svg", "head"})
_INLINE = frozenset(
    {"a", "abbr", "b", "code", "em", "font", "i", "mark", "q", "s", "small", "span", "strong", "sub", "u"}
)


_EMPTY = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)
_CLOSED_BY_THE_NEXT = frozenset({"dd", "dt", "head", "li", "option", "p", "td", "th", "tr"})


class TooComplex(Exception):
    """The page has too many elements, or they are too deep."""


class Outline:
    """Target of lxml's parser: title and plain text of a page, without a tree."""

    def __init__(self) -> None:
        self._open: list[str] = []
        self._elements = self._skipped = self._size = 0
        self._title: list[str] = []
        self._text: list[str] = []

    @property
    def title(self) -> str:
        return " ".join("".join(self._title).split())[:MAX_TITLE_CHARACTERS]

    @property
    def text(self) -> str:
        lines = (" ".join(line.split()) for line in "".join(self._text).splitlines())
        return "\n".join(line for line in lines if line)[:MAX_TEXT_CHARACTERS]

    def start(self, tag: str, _attributes: object) -> None:
        self._open.append(tag)
        self._elements += 1
        if self._elements > MAX_ELEMENTS or len(self._open) > MAX_DEPTH:
            raise TooComplex
        self._skipped += tag in _SKIPPED
        if tag not in _INLINE:
            self._text.append("\n")

    def end(self, tag: str) -> None:
        if self._open:
            self._skipped -= self._open.pop() in _SKIPPED
        if tag not in _INLINE:
            self._text.append("\n")

    def data(self, text: str) -> None:
        if self._open and self._open[-1] == "title" and "svg" not in self._open:
            self._title.append(text[:MAX_TITLE_CHARACTERS])
        elif not self._skipped and self._size < MAX_TEXT_CHARACTERS:
            self._size += len(text)
            self._text.append(text)

    def close(self) -> None:
        """Required by lxml."""


class PlainParser(HTMLParser):
    """Gives an outline the elements of a page, each with an end."""

    def __init__(self, outline: Outline) -> None:
        super().__init__()
        self._outline, self._open = outline, list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._open and self._open[-1] in _CLOSED_BY_THE_NEXT and (tag == self._open[-1] or tag == "body"):
            self.handle_endtag(self._open[-1])
        self._outline.start(tag, attrs)
        if tag in _EMPTY:
            self._outline.end(tag)
        else:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while tag in self._open:
            ended = self._open.pop()
            self._outline.end(ended)
            if ended == tag:
                break

    def handle_data(self, data: str) -> None:
        self._outline.data(data)


def main() -> None:
    """Read a page from standard input and print its text."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    page = sys.stdin.buffer.read()
    outline = Outline()
    text = ""
    try:
        _parse(page, outline)
        text = _main_text(page)
    except (TooComplex, MemoryError, RecursionError, ValueError):
        pass  # what the outline has is better than nothing
    answer = {"title": outline.title, "text": (text or outline.text)[:MAX_TEXT_CHARACTERS]}
    sys.stdout.buffer.write(json.dumps(answer).encode())


def _parse(page: bytes, outline: Outline) -> None:
    try:
        etree = importlib.import_module("lxml.etree")  # without types
    except ModuleNotFoundError:
        plain = PlainParser(outline)
        plain.feed(page.decode(errors="replace"))
        plain.close()
        return
    parser = etree.HTMLParser(target=outline, encoding="utf-8", remove_comments=True, remove_pis=True)
    try:
        parser.feed(page)
        parser.close()
    except etree.LxmlError:  # an empty page
        pass


def _main_text(page: bytes) -> str:
    """Return the text of the page without menus and the like, "" if there is none."""
    try:
        extract = importlib.import_module("trafilatura").extract
    except ModuleNotFoundError:
        return ""
    text: str | None = extract(page.decode(), fast=True, include_comments=False, include_tables=True)
    return text or ""


if __name__ == "__main__":
    main()
