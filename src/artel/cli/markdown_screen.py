"""Markdown in a terminal that can move its cursor: finished blocks are rendered, the one being written is plain."""

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

from artel.cli.chat_screen import RESTARTED
from artel.cli.output import visible

if TYPE_CHECKING:
    from artel.client.turn import StreamedAnswer

WIDEST = 120
LIVE_LINES = 8  # of the block that is being written
REDRAW_SECONDS = 0.05
CODE_THEME = "ansi_dark"  # the terminal's own colours
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^\n]{0,200})")
_LANGUAGE = re.compile(r"[\w+#.-]{1,30}")


class _Heading(Heading):
    """A left-aligned heading; rich centers headings."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _Markdown(Markdown):
    elements = Markdown.elements | {"heading_open": _Heading}


def console(*, stderr: bool = False) -> Console:
    """Return a console that does not interpret text (no markup, highlighting or emoji names)."""
    result = Console(highlight=False, markup=False, emoji=False, stderr=stderr)
    result.width = min(result.width, WIDEST)
    return result


def print_text(text: str, style: str = "", *, stderr: bool = False, wrap: bool = True) -> None:
    """Print a text with hidden characters escaped."""
    console(stderr=stderr).print(Text(visible(text), style), soft_wrap=not wrap)


class MarkdownPrinter:
    """Prints an answer as it grows; prints it again from the start if its beginning changes."""

    def __init__(self) -> None:
        self._console = console()
        self._text = ""  # shown last: finished blocks (_done) and the rest
        self._done = ""
        self._rest = ""
        self._tool_calls = 0  # made when the text last grew
        self._live = 0  # lines on the screen of the unfinished block
        self._drawn = 0.0
        self._needs_gap = False

    @property
    def at_line_start(self) -> bool:
        """Whether other text can be printed without calling `end_line` first."""
        return self._live == 0

    def show(self, answer: "StreamedAnswer") -> None:
        """Print the finished blocks, and the end of the unfinished one."""
        text = answer.text
        if not text.startswith(self._text):
            if not answer.complete and self._text.startswith(text):
                return  # it may grow to the same text again
            self._replace(text, is_next=answer.tool_calls != self._tool_calls)
        if len(text) > len(self._text):
            self._tool_calls = answer.tool_calls
        self._text, self._rest = text, text[len(self._done) :]
        if not answer.complete and time.monotonic() - self._drawn < REDRAW_SECONDS:
            return  # finding the end of a block takes linear time
        end = len(self._rest) if answer.complete else end_of_blocks(self._rest)
        if end:
            self._finish(end)
        if self._rest.strip():
            self._draw()

    def _replace(self, text: str, *, is_next: bool) -> None:
        """Start another text: text before a tool call stays, other text is marked as replaced."""
        if is_next:
            self.end_line()
        elif text.startswith(self._done):
            return  # the finished blocks are the same
        else:
            self._clear()
            self._console.print(Text(RESTARTED, "dim"))
        self._text = self._done = ""

    def end_line(self) -> None:
        """Render the unfinished block, before other output or at the end."""
        if self._rest.strip():
            self._finish(len(self._rest))
        self._clear()

    def _finish(self, end: int) -> None:
        self._clear()
        source, self._rest = self._rest[:end], self._rest[end:]
        self._done += source
        print_markdown(self._console, source, needs_gap=self._needs_gap)
        self._needs_gap = self._needs_gap or bool(source.strip())

    def _draw(self) -> None:
        """Redraw the last lines of the unfinished block."""
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


def print_markdown(out: Console, text: str, *, needs_gap: bool = False) -> None:
    """Print the blocks of a text with an empty line between them, and before the first if it needs a gap."""
    for block in split_blocks(text):
        if needs_gap:
            out.print()
        print_block(out, block)
        needs_gap = True


def print_block(out: Console, block: str) -> None:
    """Print a block; wrap its text, but not code, so that it can be copied."""
    lines = visible(block.strip("\n")).split("\n")
    fence = _FENCE.match(lines[0])
    if fence is None:
        markdown = _Markdown("\n".join(lines), code_theme=CODE_THEME, hyperlinks=False)
        rendered = out.render_lines(markdown, pad=False)
        shown = [number for number, line in enumerate(rendered) if "".join(part.text for part in line).strip()]
        for line in rendered[shown[0] : shown[-1] + 1] if shown else ():  # without the margins that rich adds
            out.print(Segments([*line, Segment.line()]), end="")
        return
    body = lines[1:-1] if len(lines) > 1 and _closes(fence[1], lines[-1]) else lines[1:]
    language = _LANGUAGE.search(fence[2])
    out.print(Text(f"```{language[0] if language else ''}", "dim"))
    highlighted = Syntax("", language[0] if language else "text", theme=CODE_THEME).highlight("\n".join(body))
    highlighted.rstrip()
    out.print(highlighted, soft_wrap=True)
    out.print(Text("```", "dim"))


def split_blocks(text: str) -> list[str]:
    """Return the blocks of a text: fenced code, and text between blank lines outside of lists."""
    ends = [0, *_block_ends(text), len(text)]
    blocks = [text[begin:end].strip("\n") for begin, end in pairwise(ends)]
    return [block for block in blocks if block.strip()]


def end_of_blocks(text: str) -> int:
    """Return the length of the finished blocks of a growing text."""
    return max(_block_ends(text), default=0)


def _block_ends(text: str) -> Iterator[int]:
    """Yield the end of each block of a text, except of a last block that may continue.

    A blank line ends a block if the next line is not indented: an indented line may belong to a list above.
    """
    fence = ""
    is_after_blank = has_text = False
    position = 0
    for line in text.splitlines(keepends=True):
        is_blank = not line.strip()
        opened = None if fence else _FENCE.match(line)
        may_continue = is_blank or line.startswith((" ", "\t"))
        if not fence and has_text and (opened or (is_after_blank and not may_continue)):
            yield position
            is_after_blank = has_text = False
        position += len(line)
        if fence and line.endswith("\n") and _closes(fence, line):
            yield position
            fence, is_after_blank, has_text = "", False, False
            continue
        if opened and line.endswith("\n"):
            fence = opened[1]
        is_after_blank = is_blank and has_text
        has_text = has_text or not is_blank


def _closes(fence: str, line: str) -> bool:
    found = line.strip()
    return len(found) >= len(fence) and set(found) == {fence[0]}
