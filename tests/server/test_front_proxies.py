"""Front proxies say who asks, in headers, and nobody else does (row O02).

Source: k8s.io/apiserver, pkg/authentication/request/headerrequest/requestheader_test.go.
"""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import orjson
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.api import Api
from tests.support.eventually import WITHIN_S
from tests.support.server_process import ServerProcess

REVIEWS: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
UID: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
EVERYBODY: Final = "system:authenticated"


class Shown(NamedTuple):
    """A certificate that a client shows. ca: the name of who has signed it; empty: none is shown.

    uids: as Kubernetes has them in certificates, of which there may be one.
    """

    ca: str
    common_name: str = ""
    organization: str = ""
    uids: tuple[str, ...] = ()


FRONT_PROXY: Final = Shown("front-proxy-ca", "front-proxy-client")


def certificate(directory: Path, shown: Shown, target: Path) -> Path:
    """Write a certificate, with its key, and return where it is."""
    ca = x509.load_pem_x509_certificate((directory / f"{shown.ca}.crt").read_bytes())
    ca_key = serialization.load_pem_private_key((directory / f"{shown.ca}.key").read_bytes(), None)
    assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [(NameOID.ORGANIZATION_NAME, shown.organization), (NameOID.COMMON_NAME, shown.common_name)]
    attributes += [(UID, uid) for uid in shown.uids]
    subject = x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes if value])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(ca.subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    target.write_bytes(made.public_bytes(pem) + private)
    return target


def identified(
    server: ServerProcess, shown: Shown, headers: Sequence[tuple[str, str | bytes]], directory: Path
) -> tuple[int, Mapping[str, Any]]:
    """The status of a SelfSubjectReview, and the user that it shows."""
    context = ssl.create_default_context(cafile=server.ca_path)
    if shown.ca:
        context.load_cert_chain(certificate(server.ca_path.parent, shown, directory / "client.pem"))
    where = urlsplit(server.url)
    connection = http.client.HTTPSConnection(
        where.hostname or "", where.port, context=context, timeout=WITHIN_S
    )
    body = orjson.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    try:
        connection.putrequest("POST", REVIEWS)
        for name, value in (("Content-Type", "application/json"), ("Content-Length", str(len(body)))):
            connection.putheader(name, value)
        for name, text in headers:
            connection.putheader(name, text)
        connection.endheaders(body)
        response = connection.getresponse()
        document = orjson.loads(response.read())
    finally:
        connection.close()
    return response.status, (document.get("status") or {}).get(
        "userInfo", {}
    ) if response.status < 300 else {}


BOB: Final = (("X-Remote-User", "bob"),)
TOKEN: Final = (("Authorization", "Bearer alice-token"),)
CASES: Final[dict[str, tuple[Shown, Sequence[tuple[str, str | bytes]], str]]] = {
    "a front proxy is believed": (FRONT_PROXY, BOB, "bob"),
    "names of headers have no case": (FRONT_PROXY, (("x-remote-USER", "bob"),), "bob"),
    "the first of two names counts": (FRONT_PROXY, (*BOB, ("X-REMOTE-USER", "eve")), "bob"),
    "its headers come before a token": (FRONT_PROXY, (*BOB, *TOKEN), "bob"),
    "a front proxy that names nobody is nobody": (FRONT_PROXY, (), ""),
    "an empty name is none": (FRONT_PROXY, (("X-Remote-User", ""),), ""),
    "a front proxy may have a token of its own": (FRONT_PROXY, TOKEN, "alice"),
    "a name that is not UTF-8 is refused": (FRONT_PROXY, (("X-Remote-User", b"b\xf6b"),), ""),
    "a name beyond ASCII is UTF-8": (FRONT_PROXY, (("X-Remote-User", "böb".encode()),), "böb"),
    "another name is not allowed": (Shown("front-proxy-ca", "other"), BOB, ""),
    "its certificate names no user": (Shown("front-proxy-ca", "other", "system:masters"), (), ""),
    "a client's certificate names the client": (Shown("ca", "carol"), BOB, "carol"),
    "a client is no front proxy by its name": (Shown("ca", "front-proxy-client"), BOB, "front-proxy-client"),
    "who shows a token is not believed": (Shown(""), (*BOB, *TOKEN), "alice"),
    "who shows nothing is not believed": (Shown(""), BOB, "system:anonymous"),
}


@pytest.mark.parametrize(("shown", "headers", "user"), CASES.values(), ids=CASES)
def test_who_is_believed(
    server: ServerProcess,
    api: Api,
    tmp_path: Path,
    shown: Shown,
    headers: Sequence[tuple[str, str | bytes]],
    user: str,
) -> None:
    status, found = identified(server, shown, headers, tmp_path)
    if user == "system:anonymous":
        assert status == 403  # It may not review itself.
    elif user:
        assert found["username"] == user
    else:
        assert status == 401


def test_what_is_known_of_the_user_of_a_certificate(server: ServerProcess, tmp_path: Path) -> None:
    """Source: k8s.io/apiserver, pkg/authentication/request/x509, CommonNameUserConversion."""
    _, found = identified(server, Shown("ca", "carol", "dev", ("7",)), (), tmp_path)
    shown = x509.load_pem_x509_certificate((tmp_path / "client.pem").read_bytes())
    digest = shown.fingerprint(hashes.SHA256()).hex()
    assert found == {
        "username": "carol",
        "uid": "7",
        "groups": ["dev", EVERYBODY],
        "extra": {"authentication.kubernetes.io/credential-id": [f"X509SHA256={digest}"]},
    }
    status, _ = identified(server, Shown("ca", "carol", "dev", ("7", "8")), (), tmp_path)
    assert status == 401, "two uids are none"


def test_all_that_is_known_of_a_user_is_passed_on(server: ServerProcess, tmp_path: Path) -> None:
    headers = (
        *BOB,
        ("X-Remote-Uid", "7"),
        ("X-Remote-Group", "dev"),
        ("X-Remote-Group", "ops"),
        ("X-Remote-Extra-Scopes", "a"),
        ("X-Remote-Extra-scopes", "b"),
        ("X-Remote-Extra-Example.com%2Fkey", "c"),
        ("X-Remote-Extra-100%zz", "d"),
    )
    _, found = identified(server, FRONT_PROXY, headers, tmp_path)
    assert found == {
        "username": "bob",
        "uid": "7",
        "groups": ["dev", "ops", EVERYBODY],
        "extra": {"scopes": ["a", "b"], "example.com/key": ["c"], "100%zz": ["d"]},
    }


def test_names_and_authorities_are_configured(server: ServerProcess, tmp_path: Path) -> None:
    """With a file of authorities the server's own are none; any name is allowed if none is named."""
    authorities = server.ca_path.parent / "front-proxy-ca.crt"
    flags = (
        f"--requestheader-client-ca-file={authorities}",
        "--requestheader-username-headers=X-Name,X-User",
        "--requestheader-group-headers=X-Group",
        "--requestheader-uid-headers=X-Id",
        "--requestheader-extra-headers-prefix=X-More-",
    )
    headers = (*BOB, ("X-User", "dave"), ("X-Group", "dev"), ("X-More-A", "b"), ("X-Remote-Group", "no"))
    with ServerProcess(tmp_path / "data", *flags) as other:
        own = other.ca_path.parent
        for name in ("crt", "key"):
            (own / f"theirs.{name}").write_bytes(authorities.with_suffix(f".{name}").read_bytes())
        _, found = identified(other, Shown("theirs", "anybody"), headers, tmp_path)
        assert found == {"username": "dave", "groups": ["dev", EVERYBODY], "extra": {"a": ["b"]}}
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
            identified(other, FRONT_PROXY, headers, tmp_path)
