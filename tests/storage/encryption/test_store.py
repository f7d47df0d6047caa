"""A store behind encryption: what lies in it, and what cannot be read of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

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
from apiserver.storage.encryption.store import LARGE_BYTES, EncryptedStorage
from apiserver.storage.interface import Condition, Delete, Event, Put, Storage, UnreadableValue
from apiserver.storage.keys import prefix_range
from tests.support.eventually import WITHIN_S, eventually

SECRETS: Final = "/registry/core/secrets/default/"
PLAIN: Final = "/registry/core/configmaps/default/"
OLD: Final = KeysConfiguration("aesgcm", (EncryptionKey("old", b"o" * 32),))
NEW: Final = KeysConfiguration("secretbox", (EncryptionKey("new", b"n" * 32),))


def chains(*providers: Provider) -> Chains:
    rule = ResourceConfiguration((("", "secrets"),), providers)
    return build_chains(EncryptionConfiguration((rule,), ""), {}, lambda *_: None)


class Encrypted:
    """A store, and the same one behind encryption whose providers can be changed."""

    def __init__(self, raw: Storage) -> None:
        self.raw = raw
        self.encryption = Encryption("/registry", chains(OLD))
        self.store = EncryptedStorage(raw, self.encryption)

    def use(self, *providers: Provider) -> None:
        self.encryption.replace(chains(*providers))

    async def stored(self, key: str) -> bytes:
        stored = (await self.raw.get(key)).stored
        assert stored is not None
        return stored.value

    async def read(self, key: str) -> bytes:
        stored = (await self.store.get(key)).stored
        assert stored is not None
        return stored.value


@pytest.fixture
async def encrypted(tmp_path: Path) -> AsyncIterator[Encrypted]:
    raw = await EmbeddedStore.open(tmp_path / "data", durable=False)
    encrypted = Encrypted(raw)
    yield encrypted
    await encrypted.store.close()


async def test_every_way_of_writing_encrypts(encrypted: Encrypted) -> None:
    store = encrypted.store
    a, b = SECRETS + "a", SECRETS + "b"
    revision = await store.create(a, b"one")
    assert (await encrypted.stored(a)).startswith(b"k8s:enc:aesgcm:v1:old:")
    revision = await store.compare_and_put(a, b"two", expected=revision)
    assert (await encrypted.stored(a)).startswith(b"k8s:enc:aesgcm:v1:old:")
    writes = (Put(b, b"three"), Put(PLAIN + "a", b"four"))
    await store.transact((Condition(a, revision),), (*writes, Delete(a)))
    assert (await encrypted.stored(b)).startswith(b"k8s:enc:aesgcm:v1:old:")
    assert await encrypted.stored(PLAIN + "a") == b"four"
    assert await encrypted.read(b) == b"three"
    assert await encrypted.read(PLAIN + "a") == b"four"


async def test_every_way_of_reading_decrypts(encrypted: Encrypted) -> None:
    store = encrypted.store
    values = {SECRETS + "a": b"one", SECRETS + "large": b"x" * (LARGE_BYTES + 1), PLAIN + "a": b"two"}
    watch = store.watch(prefix_range("/registry/"), after=0)
    for key, value in values.items():
        await store.create(key, value)
    page = await store.list(prefix_range("/registry/"))
    assert {item.key: item.value for item in page.items} == values
    seen: dict[str, bytes | None] = {}
    async with asyncio.timeout(WITHIN_S):
        async for batch in watch:
            seen |= {event.key: event.value for event in batch.events}
            if len(seen) == len(values):
                break
    await watch.close()
    assert seen == values


async def test_a_value_that_somebody_moved_is_not_read(encrypted: Encrypted) -> None:
    """Its place is authenticated: nobody gets at a Secret by writing its value to another key."""
    await encrypted.store.create(SECRETS + "a", b"one")
    await encrypted.raw.create(SECRETS + "b", await encrypted.stored(SECRETS + "a"))
    assert await encrypted.read(SECRETS + "a") == b"one"
    moved = await encrypted.read(SECRETS + "b")
    assert isinstance(moved, UnreadableValue)
    assert moved.cause == "cipher: message authentication failed"


async def test_one_unreadable_value_harms_no_other(encrypted: Encrypted) -> None:
    store = encrypted.store
    await store.create(SECRETS + "a", b"one")
    encrypted.use(NEW)
    await store.create(SECRETS + "b", b"two")
    a, b = (await store.list(prefix_range(SECRETS))).items
    assert isinstance(a.value, UnreadableValue)
    assert (a.value.cause, a.value.is_temporary) == ("no matching prefix found", False)
    assert b.value == b"two"
    assert store.unreadable == {SECRETS + "a"}
    watch = store.watch(prefix_range(SECRETS), after=0)
    seen: list[Event] = []
    async with asyncio.timeout(WITHIN_S):
        async for batch in watch:
            seen += batch.events
            if len(seen) == 2:
                break
    await watch.close()
    assert [type(event.value) for event in seen] == [UnreadableValue, bytes]


async def test_a_key_that_comes_back_is_noticed(encrypted: Encrypted) -> None:
    store = encrypted.store
    await store.create(SECRETS + "a", b"one")
    encrypted.use(NEW)
    await encrypted.read(SECRETS + "a")
    assert not await store.any_readable()
    encrypted.use(NEW, OLD)
    assert await store.any_readable()
    assert await encrypted.read(SECRETS + "a") == b"one"
    assert store.unreadable == set()


async def test_what_is_deleted_is_not_waited_for(encrypted: Encrypted) -> None:
    store = encrypted.store
    revision = await store.create(SECRETS + "a", b"one")
    encrypted.use(NEW)
    await encrypted.read(SECRETS + "a")
    await store.compare_and_delete(SECRETS + "a", expected=revision)
    assert not await store.any_readable()
    assert store.unreadable == set()


async def test_stale_is_what_another_key_wrote(encrypted: Encrypted) -> None:
    store, key = encrypted.store, SECRETS + "a"
    revision = await store.create(key, b"one")
    assert not await store.is_stale(key)
    encrypted.use(NEW, OLD)
    assert await store.is_stale(key)
    revision = await store.compare_and_put(key, b"one", expected=revision)
    assert not await store.is_stale(key)
    encrypted.use(IdentityConfiguration(), NEW)
    assert await store.is_stale(key)
    encrypted.use(OLD)
    assert await store.is_stale(key), "who has what cannot be read any more should write it"
    for other in (SECRETS + "absent", PLAIN + "a"):
        assert not await store.is_stale(other)


class SlowPlugin:
    """A transformer whose keys come when they are let go: a value names its key."""

    def __init__(self) -> None:
        self.keys: set[bytes] = set()
        self.asked_for: list[bytes] = []
        self.may_answer = asyncio.Event()

    def encrypt(self, value: bytes, context: bytes) -> bytes:
        return value

    def decrypt(self, data: bytes, context: bytes) -> DecryptedValue:
        key, _, value = data.partition(b"=")
        if key not in self.keys:
            raise KeyNeeded("slow", partial(self._fetch, key))
        return DecryptedValue(value, False)

    async def _fetch(self, key: bytes) -> None:
        self.asked_for.append(key)
        await self.may_answer.wait()
        self.keys.add(key)


async def test_a_plugin_that_hangs_does_not_hold_up_what_else_happens(encrypted: Encrypted) -> None:
    """Whatever happens in the store comes by one watch."""
    plugin, is_late_key_here = SlowPlugin(), asyncio.Event()
    chain = TransformerChain([PrefixedTransformer(b"k8s:enc:kms:v2:slow:", plugin)], "", lambda *_: None)
    encryption = Encryption("/registry", {("", "secrets"): chain})
    store = EncryptedStorage(encrypted.raw, encryption, is_late_key_here.set, watch_waits_for_key_s=0.05)
    watch = store.watch(prefix_range("/registry/"), after=0)
    batches = aiter(watch)
    seen: dict[str, bytes | None] = {}

    async def see(key: str) -> None:
        while key not in seen:
            batch = await asyncio.wait_for(anext(batches), WITHIN_S)
            seen.update((event.key, event.value) for event in batch.events)

    for number in range(100):
        await encrypted.raw.create(f"{SECRETS}{number}", b"k8s:enc:kms:v2:slow:key%d=one" % number)
        if not number:
            await see(f"{SECRETS}0")
            assert isinstance(seen[f"{SECRETS}0"], UnreadableValue)
    await encrypted.raw.create(PLAIN + "a", b"two")
    await see(PLAIN + "a")
    assert plugin.asked_for == [b"key0"], "nobody waits for the others"
    assert seen[PLAIN + "a"] == b"two"
    values = [seen[f"{SECRETS}{number}"] for number in range(100)]
    assert all(isinstance(value, UnreadableValue) and value.is_temporary for value in values)
    assert not is_late_key_here.is_set()
    plugin.may_answer.set()
    await asyncio.wait_for(is_late_key_here.wait(), WITHIN_S)
    assert await store.any_readable(), "they are read again"
    await encrypted.raw.create(SECRETS + "b", b"k8s:enc:kms:v2:slow:other=three")
    await see(SECRETS + "b")
    assert seen[SECRETS + "b"] == b"three", "watches wait again for its keys"
    await watch.close()
    store.stop()


class Watched:
    """A store whose values need keys of a slow plugin, and what a watch gave of them meanwhile."""

    def __init__(self, raw: Storage) -> None:
        self.raw = raw
        self.plugin = SlowPlugin()
        chain = TransformerChain(
            [PrefixedTransformer(b"k8s:enc:kms:v2:slow:", self.plugin)], "", lambda *_: None
        )
        encryption = Encryption("/registry", {("", "secrets"): chain})
        self.store = EncryptedStorage(raw, encryption, watch_waits_for_key_s=0.01)

    async def give(self, count: int) -> None:
        """Have a watch bring values while their keys do not come; they come from then on."""
        for number in range(count):
            await self.raw.create(f"{SECRETS}{number}", b"k8s:enc:kms:v2:slow:key%d=one" % number)
        given: list[Event] = []
        watch = self.store.watch(prefix_range("/registry/"), after=0)
        async with asyncio.timeout(WITHIN_S):
            async for batch in watch:
                given += batch.events
                if len(given) == count:
                    break
        await watch.close()
        assert all(isinstance(each.value, UnreadableValue) for each in given)
        self.plugin.may_answer.set()


async def test_what_a_watch_gave_as_unreadable_is_read_again_whoever_reads_it_meanwhile(
    encrypted: Encrypted,
) -> None:
    """Who has it from the watch has it as it was, whatever others have read in the store by then."""
    watched = Watched(encrypted.raw)
    store = watched.store
    await watched.give(2)
    read = (await store.get(f"{SECRETS}0")).stored
    assert read is not None
    assert read.value == b"one"
    assert [each.value for each in (await store.list(prefix_range(SECRETS))).items] == [b"one", b"one"]
    assert await store.any_readable()
    assert not await store.any_readable(), "that is told once"
    store.stop()


async def test_all_keys_are_there_before_all_is_read_again(encrypted: Encrypted) -> None:
    """While all is read nothing is watched: it must not wait for one key after the other."""
    watched = Watched(encrypted.raw)
    await watched.give(3)
    assert await watched.store.any_readable()
    assert watched.plugin.keys == {b"key0", b"key1", b"key2"}
    watched.store.stop()


async def test_what_no_provider_was_configured_for_is_noticed(encrypted: Encrypted) -> None:
    """A configuration that misses a resource is mended while the server runs."""
    store, raw = encrypted.store, encrypted.raw
    await store.create(SECRETS + "a", b"one")
    await store.create(SECRETS + "b", b"two")
    encrypted.encryption.replace({})
    watch = store.watch(prefix_range(SECRETS), after=0)
    batches = aiter(watch)
    given = 0
    while given < 2:
        given += len((await asyncio.wait_for(anext(batches), WITHIN_S)).events)
    assert store.unreadable == {SECRETS + "a", SECRETS + "b"}
    stored = (await raw.get(SECRETS + "b")).stored
    assert stored is not None
    await raw.compare_and_put(SECRETS + "b", b"plain", expected=stored.mod_revision)
    await asyncio.wait_for(anext(batches), WITHIN_S)
    assert store.unreadable == {SECRETS + "a"}, "what was written again is readable"
    await watch.close()
    assert not await store.any_readable()
    encrypted.use(NEW, OLD)
    assert await store.any_readable()
    encrypted.encryption.replace({})
    for read in (store.get(SECRETS + "a"), store.list(prefix_range(SECRETS))):
        store.unreadable.clear()
        await read
        assert store.unreadable == {SECRETS + "a"}


async def test_what_needs_no_provider_any_more_is_noticed(encrypted: Encrypted) -> None:
    await encrypted.raw.create(SECRETS + "a", b"one")
    assert isinstance(await encrypted.read(SECRETS + "a"), UnreadableValue)
    encrypted.encryption.replace({})
    assert await encrypted.store.any_readable()
    assert await encrypted.read(SECRETS + "a") == b"one"


async def test_stale_is_what_no_provider_is_configured_for(encrypted: Encrypted) -> None:
    """Who has the value, from the cache, saves it by writing it: else it is lost with the next start."""
    await encrypted.store.create(SECRETS + "a", b"one")
    encrypted.encryption.replace({})
    assert await encrypted.store.is_stale(SECRETS + "a")


class LostPlugin(SlowPlugin):
    """Answers, late, that there is no such key."""

    def decrypt(self, data: bytes, context: bytes) -> DecryptedValue:
        super().decrypt(data, context)
        raise Undecryptable("the key is lost")


async def test_a_read_that_began_before_a_reload_ends_by_the_new_configuration(encrypted: Encrypted) -> None:
    """Nobody would try the value again: the reload was told before it was found to be unreadable."""
    key, stored = SECRETS + "a", b"k8s:enc:kms:v2:slow:key=one"
    await encrypted.raw.create(key, stored)
    old, new = LostPlugin(), SlowPlugin()
    new.keys.add(b"key")

    def chains_of(plugin: SlowPlugin) -> Chains:
        return {
            ("", "secrets"): TransformerChain(
                [PrefixedTransformer(b"k8s:enc:kms:v2:slow:", plugin)], "", lambda *_: None
            )
        }

    cases: list[tuple[Chains, bytes]] = [(chains_of(new), b"one"), ({}, b"")]
    for reloaded, value in cases:
        old.keys.clear()
        old.may_answer.clear()
        old.asked_for.clear()
        encryption = Encryption("/registry", chains_of(old))
        store = EncryptedStorage(encrypted.raw, encryption)
        reading = asyncio.create_task(store.get(key))
        await eventually(lambda: old.asked_for)
        encryption.replace(reloaded)
        assert not await store.any_readable()
        old.may_answer.set()
        found = (await asyncio.wait_for(reading, WITHIN_S)).stored
        assert found is not None
        assert found.value == value
        store.stop()
