"""The first provider and key write, all read, and what another wrote is stale."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.storage.encryption.chains import TransformerChain
from apiserver.storage.encryption.ciphers import Undecryptable
from apiserver.storage.encryption.configuration import (
    ANY,
    EncryptionConfiguration,
    EncryptionKey,
    IdentityConfiguration,
    KeysConfiguration,
    Provider,
    ResourceConfiguration,
)
from apiserver.storage.encryption.encryption import Encryption, build_chains

OLD: Final = EncryptionKey("old", b"o" * 32)
NEW: Final = EncryptionKey("new", b"n" * 32)
WHERE: Final = b"/registry/core/secrets/default/a"
KEY: Final = WHERE.decode()
VALUE: Final = b'{"kind":"Secret"}'


class Observed:
    """The transformations that were told: direction, prefix and code."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str]] = []

    def __call__(self, direction: str, prefix: str, began: float, code: str) -> None:
        self.seen.append((direction, prefix, code))


def chain(*providers: Provider, observed: Observed | None = None) -> TransformerChain:
    rule = ResourceConfiguration((("", "secrets"),), providers)
    chains = build_chains(EncryptionConfiguration((rule,), ""), {}, observed or Observed())
    found = Encryption("/registry", chains).chain_of(KEY)
    assert found is not None
    return found


GCM_NEW: Final = KeysConfiguration("aesgcm", (NEW,))
GCM_OLD: Final = KeysConfiguration("aesgcm", (OLD,))
PREFIXES: Final[dict[str, tuple[Provider, bytes]]] = {
    "aescbc": (KeysConfiguration("aescbc", (NEW, OLD)), b"k8s:enc:aescbc:v1:new:"),
    "aesgcm": (KeysConfiguration("aesgcm", (NEW, OLD)), b"k8s:enc:aesgcm:v1:new:"),
    "secretbox": (KeysConfiguration("secretbox", (NEW, OLD)), b"k8s:enc:secretbox:v1:new:"),
    "identity": (IdentityConfiguration(), b"{"),
}


@pytest.mark.parametrize(("provider", "prefix"), PREFIXES.values(), ids=PREFIXES)
def test_a_value_tells_who_wrote_it(provider: Provider, prefix: bytes) -> None:
    stored = chain(provider).encrypt(VALUE, WHERE)
    assert stored.startswith(prefix)
    assert chain(provider).decrypt(stored, WHERE) == (VALUE, False)


# Who wrote, who reads, and whether the value is stale then.
READERS: Final[dict[str, tuple[tuple[Provider, ...], tuple[Provider, ...], bool]]] = {
    "the same": ((GCM_NEW,), (GCM_NEW, IdentityConfiguration()), False),
    "a second key": ((GCM_OLD,), (KeysConfiguration("aesgcm", (NEW, OLD)),), True),
    "a key of a second element": ((GCM_OLD,), (GCM_NEW, GCM_OLD), True),
    "another provider": ((GCM_OLD,), (KeysConfiguration("secretbox", (NEW,)), GCM_OLD), True),
    "plain, to be encrypted": ((IdentityConfiguration(),), (GCM_NEW, IdentityConfiguration()), True),
    "encrypted, to be plain": ((GCM_NEW,), (IdentityConfiguration(), GCM_NEW), True),
    "a key that was renamed behind one of its name": (
        (KeysConfiguration("aesgcm", (EncryptionKey("new", b"o" * 32),)),),
        (GCM_NEW, KeysConfiguration("aesgcm", (EncryptionKey("new", b"o" * 32),))),
        True,
    ),
}


@pytest.mark.parametrize(("writers", "readers", "is_stale"), READERS.values(), ids=READERS)
def test_all_read(writers: tuple[Provider, ...], readers: tuple[Provider, ...], is_stale: bool) -> None:
    stored = chain(*writers).encrypt(VALUE, WHERE)
    assert chain(*readers).decrypt(stored, WHERE) == (VALUE, is_stale)


UNREADABLE: Final[dict[str, tuple[tuple[Provider, ...], tuple[Provider, ...], str]]] = {
    "by a key that is gone": (
        (GCM_OLD,),
        (GCM_NEW,),
        "no matching key was found for the provided AES transformer",
    ),
    "by a secretbox key that is gone": (
        (KeysConfiguration("secretbox", (OLD,)),),
        (KeysConfiguration("secretbox", (NEW,)),),
        "no matching key was found for the provided Secretbox transformer",
    ),
    "by a provider that is gone": (
        (GCM_OLD,),
        (KeysConfiguration("aescbc", (OLD,)),),
        "no matching prefix found",
    ),
    "by one that is gone, with identity": (
        (GCM_OLD,),
        (IdentityConfiguration(),),
        "no matching prefix found",
    ),
    "plain, where nothing may be": ((IdentityConfiguration(),), (GCM_NEW,), "no matching prefix found"),
    "by another key of the name": (
        (KeysConfiguration("aesgcm", (EncryptionKey("new", b"x" * 32),)),),
        (GCM_NEW,),
        "cipher: message authentication failed",
    ),
    "by two other keys of the name": (
        (KeysConfiguration("aesgcm", (EncryptionKey("new", b"x" * 32),)),),
        (GCM_NEW, GCM_OLD),
        "[cipher: message authentication failed, no matching key was found for the provided AES transformer]",
    ),
}


@pytest.mark.parametrize(("writers", "readers", "why"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read(writers: tuple[Provider, ...], readers: tuple[Provider, ...], why: str) -> None:
    stored = chain(*writers).encrypt(VALUE, WHERE)
    with pytest.raises(Undecryptable) as raised:
        chain(*readers).decrypt(stored, WHERE)
    assert str(raised.value) == why


def test_each_key_is_counted() -> None:
    observed = Observed()
    both = chain(KeysConfiguration("aesgcm", (NEW, OLD)), IdentityConfiguration(), observed=observed)
    both.encrypt(VALUE, WHERE)
    both.decrypt(chain(GCM_OLD).encrypt(VALUE, WHERE), WHERE)
    both.decrypt(VALUE, WHERE)
    with pytest.raises(Undecryptable):
        both.decrypt(b"k8s:enc:kms:v2:other:", WHERE)
    assert observed.seen == [
        ("to_storage", "new:", "OK"),
        ("to_storage", "k8s:enc:aesgcm:v1:", "OK"),
        ("from_storage", "old:", "OK"),
        ("from_storage", "k8s:enc:aesgcm:v1:", "OK"),
        ("from_storage", "identity", "OK"),
        ("from_storage", "unknown", "unknown-non-grpc"),
    ]


RULES: Final = EncryptionConfiguration(
    (
        ResourceConfiguration(
            (("", "secrets"), ("example.com", ANY)),
            (KeysConfiguration("aesgcm", (EncryptionKey("one", b"1" * 32),)),),
        ),
        ResourceConfiguration(
            (("apps", "deployments"),), (KeysConfiguration("aesgcm", (EncryptionKey("two", b"2" * 32),)),)
        ),
        ResourceConfiguration(
            (("apps", ANY), ("", ANY)), (KeysConfiguration("aesgcm", (EncryptionKey("three", b"3" * 32),)),)
        ),
        ResourceConfiguration(
            ((ANY, ANY),), (KeysConfiguration("aesgcm", (EncryptionKey("four", b"4" * 32),)),)
        ),
    ),
    "",
)
RESOURCES: Final = {
    "/registry/core/secrets/ns/a": "one",
    "/registry/core/configmaps/ns/a": "three",
    "/registry/core/nodes/a": "three",
    "/registry/apps/deployments/ns/a": "two",
    "/registry/apps/daemonsets/ns/a": "three",
    "/registry/example.com/widgets/ns/a": "one",
    "/registry/batch/jobs/ns/a": "four",
    # The server's own records.
    "/registry/-/etcd/fence": "",
    "/registry/-/cluster/identity": "",
    "/registry/other": "",
}


@pytest.mark.parametrize(("key", "name"), RESOURCES.items(), ids=RESOURCES)
def test_the_most_special_rule_counts(key: str, name: str) -> None:
    found = Encryption("/registry", build_chains(RULES, {}, Observed())).chain_of(key)
    if not name:
        assert found is None
    else:
        assert found is not None
        assert found.encrypt(VALUE, key.encode()).startswith(f"k8s:enc:aesgcm:v1:{name}:".encode())


def test_rules_are_replaced_at_once() -> None:
    encryption = Encryption("/registry", build_chains(RULES, {}, Observed()))
    assert encryption.chain_of(KEY) is not None
    encryption.replace({})
    assert encryption.chain_of(KEY) is None
