"""Encrypts the keys of providers, which are stored in the database."""

import os
from base64 import b64decode, b64encode

KEY_BYTES = 32
NONCE_BYTES = 12
_INFO = b"artel: keys of model providers, version 1"


class KeyUnreadable(Exception):
    """A stored key can't be decrypted: the server's secret or the row has changed."""


class KeyCipher:
    """AES-256-GCM with a key that is derived from the server's secret.

    Each text is bound to a context, its provider and address: a row that is changed by hand sends no key elsewhere.
    """

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._key: bytes | None = None

    def encrypt(self, text: str, context: str) -> str:
        """Return the encrypted text in Base64."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # lazy: few servers have stored keys

        nonce = os.urandom(NONCE_BYTES)
        return b64encode(nonce + AESGCM(self._derived()).encrypt(nonce, text.encode(), context.encode())).decode()

    def decrypt(self, encrypted: str, context: str) -> str:
        """Return the text, or raise KeyUnreadable."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            stored = b64decode(encrypted, validate=True)
            nonce, sealed = stored[:NONCE_BYTES], stored[NONCE_BYTES:]
            return AESGCM(self._derived()).decrypt(nonce, sealed, context.encode()).decode()
        except (InvalidTag, ValueError):
            raise KeyUnreadable from None

    def _derived(self) -> bytes:
        if self._key is None:
            from cryptography.hazmat.primitives.hashes import SHA256
            from cryptography.hazmat.primitives.kdf.hkdf import HKDF

            self._key = HKDF(SHA256(), KEY_BYTES, salt=None, info=_INFO).derive(self._secret.encode())
        return self._key
