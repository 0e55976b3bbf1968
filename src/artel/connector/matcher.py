"""Finds lines that match a regular expression; a process of its own, because no other way stops one that never ends.

Reads a line of JSON with the expression, then files: a line with the number of bytes, and the bytes. Answers each with
a line of JSON: what was found in it. It opens nothing, imports nothing of ours, and dies by itself when it takes long.
"""

import json
import re
import resource
import sys

MEMORY_BYTES = 1_000_000_000
LINE_CHARACTERS = 500


def main() -> None:
    """Return one file after the other."""
    given, out = sys.stdin.buffer, sys.stdout.buffer
    asked = json.loads(given.readline())
    seconds = int(asked["seconds"]) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    try:
        expression = re.compile(asked["expression"])
    except (re.error, OverflowError, RecursionError) as error:
        _say(out, {"error": str(error)})
        return
    _say(out, {})
    while header := given.readline():
        lines = given.read(int(header)).decode(errors="replace").split("\n")
        found: list[tuple[int, str]] = []
        for number, line in enumerate(lines, 1):
            if expression.search(line.removesuffix("\r")):
                found.append((number, line[:LINE_CHARACTERS]))
                if len(found) >= asked["most"]:
                    break
        _say(out, found)


def _say(out: object, answer: object) -> None:
    out.write(json.dumps(answer).encode() + b"\n")  # type: ignore[attr-defined]
    out.flush()  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
