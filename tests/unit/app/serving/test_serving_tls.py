"""What connections are secured with, and what becomes of it when files change."""

from __future__ import annotations

import ssl
import textwrap
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from apiserver.app.serving.serving_tls import (
    ServingTls,
    TlsContent,
    TlsFiles,
    TlsOptions,
    UnusableTls,
    make_context,
)
from apiserver.app.serving.watched_files import WatchedFiles
from apiserver.golang.x509_parsing import parse_pem_certificates
from tests.support.authority import Authority
from tests.support.etcd_process import TlsFiles as Issued

AES_128: Final = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"


class Site:
    """The files of one server, and their authorities."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority(directory / "authority")
        self.clients = Authority(directory / "clients")
        self.proxies = Authority(directory / "proxies")
        self.serving = self.authority.issue("serving")
        self.named = self.authority.issue("named", "named.example")
        self.files = TlsFiles(
            serving=(self.serving.certificate, self.serving.key),
            named=[((self.named.certificate, self.named.key), ())],
            client_cas=self.clients.ca,
            front_proxy_cas=self.proxies.ca,
            own_ca=self.authority.ca,
        )

    def tls(self, options: TlsOptions = TlsOptions()) -> ServingTls:  # noqa: B008  it is a value
        return ServingTls(self.files, options)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def client(newest: ssl.TLSVersion = ssl.TLSVersion.MAXIMUM_SUPPORTED) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = newest
    return context


def shake_hands(server: ssl.SSLContext, context: ssl.SSLContext, name: str = "") -> ssl.SSLObject:
    """Returns the client's end. Raises ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = context.wrap_bio(to_client, to_server, server_hostname=name or None)
    for _ in range(3):
        for end in (theirs, ours):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return theirs


def common_name(end: ssl.SSLObject) -> str:
    certificate = x509.load_der_x509_certificate(end.getpeercert(True) or b"")
    return certificate.subject.rfc4514_string()


TLS_1_2: Final = client(ssl.TLSVersion.TLSv1_2)
OPTIONS: Final[dict[str, tuple[TlsOptions, ssl.SSLContext, tuple[str, str] | None]]] = {
    "TLS 1.2 is enough": (TlsOptions(), TLS_1_2, ("TLSv1.2", "")),
    "the newest is taken": (TlsOptions(), client(), ("TLSv1.3", "")),
    "TLS 1.3 is required": (TlsOptions("VersionTLS13"), TLS_1_2, None),
    "a suite": (
        TlsOptions(suites=("TLS_RSA_WITH_AES_128_CBC_SHA", AES_128)),
        TLS_1_2,
        ("TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    ),
    "no suite that the certificate fits": (
        TlsOptions(suites=("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",)),
        TLS_1_2,
        None,
    ),
    "suites of TLS 1.3 only": (TlsOptions(suites=("TLS_AES_128_GCM_SHA256",)), TLS_1_2, None),
    "suites are those of older versions": (TlsOptions(suites=(AES_128,)), client(), ("TLSv1.3", "")),
}


@pytest.mark.parametrize(("options", "context", "agreed"), OPTIONS.values(), ids=OPTIONS)
def test_versions_and_suites(
    site: Site, options: TlsOptions, context: ssl.SSLContext, agreed: tuple[str, str] | None
) -> None:
    server = site.tls(options).context
    if agreed is None:
        with pytest.raises(ssl.SSLError):
            shake_hands(server, context)
        return
    end = shake_hands(server, context)
    cipher = end.cipher()
    assert cipher is not None
    assert end.version() == agreed[0]
    assert agreed[1] in ("", cipher[0])


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_old_versions_can_be_allowed(site: Site) -> None:
    old = client()
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError):
        shake_hands(site.tls().context, old)
    assert shake_hands(site.tls(TlsOptions("VersionTLS10")).context, old).version() == "TLSv1.1"


def test_suites_that_openssl_does_not_have_are_an_error(site: Site) -> None:
    with pytest.raises(UnusableTls, match="--tls-cipher-suites"):
        site.tls(TlsOptions(suites=("TLS_RSA_WITH_RC4_128_SHA",)))


def test_clients_are_shown_the_certificate_that_they_ask_for(site: Site) -> None:
    server = site.tls().context
    for name, shown in (("named.example", "CN=named"), ("other.example", "CN=serving"), ("", "CN=serving")):
        assert common_name(shake_hands(server, client(), name)) == shown


# How people write files with CAs, of two of them in PEM.
BUNDLES: Final[dict[str, Callable[[bytes, bytes], bytes]]] = {
    "one after the other": lambda one, two: one + two,
    "no line end between them": lambda one, two: one.rstrip() + two,
    "a byte order mark": lambda one, two: b"\xef\xbb\xbf" + one + two,
    "indented": lambda one, two: textwrap.indent((one + two).decode(), "  ").encode(),
    "lines that end as on Windows": lambda one, two: (one + two).replace(b"\n", b"\r\n"),
    "lines that end with CR": lambda one, two: (one + two).replace(b"\n", b"\r"),
    "text on the line of its beginning": lambda one, two: b"one: " + one + b"two: " + two,
    "the older label": lambda one, two: (one + two).replace(b" CERTIFICATE", b" X509 CERTIFICATE"),
}


@pytest.mark.parametrize("bundle", BUNDLES.values(), ids=BUNDLES)
def test_connections_trust_the_cas_that_are_read(site: Site, bundle: Callable[[bytes, bytes], bytes]) -> None:
    two = Authority(site.directory / "two").ca.read_bytes()
    site.clients.ca.write_bytes(bundle(site.clients.ca.read_bytes(), two))
    files = (site.authority.ca, site.clients.ca, site.proxies.ca)
    read = [each for file in files for each in parse_pem_certificates(file.read_bytes())]
    assert len(read) == 4
    trusted = site.tls().context.get_ca_certs(binary_form=True)
    assert set(trusted) == {each.public_bytes(serialization.Encoding.DER) for each in read}


def test_a_ca_that_only_openssl_cannot_read_is_an_error(site: Site) -> None:
    known = site.tls().known._replace(authorities={"--client-ca-file": b"no CA"})
    with pytest.raises(UnusableTls, match=r"^--client-ca-file: OpenSSL cannot read a certificate$"):
        make_context(known, TlsOptions())


EXPIRED: Final = timedelta(hours=-1)
UNACCEPTED: Final[dict[str, tuple[Callable[[Site], Issued], str]]] = {
    "expired": (lambda site: site.clients.issue("late", valid_for=EXPIRED), "certificate has expired"),
    "of another authority": (lambda site: Authority(site.directory / "other").issue("x"), "unable to get"),
}


@pytest.mark.parametrize(("issue", "why"), UNACCEPTED.values(), ids=UNACCEPTED)
def test_a_client_certificate_that_is_not_accepted_ends_the_handshake(
    site: Site, issue: Callable[[Site], Issued], why: str
) -> None:
    """docs/reference/differences.md names it: kube-apiserver checks certificates after the handshake."""
    shown, files = client(), issue(site)
    shown.load_cert_chain(files.certificate, files.key)
    with pytest.raises(ssl.SSLError, match=why):
        shake_hands(site.tls().context, shown)


async def settle(watched: list[WatchedFiles]) -> None:
    for each in watched:
        await each.look()
        await each.look()


async def test_what_changes_is_there_for_new_handshakes(site: Site) -> None:
    tls = site.tls()
    outcomes: list[bool] = []
    told: list[TlsContent] = []
    watched = list(tls.watched(outcomes.append))
    told_before: list[TlsContent] = []
    unsubscribe = tls.subscribe(told_before.append)
    tls.subscribe(told.append)
    unsubscribe()
    await settle(watched)
    assert not outcomes
    before = tls.context

    site.authority.issue("serving", "kubernetes")
    site.authority.issue("named", "named.example", "another.example")
    other = Authority(site.clients.ca.parent.parent / "others")
    site.clients.ca.write_bytes(site.clients.ca.read_bytes() + other.ca.read_bytes())
    await settle(watched)
    assert outcomes == [True, True, True]
    assert told[-1] == tls.content
    assert not told_before, "who has ended it is told no more"
    assert tls.context is not before
    end = shake_hands(tls.context, client(), "another.example")
    assert common_name(end) == "CN=named"
    for authority in (site.clients, other, site.proxies, site.authority):
        shown, files = client(), authority.issue("somebody")
        shown.load_cert_chain(files.certificate, files.key)
        shake_hands(tls.context, shown)
    shown, files = client(), other.issue("somebody")
    shown.load_cert_chain(files.certificate, files.key)
    with pytest.raises(ssl.SSLError):
        shake_hands(before, shown)


def encrypt(path: Path) -> None:
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    assert hasattr(key, "private_bytes")
    encryption = serialization.BestAvailableEncryption(b"secret")
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    path.write_bytes(key.private_bytes(pem, form, encryption))


SPOILED: Final[dict[str, tuple[Callable[[Site], object], str]]] = {
    "no certificate": (lambda site: site.serving.certificate.write_text("-----BEGIN"), "serving certificate"),
    "no key": (lambda site: site.serving.key.write_text(""), "serving certificate"),
    "another key": (
        lambda site: site.serving.key.write_bytes(site.named.key.read_bytes()),
        "KEY_VALUES_MISMATCH",
    ),
    "an encrypted key": (lambda site: encrypt(site.serving.key), "encrypted"),
    "no CA": (lambda site: site.clients.ca.write_text("CA"), "--client-ca-file"),
    "no CA of front proxies": (lambda site: site.proxies.ca.write_text(""), "--requestheader-client-ca-file"),
}


@pytest.mark.parametrize(("spoil", "reason"), SPOILED.values(), ids=SPOILED)
async def test_what_cannot_be_used_changes_nothing(
    site: Site, caplog: pytest.LogCaptureFixture, spoil: Callable[[Site], object], reason: str
) -> None:
    tls = site.tls()
    outcomes: list[bool] = []
    watched = list(tls.watched(outcomes.append))
    context, content = tls.context, tls.content
    spoil(site)
    await settle(watched)
    assert (tls.context, tls.content) == (context, content)
    assert outcomes == [False]
    (record,) = caplog.records
    assert reason in record.getMessage()
    assert "PRIVATE" not in caplog.text
    with pytest.raises(UnusableTls, match=reason):
        site.tls()


def test_expirations_are_told_by_file(site: Site) -> None:
    assert set(site.tls().known.expirations) == {
        "serving certificate",
        f"--tls-sni-cert-key {site.named.certificate}",
        "CA",
        "--client-ca-file",
        "CAs of front proxies",
    }
