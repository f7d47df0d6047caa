"""The identity of servers that share a store: made once, the same for all, and never thrown away."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

import orjson
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from apiserver.serving import pki
from apiserver.serving.cluster_identity import UnusableStoredIdentity, fetch_identity
from apiserver.serving.pki import ClusterIdentity, UnusableFile, UnusableIdentity, local_identity
from storage.embedded import EmbeddedStore

PREFIX: Final = "/registry"
KEY: Final = "/registry/-/identity"


async def test_all_servers_that_start_at_once_get_one(tmp_path: Path, store: EmbeddedStore) -> None:
    found = await asyncio.gather(
        *(fetch_identity(store, PREFIX, partial(local_identity, tmp_path / str(n))) for n in range(5))
    )
    assert len({identity.ca_cert for identity in found}) == 1
    assert len({identity.service_account_key for identity in found}) == 1


async def test_the_first_server_brings_the_keys_that_it_has(tmp_path: Path, store: EmbeddedStore) -> None:
    """So kubeconfigs and tokens stay valid when servers come to share a store."""
    made = pki.ensure(tmp_path, [])
    found = await fetch_identity(store, PREFIX, lambda: local_identity(tmp_path))
    assert found.ca_cert == made.ca_cert.read_bytes()
    assert found.service_account_key == made.service_account_key.read_bytes()
    assert found == local_identity(tmp_path)


async def test_a_server_without_files_gets_the_same_again(tmp_path: Path, store: EmbeddedStore) -> None:
    first = await fetch_identity(store, PREFIX, lambda: local_identity(tmp_path / "one"))
    revision = await store.current_revision()
    assert await fetch_identity(store, PREFIX, lambda: local_identity(tmp_path / "two")) == first
    assert await store.current_revision() == revision


def test_certificates_are_signed_by_the_ca_of_the_cluster(tmp_path: Path) -> None:
    identity = local_identity(tmp_path / "other")
    own = pki.ensure(tmp_path / "pki", [])
    before = {path.name: path.read_bytes() for path in (own.ca_cert, own.service_account_key)}
    made = pki.ensure(tmp_path / "pki", [], identity)
    ca = x509.load_pem_x509_certificate(identity.ca_cert)
    for path in (made.serving_cert, made.admin_cert):
        x509.load_pem_x509_certificate(path.read_bytes()).verify_directly_issued_by(ca)
    assert made.service_account_key.read_bytes() == identity.service_account_key
    # What was there may be the only copy of the keys of another cluster.
    for name, content in before.items():
        assert (tmp_path / "pki" / f"{name}.replaced").read_bytes() == content
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "pki").iterdir()}
    assert modes == {0o600}


def expiring_ca(identity: ClusterIdentity) -> bytes:
    key = serialization.load_pem_private_key(identity.ca_key, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    old = x509.load_pem_x509_certificate(identity.ca_cert)
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(old.subject, old.subject, key.public_key(), old.serial_number)
    builder = builder.not_valid_before(now - timedelta(days=9)).not_valid_after(now + timedelta(days=9))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


async def test_a_ca_that_expires_soon_is_replaced_for_all(tmp_path: Path, store: EmbeddedStore) -> None:
    fresh = local_identity(tmp_path)
    old = replace(fresh, ca_cert=expiring_ca(fresh))
    found = await asyncio.gather(*(fetch_identity(store, PREFIX, lambda: old) for _ in range(3)))
    assert len({identity.ca_cert for identity in found} | {old.ca_cert}) == 2
    assert {identity.service_account_key for identity in found} == {old.service_account_key}
    assert {identity.front_proxy_ca_key for identity in found} == {old.front_proxy_ca_key}


async def test_one_from_before_there_were_front_proxies_gets_their_ca(
    tmp_path: Path, store: EmbeddedStore
) -> None:
    old = local_identity(tmp_path)
    fields = {"caCertificate": old.ca_cert, "caKey": old.ca_key, "serviceAccountKey": old.service_account_key}
    await store.create(KEY, orjson.dumps({name: value.decode() for name, value in fields.items()}))
    found = await asyncio.gather(*(fetch_identity(store, PREFIX, lambda: old) for _ in range(3)))
    assert len({identity.front_proxy_ca_cert for identity in found}) == 1
    assert {(identity.ca_cert, identity.ca_key) for identity in found} == {(old.ca_cert, old.ca_key)}


DAMAGED: Final = {
    "no JSON": b"nonsense",
    "no object": b"[]",
    "a field is missing": b"{}",
    "no key in it": b'{"caCertificate": "", "caKey": "", "serviceAccountKey": ""}',
    "no text": b'{"caCertificate": 1, "caKey": 1, "serviceAccountKey": 1}',
}


@pytest.mark.parametrize("value", DAMAGED.values(), ids=DAMAGED)
async def test_what_cannot_be_used_is_told_and_kept(
    tmp_path: Path, store: EmbeddedStore, value: bytes
) -> None:
    await store.create(KEY, value)
    with pytest.raises(UnusableStoredIdentity, match=KEY):
        await fetch_identity(store, PREFIX, lambda: local_identity(tmp_path))
    stored = (await store.get(KEY)).stored
    assert stored is not None
    assert stored.value == value


def test_a_key_of_another_ca_is_refused(tmp_path: Path) -> None:
    one, other = local_identity(tmp_path / "one"), local_identity(tmp_path / "other")
    with pytest.raises(UnusableIdentity):
        replace(one, ca_key=other.ca_key)
    with pytest.raises(UnusableIdentity):
        replace(one, front_proxy_ca_key=other.front_proxy_ca_key)


def test_a_service_account_key_that_is_none_is_told_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "sa.key").write_text("no key")
    with pytest.raises(UnusableFile, match=r"sa\.key is not a private key"):
        local_identity(tmp_path)


def test_private_keys_are_not_shown() -> None:
    assert "PRIVATE" not in repr(local_identity(Path("/nonexistent")))
