"""Servers that share a store know each other, and do not start beside one that has other keys."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, Final

import pytest

from apiserver.controllers.replicas import Replica, Replicas, ReplicasDisagree, disagreement
from storage.embedded import EmbeddedStore
from storage.errors import StorageUnavailable

PREFIX: Final = "/registry"
ONE: Final = Replica(
    address="192.0.2.1",
    port=6443,
    issuer="https://a",
    issuers=("https://a",),
    signing_key="k1",
    keys=("k1",),
    root_ca="ca",
    has_tls_files=False,
)
# What another replica has instead, and which flag the message names; none if that is fine.
OTHERS: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "the same": ({}, ""),
    "another address": ({"address": "192.0.2.2", "port": 1}, ""),
    "another service account key": (
        {"signing_key": "k2", "keys": ("k2",)},
        "--service-account-signing-key-file",
    ),
    "a key that the first does not know": (
        {"signing_key": "k2", "keys": ("k2", "k1")},
        "--service-account-key-file",
    ),
    "a key more, to be used later": ({"keys": ("k1", "k2")}, ""),
    "another issuer": ({"issuer": "https://b", "issuers": ("https://b",)}, "--service-account-issuer"),
    "an issuer more": ({"issuers": ("https://a", "https://b")}, ""),
    "a certificate from a file, of the same CA": ({"has_tls_files": True}, ""),
    "a certificate from a file, of another CA": (
        {"has_tls_files": True, "root_ca": "other"},
        "--tls-cert-file",
    ),
    "a generated certificate of a newer CA": ({"root_ca": "other"}, ""),
}


@pytest.mark.parametrize(("changes", "flag"), OTHERS.values(), ids=OTHERS)
def test_which_replicas_may_be_together(changes: dict[str, Any], flag: str) -> None:
    other = replace(ONE, **changes)
    for message in (disagreement(ONE, other), disagreement(other, ONE)):
        assert bool(message) is bool(flag)
        assert flag in message
        assert "\n" not in message


async def test_the_later_one_goes_and_leaves_nothing_behind(store: EmbeddedStore) -> None:
    first = Replicas(store, PREFIX, ONE)
    await first.join()
    second = Replicas(store, PREFIX, replace(ONE, signing_key="k2", keys=("k2",)), gone_within_s=0)
    with pytest.raises(ReplicasDisagree, match=r"192\.0\.2\.1:6443"):
        await second.join()
    assert await first.alive() == [ONE]


async def test_one_that_has_left_is_no_obstacle(store: EmbeddedStore) -> None:
    first = Replicas(store, PREFIX, ONE)
    await first.join()
    await first.leave()
    second = replace(ONE, signing_key="k2", keys=("k2",))
    await Replicas(store, PREFIX, second, gone_within_s=0).join()
    assert await first.alive() == [second]


async def test_a_record_that_changes_is_written_with_the_next_renewal(store: EmbeddedStore) -> None:
    replicas = Replicas(store, PREFIX, ONE)
    await replicas.join()
    changed = replace(ONE, root_ca="renewed")
    replicas.tell(changed)
    await replicas.join()
    assert await replicas.alive() == [changed]
    revision = await store.current_revision()
    replicas.tell(changed)
    await replicas.join()
    assert await store.current_revision() == revision, "to renew a lease is no write"


async def test_records_of_others_that_cannot_be_read_are_passed_over(store: EmbeddedStore) -> None:
    await store.create("/registry/-/replicas/damaged", b'{"address": 1}')
    replicas = Replicas(store, PREFIX, ONE)
    await replicas.join()
    assert await replicas.alive() == [ONE]


class _SilentStore:
    """A store that does not answer at first."""

    def __init__(self, store: EmbeddedStore, silences: int) -> None:
        self._store = store
        self._silences = silences

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def grant_lease(self, ttl_s: int) -> int:
        if self._silences:
            self._silences -= 1
            raise StorageUnavailable("silent")
        return await self._store.grant_lease(ttl_s)


async def test_a_store_that_does_not_answer_is_told_of_once(
    store: EmbeddedStore, caplog: pytest.LogCaptureFixture
) -> None:
    silent: Any = _SilentStore(store, silences=3)
    with caplog.at_level(logging.WARNING):
        await Replicas(silent, PREFIX, ONE).join()
    assert [record.getMessage() for record in caplog.records] == [
        "the record of this server cannot be written yet: silent"
    ]
