"""Finds lines that match a regular expression, in a process of its own that can be killed.

Reads a JSON line with the expression, then files: a line with the number of bytes, and the bytes. Prints the matches in
each file as a JSON line. It opens no files, imports nothing of Artel, and its CPU time and memory are limited.
"""

import json
import re
import resource
import sys

MEMORY_BYTES = 1_000_000_000
LINE_CHARACTERS = 500


def main() -> None:
    """Read options and files from standard input, and print the matches."""
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    options = json.loads(stdin.readline())
    seconds = int(options["seconds"]) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    try:
        expression = re.compile(options["expression"])
    except (re.error, OverflowError, RecursionError) as error:
        _print(stdout, {"error": str(error)})
        return
    _print(stdout, {})
    while header := stdin.readline():
        lines = stdin.read(int(header)).decode(errors="replace").split("\n")
        found: list[tuple[int, str]] = []
        for number, line in enumerate(lines, 1):
            if expression.search(line.removesuffix("\r")):
                found.append((number, line[:LINE_CHARACTERS]))
                if len(found) >= options["most"]:
                    break
        _print(stdout, found)


def _print(stdout: object, answer: object) -> None:
    stdout.write(json.dumps(answer).encode() + b"\n")  # type: ignore[attr-defined]
    stdout.flush()  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
