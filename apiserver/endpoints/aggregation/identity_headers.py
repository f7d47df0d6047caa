"""Names the user to an extension server in the headers of front proxies.

Source: k8s.io/client-go, transport/round_trippers.go, SetAuthProxyHeaders.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from apiserver.meta.vocabulary import UserInfo

# What a header's name may consist of (RFC 9110, 5.6.2), but for what stands for something else.
_TOKEN_BYTES: Final = frozenset(
    b"!#$&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class NotAHeader(ValueError):
    """An attribute of a user cannot be put in a header; the message is for the client."""


def identity_headers(user: UserInfo) -> list[tuple[str, str]]:
    """Returns the headers that identify a user. Raises NotAHeader for a value with control characters."""
    headers = list(_headers(user))
    for name, value in headers:
        if _CONTROL.search(value):
            raise NotAHeader(f'net/http: invalid header field value for "{name}"')
    return headers


def _headers(user: UserInfo) -> Iterator[tuple[str, str]]:
    yield "X-Remote-User", user.name
    if user.uid:
        yield "X-Remote-Uid", user.uid
    for group in user.groups:
        yield "X-Remote-Group", group
    for key, values in user.extra:
        for value in values:
            yield f"X-Remote-Extra-{_escaped(key)}", value


def _escaped(key: str) -> str:
    """Returns a key with characters that a header's name cannot contain percent-encoded."""
    return "".join(chr(byte) if byte in _TOKEN_BYTES else f"%{byte:02X}" for byte in key.encode())
