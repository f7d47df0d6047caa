"""What a start learns of keys and certificates, so that nothing has to look into them later."""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from apiserver.app.serving.listening import CannotStart
from apiserver.app.serving.server_keys import CertificateRenewal, ServerKeys, make_server_keys
from apiserver.app.serving.serving_tls import KeyPair, UnusableTls
from apiserver.app.serving.watched_files import FILE_BYTES_MAX
from apiserver.cli.command_line import parse
from apiserver.cli.config import Config
from apiserver.controllers.authentication_info import certificate_blocks
from apiserver.golang.pem import first_expiry
from tests.support.authority import Authority

DAY_S: Final = 24 * 3600.0


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return parse([f"--data-dir={tmp_path}"])


@pytest.fixture
def keys(config: Config) -> ServerKeys:
    return make_server_keys(config, None)


def test_the_expirations_are_known_of_what_controllers_look_at(keys: ServerKeys) -> None:
    content = keys.tls.content
    blocks = certificate_blocks((content.all_client_cas + content.front_proxy_cas).decode())
    assert len(blocks) == 2
    pems = {*(each.encode() for each in blocks), keys.certificates.front_proxy_cert.read_bytes()}
    assert keys.expirations == {each: first_expiry(each) for each in pems}


def test_other_certificates_are_looked_into(keys: ServerKeys) -> None:
    pem = keys.certificates.admin_cert.read_bytes()
    assert pem not in keys.expirations
    assert keys.expires_at("the administrator", pem) > time.time() + 300 * DAY_S
    with pytest.raises(UnusableTls, match="it: a certificate is missing or invalid"):
        keys.expires_at("it", b"none")


# ---- renewal


SPOILED: Final[dict[str, Callable[[ServerKeys], object]]] = {
    "a certificate is missing": lambda keys: keys.certificates.serving_cert.unlink(),
    "a key is another": lambda keys: keys.certificates.admin_key.write_bytes(keys.tokens.signing),
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_files_that_have_changed_are_looked_into(
    config: Config, keys: ServerKeys, spoil: Callable[[ServerKeys], object]
) -> None:
    renewal = CertificateRenewal(config, keys.own)
    assert renewal.files.are_good_at(time.time())
    assert not renewal.renew()
    spoil(keys)
    assert not renewal.files.are_good_at(time.time())
    assert renewal.renew()
    assert renewal.files.are_good_at(time.time()), "they need not be looked into again"


def test_files_that_expire_soon_are_looked_into(keys: ServerKeys) -> None:
    assert keys.own.are_good_at(time.time() + 334 * DAY_S)
    assert not keys.own.are_good_at(time.time() + 336 * DAY_S)


# ---- files that others have made


# How to alter a certificate in DER, by a pattern, so that OpenSSL loads what the server does not.
REFUSED: Final = {
    "a version that does not exist": (rb"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x04"),
    "a negative serial number": (rb"(?<=\xa0\x03\x02\x01\x02\x02.).", b"\x80"),
}
FLAGS: Final = {
    "for all names": ("--tls-cert-file={0} --tls-private-key-file={1}", "serving certificate"),
    "for some": ("--tls-sni-cert-key={0},{1}", "--tls-sni-cert-key {0}"),
}


@pytest.mark.parametrize(("flags", "what"), FLAGS.values(), ids=FLAGS)
@pytest.mark.parametrize(("pattern", "instead"), REFUSED.values(), ids=REFUSED)
def test_a_start_says_which_certificate_cannot_be_read(
    tmp_path: Path, pattern: bytes, instead: bytes, flags: str, what: str
) -> None:
    issued = Authority(tmp_path / "authority").issue("server")
    whole = ssl.PEM_cert_to_DER_cert(issued.certificate.read_text())
    der, count = re.subn(pattern, lambda _: instead, whole, count=1, flags=re.DOTALL)
    assert count == 1
    issued.certificate.write_text(ssl.DER_cert_to_PEM_cert(der))
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(issued.certificate, issued.key)

    given = flags.format(issued.certificate, issued.key).split()
    reason = f"{what.format(issued.certificate)}: a certificate is missing or invalid"
    with pytest.raises(CannotStart, match=f"^{re.escape(reason)}$"):
        make_server_keys(parse([f"--data-dir={tmp_path}", *given]), None)


UNREAD: Final[dict[str, tuple[Callable[[Path], object], str]]] = {
    "it has gone": (Path.unlink, "No such file"),
    "it is too large": (lambda path: path.write_bytes(b" " * (FILE_BYTES_MAX + 1)), "is longer than"),
}


@pytest.mark.parametrize(("spoil", "why"), UNREAD.values(), ids=UNREAD)
def test_the_certificate_of_a_front_proxy_is_read_with_the_others(
    tmp_path: Path, spoil: Callable[[Path], object], why: str
) -> None:
    issued = Authority(tmp_path / "authority").issue("proxy")
    pem, key = issued.certificate.read_bytes(), issued.key.read_bytes()
    flags = [f"--proxy-client-cert-file={issued.certificate}", f"--proxy-client-key-file={issued.key}"]
    config = parse([f"--data-dir={tmp_path}", *flags])
    keys = make_server_keys(config, None)
    assert keys.front_proxy == KeyPair(pem, key)
    assert keys.expirations[pem] == first_expiry(pem)

    spoil(issued.certificate)
    with pytest.raises(CannotStart, match=f"^--proxy-client-cert-file .* cannot be used: .*{why}"):
        make_server_keys(config, None)
