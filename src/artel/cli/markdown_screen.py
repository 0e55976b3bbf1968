"""Return as Markdown in a terminal, block by block: a finished block is rendered, the one being written is plain.

Used only where the cursor can be moved; a pipe or a dumb terminal gets the text as it is (`AnswerPrinter`).
"""

import re
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown
from rich.segment import Segment, Segments
from rich.syntax import Syntax
from rich.text import Text

from artel.cli.visible_text import visible

if TYPE_CHECKING:
    from artel.client.turn import Answer

BEGINS_AGAIN = "[the answer begins again]"
WIDEST = 120
LIVE_LINES = 8  # of the block that is being written
REDRAW_SECONDS = 0.05
CODE_THEME = "ansi_dark"  # the terminal's own colours
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^\n]{0,200})")
_LANGUAGE = re.compile(r"[\w+#.-]{1,30}")


class _Heading(Heading):
    """A heading at the left, where the text is; rich has it in the middle."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _Markdown(Markdown):
    elements = Markdown.elements | {"heading_open": _Heading}


def console(*, stderr: bool = False) -> Console:
    """Return a console that adds nothing of its own; it heeds NO_COLOR."""
    made = Console(highlight=False, markup=False, emoji=False, stderr=stderr)
    made.width = min(made.width, WIDEST)
    return made


class MarkdownPrinter:
    """Prints an answer as it grows; one that turns out to be another is printed again from its beginning."""

    def __init__(self) -> None:
        self._console = console()
        self._text = ""  # what was shown last: what is printed for good, and the rest
        self._done = ""
        self._rest = ""
        self._tool_calls = 0  # made when the text last grew
        self._live = 0  # lines on the screen that belong to the block that is being written
        self._drawn = 0.0
        self._needs_gap = False

    @property
    def at_line_start(self) -> bool:
        """Whether something else may be printed without ending a line first."""
        return self._live == 0

    def show(self, answer: "Answer") -> None:
        """Print the blocks that are finished, and the end of the one that is not."""
        text = answer.text
        if not text.startswith(self._text):
            if not answer.complete and self._text.startswith(text):
                return  # it may grow to be the same again
            self._replace(text, is_next=answer.tool_calls != self._tool_calls)
        if len(text) > len(self._text):
            self._tool_calls = answer.tool_calls
        self._text, self._rest = text, text[len(self._done) :]
        if not answer.complete and time.monotonic() - self._drawn < REDRAW_SECONDS:
            return  # looking for the end of a block takes as long as the block is
        end = len(self._rest) if answer.complete else end_of_blocks(self._rest)
        if end:
            self._finish(end)
        if self._rest.strip():
            self._draw()

    def _replace(self, text: str, *, is_next: bool) -> None:
        """Make room for another text: what was said before a tool call stays, what was said wrongly does not count."""
        if is_next:
            self.end_line()
        elif text.startswith(self._done):
            return  # nothing of what differs is printed for good
        else:
            self._clear()
            self._console.print(Text(BEGINS_AGAIN, "dim"))
        self._text = self._done = ""

    def end_line(self) -> None:
        """Render what there is, because the answer is over or something else comes."""
        if self._rest.strip():
            self._finish(len(self._rest))
        self._clear()

    def _finish(self, end: int) -> None:
        self._clear()
        source, self._rest = self._rest[:end], self._rest[end:]
        self._done += source
        for block in split_blocks(source):
            if self._needs_gap:
                self._console.print()
            print_block(self._console, block)
            self._needs_gap = True

    def _draw(self) -> None:
        """Show the last lines of the block that is being written in place of those shown before."""
        width = self._console.width
        tail = visible(self._rest.strip("\n"))[-LIVE_LINES * width :]
        wrapped = Text(tail).wrap(self._console, width - 1)
        lines = [line.plain.rstrip() for line in wrapped][-min(LIVE_LINES, max(1, self._console.height - 2)) :]
        self._clear()
        self._console.file.write("\n".join(lines))
        self._console.file.flush()
        self._live, self._drawn = len(lines), time.monotonic()

    def _clear(self) -> None:
        if self._live:
            up = f"\x1b[{self._live - 1}A" if self._live > 1 else ""
            self._console.file.write(f"\r{up}\x1b[J")
            self._console.file.flush()
            self._live = 0


def print_markdown(out: Console, text: str) -> None:
    """Print a whole text."""
    for number, block in enumerate(split_blocks(text)):
        if number:
            out.print()
        print_block(out, block)


def print_block(out: Console, block: str) -> None:
    """Print one block. Code keeps its lines, however long they are, so that it can be copied; the rest is wrapped."""
    lines = visible(block.strip("\n")).split("\n")
    fence = _FENCE.match(lines[0])
    if fence is None:
        markdown = _Markdown("\n".join(lines), code_theme=CODE_THEME, hyperlinks=False)
        _print_without_margins(out, markdown)
        return
    body = lines[1:-1] if len(lines) > 1 and _closes(fence[1], lines[-1]) else lines[1:]
    language = _LANGUAGE.search(fence[2])
    name = language[0] if language else "text"
    out.print(Text(f"```{language[0] if language else ''}", "dim"))
    highlighted = Syntax("", name, theme=CODE_THEME).highlight("\n".join(body))
    highlighted.rstrip()
    out.print(highlighted, soft_wrap=True)
    out.print(Text("```", "dim"))


def _print_without_margins(out: Console, markdown: Markdown) -> None:
    """Print Markdown without the blank lines that rich puts around some blocks."""
    rendered = out.render_lines(markdown, pad=False)
    shown = [number for number, line in enumerate(rendered) if "".join(part.text for part in line).strip()]
    for line in rendered[shown[0] : shown[-1] + 1] if shown else ():
        out.print(Segments([*line, Segment.line()]), end="")


def split_blocks(text: str) -> list[str]:
    """Return the blocks of a text: code between fences, and what stands between blank lines outside of lists."""
    ends = [0, *_block_ends(text), len(text)]
    blocks = [text[begin:end].strip("\n") for begin, end in pairwise(ends)]
    return [block for block in blocks if block.strip()]


def end_of_blocks(text: str) -> int:
    """Return how much of a text that still grows is finished."""
    return max(_block_ends(text), default=0)


def _block_ends(text: str) -> Iterator[int]:
    """Yield where each block of a text ends; not for the last one if it may go on.

    A blank line ends a block when what follows is not indented: an indented line may belong to a list above.
    """
    fence = ""
    is_after_blank = has_text = False
    place = 0
    for line in text.splitlines(keepends=True):
        is_blank = not line.strip()
        opened = None if fence else _FENCE.match(line)
        goes_on = is_blank or line.startswith((" ", "\t"))
        if not fence and has_text and (opened or (is_after_blank and not goes_on)):
            yield place
            is_after_blank = has_text = False
        place += len(line)
        if fence and line.endswith("\n") and _closes(fence, line):
            yield place
            fence, is_after_blank, has_text = "", False, False
            continue
        if opened and line.endswith("\n"):
            fence = opened[1]
        is_after_blank = is_blank and has_text
        has_text = has_text or not is_blank


def _closes(fence: str, line: str) -> bool:
    found = line.strip()
    return len(found) >= len(fence) and set(found) == {fence[0]}
