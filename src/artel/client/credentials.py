"""Logins of the command line: one token per server, in a file with mode 0600."""

import json
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from artel.errors import NotAuthenticated
from artel.web_address import is_this_machine

DEFAULT_SERVER = "http://127.0.0.1:8700"
MAX_SERVERS = 20


@dataclass(slots=True)
class Credentials:
    """Tokens by server, and the server of the last login."""

    path: Path
    current: str | None = None
    tokens: dict[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path | None = None) -> "Credentials":
        """Read the file; a missing or invalid file has no logins."""
        path = (folder or config_folder()) / "credentials.json"
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            tokens = {str(server): str(token) for server, token in stored["tokens"].items()}
            return cls(path, stored.get("current"), tokens)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return cls(path)

    def save(self) -> None:
        write_private(self.path, json.dumps({"current": self.current, "tokens": self.tokens}, indent=2))

    def remember(self, server: str, token: str, *, make_current: bool = True) -> None:
        """Store the token of a server and make it the current one; drop the oldest above MAX_SERVERS."""
        self.tokens.pop(server, None)
        self.tokens[server] = token
        if not make_current and self.current in self.tokens:  # move it to the end, so that it is not dropped
            self.tokens[self.current] = self.tokens.pop(self.current)
        self.tokens = dict(list(self.tokens.items())[-MAX_SERVERS:])
        if make_current:
            self.current = server
        self.save()

    def forget(self, server: str) -> bool:
        """Delete the token of a server; return whether there was one."""
        existed = self.tokens.pop(server, None) is not None
        if self.current == server:
            self.current = next(iter(self.tokens), None)
        self.save()
        return existed

    def server(self, url: str | None) -> str:
        """Return the server to use: the given one, ARTEL_SERVER, the last login, or this machine."""
        return normal_server(url or os.environ.get("ARTEL_SERVER") or self.current or DEFAULT_SERVER)

    def token(self, server: str) -> str:
        """Return ARTEL_TOKEN if it is for this server, else the stored token of this server."""
        given = os.environ.get("ARTEL_TOKEN")
        is_for_it = server == self.server(None)
        token = ((given if is_for_it else None) or self.tokens.get(server) or "").strip()
        if not token and given and not is_for_it:
            raise NotAuthenticated(
                f"ARTEL_TOKEN is for {self.server(None)} and is not sent to {server}. Set ARTEL_SERVER={server} "
                f"if it is for that server, or run: artel login --server {server}"
            )
        if not token:
            raise NotAuthenticated(f"Not logged in to {server}. Run: artel login --server {server}")
        if not (token.isascii() and token.isprintable()):
            raise NotAuthenticated("The token contains invalid characters. Check ARTEL_TOKEN.")
        return token


def normal_server(url: str) -> str:
    """Return the normalized URL of a server: https unless it is on this machine, no trailing slash."""
    if "://" not in url:
        url = f"http://{url}" if is_loopback(f"http://{url}") else f"https://{url}"
    return url.rstrip("/")


def is_loopback(url: str) -> bool:
    """Return whether the server of a URL is on this machine."""
    try:
        return is_this_machine(urlsplit(url).hostname or "")
    except ValueError:
        return False


def write_private(path: Path, text: str) -> None:
    """Write a file with mode 0600 atomically."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    temporary.replace(path)


def append_private(path: Path, text: str) -> os.stat_result:
    """Append a text to a file with mode 0600 in one write; return the file's stat after it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, text.encode())
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)


def config_folder() -> Path:
    import platformdirs  # slow to import, and not every command needs it

    configured = os.environ.get("ARTEL_CONFIG_DIR")
    return Path(configured) if configured else platformdirs.user_config_path("artel", appauthor=False)
