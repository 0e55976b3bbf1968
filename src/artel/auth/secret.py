"""The secret that signs local tokens."""

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from artel.errors import ConfigurationInvalid

FILE_NAME = "jwt_secret"
MIN_LENGTH = 32


def load_or_make_secret(data_dir: Path) -> str:
    """Return the secret of the data folder; create it on first use, readable by its owner only."""
    path = data_dir / FILE_NAME
    if not path.exists():
        # Write a temporary file and hard-link it: atomic, and two servers that start at once use the same secret.
        temporary = path.with_name(f".{FILE_NAME}.{secrets.token_hex(8)}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(48) + "\n")
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):
                path.hardlink_to(temporary)
        finally:
            temporary.unlink()
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise ConfigurationInvalid(
            f"Other users can read or write {path}, which signs all tokens. Run: chmod 600 {path}"
        )
    secret = path.read_text().strip()
    if len(secret) < MIN_LENGTH:
        raise ConfigurationInvalid(
            f"{path} contains no usable secret. Delete it to create a new one; all tokens become invalid."
        )
    return secret
