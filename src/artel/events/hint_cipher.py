"""Encrypts what processes send by NOTIFY: every role that may connect to the database can read and send it."""

import os
from base64 import b64decode, b64encode

KEY_BYTES = 32
NONCE_BYTES = 12
_INFO = b"artel: hints between processes, version 1"


class NotAuthentic(Exception):
    """The data was not encrypted with this key by this sender."""


class HintCipher:
    """AES-256-GCM with a key that is derived from the server's secret, which all processes share.

    Data is bound to its sender, the number of a connection that PostgreSQL adds: nobody else can send it again.
    """

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._key: bytes | None = None

    def encrypt(self, data: bytes, sender: int) -> str:
        """Return the encrypted data in Base64."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # lazy: a process that is alone sends nothing

        nonce = os.urandom(NONCE_BYTES)
        return b64encode(nonce + AESGCM(self._derived()).encrypt(nonce, data, _number(sender))).decode()

    def decrypt(self, encrypted: str, sender: int) -> bytes:
        """Return the data, or raise NotAuthentic."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            stored = b64decode(encrypted, validate=True)
            nonce, sealed = stored[:NONCE_BYTES], stored[NONCE_BYTES:]
            return AESGCM(self._derived()).decrypt(nonce, sealed, _number(sender))
        except (InvalidTag, ValueError):
            raise NotAuthentic from None

    def _derived(self) -> bytes:
        if self._key is None:
            from cryptography.hazmat.primitives.hashes import SHA256
            from cryptography.hazmat.primitives.kdf.hkdf import HKDF

            self._key = HKDF(SHA256(), KEY_BYTES, salt=None, info=_INFO).derive(self._secret.encode())
        return self._key


def _number(sender: int) -> bytes:
    return b"%d" % sender
