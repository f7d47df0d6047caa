"""What is taken from files in the format of a kubeconfig, and what is refused in them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from apiserver.webhooks.credentials import ClientCredentials, PemText
from apiserver.webhooks.kubeconfig import Kubeconfig, KubeconfigCluster, read_kubeconfig, require_https
from apiserver.wire.configuration_fields import InvalidConfiguration

FILE: Final = Path("/etc/server/kubeconfig")


def read(**fields: Any) -> Kubeconfig:
    return read_kubeconfig(FILE, lambda _: orjson.dumps({"apiVersion": "v1", "kind": "Config", **fields}))


def user(**fields: Any) -> ClientCredentials:
    return read(users=[{"name": "u", "user": fields}]).users["u"]


USERS: Final[dict[str, tuple[dict[str, Any], ClientCredentials]]] = {
    "nobody": ({}, ClientCredentials()),
    "a token": ({"token": "t"}, ClientCredentials(token="t")),
    "a file with a token, beside this one": (
        {"tokenFile": "token"},
        ClientCredentials(token_file=FILE.with_name("token")),
    ),
    "a file with a token, elsewhere": (
        {"tokenFile": "/var/token", "token": "t"},
        ClientCredentials(token="t", token_file=Path("/var/token")),
    ),
    "a password": ({"username": "n", "password": "p"}, ClientCredentials(basic=("n", "p"))),
    "a certificate in files": (
        {"client-certificate": "c", "client-key": "k"},
        ClientCredentials(certificate=(PemText(path=FILE.with_name("c")), PemText(path=FILE.with_name("k")))),
    ),
    "a certificate, which counts more than the file": (
        {
            "client-certificate-data": base64.b64encode(b"c").decode(),
            "client-certificate": "other",
            "client-key-data": base64.b64encode(b"k").decode(),
        },
        ClientCredentials(certificate=(PemText(text=b"c"), PemText(text=b"k"))),
    ),
    "somebody else": (
        {"as": "jane", "as-groups": ["a", "b"], "as-user-extra": {"x/y": ["z"]}},
        ClientCredentials(
            headers=(
                ("Impersonate-User", "jane"),
                ("Impersonate-Group", "a"),
                ("Impersonate-Group", "b"),
                ("Impersonate-Extra-x%2Fy", "z"),
            )
        ),
    ),
    "a field that nobody knows": ({"token": "t", "garbage": 1}, ClientCredentials(token="t")),
}


@pytest.mark.parametrize(("fields", "credentials"), USERS.values(), ids=USERS)
def test_users(fields: dict[str, Any], credentials: ClientCredentials) -> None:
    assert user(**fields) == credentials


REFUSED: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "a program": ({"exec": {"command": "x"}}, r"users\[0\].user.exec: is not supported"),
    "a library": ({"auth-provider": {"name": "x"}}, r"users\[0\].user.auth-provider: is not supported"),
    "a token and a password": ({"token": "t", "username": "u"}, "may be set, but not both"),
    "a certificate without its key": ({"client-certificate": "c"}, "must be given together"),
    "a certificate that is not base64": ({"client-certificate-data": "%"}, "is not base64"),
    "a token in lines": ({"token": "a\nb"}, r"users\[0\].user.token: must not contain control characters"),
    "a wrong type": ({"token": 5}, r"users\[0\].user.token: expected a string"),
}


@pytest.mark.parametrize(("fields", "why"), REFUSED.values(), ids=REFUSED)
def test_users_that_are_refused(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"^{FILE}: .*{why}"):
        user(**fields)


def test_the_current_context_is_for_all_others() -> None:
    users = [{"name": name, "user": {"token": name}} for name in ("a.b.svc", "u")]
    contexts = [{"name": "c", "context": {"user": "u"}}]
    found = read(users=users, contexts=contexts, **{"current-context": "c"}).host_credentials()
    assert found.of("a.b.svc:443").token == "a.b.svc"
    assert found.of("other:443").token == "u"


def test_the_server_of_the_current_context() -> None:
    found = read(
        clusters=[{"name": "s", "cluster": {"server": "https://a", "certificate-authority": "ca"}}],
        contexts=[{"name": "c", "context": {"cluster": "s"}}],
        **{"current-context": "c"},
    )
    cluster = KubeconfigCluster("https://a", PemText(path=FILE.with_name("ca")))
    assert found.current() == (cluster, ClientCredentials())


IN_USE: Final = {"name": "c", "context": {"cluster": "s", "user": "u"}}
WITHOUT_SERVER: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "no context": ({}, 'current-context: no context is named "c"'),
    "no cluster": ({"contexts": [IN_USE]}, 'contexts: no cluster is named "s"'),
    "no user": (
        {"contexts": [IN_USE], "clusters": [{"name": "s", "cluster": {"server": "https://a"}}]},
        'contexts: no user is named "u"',
    ),
}


@pytest.mark.parametrize(("fields", "message"), WITHOUT_SERVER.values(), ids=WITHOUT_SERVER)
def test_what_is_missing_is_told_with_the_file(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfiguration) as refused:
        read(**fields, **{"current-context": "c"}).current()
    assert str(refused.value) == f"{FILE}: {message}"


@pytest.mark.parametrize("field", ["insecure-skip-tls-verify", "proxy-url"])
def test_servers_that_are_refused(field: str) -> None:
    value = True if field == "insecure-skip-tls-verify" else "http://proxy"
    with pytest.raises(InvalidConfiguration, match=f"{field}: is not supported"):
        read(clusters=[{"name": "s", "cluster": {"server": "https://a", field: value}}])


@pytest.mark.parametrize(
    "server",
    [
        "http://a",
        "https://",
        "https://[::1",
        "https://a:b",
        "https://a:65536",
        "https://a b",
        "https://a..b",
        f"https://{'a' * 64}.b",
        "https://\udcff",
        "",
    ],
)
def test_servers_that_cannot_be_called(server: str) -> None:
    with pytest.raises(InvalidConfiguration, match="is not a URL with https"):
        require_https(FILE, KubeconfigCluster(server))
