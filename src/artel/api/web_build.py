"""The built web UI: index.html and a fixed list of hashed assets with their compressed forms."""

import hashlib
import html
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from mimetypes import guess_type
from pathlib import Path

FOLDER = Path(__file__).parent / "static" / "app"
# What the build writes for a page at the root; the server puts its own prefix there.
_RELATIVE_ASSETS = '"./assets/'
_BASE_META = '<meta name="artel-base" content="" />'
_TYPES = {".js": "text/javascript", ".webmanifest": "application/manifest+json", ".svg": "image/svg+xml"}
# Content encodings and the suffix of their files, best first.
_ENCODINGS = {"br": ".br", "gzip": ".gz"}
_UNHASHED = frozenset({"icon.svg", "app.webmanifest"})


@dataclass(frozen=True)
class Asset:
    """A file of the build."""

    media_type: str
    tag: str
    is_hashed: bool  # its name changes with its content
    contents: Mapping[str, bytes]  # by content encoding; "" is not compressed

    def encoding_for(self, accepted: str) -> str:
        """Return the best encoding that an Accept-Encoding header allows; "" if none is."""
        allowed = {name for name, weight in map(_weighted, accepted.split(",")) if weight > 0}
        return next((name for name in _ENCODINGS if name in self.contents and name in allowed), "")


@dataclass(frozen=True)
class WebBuild:
    """A build of the web UI in memory."""

    index: str
    assets: Mapping[str, Asset]

    def index_for(self, base_path: str) -> bytes:
        """Return index.html for a server that is reached under a path prefix."""
        page = self.index.replace(_RELATIVE_ASSETS, f'"{html.escape(base_path)}/assets/')
        return page.replace(_BASE_META, f'<meta name="artel-base" content="{html.escape(base_path)}" />').encode()


def load_build(folder: Path = FOLDER) -> WebBuild | None:
    """Return the build, or None if there is none; read again when it was built again."""
    try:
        changed = (folder / "index.html").stat().st_mtime_ns
    except FileNotFoundError:
        return None
    return _read_build(folder, changed)


@lru_cache(maxsize=1)
def _read_build(folder: Path, _changed: int) -> WebBuild:
    files = {path.name: path.read_bytes() for path in sorted((folder / "assets").iterdir()) if path.is_file()}
    assets = {
        name: Asset(
            media_type=_TYPES.get(Path(name).suffix) or guess_type(name)[0] or "application/octet-stream",
            tag=hashlib.sha256(content).hexdigest()[:32],
            is_hashed=name not in _UNHASHED,
            contents={"": content}
            | {encoding: files[name + suffix] for encoding, suffix in _ENCODINGS.items() if name + suffix in files},
        )
        for name, content in files.items()
        if not name.endswith(tuple(_ENCODINGS.values()))
    }
    return WebBuild((folder / "index.html").read_text(encoding="utf-8"), assets)


def _weighted(part: str) -> tuple[str, float]:
    """Return the name and weight of an element of an Accept-Encoding header."""
    name, _, rest = part.strip().partition(";")
    key, _, value = rest.strip().partition("=")
    try:
        weight = float(value) if key.strip() == "q" else 1.0
    except ValueError:
        weight = 0.0
    return name.strip().lower(), weight
