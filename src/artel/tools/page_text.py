"""The readable text of a fetched page."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from artel.per_user_locks import PerUserLock
from artel.text import encodable, one_line
from artel.tools.charset import decoded
from artel.tools.http_response import WebFailed
from artel.tools.web_client import WebPage

EXTRACT_SECONDS = 12.0  # with the time to fetch a page, less than a run may go without progress
EXTRACTIONS = 3  # processes at the same time, of one user one
MAX_TITLE_CHARACTERS = 300
MAX_ANSWER_BYTES = 8_000_000

_HTML = frozenset({"text/html", "application/xhtml+xml"})
# Only what Python may need to start.
_ENVIRONMENT = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH") if name in os.environ}


@dataclass(frozen=True, slots=True)
class PageText:
    """What a page says."""

    title: str
    text: str


class PageReader:
    """Turns pages into texts."""

    def __init__(self, seconds: float = EXTRACT_SECONDS) -> None:
        self._seconds = seconds
        self._locks = PerUserLock(EXTRACTIONS)

    async def read(self, page: WebPage, user_id: int = 0) -> PageText:
        """Return title and text of a page; raise WebFailed if that takes too long."""
        is_html = page.content_type in _HTML
        text = encodable(await asyncio.to_thread(decoded, page.body, page.charset, is_html=is_html))
        if not is_html:
            return PageText("", text)
        try:
            async with asyncio.timeout(self._seconds), self._locks.lock(user_id):
                answer = await _extract(text.encode())
        except TimeoutError:
            raise WebFailed(f"The text of {page.url} could not be extracted in {self._seconds:g} seconds.") from None
        try:
            found = json.loads(answer)
            title, content = str(found["title"]), str(found["text"])
        except (ValueError, TypeError, KeyError):  # the process was killed for its use of memory or time
            raise WebFailed(f"The text of {page.url} could not be extracted: the page is too complex.") from None
        return PageText(one_line(encodable(title), MAX_TITLE_CHARACTERS), encodable(content))


async def _extract(page: bytes) -> bytes:
    """Return what the process prints for a page; kill it if this task is cancelled."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        str(Path(__file__).with_name("readable.py")),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        env=_ENVIRONMENT,
        cwd="/",
    )
    try:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the process has no pipes")
        with suppress(OSError):  # it ended early, which its answer shows
            process.stdin.write(page)
            await process.stdin.drain()
        process.stdin.close()
        answer = bytearray()
        while piece := await process.stdout.read(65_536):
            answer += piece
            if len(answer) > MAX_ANSWER_BYTES:
                return b""
        await process.wait()
        return bytes(answer)
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
