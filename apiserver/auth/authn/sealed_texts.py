"""Seals documents as texts that only servers with the same key can make and read.

A text is `KIND.` and, in base64url, a nonce and the document, encrypted with AES-256-GCM. The key is derived
for the kind, which is authenticated, too: a text of one kind is none of another. All servers of a cluster
have the same key, so none of them has to remember anything.
"""

from __future__ import annotations

import base64
import re
import secrets
from collections.abc import Callable
from typing import Final

import orjson

from apiserver.meta.vocabulary import Document

KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
# Nothing that is sealed is longer: tokens have at most 16 KiB, and there may be two.
TEXT_LENGTH_MAX: Final = 64 * 1024
# Clocks of replicas may differ by so much. A text that was sealed later than that, by the clock of who opens
# it, is refused: otherwise a clock that is put back would make old texts valid again.
LEEWAY_S: Final = 60
_is_base64url = re.compile(r"[A-Za-z0-9_-]+").fullmatch
_ISSUED_AT: Final = "iat"
_EXPIRES_AT: Final = "exp"


class NotOpened(ValueError):
    """A text was not sealed with this key as this kind, or is not valid at this time."""


class SealedTexts:
    """Seals and opens the texts of one kind.

    key: of KEY_BYTES, derived for this kind alone. clock: seconds since 1970.
    """

    def __init__(self, key: bytes, kind: str, clock: Callable[[], float]) -> None:
        # Few servers are asked to seal anything.
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self.prefix = f"{kind}."
        self._cipher, self._kind, self._clock = AESGCM(key), kind.encode(), clock
        # ValueError: a length that no base64 has, or a nonce that is too short.
        self._not_opened = (InvalidTag, ValueError)

    def seal(self, document: Document, expires_at: float) -> str:
        """Returns a text that can be opened until a time, in seconds since 1970, which loses its fraction."""
        times = {_ISSUED_AT: int(self._clock()), _EXPIRES_AT: int(expires_at)}
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = nonce + self._cipher.encrypt(nonce, orjson.dumps(document | times), self._kind)
        return self.prefix + base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()

    def open(self, text: str) -> tuple[Document, int]:
        """Returns the document in a text, and when it expires, in seconds since 1970. Raises NotOpened."""
        encoded = text.removeprefix(self.prefix)
        if encoded == text or len(text) > TEXT_LENGTH_MAX or not _is_base64url(encoded):
            raise NotOpened("the text is not of this kind")
        try:
            sealed = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
            opened = self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], self._kind)
        except self._not_opened:
            raise NotOpened("the text was not sealed with this key") from None
        document: Document = orjson.loads(opened)
        expires_at: int = document[_EXPIRES_AT]
        now = self._clock()
        if now >= expires_at:
            raise NotOpened("the text has expired")
        if now < document[_ISSUED_AT] - LEEWAY_S:
            raise NotOpened("the text is from the future")
        return document, expires_at
