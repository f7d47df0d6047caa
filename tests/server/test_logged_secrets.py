"""What is searched at the end of all tests for secrets: it is found where it stands, and nothing else is."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Final

import pytest

from tests.support.api import Api
from tests.support.audit import audit_flags
from tests.support.logged_secrets import MARK, SearchedServers, secrets_in, secrets_in_audit
from tests.support.server_process import ServerProcess

JWT: Final = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9." + "s" * 86
KEY: Final = "-----BEGIN EC PRIVATE KEY-----"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


SECRETS: Final = {
    "a token of a file": ("Bearer admin-token", "a static token"),
    "a signed token": (f"token={JWT}", "a signed token"),
    "a private key": (KEY, "a private key"),
    "an encoded private key": (encoded(KEY), "an encoded private key"),
    "an encoded private key of RSA": (encoded("-----BEGIN RSA PRIVATE KEY-----"), "an encoded private key"),
    "an encoded private key of any kind": (encoded("-----BEGIN PRIVATE KEY-----"), "an encoded private key"),
    "a bootstrap token": ("'abcdef.0123456789abcdef'", "a bootstrap token"),
    "a marked value": (f"what-{MARK}", "a marked value"),
    "an encoded value": (encoded(MARK), "a marked value"),
    "an encoded value behind another character": (encoded(f"a{MARK}!"), "a marked value"),
    "an encoded value behind two other characters": (encoded(f"ab{MARK}"), "a marked value"),
}
HARMLESS: Final = {
    "a name that ends as a token does": "secrets/my-admin-token",
    "a name that begins as a token does": "admin-token-2",
    "a token without its signature": JWT.rpartition(".")[0],
    "a certificate": "-----BEGIN CERTIFICATE-----",
    "an encoded certificate": encoded("-----BEGIN CERTIFICATE-----"),
    "a name of two words": "events.coordinationabcd",
    "an Event": 'events "webapp.0123456789abcdef" is forbidden',
    "an Event, in JSON": r'"msg":"events \"webapp.0123456789abcdef\" is forbidden"',
    "the path of an Event": "/api/v1/namespaces/default/events/webapp.0123456789abcdef",
    "a host": "abcdef.0123456789abcdef.example",
}


@pytest.mark.parametrize(("text", "name"), SECRETS.values(), ids=SECRETS)
def test_a_secret_is_found_in_its_line(text: str, name: str) -> None:
    line = f"WARNING {text} is shown"
    assert secrets_in(f"one line\n{line}\nanother line") == [f"{name}: {line}"]


@pytest.mark.parametrize("text", HARMLESS.values(), ids=HARMLESS)
def test_nothing_else_is_found(text: str) -> None:
    assert secrets_in(f"INFO {text} is shown") == []


LEVELS: Final = {"Metadata": True, "Request": False, "RequestResponse": False}


@pytest.mark.parametrize(("level", "is_found"), LEVELS.items(), ids=LEVELS)
def test_events_with_bodies_may_hold_secrets(level: str, is_found: bool) -> None:
    assert bool(secrets_in_audit(f'{{"level": "{level}", "requestURI": "/?{MARK}"}}\n')) is is_found


def test_what_a_server_says_is_searched(tmp_path: Path) -> None:
    searched = SearchedServers()
    ServerProcess(tmp_path, f"--audit-policy-file=/{MARK}", searched=searched).refusal()
    (found,) = searched.found
    assert found.startswith("a marked value: ")


def test_the_audit_log_of_a_server_is_searched(tmp_path: Path) -> None:
    searched, flags = SearchedServers(), audit_flags(tmp_path)
    with ServerProcess(tmp_path / "data", *flags, searched=searched) as server, Api(server) as api:
        api.get(f"/api/v1/namespaces/default/secrets/{MARK}")
        server.stop()
    assert searched.found
    assert all(each.startswith('a marked value: {"kind":"Event"') for each in searched.found)
