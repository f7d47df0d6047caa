"""Reads the bearer token among the subprotocols of a WebSocket handshake.

Browsers let a page choose the subprotocols of a WebSocket, but no other header of its handshake. The protocol
that carries the token is never selected in the response, and never logged. The client has to offer at least
one other, since browsers fail a WebSocket whose response names none.

Source: k8s.io/apiserver, pkg/authentication/request/websocket/protocol.go.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from apiserver.meta.errors import Unauthorized

TOKEN_PREFIX: Final = "base64url.bearer.authorization.k8s.io."  # noqa: S105  no token
_UNPADDED: Final = re.compile(r"[A-Za-z0-9_-]*")


class OfferedProtocols(NamedTuple):
    """The subprotocols of a handshake. token: the bearer token, or empty. others: those without a token."""

    token: str
    others: tuple[str, ...]


def read_protocols(headers: Iterable[str]) -> OfferedProtocols:
    """Reads the Sec-WebSocket-Protocol headers. Raises Unauthorized if the token in them is malformed."""
    carriers: list[str] = []
    others: list[str] = []
    for protocol in (each.strip() for header in headers for each in header.split(",")):
        (carriers if protocol.startswith(TOKEN_PREFIX) else others).append(protocol)
    if not carriers:
        return OfferedProtocols("", tuple(others))
    if len(carriers) > 1 or not others:
        raise Unauthorized
    return OfferedProtocols(_token(carriers[0].removeprefix(TOKEN_PREFIX)), tuple(others))


def _token(encoded: str) -> str:
    """Returns the token in a subprotocol."""
    if not _UNPADDED.fullmatch(encoded) or len(encoded) % 4 == 1:
        raise Unauthorized
    try:
        token = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    except UnicodeDecodeError:
        raise Unauthorized from None
    if token.split() not in ([], [token]):
        raise Unauthorized  # A part of it might be a token.
    return token
