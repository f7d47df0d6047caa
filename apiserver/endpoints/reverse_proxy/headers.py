"""Decides which headers are passed on from a client to a backend, and back.

Source: Go's net/http/httputil, ReverseProxy; k8s.io/apimachinery, pkg/util/proxy; RFC 9110, 7.6.1. Headers
that identify the client (`Authorization`, `Impersonate-…`, `X-Remote-…`, a token among WebSocket protocols)
are for this server alone, and are dropped as in kube-apiserver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Self, TypeAlias

from apiserver.auth.authn.request_header import RequestHeaderNames
from apiserver.auth.authn.websocket_protocols import read_protocols
from apiserver.endpoints.reverse_proxy.exact_headers import is_utf8
from apiserver.meta.errors import BadRequest

Headers: TypeAlias = list[tuple[str, str]]

_HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
# `Expect` is answered here: the body is read as soon as the backend takes it.
_FOR_THIS_SERVER: Final = frozenset({"authorization", "expect"})
_IDENTITY_PREFIXES: Final = ("impersonate-", "x-remote-")
_FORWARDED_FOR: Final = "x-forwarded-for"
_WEBSOCKET_PROTOCOLS: Final = "sec-websocket-protocol"
# Of the backend's answer: whether pages of other origins may see it is decided here, and so is its id.
_OWN: Final = frozenset(
    {
        b"access-control-allow-credentials",
        b"access-control-allow-headers",
        b"access-control-allow-methods",
        b"access-control-allow-origin",
        b"audit-id",
    }
)


class IdentityHeaders(NamedTuple):
    """The headers that identify a client, beside those with fixed names.

    names, prefixes: in lower case.
    """

    names: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()

    @classmethod
    def of(cls, names: RequestHeaderNames) -> Self:
        """Returns the configured headers in which front proxies name the user."""
        headers = (*names.users, *names.uids, *names.groups)
        prefixes = tuple(each.lower() for each in names.extra_prefixes)
        return cls(frozenset(each.lower() for each in headers), prefixes)


NO_OTHERS: Final = IdentityHeaders()


def _named(values: Iterable[str]) -> frozenset[str]:
    """Returns the headers that a Connection header names."""
    return frozenset(each.strip().lower() for each in ",".join(values).split(","))


def upgrade_of(headers: Mapping[str, str], connections: Sequence[str]) -> str:
    """Returns the protocol that a request asks to upgrade to; empty if it does not.

    connections: its Connection headers.
    """
    return headers.get("Upgrade", "").strip() if "upgrade" in _named(connections) else ""


def to_backend(
    received: Iterable[tuple[str, str]],
    client: str,
    identity: IdentityHeaders = NO_OTHERS,
    *,
    upgrade: str = "",
) -> Headers:
    """Returns the headers of a request for the backend, in their order.

    client: its address. upgrade: the protocol to upgrade to, if the connection is to be upgraded.
    """
    received = list(received)
    dropped = _HOP_BY_HOP | _FOR_THIS_SERVER | identity.names
    prefixes = _IDENTITY_PREFIXES + identity.prefixes
    dropped |= _named(value for name, value in received if name.lower() == "connection")
    passed: Headers = []
    forwarded_for: list[str] = []
    protocols: list[str] = []
    for name, value in received:
        lower = name.lower()
        if lower == _FORWARDED_FOR:
            forwarded_for.append(value)
        elif lower == _WEBSOCKET_PROTOCOLS:
            protocols.append(value)
        elif lower not in dropped and not lower.startswith(prefixes):
            passed.append((name, value))
    if client:
        forwarded_for.append(client)
    if forwarded_for:
        passed.append(("X-Forwarded-For", ", ".join(forwarded_for)))
    if others := read_protocols(protocols).others:
        passed.append(("Sec-WebSocket-Protocol", ", ".join(others)))
    if upgrade:
        passed += [("Connection", "Upgrade"), ("Upgrade", upgrade)]
    return passed


def replaced(headers: Headers, others: Sequence[tuple[str, str]]) -> Headers:
    """Returns headers with some replaced by others of the same names."""
    names = {name.lower() for name, _ in others}
    return [*(each for each in headers if each[0].lower() not in names), *others]


def to_client(received: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Returns the headers of a backend's response for the client, except those that frame its body."""
    received = list(received)
    connections = (value.decode("latin-1") for name, value in received if name.lower() == b"connection")
    dropped = (
        {name.encode("latin-1") for name in _HOP_BY_HOP | _named(connections)} | _OWN | {b"content-length"}
    )
    return [(name, value) for name, value in received if name.lower() not in dropped]


def require_utf8(added: Sequence[tuple[str, str]]) -> None:
    """Checks that all headers that this server adds, such as a user's name, are UTF-8. Raises BadRequest.

    A backend might read other bytes as another user's name.
    """
    for name, value in added:
        if not is_utf8(value):
            raise BadRequest(f"the header {name} cannot be forwarded: the value is not UTF-8")
