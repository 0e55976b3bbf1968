"""The secret that signs our tokens."""

import os
import secrets
import stat
from pathlib import Path

from artel.errors import ConfigurationInvalid

FILE_NAME = "jwt_secret"
MIN_LENGTH = 32


def load_or_make_secret(data_dir: Path) -> str:
    """Return the secret in the data folder, made on first use, readable by its owner only."""
    path = data_dir / FILE_NAME
    if not path.exists():
        _make(path)
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise ConfigurationInvalid(f"Others may read or write {path}, which signs all tokens. Run: chmod 600 {path}")
    secret = path.read_text().strip()
    if len(secret) < MIN_LENGTH:
        raise ConfigurationInvalid(f"{path} holds no usable secret. Remove it; all tokens are refused then.")
    return secret


def _make(path: Path) -> None:
    # Written aside and linked into place: two servers that start at once agree, and nobody reads half a secret.
    aside = path.with_name(f".{FILE_NAME}.{secrets.token_hex(8)}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(48) + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            path.hardlink_to(aside)
        except FileExistsError:
            return
    finally:
        aside.unlink()
