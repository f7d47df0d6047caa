"""Copies the keys of one store to another, where resourceVersions go on rising.

- *The source is read at one revision* and never written. No server may use it: what a server writes during
  the copy would be lost. `CopyPlan.allows_running_source` accepts that.
- *The target begins above the source.* Its revision is first raised to at least that of the source, so each
  copied key gets a revision that no client has seen; the store of a snapshot may have gone on, which
  `CopyPlan.bump_revision` allows for. At the end the revision is raised again, as that of a source in use has
  risen, and everything before is compacted: a watch, a continue token or an exact read of the source gets 410
  Gone, and its client lists again. The two histories cannot be confused.
- *A copy can be continued.* A key of the target, the copy marker, has the source, its revision and the last
  key that was copied. The same copy, started again, continues there. If the source has changed meanwhile, or
  the copy had a difference, what was copied is deleted, and the copy starts again. No server of this program
  starts on a store with a copy marker. A kube-apiserver does not look for it.
- *Nothing of another server is deleted.* Before keys are deleted, the target must have neither a record of a
  server nor a prefix of another server inside its own. Without `CopyPlan.replaces`, it must have no key
  that only a kube-apiserver writes, either.
- *Memory is bounded*: two pages of PAGE_KEYS keys, and some 160 bytes for each key with a lease.
- *The result is verified*: both stores are read again, and their keys and values are compared by number and
  hash. Keys with a lease, as of Events, may expire meanwhile: the target must have no others than the source.
  At the end, the source must not have changed, and both stores must have no record of a server. A
  kube-apiserver with `--endpoint-reconciler-type=none` writes no record.

Keys with a lease get one with the remaining time. Records that only a running server needs are not copied.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

import orjson

from apiserver.storage.errors import (
    KeyExists,
    LeaseNotFound,
    RevisionCompacted,
    RevisionMismatch,
    RevisionTooLarge,
    StorageError,
)
from apiserver.storage.interface import (
    ENCRYPTED_PREFIX,
    MOST_RECENT,
    NO_LEASE,
    TRANSACTION_WRITES_MAX,
    Condition,
    Delete,
    KeyRange,
    Page,
    Put,
    ReadAt,
    Storage,
    Stored,
)
from apiserver.storage.keys import INTERNAL_GROUP, after, encoded, prefix_range
from apiserver.storage.prefix_owner import Listed, kube_apiserver_key, marker_key

# With a value of 1.5 MiB each, a page takes 192 MiB; typical pages take some hundred kilobytes.
PAGE_KEYS: Final = TRANSACTION_WRITES_MAX
# etcd refuses requests of more than 1.5 MiB.
TRANSACTION_BYTES_MAX: Final = 1024 * 1024
# Skipped objects that are named in the result.
SKIPPED_KINDS_MAX: Final = 100
_HASH_MODULUS: Final = 1 << 256
# Below `{prefix}/-/`: what belongs to running servers, or to one store.
_NOT_COPIED: Final = ("copy", "etcd/", "replicas/", "compaction/")


# Keys that only a server of this program, or a kube-apiserver, writes, with a prefix inside another one.
_OF_INNER_PREFIX: Final = re.compile(
    rf"/.+/(?:{INTERNAL_GROUP}/(?:replicas/|identity$)"
    # An IPv4 address, or an IPv6 one: names of objects contain no colon.
    r"|masterleases/(?:\d+(?:\.\d+){3}|[0-9a-f.]*:[0-9a-f.:]*)$"
    r"|ranges/(?:serviceips|servicenodeports)$)"
)


class CopyError(StorageError):
    """A copy cannot be made; the message is one line and says why."""


class Translated(NamedTuple):
    """What a key of the source becomes in the target: None if it is not copied, with a name of its kind.

    skipped: the kind of a key that is left out, for the result; empty if that needs no mention.
    """

    item: Stored | None
    skipped: str = ""


# Returns what a key and its value become. Raises CopyError.
Translate = Callable[[Stored], Translated]


class CopySource(Listed, Protocol):
    """A store that is copied. See `storage.interface.Storage` for the methods that it shares with it."""

    async def current_revision(self) -> int: ...

    async def count(self, keys: KeyRange, at: ReadAt = MOST_RECENT) -> int: ...

    async def lease_ttl_s(self, lease: int) -> int:
        """Returns how long a lease still lasts, in seconds; 0 if it has expired."""
        ...


class CopyTarget(Storage, Protocol):
    """A store that can be copied to."""

    async def raise_revision(self, minimum: int, report: Callable[[int], None]) -> int:
        """Raise the store's revision to at least `minimum`, without another change; returns it.

        report: called with the revision that is reached, now and then.
        Raises RevisionOutOfReach if that takes too long.
        """
        ...


class CopyPlan(NamedTuple):
    """What is copied, and how.

    source_name: identifies the source for a copy that continues.
    source_prefix, target_prefix: those of all keys.
    translate: changes keys and values; None: only the prefix changes.
    replaces: whether the content of the target's prefix is deleted first; such a copy does not continue.
    allows_running_source: whether a server may use the source.
    bump_revision: how many revisions clients of the source may have seen above its own.
    """

    source_name: str
    source_prefix: str
    target_prefix: str
    translate: Translate | None = None
    replaces: bool = False
    allows_running_source: bool = False
    bump_revision: int = 0


class CopyProgress(NamedTuple):
    """How far a copy is.

    phase: `raising`, and when the target has the copy marker, `deleting`, `copying`, `verifying` and again
    `raising`. total: 0 if unknown.
    """

    phase: str
    done: int
    total: int


@dataclass
class CopyResult:
    """What a copy has done.

    source_revision: the revision that was copied. revision: the target's, at the end.
    keys: those that are in the target, with those of leases. sha256: the combined hash of all without one.
    expired: keys whose lease had expired. skipped: how many objects of each kind were left out.
    is_continued: whether it has continued an interrupted copy.
    """

    source_revision: int
    revision: int = 0
    keys: int = 0
    leased_keys: int = 0
    expired: int = 0
    sha256: str = ""
    is_continued: bool = False
    skipped: dict[str, int] = field(default_factory=dict)


class _Marker(NamedTuple):
    """The copy marker.

    is_clear: whether the target has had nothing but keys of this copy; if not, all others have to be deleted.
    position: the last key of the source that was copied.
    """

    source: str
    revision: int
    is_clear: bool = False
    position: str = ""

    def encode(self) -> bytes:
        return orjson.dumps({**self._asdict(), "position": encoded(self.position).hex()})


def is_of_running_servers(prefix: str, key: str) -> bool:
    """Whether a key is not copied, as it belongs to running servers or to its store."""
    own = f"{prefix}/{INTERNAL_GROUP}/"
    return key.startswith(f"{prefix}/masterleases/") or (
        key.startswith(own) and key.startswith(_NOT_COPIED, len(own))
    )


async def copy_store(
    source: CopySource, target: CopyTarget, plan: CopyPlan, report: Callable[[CopyProgress], None]
) -> CopyResult:
    """Copy all keys of a prefix, and verify the copy.

    The caller has checked that no server uses the stores, as far as it can; records of servers are checked
    here. Raises CopyError, and what the stores raise. After a failure, call it again to continue.
    """
    return await _Copy(source, target, plan, report).run()


class _Copy:
    def __init__(
        self, source: CopySource, target: CopyTarget, plan: CopyPlan, report: Callable[[CopyProgress], None]
    ) -> None:
        self._source, self._target, self._plan, self._report = source, target, plan, report
        self._source_keys = prefix_range(f"{plan.source_prefix}/")
        self._target_keys = prefix_range(f"{plan.target_prefix}/")
        self._marker_key = marker_key(plan.target_prefix)
        self._marker_revision = 0
        self._leases: dict[int, int] = {}  # of the target, by those of the source; 0: expired

    async def run(self) -> CopyResult:
        plan = self._plan
        if not plan.allows_running_source:
            await self._require_no_servers(self._source, plan.source_prefix, "--from")
        await self._require_no_servers(self._target, plan.target_prefix, "--to")
        if plan.replaces:
            await self._require_no_inner_prefix()
        await self._read_marker()
        # If both stores are one etcd, this may compact what is copied: so it comes first.
        await self._raise_revision(0)
        result = CopyResult(await self._source.current_revision())
        try:
            position = await self._begin(result)
            await self._copy(result, position)
            await self._require_unchanged(result, await self._verify(result))
            # A watch from the revision before that of a compaction is not refused.
            await self._target.compact(await self._raise_revision(2))
            result.revision = await self._target.compare_and_delete(
                self._marker_key, expected=self._marker_revision
            )
        except RevisionCompacted as error:
            raise CopyError(
                f"the source compacted revision {result.source_revision} during the copy; run the command "
                "again"
            ) from error
        except RevisionMismatch as error:
            raise CopyError("another copy to the same store is running") from error
        return result

    async def _raise_revision(self, margin: int) -> int:
        """Raise the target's revision to all that clients of the source can have seen until now; returns it.

        margin: by how much it is to be higher.
        """
        minimum = await self._source.current_revision() + self._plan.bump_revision + margin
        return await self._target.raise_revision(
            minimum, lambda revision: self._report(CopyProgress("raising", revision, minimum))
        )

    # ---- before anything is copied

    async def _require_no_servers(self, store: Listed, prefix: str, flag: str) -> None:
        """Check that the store has no record of a running server. Raises CopyError."""
        folder = f"{prefix}/{INTERNAL_GROUP}/replicas/"
        if (await store.list(prefix_range(folder), limit=1)).items:
            raise CopyError(
                f"a server uses the store in {flag}: stop it first (the record of a server that was killed "
                "expires after 15 s)"
            )
        folder = f"{prefix}/masterleases/"
        if (await store.list(prefix_range(folder), limit=1)).items:
            raise CopyError(
                f"a kube-apiserver uses the store in {flag}: stop it first (the record of a kube-apiserver "
                "that was killed expires after 15 s)"
            )

    async def _require_no_inner_prefix(self) -> None:
        """Check that no other server has a prefix inside the target's, as it would be deleted.

        Raises CopyError.
        """
        start = self._target_keys.start
        while items := (
            await self._target.list(KeyRange(start, self._target_keys.end), limit=PAGE_KEYS)
        ).items:
            for each in items:
                if _OF_INNER_PREFIX.match(each.key, len(self._plan.target_prefix)):
                    raise CopyError(
                        f"{each.key} belongs to another server with a prefix inside "
                        f"{self._target_keys.start}: choose another prefix for the copy, or delete the keys "
                        "of the other server first"
                    )
            start = after(items[-1].key)

    async def _require_deletable(self) -> None:
        """Check that no key would be deleted that another server has written. Raises CopyError.

        No server may run there or have a prefix inside the target's; without --force, none of the keys may be
        a kube-apiserver's.
        """
        plan = self._plan
        await self._require_no_servers(self._target, plan.target_prefix, "--to")
        await self._require_no_inner_prefix()
        # A copy never writes such a key.
        if not plan.replaces and (key := await kube_apiserver_key(self._target, plan.target_prefix)):
            raise CopyError(
                f"the target has {key}, which a kube-apiserver wrote: choose another prefix for the copy, or "
                f"use --force to replace everything below {self._target_keys.start}"
            )

    async def _read_marker(self) -> _Marker | None:
        """Returns the copy marker; None if the target has none, and may be copied to. Raises CopyError."""
        found = (await self._target.get(self._marker_key)).stored
        if found is None:
            await self._require_empty()
            return None
        marker = _decoded(found.value)
        if marker.source != self._plan.source_name and not self._plan.replaces:
            raise CopyError(
                f"the target has an unfinished copy of {marker.source}: finish it, or replace it with --force"
            )
        self._marker_revision = found.mod_revision
        return marker

    async def _begin(self, result: CopyResult) -> str:
        """Write the copy marker; returns the position behind which to continue. Raises CopyError."""
        plan = self._plan
        new = _Marker(plan.source_name, result.source_revision)
        if (marker := await self._read_marker()) is not None:
            if not plan.replaces and marker.is_clear and await self._can_continue(marker.revision):
                result.is_continued, result.source_revision = True, marker.revision
                return marker.position
            await self._require_deletable()
            await self._move_marker(new)
        else:
            try:
                self._marker_revision = await self._target.create(self._marker_key, new.encode())
            except KeyExists as error:
                raise CopyError("another copy to the same store is running") from error
            try:
                # A server writes its record, and then looks for the marker.
                await self._require_deletable()
                await self._require_empty()
            except StorageError:  # CopyError is one.
                with suppress(StorageError):
                    await self._target.compare_and_delete(self._marker_key, expected=self._marker_revision)
                raise
        await self._clear()
        await self._move_marker(new._replace(is_clear=True))
        return ""

    async def _can_continue(self, revision: int) -> bool:
        """Whether the source still has a revision, and is unchanged since."""
        try:
            return await self._is_still(await self._last_write(revision), revision)
        except (RevisionCompacted, RevisionTooLarge):
            return False

    async def _is_still(self, written: _LastWrite, revision: int) -> bool:
        """Whether the source is unchanged since a revision. written: what it had at that revision."""
        current = await self._source.current_revision()
        return current == revision or written == await self._last_write(current)

    async def _last_write(self, revision: int) -> _LastWrite:
        written = _LastWrite()
        async for page in _pages(self._source, self._source_keys, revision):
            for each in page:
                written.add(each, self._plan.source_prefix)
        return written

    async def _require_empty(self) -> None:
        """Check that the target's prefix is empty, or may be replaced. Raises CopyError."""
        if self._plan.replaces:
            return
        start = self._target_keys.start
        while items := (await self._target.list(KeyRange(start, self._target_keys.end), limit=16)).items:
            for each in items:
                if not is_of_running_servers(self._plan.target_prefix, each.key):
                    raise CopyError(
                        f"the target is not empty: it has {each.key}; use --force to replace everything "
                        f"below {self._target_keys.start}"
                    )
            start = after(items[-1].key)

    async def _clear(self) -> None:
        """Delete what the target's prefix has, except the marker."""
        deleted = 0
        start = self._target_keys.start
        while items := (
            await self._target.list(KeyRange(start, self._target_keys.end), limit=PAGE_KEYS)
        ).items:
            if keys := [each.key for each in items if each.key != self._marker_key]:
                await self._target.transact((self._still_own(),), [Delete(key) for key in keys])
                deleted += len(keys)
                self._report(CopyProgress("deleting", deleted, 0))
            start = after(items[-1].key)

    # ---- the copy

    async def _copy(self, result: CopyResult, position: str) -> None:
        total = await self._source.count(self._source_keys, ReadAt.exactly(result.source_revision))
        done = 0
        if position:
            rest = KeyRange(after(position), self._source_keys.end)
            done = total - await self._source.count(rest, ReadAt.exactly(result.source_revision))
        async for page in _pages(self._source, self._source_keys, result.source_revision, position):
            puts = [put for each in page if (put := await self._put_of(each)) is not None]
            for batch in _batches(puts):
                await self._write(batch)
            await self._move_marker(
                _Marker(self._plan.source_name, result.source_revision, is_clear=True, position=page[-1].key)
            )
            done += len(page)
            self._report(CopyProgress("copying", done, total))

    async def _write(self, puts: Sequence[Put]) -> None:
        try:
            await self._target.transact((self._still_own(),), puts)
        except LeaseNotFound:
            # A lease has expired since it was granted. Its keys are not copied, as they would have expired
            # too. Stores may not know which lease it is.
            by_lease: dict[int, list[Put]] = {}
            for put in puts:
                by_lease.setdefault(put.lease, []).append(put)
            if len(by_lease) > 1:
                for group in by_lease.values():
                    await self._write(group)
            else:
                expired = puts[0].lease
                self._leases = {k: NO_LEASE if v == expired else v for k, v in self._leases.items()}
        except UnicodeError as error:
            key = next(put.key for put in puts if not put.key.isprintable())
            raise CopyError(
                f"the embedded store cannot contain the key {key!r}, which is not UTF-8"
            ) from error

    async def _move_marker(self, marker: _Marker) -> None:
        self._marker_revision = await self._target.compare_and_put(
            self._marker_key, marker.encode(), expected=self._marker_revision
        )

    def _still_own(self) -> Condition:
        return Condition(self._marker_key, self._marker_revision)

    async def _put_of(self, stored: Stored) -> Put | None:
        """Returns the write of a key; None if it is not copied. Raises CopyError."""
        item = self._translated(stored).item
        if item is None:
            return None
        if item.lease == NO_LEASE:
            return Put(item.key, item.value)
        lease = self._leases.get(item.lease)
        if lease is None:
            ttl_s = await self._source.lease_ttl_s(item.lease)
            lease = await self._target.grant_lease(ttl_s) if ttl_s > 0 else NO_LEASE
            self._leases[item.lease] = lease
        return Put(item.key, item.value, lease) if lease != NO_LEASE else None

    def _translated(self, stored: Stored) -> Translated:
        """Returns what a key becomes. Raises CopyError."""
        plan = self._plan
        if is_of_running_servers(plan.source_prefix, stored.key):
            return Translated(None)
        if plan.translate is not None:
            translated = plan.translate(stored)
        else:
            key = plan.target_prefix + stored.key[len(plan.source_prefix) :]
            translated = Translated(stored._replace(key=key))
        item = translated.item
        if item is not None and item.key != stored.key and item.value.startswith(ENCRYPTED_PREFIX):
            raise CopyError(
                f"{stored.key} is encrypted, and can only be read under the same key: use the same prefix "
                "for both stores, or decrypt the objects of the source first"
            )
        return translated

    # ---- the verification

    async def _verify(self, result: CopyResult) -> _LastWrite:
        """Compare both stores, and complete the result. Raises CopyError."""
        expected, found, written = _Digest(), _Digest(), _LastWrite()
        async for page in _pages(self._source, self._source_keys, result.source_revision):
            for each in page:
                written.add(each, self._plan.source_prefix)
                translated = self._translated(each)
                if translated.item is not None:
                    expected.add(translated.item)
                elif translated.skipped:
                    kind = translated.skipped
                    if kind not in result.skipped and len(result.skipped) >= SKIPPED_KINDS_MAX:
                        kind = "other kinds"
                    result.skipped[kind] = result.skipped.get(kind, 0) + 1
            self._report(CopyProgress("verifying", expected.count + len(expected.leased), 0))
        revision = await self._target.current_revision()
        try:
            async for page in _pages(self._target, self._target_keys, revision):
                for each in page:
                    if not is_of_running_servers(self._plan.target_prefix, each.key):
                        found.add(each)
        except RevisionCompacted as error:
            raise CopyError(
                f"the target compacted revision {revision} during the verification; run the command again"
            ) from error
        result.leased_keys = len(found.leased)
        result.expired = len(expected.leased - found.leased)
        result.keys, result.sha256 = found.count + result.leased_keys, found.hex()
        if (expected.count, expected.hex()) != (found.count, found.hex()) or found.leased - expected.leased:
            await self._move_marker(_Marker(self._plan.source_name, result.source_revision))
            raise CopyError(
                f"the copy differs from the source: it has {found.count} keys with the hash {found.hex()}, "
                f"the source has {expected.count} with {expected.hex()}; of the keys with a lease, "
                f"{len(found.leased - expected.leased)} are only in the copy; run the command again to "
                "start over"
            )
        return written

    async def _require_unchanged(self, result: CopyResult, written: _LastWrite) -> None:
        """Check that no server has started, and that the source is unchanged. Raises CopyError.

        written: what the source had at the revision that was copied.
        """
        plan = self._plan
        await self._require_no_servers(self._target, plan.target_prefix, "--to")
        if plan.allows_running_source:
            return
        await self._require_no_servers(self._source, plan.source_prefix, "--from")
        if not await self._is_still(written, result.source_revision):
            raise CopyError(
                "the source changed during the copy: stop all clients that write to it, and run the "
                "command again"
            )


@dataclass
class _LastWrite:
    """The number and the highest revision of the keys of a prefix without a lease, which may expire.

    Each write of a server changes one of both. Other users of the same etcd change neither.
    """

    count: int = 0
    newest: int = 0

    def add(self, item: Stored, prefix: str) -> None:
        """Add a key."""
        if item.lease == NO_LEASE and not is_of_running_servers(prefix, item.key):
            self.count, self.newest = self.count + 1, max(self.newest, item.mod_revision)


class _Digest:
    """The number and the combined hash of keys and values, in any order.

    leased: the hashes of the keys that have a lease, which are not in the others.
    """

    def __init__(self) -> None:
        self.count = 0
        self.leased: set[int] = set()
        self._sum = 0

    def add(self, item: Stored) -> None:
        """Add a key."""
        if item.lease != NO_LEASE:
            self.leased.add(hash(item.key))
            return
        key = encoded(item.key)
        content = b"%d:%b%b" % (len(key), key, item.value)
        self._sum = (self._sum + int.from_bytes(hashlib.sha256(content).digest())) % _HASH_MODULUS
        self.count += 1

    def hex(self) -> str:
        return f"{self._sum:064x}"


async def _pages(
    store: Listed, keys: KeyRange, revision: int, position: str = ""
) -> AsyncIterator[Sequence[Stored]]:
    """Yields the keys behind a position, in pages, and reads the next page meanwhile."""
    start = after(position) if position else keys.start

    def read(start: str) -> asyncio.Task[Page]:
        listing = store.list(KeyRange(start, keys.end), ReadAt.exactly(revision), limit=PAGE_KEYS)
        return asyncio.ensure_future(listing)

    reading = read(start)
    try:
        while True:
            page = await reading
            if page.more:
                reading = read(after(page.items[-1].key))
            if page.items:
                yield page.items
            if not page.more:
                return
    finally:
        reading.cancel()


def _batches(puts: Sequence[Put]) -> Iterator[Sequence[Put]]:
    """Yields the writes of transactions that etcd accepts; a larger value has one for itself."""
    batch: list[Put] = []
    size = 0
    for put in puts:
        if batch and size + len(put.value) > TRANSACTION_BYTES_MAX:
            yield batch
            batch, size = [], 0
        batch.append(put)
        size += len(put.value)
    if batch:
        yield batch


def _decoded(value: bytes) -> _Marker:
    document = orjson.loads(value)
    position = bytes.fromhex(document["position"]).decode("utf-8", "surrogateescape")
    return _Marker(document["source"], document["revision"], document.get("is_clear", False), position)
