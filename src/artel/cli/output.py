"""Output of commands: tables and text for people, JSON for programs."""

import json
import os
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import typer

from artel.client.hidden_characters import count_hidden, hidden_characters, is_emoji_style
from artel.errors import ArtelError
from artel.text import HIDDEN_PATTERN, shorten
from artel.text import one_line as in_one_line

MINUTE, HOUR, DAY = 60, 3600, 86400
MAX_DAYS_AGO = 20
SHORT_CHARACTERS = 8
LEAST_CELL = 4  # minimum width of the last column of a table
_NAME = re.compile(r" {2,}\S.{0,30}? {2,}|\s*")  # of a list entry, with the space around it


def visible(text: str, keep: str = "\n\t") -> str:
    r"""Return the text with hidden characters escaped, except those in `keep` (`keep=""` for a name or a path).

    Text of models and files can contain characters that move the cursor, hide text or reverse its direction: the user
    has to read and approve the actual text. The page does the same (`web/src/state/visible.ts`).
    """

    def shown(found: re.Match[str]) -> str:
        return found[0] if found[0] in keep or is_emoji_style(found) else escaped(found[0])

    return HIDDEN_PATTERN.sub(shown, text)


def one_line(text: str, most: int | None = None) -> str:
    """Return the text in one line with hidden characters escaped, cut to `most` characters."""
    shown = visible(text.replace("\r\n", "\n"))
    return in_one_line(shown, len(shown) if most is None else most)


def announcement(what: str, *texts: str) -> str:
    r"""Return a warning to print above texts with hidden characters ("The diff has 1 hidden character …"), else ""."""
    counted = count_hidden(what, *texts)
    if not counted:
        return ""
    found = next(character for text in texts for character in hidden_characters(text))
    are = "it is" if " has 1 hidden character (" in counted else "they are"
    return f"{counted}; {are} shown as {escaped(found)}."


def escaped(character: str) -> str:
    r"""Return a character as a Python escape: `\x9d`, `\u202e`, `\U000e0041`."""
    return character.encode("unicode_escape").decode()


def error_text(error: ArtelError) -> str:
    """Return what happened, and when to try again."""
    return error.detail + (f" Try again in {error.retry_after} s." if error.retry_after else "")


def json_text(data: Any, indent: int | None = 2) -> str:
    """Return data as JSON with hidden characters escaped."""
    text = json.dumps(data, ensure_ascii=False, indent=indent)
    return HIDDEN_PATTERN.sub(lambda found: found[0] if found[0] == "\n" else json.dumps(found[0])[1:-1], text)


def say(text: str, *, err: bool = False, below: int | None = None) -> None:
    """Print text; in a terminal wrap lines between words, indented to their own text or to column `below`."""
    width = _columns(err=err)
    for line in visible(text).split("\n"):
        name = _NAME.match(line)
        indent = " " * min(len(name[0]) if name and below is None else below or 0, width // 2)
        wrap = textwrap.TextWrapper(width or 1, subsequent_indent=indent, break_on_hyphens=False)
        wrap.break_long_words = False  # an address or a path has to be copied
        typer.echo("\n".join(wrap.wrap(line)) if width and len(line) > width else line, err=err)


def is_smart_terminal() -> bool:
    """Return whether input and output are a terminal that can move its cursor and show styles."""
    is_dumb = os.environ.get("TERM", "dumb") in ("", "dumb", "unknown")
    return sys.stdin.isatty() and sys.stdout.isatty() and not is_dumb


def _columns(*, err: bool = False) -> int:
    """Return the width of the terminal, or 0 if the output is not a terminal."""
    stream = sys.stderr if err else sys.stdout
    try:
        return os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except (OSError, ValueError):
        return 0


def show(data: Any, as_json: bool, sentence: str | None = None) -> None:
    """Print the result of a command: as JSON, as a sentence if there is one, or field by field."""
    if as_json:
        typer.echo(json_text(data))
    elif sentence is not None:
        say(sentence)
    else:
        _announce("This", data.values())
        for name, value in data.items():
            say(f"{name:18} {_cell(value)}", below=19)


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], as_json: bool, empty: str) -> None:
    """Print rows as a table of the given columns, or all their data as JSON."""
    if as_json:
        typer.echo(json_text(list(rows)))
    elif not rows:
        say(empty)
    else:
        _announce("The table", [row[column] for row in rows for column in columns])
        cells = [list(columns), *([_cell(row[column]) for column in columns] for row in rows)]
        widths = [max(len(line[index]) for line in cells) for index in range(len(columns))]
        left = max(LEAST_CELL, _columns() - sum(width + 2 for width in widths[:-1]))
        if _columns() and widths[-1] > left:
            widths[-1] = left
            for line in cells:
                line[-1] = shorten(line[-1], left)
        for line in cells:
            typer.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def ago(moment: str | datetime) -> str:
    """Return how long ago a moment was, such as "5 min ago"; the date if it was long ago."""
    then = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    seconds = (datetime.now(UTC) - then).total_seconds()
    if seconds < MINUTE:
        return "just now"
    if seconds < HOUR:
        return f"{seconds // MINUTE:.0f} min ago"
    if seconds < DAY:
        return f"{seconds // HOUR:.0f} h ago"
    return f"{seconds // DAY:.0f} d ago" if seconds < MAX_DAYS_AGO * DAY else f"{then.astimezone():%Y-%m-%d}"


def short_id(whole: str) -> str:
    """Return the end of a UUIDv7, which is random; its beginning is a timestamp."""
    return whole[-SHORT_CHARACTERS:]


def confirm(question: str, yes: bool) -> None:
    """Ask for confirmation; raise BadParameter without a terminal and `--yes`."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter("can't ask for confirmation without a terminal: use --yes")
    typer.confirm(visible(question), abort=True, err=True)


def secret_from_user(prompt: str, *, twice: bool = False) -> str:
    """Read a password: from the terminal without echo, else the next line of standard input."""
    if sys.stdin.isatty():
        typed: str = typer.prompt(prompt, hide_input=True, confirmation_prompt=twice, err=True)
        return typed
    return sys.stdin.readline().rstrip("\r\n")


def _announce(what: str, values: Iterable[Any]) -> None:
    hidden = announcement(what, *map(_text, values))
    if hidden:
        typer.echo(hidden, err=True)


def _cell(value: Any) -> str:
    return visible(_text(value), keep="")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    return "" if value is None else str(value)
