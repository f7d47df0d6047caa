"""Copies between real stores: what arrives, what clients of the source see, and how a copy continues."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest

from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.embedded import snapshot as embedded_snapshot
from apiserver.storage.embedded.source import EmbeddedSource
from apiserver.storage.errors import DataDirectoryError, RevisionCompacted, RevisionOutOfReach
from apiserver.storage.etcd import EtcdClient, EtcdStore
from apiserver.storage.etcd import store as etcd_store
from apiserver.storage.interface import VALUE_BYTES_MAX, Delete, Put, ReadAt, Storage
from apiserver.storage.keys import prefix_range
from apiserver.storage.prefix_owner import marker_key
from apiserver.storage.store_copy import (
    PAGE_KEYS,
    CopyError,
    CopyPlan,
    CopyProgress,
    CopyResult,
    CopyTarget,
    Translated,
    copy_store,
)
from tests.support.etcd_process import EtcdProcess
from tests.support.etcd_stores import binary

ALL: Final = prefix_range("/registry/")
PODS: Final = "/registry/core/pods/ns/"
# More than two pages.
MANY: Final = 2 * PAGE_KEYS + 10
PLAN: Final = CopyPlan("the source", "/registry", "/registry")


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdProcess]:
    process = EtcdProcess(binary(), tmp_path_factory.mktemp("etcd")).start()
    yield process
    process.kill()


@pytest.fixture
async def in_etcd(etcd: EtcdProcess) -> AsyncIterator[EtcdStore]:
    """A store on etcd without keys."""
    store = EtcdStore(EtcdClient([etcd.url]), prefix="/registry")
    while items := (await store.list(ALL, limit=100)).items:
        await store.transact([], [Delete(each.key) for each in items])
    yield store
    await store.close()


async def fill(store: Storage, count: int = MANY) -> dict[str, bytes]:
    """Write keys, some of them twice; returns what the store has."""
    values = {f"{PODS}{number:05}": b"value %d" % number for number in range(count)}
    values["/registry/-/claims/ip"] = b"claim"
    values[f"{PODS}large"] = b"x" * (VALUE_BYTES_MAX - 1_024)  # etcd counts the rest of the request, too
    for key, value in values.items():
        await store.create(key, b"before" if key.endswith("00003") else value)
    read = await store.get(f"{PODS}00003")
    assert read.stored is not None
    await store.compare_and_put(read.stored.key, values[read.stored.key], expected=read.stored.mod_revision)
    return values


async def content(store: Storage) -> dict[str, bytes]:
    """What a store has, without the key that only etcd has."""
    items = (await store.list(ALL)).items
    return {each.key: each.value for each in items if each.key != "/registry/-/etcd/fence"}


async def copied(source: EmbeddedSource | EtcdStore, target: CopyTarget, plan: CopyPlan = PLAN) -> CopyResult:
    return await copy_store(source, target, plan, lambda _: None)


async def embedded_source(directory: Path, count: int = MANY) -> tuple[dict[str, bytes], int]:
    """Make an embedded store. Returns its content and its revision."""
    store = await EmbeddedStore.open(directory, durable=False)
    values = await fill(store, count)
    revision = await store.current_revision()
    await store.close()
    return values, revision


async def assert_rises(target: Storage, revision: int) -> None:
    """Every key has a revision that no client of the source has seen, and older ones are gone."""
    page = await target.list(ALL)
    assert min(each.mod_revision for each in page.items if "/-/" not in each.key) > revision
    for old in (1, revision // 2, revision):
        with pytest.raises(RevisionCompacted):
            await target.get(f"{PODS}00001", ReadAt.exactly(old))
        watch = target.watch(ALL, after=old)
        with pytest.raises(RevisionCompacted):
            async for _ in watch:
                pass
        await watch.close()
    # A client that lists now can continue from there.
    watch = target.watch(ALL, after=page.revision)
    created = await target.create(f"{PODS}later", b"")
    async for batch in watch:
        if batch.events:
            assert [(each.key, each.mod_revision) for each in batch.events] == [(f"{PODS}later", created)]
            break
    await watch.close()


@pytest.mark.etcd
async def test_from_embedded_to_etcd_and_back(tmp_path: Path, in_etcd: EtcdStore) -> None:
    values, revision = await embedded_source(tmp_path / "one")
    source = EmbeddedSource.of_directory(tmp_path / "one")
    to_etcd = await copied(source, in_etcd)
    await source.close()
    assert await content(in_etcd) == values
    assert (to_etcd.keys, to_etcd.source_revision) == (len(values), revision)
    await assert_rises(in_etcd, revision)
    await in_etcd.compare_and_delete(
        f"{PODS}later",
        expected=(await in_etcd.get(f"{PODS}later")).stored.mod_revision,  # type: ignore[union-attr]
    )

    target = await EmbeddedStore.open(tmp_path / "two", durable=False)
    back = await copied(in_etcd, target)
    assert await content(target) == values
    assert back.sha256 == to_etcd.sha256
    assert back.revision > back.source_revision >= to_etcd.revision
    await assert_rises(target, back.source_revision)
    await target.close()


@pytest.mark.etcd
async def test_etcds_revision_is_raised(tmp_path: Path, in_etcd: EtcdStore) -> None:
    store = await EmbeddedStore.open(tmp_path, durable=False)
    await store.create(f"{PODS}a", b"")
    revision = await store.raise_revision(await in_etcd.current_revision() + 5_000)
    await store.close()
    seen: list[CopyProgress] = []
    source = EmbeddedSource.of_directory(tmp_path)
    await copy_store(source, in_etcd, PLAN, seen.append)
    await source.close()
    assert seen[0].phase == "raising"
    assert seen[0].done >= seen[0].total == revision
    assert (await in_etcd.get(f"{PODS}a")).stored.mod_revision > revision  # type: ignore[union-attr]


@pytest.mark.etcd
async def test_a_revision_out_of_reach_names_the_way(tmp_path: Path, in_etcd: EtcdStore) -> None:
    store = await EmbeddedStore.open(tmp_path, durable=False)
    far = await store.raise_revision(await in_etcd.current_revision() + etcd_store.RAISE_WRITES_MAX + 1_000)
    await store.close()
    source = EmbeddedSource.of_directory(tmp_path)
    with pytest.raises(
        RevisionOutOfReach, match=rf"begin at revision {far}: .*--bump-revision \d+ --mark-compacted"
    ):
        await copied(source, in_etcd)
    # It was found before anything was deleted or written.
    assert (await in_etcd.get(marker_key("/registry"))).stored is None
    await source.close()


async def test_what_the_store_of_a_snapshot_has_used_since_is_gone(tmp_path: Path) -> None:
    await embedded_source(tmp_path / "one", 5)
    embedded_snapshot.save(tmp_path / "one", tmp_path / "saved.db")
    store = await EmbeddedStore.open(tmp_path / "one", durable=False)
    for number in range(100):
        used = await store.create(f"{PODS}since-{number}", b"")
    await store.close()
    target = await EmbeddedStore.open(tmp_path / "two", durable=False)
    source = EmbeddedSource.of_snapshot(tmp_path / "saved.db")
    await copied(source, target, PLAN._replace(bump_revision=1_000))
    await assert_rises(target, used)
    await source.close()
    await target.close()


@pytest.mark.etcd
async def test_what_a_running_source_has_used_during_the_copy_is_gone(
    tmp_path: Path, in_etcd: EtcdStore
) -> None:
    await fill(in_etcd, 5)
    target = await EmbeddedStore.open(tmp_path / "two", durable=False)
    used = 0

    async def write() -> None:
        nonlocal used
        for _ in range(50):
            used = await in_etcd.transact([], [Put(f"{PODS}00001", b"later")])

    running = PLAN._replace(allows_running_source=True)
    await copied(in_etcd, after_call(target, "compare_and_put", write), running)
    watch = target.watch(ALL, after=used)
    with pytest.raises(RevisionCompacted):
        async for _ in watch:
            pass
    await watch.close()
    await target.close()


async def test_from_a_snapshot_to_another_prefix(tmp_path: Path) -> None:
    values, revision = await embedded_source(tmp_path / "one", 5)
    embedded_snapshot.save(tmp_path / "one", tmp_path / "saved.db")
    source = EmbeddedSource.of_snapshot(tmp_path / "saved.db")
    target = await EmbeddedStore.open(tmp_path / "two", durable=False)
    result = await copied(source, target, PLAN._replace(target_prefix="/other"))
    await source.close()
    found = {each.key: each.value for each in (await target.list(prefix_range("/other/"))).items}
    assert found == {key.replace("/registry", "/other", 1): value for key, value in values.items()}
    assert result.source_revision == revision
    await target.close()


LEASED: Final = {"lasting": 3_600, "short": 100}


@pytest.mark.etcd
async def test_leases_keep_the_remaining_time(tmp_path: Path, in_etcd: EtcdStore) -> None:
    """Of the embedded store and of etcd; keys whose lease has expired are not copied."""
    now = 1_000_000.0
    store = await EmbeddedStore.open(tmp_path / "one", durable=False, wall=lambda: now)
    leases = {name: await store.grant_lease(ttl_s) for name, ttl_s in LEASED.items()}
    for name, lease in leases.items():
        await store.transact([], [Put(f"{PODS}{name}-{n}", b"", lease) for n in range(2)])
    await store.close()

    source = EmbeddedSource.of_directory(tmp_path / "one", wall=lambda: now + 600)
    result = await copied(source, in_etcd)
    await source.close()
    assert (result.leased_keys, result.expired) == (2, 2)
    items = (await in_etcd.list(prefix_range(PODS))).items
    assert [each.key for each in items] == [f"{PODS}lasting-0", f"{PODS}lasting-1"]
    (lease,) = {each.lease for each in items}
    assert 2_950 < await in_etcd.lease_ttl_s(lease) <= 3_000

    target = await EmbeddedStore.open(tmp_path / "two", durable=False)
    await copied(in_etcd, target)
    await target.close()
    again = EmbeddedSource.of_directory(tmp_path / "two")
    page = await again.list(prefix_range(PODS))
    assert len(page.items) == 2
    assert 2_900 < await again.lease_ttl_s(page.items[0].lease) <= 3_000
    await again.close()


class Stop(Exception):
    """Ends a copy."""


def stopping_after(pages: int) -> Callable[[CopyProgress], None]:
    """Ends a copy after some pages."""
    seen = 0

    def report(progress: CopyProgress) -> None:
        nonlocal seen
        seen += progress.phase == "copying"
        if seen == pages:
            raise Stop

    return report


def stopping_in(phase: str) -> Callable[[CopyProgress], None]:
    """Ends a copy at the first progress of a phase."""

    def report(progress: CopyProgress) -> None:
        if progress.phase == phase:
            raise Stop

    return report


async def interrupted(source: Path, target: EmbeddedStore) -> None:
    opened = EmbeddedSource.of_directory(source)
    with pytest.raises(Stop):
        await copy_store(opened, target, PLAN, stopping_after(1))
    await opened.close()


async def test_an_interrupted_copy_continues(tmp_path: Path) -> None:
    values, _ = await embedded_source(tmp_path / "one")
    target = await EmbeddedStore.open(tmp_path / "two", durable=False)
    await interrupted(tmp_path / "one", target)
    assert (await target.get(marker_key("/registry"))).stored is not None
    first = (await target.list(prefix_range(PODS), limit=1)).items[0]
    source = EmbeddedSource.of_directory(tmp_path / "one")
    progress: list[CopyProgress] = []
    result = await copy_store(source, target, PLAN, progress.append)
    assert result.is_continued
    assert await content(target) == values
    # What was there is not written again.
    assert (await target.get(first.key)).stored == first
    copying = [each for each in progress if each.phase == "copying"]
    assert copying[0].done == 2 * PAGE_KEYS
    await source.close()
    await target.close()


async def test_force_begins_again(tmp_path: Path) -> None:
    """Also if the marker is of the same copy."""
    values, _ = await embedded_source(tmp_path / "one")
    target = await EmbeddedStore.open(tmp_path / "two", durable=False)
    await interrupted(tmp_path / "one", target)
    await target.create(f"{PODS}foreign", b"")
    source = EmbeddedSource.of_directory(tmp_path / "one")
    assert not (await copied(source, target, PLAN._replace(replaces=True))).is_continued
    assert await content(target) == values
    await source.close()
    await target.close()


async def test_an_interrupted_deletion_is_completed(tmp_path: Path) -> None:
    values, _ = await embedded_source(tmp_path / "one", 5)
    target = await EmbeddedStore.open(tmp_path / "two", durable=False)
    lease = await target.grant_lease(3_600)
    for start in range(0, MANY, 100):
        await target.transact(
            [], [Put(f"/registry/events/{n}", b"", lease * (n % 2)) for n in range(start, start + 100)]
        )
    source = EmbeddedSource.of_directory(tmp_path / "one")
    with pytest.raises(Stop):
        await copy_store(source, target, PLAN._replace(replaces=True), stopping_in("deleting"))
    assert len(await content(target)) > PAGE_KEYS
    await copied(source, target)
    assert await content(target) == values
    await source.close()
    await target.close()


@pytest.mark.parametrize("is_leased", [False, True], ids=["a key", "a key with a lease"])
async def test_what_only_the_copy_has_is_a_difference(tmp_path: Path, is_leased: bool) -> None:
    """The next copy begins again, without --force."""
    values, _ = await embedded_source(tmp_path / "one", 5)
    target = await EmbeddedStore.open(tmp_path / "two", durable=False)
    source = EmbeddedSource.of_directory(tmp_path / "one")
    with pytest.raises(Stop):
        await copy_store(source, target, PLAN, stopping_after(1))
    lease = await target.grant_lease(3_600) if is_leased else 0
    await target.create(f"{PODS}foreign", b"", lease=lease)
    with pytest.raises(CopyError, match=r"the copy differs from the source: .* run the command again"):
        await copied(source, target)
    result = await copied(source, target)
    assert (result.is_continued, result.leased_keys) == (False, 0)
    assert await content(target) == values
    await source.close()
    await target.close()


@pytest.mark.etcd
async def test_a_copy_continues_while_others_use_the_etcd(tmp_path: Path, in_etcd: EtcdStore) -> None:
    values = await fill(in_etcd)
    target = await EmbeddedStore.open(tmp_path / "two", durable=False)
    with pytest.raises(Stop):
        await copy_store(in_etcd, target, PLAN, stopping_after(1))
    await in_etcd.transact([], [Put("/other/key", b"")])
    result = await copied(in_etcd, target)
    assert result.is_continued
    assert await content(target) == values
    # Clients have seen the revisions of others' writes, too.
    assert result.revision > await in_etcd.current_revision() > result.source_revision
    await target.close()


class Interrupted:
    """A store where something happens once, right after the first call of a method."""

    def __init__(self, store: Storage, method: str, action: Callable[[], Awaitable[object]]) -> None:
        self._store, self._method, self._action = store, method, action

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name != self._method:
            return found

        async def call(*arguments: Any, **options: Any) -> Any:
            self._method = ""
            result = await found(*arguments, **options)
            await self._action()
            return result

        return call


def after_call(store: EmbeddedStore, method: str, action: Callable[[], Awaitable[object]]) -> CopyTarget:
    target: Any = Interrupted(store, method, action)
    return cast(CopyTarget, target)


WRITES: Final = {
    "a new key": (Put(f"{PODS}new", b""), "the source changed"),
    "a deletion": (Delete(f"{PODS}00001"), "the source changed"),
    "a server": (Put("/registry/-/replicas/1", b""), "a server uses the store in --from"),
}


@pytest.mark.etcd
@pytest.mark.parametrize(("write", "text"), WRITES.values(), ids=WRITES)
async def test_a_writer_of_the_source_is_noticed(
    tmp_path: Path, in_etcd: EtcdStore, write: Put | Delete, text: str
) -> None:
    await fill(in_etcd, 5)
    target = await EmbeddedStore.open(tmp_path / "two", durable=False)

    async def change() -> None:
        await in_etcd.transact([], [write])

    with pytest.raises(CopyError, match=text):
        await copied(in_etcd, after_call(target, "compare_and_put", change))
    assert (await target.get(marker_key("/registry"))).stored is not None
    # The copy of a running source has the state of one moment.
    await in_etcd.transact([], [Put(f"{PODS}00002", b"changed")])
    running = PLAN._replace(allows_running_source=True)
    await copied(in_etcd, after_call(target, "compare_and_put", change), running)
    assert (await content(target))[f"{PODS}00002"] == b"changed"
    await target.close()


@pytest.mark.parametrize("method", ["create", "compare_and_put"])
async def test_a_server_that_starts_on_the_target_is_noticed(tmp_path: Path, method: str) -> None:
    """Before the marker is written, and after."""
    await embedded_source(tmp_path / "one", 5)
    target = await EmbeddedStore.open(tmp_path / "two", durable=False)
    source = EmbeddedSource.of_directory(tmp_path / "one")

    async def start() -> None:
        await target.transact([], [Put("/registry/-/replicas/1", b"")])

    with pytest.raises(CopyError, match="a server uses the store in --to"):
        await copied(source, after_call(target, method, start))
    has_marker = (await target.get(marker_key("/registry"))).stored is not None
    assert has_marker is (method == "compare_and_put")
    await source.close()
    await target.close()


async def test_a_compaction_of_the_target_is_named(tmp_path: Path) -> None:
    await embedded_source(tmp_path / "one", 5)
    target = await EmbeddedStore.open(tmp_path / "two", durable=False)
    source = EmbeddedSource.of_directory(tmp_path / "one")

    async def compact() -> None:
        revision = await target.transact([], [Put("/other/key", b"")])
        await target.compact(revision)

    with pytest.raises(CopyError, match="the target compacted revision"):
        await copied(source, after_call(target, "current_revision", compact))
    assert (await copied(source, target)).is_continued
    await source.close()
    await target.close()


async def test_a_copy_begins_again_when_the_source_has_changed(tmp_path: Path) -> None:
    await embedded_source(tmp_path / "one")
    target = await EmbeddedStore.open(tmp_path / "two", durable=False)
    await interrupted(tmp_path / "one", target)
    store = await EmbeddedStore.open(tmp_path / "one", durable=False)
    found = (await store.get(f"{PODS}00001")).stored
    assert found is not None
    await store.compare_and_delete(found.key, expected=found.mod_revision)
    values = await content(store)
    await store.close()
    source = EmbeddedSource.of_directory(tmp_path / "one")
    assert not (await copied(source, target)).is_continued
    await source.close()
    assert await content(target) == values
    await target.close()


async def test_an_unfinished_copy_of_another_source_is_kept(tmp_path: Path) -> None:
    values, _ = await embedded_source(tmp_path / "one")
    target = await EmbeddedStore.open(tmp_path / "two", durable=False)
    await interrupted(tmp_path / "one", target)
    source = EmbeddedSource.of_directory(tmp_path / "one")
    other = PLAN._replace(source_name="another", bump_revision=1_000_000)
    before = await target.current_revision()
    with pytest.raises(CopyError, match="unfinished copy of the source"):
        await copied(source, target, other)
    assert await target.current_revision() == before
    await copied(source, target, other._replace(replaces=True))
    assert await content(target) == values
    await source.close()
    await target.close()


async def test_a_target_that_is_not_empty_is_refused_or_replaced(tmp_path: Path) -> None:
    values, _ = await embedded_source(tmp_path / "one", 5)
    target = await EmbeddedStore.open(tmp_path / "two", durable=False)
    await target.transact([], [Put(f"{PODS}x{number}", b"old") for number in range(100)])
    await target.transact([], [Put(f"{PODS}y{number}", b"old") for number in range(100)])
    source = EmbeddedSource.of_directory(tmp_path / "one")
    before, revision = await content(target), await target.current_revision()
    with pytest.raises(CopyError, match=f"it has {PODS}x0; use --force to replace"):
        await copied(source, target, PLAN._replace(bump_revision=1_000_000))
    assert (await content(target), await target.current_revision()) == (before, revision)
    await copied(source, target, PLAN._replace(replaces=True))
    assert await content(target) == values
    await source.close()
    await target.close()


@pytest.mark.parametrize(
    "key",
    [
        "/registry/inner/-/identity",
        "/registry/a/b/-/replicas/1",
        "/registry/a/masterleases/10.0.0.1",
        "/registry/a/masterleases/fd00::1",
        "/registry/k8s/ranges/serviceips",
        "/registry/k8s/ranges/servicenodeports",
    ],
)
async def test_a_prefix_of_another_server_inside_is_not_replaced(tmp_path: Path, key: str) -> None:
    await embedded_source(tmp_path / "one", 5)
    target = await EmbeddedStore.open(tmp_path / "two", durable=False)
    await fill(target)
    await target.create(key, b"")
    before = await content(target)
    source = EmbeddedSource.of_directory(tmp_path / "one")
    with pytest.raises(CopyError, match=f"{key} belongs to another server with a prefix inside /registry/"):
        await copied(source, target, PLAN._replace(replaces=True))
    assert await content(target) == before
    # The identity of a former server of the target itself is replaced.
    found = (await target.get(key)).stored
    assert found is not None
    await target.compare_and_delete(key, expected=found.mod_revision)
    await target.create("/registry/-/identity", b"")
    await copied(source, target, PLAN._replace(replaces=True))
    assert "/registry/-/identity" not in await content(target)
    await source.close()
    await target.close()


SERVERS: Final = {
    "one of this program inside": ("/registry/b/-/identity", "/registry/b/-/identity belongs to another"),
    "a kube-apiserver inside": (
        "/registry/k8s/ranges/serviceips",
        "/registry/k8s/ranges/serviceips belongs to another server",
    ),
    "a kube-apiserver": (
        "/registry/namespaces/default",
        "/registry/namespaces/default, which a kube-apiserver",
    ),
}


@pytest.mark.parametrize(("key", "text"), SERVERS.values(), ids=SERVERS)
async def test_the_keys_of_a_server_that_ran_during_the_copy_are_kept(
    tmp_path: Path, key: str, text: str
) -> None:
    """It has stopped when the copy starts over."""
    values, _ = await embedded_source(tmp_path / "one", 5)
    target = await EmbeddedStore.open(tmp_path / "two", durable=False)
    source = EmbeddedSource.of_directory(tmp_path / "one")

    async def start() -> None:
        await target.transact([], [Put(key, b"")])

    with pytest.raises(CopyError, match="run the command again to start over"):
        await copied(source, after_call(target, "compare_and_put", start))
    before = await content(target)
    for _ in range(2):
        with pytest.raises(CopyError, match=text):
            await copied(source, target)
        assert await content(target) == before
    await target.transact([], [Delete(key)])
    await copied(source, target)
    assert await content(target) == values
    await source.close()
    await target.close()


STARTS: Final = {
    "with a marker": (False, "/registry/-/replicas/1", "a server uses the store in --to"),
    "with a marker, inside": (
        False,
        "/registry/b/-/identity",
        "/registry/b/-/identity belongs to another server",
    ),
    "with --force": (True, "/registry/masterleases/10.0.0.1", "a kube-apiserver uses the store in --to"),
    "with --force, inside": (
        True,
        "/registry/b/-/identity",
        "/registry/b/-/identity belongs to another server",
    ),
}


@pytest.mark.parametrize(("replaces", "key", "text"), STARTS.values(), ids=STARTS)
async def test_a_server_that_starts_while_the_revision_is_raised_loses_no_key(
    tmp_path: Path, replaces: bool, key: str, text: str
) -> None:
    await embedded_source(tmp_path / "one", 5)
    target = await EmbeddedStore.open(tmp_path / "two", durable=False)
    source = EmbeddedSource.of_directory(tmp_path / "one")
    if replaces:
        await fill(target, 5)
    else:  # A copy that has to start over.
        await target.create(f"{PODS}foreign", b"")
        with pytest.raises(Stop):
            await copy_store(source, target, PLAN._replace(replaces=True), stopping_in("deleting"))
    before = await content(target)

    async def start() -> None:
        await target.transact([], [Put(key, b"")])

    with pytest.raises(CopyError, match=text):
        await copied(source, after_call(target, "raise_revision", start), PLAN._replace(replaces=replaces))
    assert await content(target) == {**before, key: b""}
    await source.close()
    await target.close()


async def test_a_namespace_with_the_name_of_a_folder_is_no_other_server(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path / "one", durable=False)
    for name in ("settings", "db", "1", "a.b", "1.2"):
        await store.create(f"/registry/core/configmaps/masterleases/{name}", b"")
    await store.close()
    target = await EmbeddedStore.open(tmp_path / "two", durable=False)
    source = EmbeddedSource.of_directory(tmp_path / "one")
    for replaces in (False, True):
        await copied(source, target, PLAN._replace(replaces=replaces))
    await source.close()
    await target.close()


async def test_a_lease_that_expires_during_the_copy_takes_only_its_keys(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path / "one", durable=False)
    leases = [await store.grant_lease(3_600) for _ in range(2)]
    for number in range(300):
        lease = [*leases, 0][number % 3]
        await store.transact([], [Put(f"{PODS}{number:03}", b"", lease)])
    await store.close()
    target = await EmbeddedStore.open(tmp_path / "two", durable=False)
    source = EmbeddedSource.of_directory(tmp_path / "one")

    async def expire() -> None:
        await target.revoke_lease((await target.list(prefix_range(PODS))).items[0].lease)

    # The first transaction of all is that of a page.
    result = await copied(source, after_call(target, "transact", expire))
    left = {int(each.key.removeprefix(PODS)) for each in (await target.list(prefix_range(PODS))).items}
    assert left == {number for number in range(300) if number % 3}
    assert result.expired == 100
    await source.close()
    await target.close()


async def test_what_is_written_while_the_revision_is_raised_is_kept(tmp_path: Path) -> None:
    """Between the look for keys and the copy marker."""
    await embedded_source(tmp_path / "one", 5)
    target = await EmbeddedStore.open(tmp_path / "two", durable=False)
    source = EmbeddedSource.of_directory(tmp_path / "one")

    async def write() -> None:
        await target.create(f"{PODS}foreign", b"")

    with pytest.raises(CopyError, match=f"the target is not empty: it has {PODS}foreign"):
        await copied(source, after_call(target, "create", write))
    assert await content(target) == {f"{PODS}foreign": b""}
    await source.close()
    await target.close()


RECORDS: Final = {
    "a replica's": ("/registry/-/replicas/1", "a server uses the store in"),
    "a kube-apiserver's": ("/registry/masterleases/10.0.0.1", "a kube-apiserver uses the store in"),
}


@pytest.mark.parametrize("side", ["--from", "--to"])
@pytest.mark.parametrize(("key", "text"), RECORDS.values(), ids=RECORDS)
async def test_no_copy_beside_a_server(tmp_path: Path, key: str, text: str, side: str) -> None:
    await embedded_source(tmp_path / "one", 5)
    directory = tmp_path / ("one" if side == "--from" else "two")
    store = await EmbeddedStore.open(directory, durable=False)
    await store.create(key, b"")
    await store.close()
    source = EmbeddedSource.of_directory(tmp_path / "one")
    target = await EmbeddedStore.open(tmp_path / "two", durable=False)
    with pytest.raises(CopyError, match=f"^{text} {side}"):
        await copied(source, target)
    running = PLAN._replace(allows_running_source=True)
    if side == "--from":
        await copied(source, target, running)
        if "replicas" in key:
            assert key not in await content(target)
    else:
        with pytest.raises(CopyError):
            await copied(source, target, running)
    await source.close()
    await target.close()


async def test_two_copies_to_one_store(tmp_path: Path) -> None:
    await embedded_source(tmp_path / "one")
    target = await EmbeddedStore.open(tmp_path / "two", durable=False)
    source = EmbeddedSource.of_directory(tmp_path / "one")
    ended = await asyncio.gather(copied(source, target), copied(source, target), return_exceptions=True)
    assert any(isinstance(each, CopyError) and "another copy" in str(each) for each in ended)
    await source.close()
    await target.close()


async def test_a_value_that_differs_fails_the_verification(tmp_path: Path) -> None:
    await embedded_source(tmp_path / "one", 5)
    target = await EmbeddedStore.open(tmp_path / "two", durable=False)
    source = EmbeddedSource.of_directory(tmp_path / "one")
    seen = 0

    def changing(stored: object) -> Translated:
        nonlocal seen
        seen += 1
        item = stored._replace(value=b"%d" % seen)  # type: ignore[attr-defined]
        return Translated(item)

    with pytest.raises(CopyError, match="the copy differs from the source"):
        await copied(source, target, PLAN._replace(translate=changing))
    # Servers do not start on it.
    assert (await target.get(marker_key("/registry"))).stored is not None
    await source.close()
    await target.close()


async def test_encrypted_values_stay_under_their_keys(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path / "one", durable=False)
    await store.create(f"{PODS}secret", b"k8s:enc:aesgcm:v1:key:\xff")
    await store.close()
    target = await EmbeddedStore.open(tmp_path / "two", durable=False)
    source = EmbeddedSource.of_directory(tmp_path / "one")
    with pytest.raises(CopyError, match=f"{PODS}secret is encrypted"):
        await copied(source, target, PLAN._replace(target_prefix="/other"))
    await copied(source, target)
    assert list(await content(target)) == [f"{PODS}secret"]
    await source.close()
    await target.close()


async def test_a_store_in_use_and_a_missing_one_are_no_sources(tmp_path: Path) -> None:
    with pytest.raises(DataDirectoryError, match="there is no store in"):
        EmbeddedSource.of_directory(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    store = await EmbeddedStore.open(tmp_path / "one", durable=False)
    with pytest.raises(DataDirectoryError, match="in use by another server"):
        EmbeddedSource.of_directory(tmp_path / "one")
    await store.close()
    source = EmbeddedSource.of_directory(tmp_path / "one")
    with pytest.raises(DataDirectoryError, match="in use by another server"):
        await EmbeddedStore.open(tmp_path / "one", durable=False)
    await source.close()
