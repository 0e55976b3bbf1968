"""The command line of `artel`, to check commands that files of ours name without running them."""

import re
import shlex
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import click
import typer.main

from artel.cli.main import app

_BLOCK = re.compile(r"^( *)```(?:sh|bash)\n(.+?)^\1```", re.DOTALL | re.MULTILINE)
_ARTEL = re.compile(r"(?:\S*/)?artel")
_END = frozenset({"|", "||", "&&", ";", "&", ">", ">>", "<", "(", ")", ");"})


@cache
def _root() -> Any:
    return typer.main.get_command(app)


def parse_command(arguments: Sequence[str]) -> None:
    """Parse the arguments of one `artel` command; raise click.UsageError if it would refuse them."""
    command, rest, path = _root(), list(arguments), "artel"
    while hasattr(command, "commands"):
        name = rest.pop(0) if rest else ""
        if name in ("--help", "--version"):
            return
        if name not in command.commands:
            raise click.UsageError(f"{path} has no command {name!r}")
        command, path = command.commands[name], f"{path} {name}"
    try:
        command.make_context(path, rest)
    except Exception as error:
        # Typer brings its own copy of click, whose errors are others.
        raise click.UsageError(f"{path} {shlex.join(rest)}: {getattr(error, 'message', error)}") from error


def commands_in(page: str) -> Iterator[list[str]]:
    """Yield the arguments of each `artel` command in the shell examples of a Markdown page."""
    for _, block in _BLOCK.findall(page):
        lexer = shlex.shlex(_in_one_line(block), posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.commenters = True, ""
        words: list[str] = []
        for word in [*lexer, ";"]:
            if word not in _END:
                words.append(word)
                continue
            while words and re.fullmatch(r"\w+=.*", words[0], re.DOTALL):
                del words[0]
            if words and _ARTEL.fullmatch(words[0]):
                yield words[1:]
            words = []


def _in_one_line(script: str) -> str:
    """Return a script without comments, its commands separated by `;`."""
    parts: list[str] = []
    quote = ""
    for part in re.findall(
        r"\\\n|\\.|(?<=\s)#[^\n]*|^#[^\n]*|\$\(|.", script.replace("…", "x"), re.DOTALL | re.MULTILINE
    ):
        if part in ("'", '"') and quote in ("", part):
            quote = "" if quote else part
        if quote:
            parts.append(part)
        elif part in ("\n", "$("):
            parts.append(" ; ")
        elif not part.startswith("#") and part != "\\\n":
            parts.append(part)
    return "".join(parts)
