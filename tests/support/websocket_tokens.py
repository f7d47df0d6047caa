"""Bearer tokens as subprotocols of WebSockets, as web pages send them."""

from __future__ import annotations

import base64
from typing import Final

TOKEN_PREFIX: Final = "base64url.bearer.authorization.k8s.io."


def token_protocol(token: bytes | str) -> str:
    encoded = token if isinstance(token, bytes) else token.encode()
    return TOKEN_PREFIX + base64.urlsafe_b64encode(encoded).decode().rstrip("=")
