"""Keys and certificates in the data directory: what is made, what is kept, what is made anew.

Others read them with the tools they have, so these tests do too: ssl, cryptography, a kubeconfig's reader.
"""

from __future__ import annotations

import base64
import re
import ssl
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from apiserver.app.serving import pki, pki_files

FRONT_PROXY: Final = (
    "front-proxy-ca.crt",
    "front-proxy-client.crt",
    "front-proxy-client.key",
    "front-proxy-ca.key",
)
FILES: Final = (
    "ca.crt",
    "ca.key",
    "apiserver.crt",
    "apiserver.key",
    "admin.crt",
    "admin.key",
    *FRONT_PROXY,
    "sa.key",
    "sa.pub",
)
ISSUED: Final = ("apiserver", "admin")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Made once, for 127.0.0.1."""
    directory = tmp_path / "data" / "pki"
    pki.ensure(directory, ["127.0.0.1"])
    return directory


def contents(directory: Path) -> dict[str, bytes]:
    return {name: (directory / name).read_bytes() for name in FILES if (directory / name).exists()}


def changed(directory: Path, before: dict[str, bytes], *addresses: str) -> set[str]:
    """The files that another start makes anew."""
    pki.ensure(directory, addresses or ["127.0.0.1"])
    after = contents(directory)
    return {name for name in FILES if before.get(name) != after.get(name)}


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def private_key(path: Path) -> Any:
    return serialization.load_pem_private_key(path.read_bytes(), None)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# ---- made at the first start


def test_all_files_are_created_readable_by_the_owner_only(directory: Path) -> None:
    assert set(FILES) <= {path.name for path in directory.iterdir()}
    assert {path.name: mode(path) for path in directory.iterdir() if mode(path) != 0o600} == {}
    assert mode(directory) == 0o700


def test_the_paths_are_returned(tmp_path: Path) -> None:
    made = pki.ensure(tmp_path, ["127.0.0.1"])
    names = (*FILES[:6], *FRONT_PROXY[:3], "sa.key")
    assert made == pki_files.Pki(*(tmp_path / name for name in names))


def test_the_ca_can_only_sign_certificates(directory: Path) -> None:
    authority = certificate(directory / "ca.crt")
    authority.verify_directly_issued_by(authority)
    constraints = authority.extensions.get_extension_for_class(x509.BasicConstraints)
    usage = authority.extensions.get_extension_for_class(x509.KeyUsage).value
    assert constraints.critical
    assert (constraints.value.ca, constraints.value.path_length) == (True, 0)
    assert usage.key_cert_sign
    assert authority.not_valid_after_utc - datetime.now(UTC) > timedelta(days=3_600)


PURPOSES: Final = {
    "apiserver": (ExtendedKeyUsageOID.SERVER_AUTH, "CN=apiserver"),
    # https://kubernetes.io/docs/setup/best-practices/certificates: the group that may do everything.
    "admin": (ExtendedKeyUsageOID.CLIENT_AUTH, "CN=kubernetes-admin,O=system:masters"),
}


@pytest.mark.parametrize(
    ("name", "usage", "subject"), [(name, *each) for name, each in PURPOSES.items()], ids=PURPOSES
)
def test_certificates_are_signed_by_the_ca_for_one_purpose(
    directory: Path, name: str, usage: x509.ObjectIdentifier, subject: str
) -> None:
    issued = certificate(directory / f"{name}.crt")
    issued.verify_directly_issued_by(certificate(directory / "ca.crt"))
    assert issued.public_key() == private_key(directory / f"{name}.key").public_key()
    assert list(issued.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [usage]
    assert not issued.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert issued.subject.rfc4514_string() == subject
    now = datetime.now(UTC)
    assert issued.not_valid_before_utc < now - timedelta(minutes=4)  # for clocks that are behind
    assert timedelta(days=360) < issued.not_valid_after_utc - now <= timedelta(days=365)


def test_front_proxies_have_a_ca_of_their_own(directory: Path) -> None:
    issued = certificate(directory / "front-proxy-client.crt")
    issued.verify_directly_issued_by(certificate(directory / "front-proxy-ca.crt"))
    assert issued.subject.rfc4514_string() == "CN=front-proxy-client"
    usage = issued.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_serial_numbers_differ(directory: Path) -> None:
    assert len({certificate(directory / f"{name}.crt").serial_number for name in ("ca", *ISSUED)}) == 3


def test_the_service_account_key_pair_is_separate(directory: Path) -> None:
    public = serialization.load_pem_public_key((directory / "sa.pub").read_bytes())
    assert private_key(directory / "sa.key").public_key() == public
    assert len({private_key(path).private_numbers().private_value for path in directory.glob("*.key")}) == 6


def test_openssl_accepts_them(directory: Path) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(directory / "ca.crt"))
    for name in ISSUED:
        context.load_cert_chain(directory / f"{name}.crt", directory / f"{name}.key")


NAMES: Final = {
    "always": (
        "10.1.2.3",
        {"localhost", "kubernetes", "kubernetes.default.svc.cluster.local", "127.0.0.1", "::1"},
    ),
    "an address": ("10.1.2.3", {"10.1.2.3"}),
    "an address of the new kind": ("fd00::1", {"fd00::1"}),
    "a name": ("api.example.com", {"api.example.com"}),
}


@pytest.mark.parametrize(("address", "names"), NAMES.values(), ids=NAMES)
def test_the_serving_certificate_names_the_server(tmp_path: Path, address: str, names: set[str]) -> None:
    pki.ensure(tmp_path, [address])
    assert names <= alternative_names(tmp_path)


@pytest.mark.parametrize("everywhere", ["0.0.0.0", "::"])
def test_unspecified_addresses_are_not_named(tmp_path: Path, everywhere: str) -> None:
    pki.ensure(tmp_path, [everywhere])
    assert everywhere not in alternative_names(tmp_path)


def alternative_names(directory: Path) -> set[str]:
    extension = certificate(directory / "apiserver.crt").extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    return {str(name.value) for name in extension.value}


# ---- at every other start


def test_valid_files_are_kept(directory: Path) -> None:
    before = contents(directory)
    assert len(before) == len(FILES)
    assert changed(directory, before) == set()


def sign(
    directory: Path,
    name: str,
    *,
    days: float,
    signer: Any = None,
    key: Any = None,
    names: tuple[str, ...] = (),
) -> None:
    """Put another certificate in the place of one, of the same names unless told otherwise."""
    old = certificate(directory / f"{name}.crt")
    now = datetime.now(UTC)
    key = key or private_key(directory / f"{name}.key")
    builder = (
        x509.CertificateBuilder()
        .subject_name(old.subject)
        .issuer_name(certificate(directory / "ca.crt").subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=400))
        .not_valid_after(now + timedelta(days=days))
    )
    for extension in old.extensions:
        value = extension.value
        if isinstance(value, x509.SubjectAlternativeName) and names:
            value = x509.SubjectAlternativeName([x509.DNSName(each) for each in names])
        builder = builder.add_extension(value, extension.critical)
    signed = builder.sign(signer or private_key(directory / "ca.key"), hashes.SHA256())
    (directory / f"{name}.crt").write_bytes(signed.public_bytes(serialization.Encoding.PEM))


def test_a_certificate_with_a_month_left_is_kept(directory: Path) -> None:
    for name in ISSUED:
        sign(directory, name, days=31)
    assert changed(directory, contents(directory)) == set()


def swap_keys(directory: Path) -> None:
    (directory / "apiserver.key").write_bytes((directory / "admin.key").read_bytes())


def half_of(name: str) -> Callable[[Path], None]:
    def spoil(directory: Path) -> None:
        (directory / name).write_bytes((directory / name).read_bytes()[:100])

    return spoil


def without(name: str) -> Callable[[Path], None]:
    return lambda directory: (directory / name).unlink()


RENEWED: Final[dict[str, tuple[Callable[[Path], None], str]]] = {
    "ended": (lambda d: sign(d, "apiserver", days=-1), "apiserver"),
    "ends soon": (lambda d: sign(d, "apiserver", days=29), "apiserver"),
    "the client's ends soon": (lambda d: sign(d, "admin", days=29), "admin"),
    "of another authority": (
        lambda d: sign(d, "apiserver", days=300, signer=ec.generate_private_key(ec.SECP256R1())),
        "apiserver",
    ),
    "the client's of another authority": (
        lambda d: sign(d, "admin", days=300, signer=ec.generate_private_key(ec.SECP256R1())),
        "admin",
    ),
    "not for its key": (swap_keys, "apiserver"),
    "without the server's names": (
        lambda d: sign(d, "apiserver", days=300, names=("a.example",)),
        "apiserver",
    ),
    "missing": (without("apiserver.crt"), "apiserver"),
    "its key is missing": (without("admin.key"), "admin"),
    "broken": (half_of("apiserver.crt"), "apiserver"),
    "its key is broken": (half_of("apiserver.key"), "apiserver"),
}


@pytest.mark.parametrize(("spoil", "name"), RENEWED.values(), ids=RENEWED)
def test_an_invalid_certificate_is_replaced_with_its_key_only(
    directory: Path, spoil: Callable[[Path], None], name: str
) -> None:
    before = contents(directory)
    spoil(directory)
    assert changed(directory, before) == {f"{name}.crt", f"{name}.key"}
    issued = certificate(directory / f"{name}.crt")
    issued.verify_directly_issued_by(certificate(directory / "ca.crt"))
    assert issued.not_valid_after_utc > datetime.now(UTC) + timedelta(days=300)
    assert mode(directory / f"{name}.key") == 0o600


def test_another_address_is_added_to_the_names(directory: Path) -> None:
    assert changed(directory, contents(directory), "10.1.2.3") == {"apiserver.crt", "apiserver.key"}
    assert "10.1.2.3" in alternative_names(directory)


def test_an_expiring_ca_is_replaced_with_all_it_signed(directory: Path) -> None:
    sign(directory, "ca", days=29)
    before = contents(directory)
    assert changed(directory, before) == set(FILES) - {*FRONT_PROXY, "sa.key", "sa.pub"}
    for name in ISSUED:
        certificate(directory / f"{name}.crt").verify_directly_issued_by(certificate(directory / "ca.crt"))


def test_no_certificate_outlives_the_ca(directory: Path) -> None:
    sign(directory, "ca", days=60)
    (directory / "admin.crt").unlink()
    pki.ensure(directory, ["127.0.0.1"])
    ends = certificate(directory / "ca.crt").not_valid_after_utc
    assert certificate(directory / "admin.crt").not_valid_after_utc == ends


def test_a_ca_signs_until_it_expires(directory: Path) -> None:
    ca = directory / "ca.crt"
    ends = certificate(ca).not_valid_after_utc
    signed, _ = pki.client_certificate("jane", (), ca, ends - timedelta(seconds=1))
    assert x509.load_pem_x509_certificate(signed).not_valid_after_utc == ends
    with pytest.raises(pki_files.UnusableFile, match=rf"ca\.crt expired on {re.escape(str(ends))}"):
        pki.client_certificate("jane", (), ca, ends)


def test_an_expired_ca_signs_no_renewed_certificate(directory: Path) -> None:
    sign(directory, "ca", days=0)
    (directory / "admin.crt").unlink()
    with pytest.raises(pki_files.UnusableFile, match=r"ca\.crt expired on "):
        pki.renew(directory, ["127.0.0.1"])
    assert not (directory / "admin.crt").exists()


def test_the_service_account_key_is_generated_only_if_missing(directory: Path) -> None:
    before = contents(directory)
    (directory / "sa.key").unlink()
    assert changed(directory, before) == {"sa.key", "sa.pub"}


def take_another_key(directory: Path) -> None:
    (directory / "ca.key").write_bytes((directory / "sa.key").read_bytes())


def write_rsa_key(directory: Path) -> None:
    key = rsa.generate_private_key(65537, 2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (directory / "ca.key").write_bytes(pem)


UNUSABLE: Final[dict[str, tuple[Callable[[Path], None], str]]] = {
    "a broken certificate": (half_of("ca.crt"), "ca.crt is not a certificate"),
    "a broken key": (half_of("ca.key"), "ca.key is not a private key"),
    "the key of somebody else": (take_another_key, "ca.key is not the key of ca.crt"),
    "a key of another kind": (write_rsa_key, "ca.key is not the key of ca.crt"),
}


@pytest.mark.parametrize(("spoil", "told"), UNUSABLE.values(), ids=UNUSABLE)
def test_a_damaged_ca_is_reported_and_not_replaced(
    directory: Path, spoil: Callable[[Path], None], told: str
) -> None:
    """Another would lock out all who trust it."""
    spoil(directory)
    (directory / "admin.crt").unlink()
    before = contents(directory)
    with pytest.raises(pki_files.UnusableFile, match=told):
        pki.ensure(directory, ["127.0.0.1"])
    assert contents(directory) == before


def test_the_key_of_the_ca_is_needed_only_to_sign(directory: Path) -> None:
    (directory / "ca.key").unlink()
    assert changed(directory, contents(directory)) == set()
    (directory / "admin.crt").unlink()
    with pytest.raises(FileNotFoundError, match=r"ca\.key"):
        pki.ensure(directory, ["127.0.0.1"])


def test_a_directory_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        pki.ensure(tmp_path / "file" / "pki", ["127.0.0.1"])


# ---- the kubeconfig
# https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/


def test_the_kubeconfig_is_complete(directory: Path) -> None:
    path = directory.parent / "admin.kubeconfig"
    made = pki.ensure(directory, ["127.0.0.1"])
    pki_files.write(
        path, pki_files.admin_kubeconfig("https://127.0.0.1:6443", made, made.ca_cert.read_bytes())
    )
    config = yaml.safe_load(path.read_bytes())
    assert (config["apiVersion"], config["kind"]) == ("v1", "Config")
    (context,) = config["contexts"]
    assert config["current-context"] == context["name"]
    (cluster,) = (c["cluster"] for c in config["clusters"] if c["name"] == context["context"]["cluster"])
    (user,) = (u["user"] for u in config["users"] if u["name"] == context["context"]["user"])
    assert cluster["server"] == "https://127.0.0.1:6443"
    assert base64.b64decode(cluster["certificate-authority-data"]) == (directory / "ca.crt").read_bytes()
    assert base64.b64decode(user["client-certificate-data"]) == (directory / "admin.crt").read_bytes()
    assert base64.b64decode(user["client-key-data"]) == (directory / "admin.key").read_bytes()


def test_the_kubeconfig_is_readable_by_the_owner_only(directory: Path) -> None:
    path = directory.parent / "admin.kubeconfig"
    path.write_text("old, and longer than what is new " * 1_000)
    path.chmod(0o644)
    made = pki.ensure(directory, ["127.0.0.1"])
    pki_files.write(path, pki_files.admin_kubeconfig("https://a.example:1", made, b"other"))
    assert mode(path) == 0o600
    config = yaml.safe_load(path.read_bytes())
    assert (
        config["clusters"][0]["cluster"]["certificate-authority-data"] == base64.b64encode(b"other").decode()
    )
    assert [each.name for each in path.parent.iterdir() if each.name.startswith(".")] == []


def test_which_ca_verifies_a_given_certificate(directory: Path, tmp_path: Path) -> None:
    other = pki.ensure(tmp_path / "other", ["127.0.0.1"])
    ours, theirs = (directory / "ca.crt").read_bytes(), other.ca_cert.read_bytes()
    chain = other.serving_cert.read_bytes()
    assert pki.trusted_for(chain, (ours, theirs)) == theirs
    assert pki.trusted_for(chain, (b"", ours + theirs)) == theirs
    assert pki.trusted_for(chain, (ours,)) == chain
