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

from apiserver.app.serving import pki
from apiserver.app.serving.cluster_identity import (
    EncryptedIdentity,
    UnusableStoredIdentity,
    fetch_identity,
    identity_key,
)
from apiserver.app.serving.pki import ClusterIdentity, UnusableIdentity, local_identity
from apiserver.app.serving.pki_files import UnusableFile
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.encryption.chains import (
    DecryptedValue,
    KeyNeeded,
    PrefixedTransformer,
    TransformerChain,
)
from apiserver.storage.encryption.ciphers import Undecryptable
from apiserver.storage.encryption.configuration import (
    EncryptionConfiguration,
    EncryptionKey,
    IdentityConfiguration,
    KeysConfiguration,
    Provider,
    ResourceConfiguration,
)
from apiserver.storage.encryption.encryption import Chains, Encryption, build_chains
from apiserver.storage.encryption.store import EncryptedStorage
from apiserver.storage.errors import OutcomeUnknown, StorageError, StorageFull, StorageUnavailable
from apiserver.storage.interface import NO_LEASE

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


# ---- encryption

ONE: Final = KeysConfiguration("aesgcm", (EncryptionKey("one", b"1" * 32),))
TWO: Final = KeysConfiguration("aesgcm", (EncryptionKey("two", b"2" * 32),))
BOTH: Final = KeysConfiguration("aesgcm", (EncryptionKey("two", b"2" * 32), EncryptionKey("one", b"1" * 32)))
REVERSED: Final = KeysConfiguration(
    "aesgcm", (EncryptionKey("one", b"1" * 32), EncryptionKey("two", b"2" * 32))
)
PLAIN: Final = IdentityConfiguration()


def chains(*providers: Provider, resource: str = "secrets") -> Chains:
    rules = (ResourceConfiguration((("", resource),), providers),) if providers else ()
    return build_chains(EncryptionConfiguration(rules, ""), {}, lambda *_: None)


class Server:
    """One of the servers on a store, with the providers that it has for Secrets."""

    def __init__(self, raw: EmbeddedStore, *providers: Provider) -> None:
        self._raw = raw
        self.encryption = Encryption(PREFIX, chains(*providers), {identity_key(PREFIX): ("", "secrets")})
        self.store = EncryptedStorage(raw, self.encryption)
        self.kept = EncryptedIdentity(self.store, self.store.is_stale, PREFIX)

    async def use(self, *providers: Provider) -> None:
        """Have other providers, as after a reload."""
        self.encryption.replace(chains(*providers))
        await self.kept.renew()

    async def identity(self) -> ClusterIdentity:
        """Returns what is stored; nothing is offered."""

        def none() -> ClusterIdentity:
            raise AssertionError("there is one")

        return await fetch_identity(self.store, PREFIX, none)


async def as_stored(raw: EmbeddedStore) -> bytes:
    stored = (await raw.get(KEY)).stored
    assert stored is not None
    return stored.value


async def test_it_is_encrypted_as_secrets_are(tmp_path: Path, store: EmbeddedStore) -> None:
    made = local_identity(tmp_path)
    server = Server(store, ONE)
    assert await fetch_identity(server.store, PREFIX, lambda: made) == made
    value = await as_stored(store)
    assert value.startswith(b"k8s:enc:aesgcm:v1:one:")
    assert made.service_account_key[:60] not in value
    assert await Server(store, BOTH).identity() == made


async def test_it_is_in_clear_where_secrets_are(tmp_path: Path, store: EmbeddedStore) -> None:
    made = local_identity(tmp_path)
    encryption = Encryption(PREFIX, chains(ONE, resource="configmaps"), {KEY: ("", "secrets")})
    await fetch_identity(EncryptedStorage(store, encryption), PREFIX, lambda: made)
    assert orjson.loads(await as_stored(store))["caKey"] == made.ca_key.decode()


# Providers, one after the other, and what the stored value begins with in the end.
ROTATIONS: Final[dict[str, tuple[tuple[tuple[Provider, ...], ...], bytes]]] = {
    "from clear to a key": (((PLAIN,), (ONE, PLAIN)), b"k8s:enc:aesgcm:v1:one:"),
    "from a key to another": (((ONE,), (BOTH,), (TWO,)), b"k8s:enc:aesgcm:v1:two:"),
    "back to clear": (((ONE,), (PLAIN, ONE)), b"{"),
    "a key that is taken away too early": (((ONE,), (TWO,)), b"k8s:enc:aesgcm:v1:two:"),
    "Secrets are not encrypted any more": (((ONE,), ()), b"{"),
}


@pytest.mark.parametrize(("steps", "begins"), ROTATIONS.values(), ids=ROTATIONS)
async def test_it_follows_the_keys_of_secrets(
    tmp_path: Path, store: EmbeddedStore, steps: tuple[tuple[Provider, ...], ...], begins: bytes
) -> None:
    made = local_identity(tmp_path)
    server = Server(store, *steps[0])
    await fetch_identity(server.store, PREFIX, lambda: made)
    for providers in steps:
        await server.use(*providers)
    assert (await as_stored(store)).startswith(begins)
    revision = await store.current_revision()
    await server.kept.renew()
    assert await store.current_revision() == revision, "what is up to date is not written"
    assert await Server(store, *steps[-1]).identity() == made


async def test_what_another_server_has_written_with_a_key_that_is_not_here_yet_is_left(
    tmp_path: Path, store: EmbeddedStore
) -> None:
    first, second = Server(store, ONE), Server(store, ONE)
    made = local_identity(tmp_path)
    await fetch_identity(first.store, PREFIX, lambda: made)
    for each in (first, second):
        await each.kept.renew()
    await first.use(BOTH)
    value = await as_stored(store)
    await second.kept.renew()
    assert await as_stored(store) == value
    await second.use(BOTH)
    assert await as_stored(store) == value
    assert await second.identity() == made


async def test_servers_whose_keys_are_in_another_order_do_not_undo_what_each_other_does(
    tmp_path: Path, store: EmbeddedStore
) -> None:
    """As while keys rotate. Each wrote the identity again whenever it looked, once a minute, for ever."""
    first, second = Server(store, ONE), Server(store, ONE)
    await fetch_identity(first.store, PREFIX, lambda: local_identity(tmp_path))
    await first.use(BOTH)
    await second.use(REVERSED)
    value, revision = await as_stored(store), await store.current_revision()
    assert value.startswith(b"k8s:enc:aesgcm:v1:one:")
    for each in (first, second) * 2:
        await each.kept.keep()
    assert await store.current_revision() == revision
    await second.use(BOTH)
    assert (await as_stored(store)).startswith(b"k8s:enc:aesgcm:v1:two:")


async def test_a_key_that_is_another_one_by_now_encrypts_it_anew(
    tmp_path: Path, store: EmbeddedStore
) -> None:
    """As that of a plugin, without a reload. One server does so, whichever looks first."""
    servers = [Server(store, ONE) for _ in range(2)]
    await fetch_identity(servers[0].store, PREFIX, lambda: local_identity(tmp_path))
    for each in servers:
        await each.kept.renew()
        each.encryption.replace(chains(BOTH))
    for each in servers:
        await each.kept.keep()
        assert (await as_stored(store)).startswith(b"k8s:enc:aesgcm:v1:two:")
    revision = await store.current_revision()
    for each in servers:
        await each.kept.keep()
    assert await store.current_revision() == revision


async def test_all_servers_may_encrypt_it_anew_at_once(tmp_path: Path, store: EmbeddedStore) -> None:
    servers = [Server(store, PLAIN) for _ in range(5)]
    made = local_identity(tmp_path)
    await fetch_identity(servers[0].store, PREFIX, lambda: made)
    await asyncio.gather(*(each.use(ONE, PLAIN) for each in servers))
    assert (await as_stored(store)).startswith(b"k8s:enc:aesgcm:v1:one:")
    assert {(await each.identity()).ca_cert for each in servers} == {made.ca_cert}


NOT_READABLE: Final[dict[str, tuple[tuple[Provider, ...], str]]] = {
    "another key": ((TWO,), "no matching key was found for the provided AES transformer"),
    "no provider": ((), "identity transformer tried to read encrypted data"),
}


@pytest.mark.parametrize(("providers", "why"), NOT_READABLE.values(), ids=NOT_READABLE)
async def test_a_server_that_cannot_decrypt_it_says_so_and_changes_nothing(
    tmp_path: Path, store: EmbeddedStore, providers: tuple[Provider, ...], why: str
) -> None:
    await fetch_identity(Server(store, ONE).store, PREFIX, lambda: local_identity(tmp_path))
    value = await as_stored(store)
    other = Server(store, *providers)
    await other.kept.renew()
    with pytest.raises(UnusableStoredIdentity, match=f"{KEY} .* cannot be decrypted: {why}"):
        await other.identity()
    assert await as_stored(store) == value


async def test_a_server_that_encrypts_nothing_is_told_why_it_cannot_read_it(
    tmp_path: Path, store: EmbeddedStore
) -> None:
    await fetch_identity(Server(store, ONE).store, PREFIX, lambda: local_identity(tmp_path))
    with pytest.raises(UnusableStoredIdentity, match="--encryption-provider-config is not set"):
        await fetch_identity(store, PREFIX, lambda: local_identity(tmp_path))


class _SlowPlugin:
    """Has its key only when it is asked for the second time."""

    def __init__(self) -> None:
        self.asked = 0

    def encrypt(self, value: bytes, context: bytes) -> bytes:
        return value[::-1]

    def decrypt(self, data: bytes, context: bytes) -> DecryptedValue:
        if self.asked < 2:
            raise KeyNeeded("slow", self._fetch)
        return DecryptedValue(data[::-1], False)

    async def _fetch(self) -> None:
        self.asked += 1
        if self.asked == 1:
            raise Undecryptable("the plugin does not respond", is_temporary=True)


async def test_a_plugin_that_does_not_respond_is_waited_for(
    tmp_path: Path, store: EmbeddedStore, caplog: pytest.LogCaptureFixture
) -> None:
    made, plugin = local_identity(tmp_path), _SlowPlugin()
    chain = TransformerChain(
        [PrefixedTransformer(b"k8s:enc:kms:v2:slow:", plugin)], "no matching prefix found", lambda *_: None
    )
    encryption = Encryption(PREFIX, {("", "secrets"): chain}, {KEY: ("", "secrets")})
    encrypted = EncryptedStorage(store, encryption)
    assert await fetch_identity(encrypted, PREFIX, lambda: made) == made
    assert plugin.asked == 2
    assert "cannot decrypt the identity of the cluster: the plugin does not respond; retrying" in caplog.text


AT_ETCD: Final = "etcd at http://127.0.0.1:2379"
CANNOT_WRITE: Final = "cannot read or write the identity of the cluster"
FAILURES: Final = {
    "no connection": (
        StorageUnavailable(f"{AT_ETCD}: UNAVAILABLE: cannot connect: Connection refused"),
        "cannot reach etcd (Connection refused)",
    ),
    "no connection by gRPC": (
        StorageUnavailable(
            f"{AT_ETCD}: UNAVAILABLE: failed to connect to all addresses; last error: UNKNOWN: "
            "ipv4:127.0.0.1:2379: Failed to connect to remote host: Connection refused"
        ),
        "cannot reach etcd (Connection refused)",
    ),
    "a cause in two parts": (
        StorageUnavailable(f"{AT_ETCD}: UNAVAILABLE: cannot connect: certificate verify failed: expired"),
        "cannot reach etcd (certificate verify failed: expired)",
    ),
    "etcd's own error": (
        StorageUnavailable(f"{AT_ETCD}: UNAVAILABLE: etcdserver: no leader"),
        "cannot reach etcd (etcdserver: no leader)",
    ),
    "a closed store": (StorageUnavailable("the store is closed"), "cannot reach etcd (the store is closed)"),
    "no space": (
        StorageFull(f"{AT_ETCD}: etcdserver: mvcc: database space exceeded"),
        f"{CANNOT_WRITE}: {AT_ETCD}: etcdserver: mvcc: database space exceeded",
    ),
    "a lost response": (
        OutcomeUnknown(f"{AT_ETCD}: UNAVAILABLE: the connection is lost"),
        f"{CANNOT_WRITE}: {AT_ETCD}: UNAVAILABLE: the connection is lost",
    ),
}


class FailingOnce(EncryptedStorage):
    """Refuses its first create with an error."""

    def __init__(self, store: EmbeddedStore, error: StorageError) -> None:
        super().__init__(store, Encryption(PREFIX, {}, {}))
        self.errors = [error]

    async def create(self, key: str, value: bytes, *, lease: int = NO_LEASE) -> int:
        if self.errors:
            raise self.errors.pop()
        return await super().create(key, value, lease=lease)


@pytest.mark.parametrize(("error", "warning"), FAILURES.values(), ids=FAILURES)
async def test_the_log_says_why_the_identity_is_not_there_yet(
    tmp_path: Path,
    store: EmbeddedStore,
    caplog: pytest.LogCaptureFixture,
    error: StorageError,
    warning: str,
) -> None:
    made = local_identity(tmp_path)
    assert await fetch_identity(FailingOnce(store, error), PREFIX, lambda: made, "etcd") == made
    assert caplog.messages == [f"{warning}; retrying"]
