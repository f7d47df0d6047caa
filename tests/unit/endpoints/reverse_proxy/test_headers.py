"""What a backend is told of a request, and a client of an answer. Source: Go's net/http/httputil."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.auth.authn.request_header import RequestHeaderNames
from apiserver.endpoints.reverse_proxy import headers

TO_BACKEND: Final = {
    "others": ([("Accept", "a"), ("Accept", "b"), ("Cookie", "c")],) * 2,
    "of the connection": (
        [
            ("Connection", "keep-alive, X-Own"),
            ("X-Own", "1"),
            ("Keep-Alive", "1"),
            ("TE", "trailers"),
            ("Transfer-Encoding", "chunked"),
            ("Upgrade", "h2c"),
            ("Proxy-Authorization", "Basic x"),
        ],
        [],
    ),
    "who the client is": (
        [
            ("Authorization", "Bearer t"),
            ("Impersonate-User", "u"),
            ("impersonate-extra-scopes", "s"),
            ("X-Remote-User", "u"),
            ("X-Remote-Extra-Scopes", "s"),
        ],
        [],
    ),
    "a token among protocols": (
        [("Sec-WebSocket-Protocol", "base64url.bearer.authorization.k8s.io.dG9rZW4, v4.channel.k8s.io")],
        [("Sec-WebSocket-Protocol", "v4.channel.k8s.io")],
    ),
    "what this server answers": ([("Expect", "100-continue")], []),
    "bytes that are no text": ([("X-Own", "a\udcffb")],) * 2,
}


@pytest.mark.parametrize(("received", "passed"), TO_BACKEND.values(), ids=TO_BACKEND)
def test_headers_for_a_backend(received: headers.Headers, passed: headers.Headers) -> None:
    assert headers.to_backend(received, "") == passed


def test_who_has_forwarded_a_request() -> None:
    received = [("X-Forwarded-For", "192.0.2.1")]
    assert headers.to_backend(received, "192.0.2.9") == [("X-Forwarded-For", "192.0.2.1, 192.0.2.9")]


def test_names_that_are_configured() -> None:
    names = RequestHeaderNames(users=("X-User",), extra_prefixes=("X-Scope-",))
    received = [("x-user", "u"), ("X-Scope-A", "a"), ("X-Remote-Group", "g"), ("X-Users", "v")]
    identity = headers.IdentityHeaders.of(names)
    assert headers.to_backend(received, "", identity) == [("X-Users", "v")]


def test_an_upgrade_is_passed_on() -> None:
    received = [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", "v4")]
    assert headers.to_backend(received, "", upgrade="SPDY/3.1") == [
        ("X-Stream-Protocol-Version", "v4"),
        ("Connection", "Upgrade"),
        ("Upgrade", "SPDY/3.1"),
    ]


UPGRADES: Final = {
    "an upgrade": ({"Upgrade": "websocket"}, ["keep-alive, Upgrade"], "websocket"),
    "no header Upgrade": ({}, ["Upgrade"], ""),
    "not said of the connection": ({"Upgrade": "websocket"}, ["keep-alive"], ""),
}


@pytest.mark.parametrize(("given", "connections", "protocol"), UPGRADES.values(), ids=UPGRADES)
def test_what_a_request_upgrades_to(given: dict[str, str], connections: list[str], protocol: str) -> None:
    assert headers.upgrade_of(given, connections) == protocol


def test_headers_for_a_client() -> None:
    received = [
        (b"Content-Type", b"text/plain"),
        (b"Set-Cookie", b"a"),
        (b"Set-Cookie", b"b"),
        (b"Content-Length", b"3"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Connection", b"close, X-Own"),
        (b"x-own", b"1"),
        (b"Access-Control-Allow-Origin", b"*"),
        (b"Audit-ID", b"other"),
    ]
    assert headers.to_client(received) == received[:3]
