"""`Storage` over etcd, made of the parts of this package."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from apiserver.storage.errors import (
    KeyExists,
    LeaseNotFound,
    OutcomeUnknown,
    RevisionCompacted,
    RevisionMismatch,
    RevisionOutOfReach,
    RevisionTooLarge,
    StorageError,
    StorageFull,
    StorageUnavailable,
    ValueTooLarge,
)
from apiserver.storage.etcd import etcd_subset_pb2 as pb
from apiserver.storage.etcd.client import EtcdClient, EtcdCompacted, EtcdFutureRevision, EtcdRequestTooLarge
from apiserver.storage.etcd.coalesced_call import CoalescedCall
from apiserver.storage.etcd.notes import NoteKeys
from apiserver.storage.etcd.version import EtcdVersion
from apiserver.storage.etcd.watch import EtcdWatch
from apiserver.storage.interface import (
    MOST_RECENT,
    NO_LEASE,
    NOTE_BYTES_MAX,
    TRANSACTION_WRITES_MAX,
    VALUE_BYTES_MAX,
    Condition,
    Consistency,
    Delete,
    KeyRange,
    Page,
    Put,
    Read,
    ReadAt,
    Stored,
)
from apiserver.storage.keys import INTERNAL_GROUP, after, decoded, encoded

log = logging.getLogger(__name__)

# As many as the watch cache lists at a time. 50,000 keys of 1 KB: 0.72 s in pages of 500, 0.54 in these, 0.35
# in pages of 2,000, which keep etcd busy for longer.
PAGE_KEYS: Final = 1_000
HEALTH_TIMEOUT_S: Final = 5.0
# To raise etcd's revision takes a write for each. Two million take minutes; to restore a snapshot with
# etcdutl's --bump-revision is faster from there on.
RAISE_WRITES_MAX: Final = 2_000_000
RAISE_CONCURRENT_WRITES: Final = 64
# So many revisions take some megabytes before they are compacted.
RAISE_COMPACT_WRITES: Final = 20_000


class EtcdStore:
    """The store in etcd. See `storage.interface.Storage` for what each method promises."""

    def __init__(self, client: EtcdClient, *, prefix: str) -> None:
        """prefix: that of all keys; the store keeps some further keys below it."""
        self._client = client
        self._version: EtcdVersion | None = None  # as last read
        # The name in the store is older than the one here; servers of several versions may share a store.
        self._progress_key = f"{prefix}/{INTERNAL_GROUP}/etcd/fence"
        self._notes = NoteKeys(prefix)
        self._revision = CoalescedCall(self._read_revision, _closed)
        self._progress_write: CoalescedCall[None] = CoalescedCall(self._write_progress_key, _closed)
        self._is_closed = False

    async def version_and_endpoint(self) -> tuple[EtcdVersion, int]:
        """Reads a member's release, which may change with an upgrade, and the index of its endpoint.

        Logs a warning about a release with known faults, once until it changes. Raises StorageUnavailable.
        """
        status, endpoint = await self._client.status_and_endpoint()
        version = EtcdVersion.parse(status.version)
        if version.warning and version != self._version:
            log.warning("etcd %s: %s; use 3.5.13 or later, or 3.4.31 or later", version, version.warning)
        self._version = version
        return version, endpoint

    async def current_revision(self) -> int:
        self._require_open()
        return await self._revision.get()

    async def get(self, key: str, at: ReadAt = MOST_RECENT) -> Read:
        response = await self._range(pb.RangeRequest(key=encoded(key)), at)
        revision = at.revision if at.consistency is Consistency.EXACT else response.header.revision
        return Read(_stored(response.kvs[0]) if response.kvs else None, revision)

    async def list(self, keys: KeyRange, at: ReadAt = MOST_RECENT, *, limit: int = 0) -> Page:
        items: list[Stored] = []
        start, revision = keys.start, 0
        while True:
            wanted = min(limit - len(items), PAGE_KEYS) if limit else PAGE_KEYS
            request = pb.RangeRequest(key=encoded(start), range_end=encoded(keys.end), limit=wanted)
            response = await self._range(request, at)
            if not revision:
                revision = at.revision if at.consistency is Consistency.EXACT else response.header.revision
                at = ReadAt.exactly(revision)
            items.extend(map(_stored, response.kvs))
            if not response.more or (limit and len(items) >= limit):
                return Page(items, revision, response.more)
            start = after(items[-1].key)

    async def count(self, keys: KeyRange, at: ReadAt = MOST_RECENT) -> int:
        request = pb.RangeRequest(key=encoded(keys.start), range_end=encoded(keys.end), count_only=True)
        return (await self._range(request, at)).count

    async def create(self, key: str, value: bytes, *, lease: int = NO_LEASE) -> int:
        return await self.transact((Condition(key, 0),), (Put(key, value, lease),))

    async def compare_and_put(self, key: str, value: bytes, *, expected: int, lease: int = NO_LEASE) -> int:
        return await self.transact((Condition(key, expected),), (Put(key, value, lease),))

    async def compare_and_delete(self, key: str, *, expected: int) -> int:
        return await self.transact((Condition(key, expected),), (Delete(key),))

    async def transact(
        self, conditions: Sequence[Condition], writes: Sequence[Put | Delete], *, note: bytes = b""
    ) -> int:
        self._require_open()
        if len(writes) + bool(note) > TRANSACTION_WRITES_MAX:
            raise ValueError(f"{len(writes)} writes in a transaction; the limit is {TRANSACTION_WRITES_MAX}")
        if len(note) > NOTE_BYTES_MAX:
            raise ValueError(f"a note of {len(note)} bytes; the limit is {NOTE_BYTES_MAX}")
        for write in writes:
            if isinstance(write, Put) and len(write.value) > VALUE_BYTES_MAX:
                raise ValueTooLarge(write.key, size_bytes=len(write.value), limit_bytes=VALUE_BYTES_MAX)
        try:
            request = _transaction(conditions, (self._notes.put(note), *writes) if note else writes)
            response = await self._client.transact(request)
        except EtcdRequestTooLarge as error:
            largest = max((w for w in writes if isinstance(w, Put)), key=lambda put: len(put.value))
            raise ValueTooLarge(
                largest.key, size_bytes=len(largest.value), limit_bytes=VALUE_BYTES_MAX
            ) from error
        except LeaseNotFound as error:
            raise LeaseNotFound(next(w.lease for w in writes if isinstance(w, Put) and w.lease)) from error
        except StorageFull as error:
            # etcd does the write that crosses the quota, and then answers as if it had refused it.
            if await self._is_untouched(conditions, writes):
                raise
            raise OutcomeUnknown(str(error)) from error
        if not response.succeeded:
            raise _first_failure(conditions, response)
        return response.header.revision

    def watch(self, keys: KeyRange, *, after: int) -> EtcdWatch:
        self._require_open()
        return EtcdWatch(
            self._client,
            keys,
            after,
            notes=self._notes,
            version_and_endpoint=self.version_and_endpoint,
            write_progress_key=self._progress_write.get,
        )

    async def compact(self, revision: int) -> None:
        self._require_open()
        try:
            await self._client.compact(pb.CompactionRequest(revision=revision))
        except EtcdCompacted:
            pass
        except EtcdFutureRevision as error:
            raise RevisionTooLarge(requested=revision, current=await self.current_revision()) from error

    async def grant_lease(self, ttl_s: int) -> int:
        self._require_open()
        return (await self._client.grant_lease(pb.LeaseGrantRequest(ttl_s=ttl_s))).id

    async def renew_lease(self, lease: int) -> None:
        self._require_open()
        response = await self._client.keep_lease_alive(pb.LeaseKeepAliveRequest(id=lease))
        if response.ttl_s <= 0:
            raise LeaseNotFound(lease)

    async def revoke_lease(self, lease: int) -> None:
        self._require_open()
        try:
            await self._client.revoke_lease(pb.LeaseRevokeRequest(id=lease))
        except LeaseNotFound as error:
            raise LeaseNotFound(lease) from error

    async def lease_ttl_s(self, lease: int) -> int:
        """Returns how long a lease still lasts, in seconds; 0 if it has expired."""
        self._require_open()
        response = await self._client.lease_time_to_live(pb.LeaseTimeToLiveRequest(id=lease))
        return max(response.ttl_s, 0)

    async def raise_revision(self, minimum: int, report: Callable[[int], None] = lambda _: None) -> int:
        """Raise the store's revision to at least `minimum` by writes of one key; returns the revision.

        etcd has no other way while it runs. Old revisions of the whole etcd are compacted meanwhile.
        report: called with the revision that is reached, every RAISE_COMPACT_WRITES writes.
        Raises RevisionOutOfReach if that takes more than RAISE_WRITES_MAX writes.
        """
        revision = await self.current_revision()
        if minimum - revision > RAISE_WRITES_MAX:
            raise RevisionOutOfReach(minimum=minimum, current=revision)
        while revision < minimum:
            writes = min(minimum - revision, RAISE_COMPACT_WRITES)
            try:
                async with asyncio.TaskGroup() as tasks:
                    for share in range(RAISE_CONCURRENT_WRITES):
                        count = len(range(share, writes, RAISE_CONCURRENT_WRITES))
                        tasks.create_task(self._write_progress_key_times(count))
            except* StorageError as errors:
                raise errors.exceptions[0] from None
            revision = await self.current_revision()
            await self.compact(revision)
            report(revision)
        return revision

    async def _write_progress_key_times(self, count: int) -> None:
        for _ in range(count):
            await self._write_progress_key()

    async def size_bytes(self) -> int:
        """Returns the size of the database of the responding member, in bytes."""
        self._require_open()
        return (await self._client.status()).db_size_bytes

    async def check_health(self) -> None:
        """Checks that etcd can be read and written.

        A linearizable read needs a leader and a quorum; alarms stop writes.
        """
        self._require_open()
        try:
            async with asyncio.timeout(HEALTH_TIMEOUT_S):
                await self.current_revision()
                alarms = (await self._client.alarms()).alarms
        except TimeoutError:
            raise StorageUnavailable(f"etcd did not respond in {HEALTH_TIMEOUT_S:.0f} s") from None
        for alarm in alarms:
            if alarm.alarm == pb.AlarmRequest.NOSPACE:
                raise StorageFull(f"etcd member {alarm.member_id:x} has exceeded its space quota")
            raise StorageUnavailable(f"etcd member {alarm.member_id:x} has found corrupt data")

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            await self._revision.close()
            await self._progress_write.close()
            await self._client.close()

    async def _is_untouched(self, conditions: Sequence[Condition], writes: Sequence[Put | Delete]) -> bool:
        """Whether a transaction certainly has not written, as one of its keys still matches its condition."""
        expected = {condition.key: condition.mod_revision for condition in conditions}
        for write in writes:
            if write.key in expected:
                request = pb.RangeRequest(key=encoded(write.key), keys_only=True)
                try:
                    kvs = (await self._client.range(request)).kvs
                except StorageError:
                    return False
                return (kvs[0].mod_revision if kvs else 0) == expected[write.key]
        return False

    async def _read_revision(self) -> int:
        # Any linearizable read answers with the store's revision; this one reads nothing.
        request = pb.RangeRequest(key=encoded(self._progress_key), count_only=True)
        return (await self._client.range(request)).header.revision

    async def _write_progress_key(self) -> None:
        await self._client.put_repeatedly(pb.PutRequest(key=encoded(self._progress_key)))

    async def _range(self, request: pb.RangeRequest, at: ReadAt) -> pb.RangeResponse:
        self._require_open()
        if at.consistency is Consistency.EXACT:
            request.revision = at.revision
        try:
            response = await self._client.range(request)
        except EtcdCompacted as error:
            # etcd does not say which revision is the oldest; the one asked for is certainly not.
            raise RevisionCompacted(requested=at.revision, oldest=at.revision + 1) from error
        except EtcdFutureRevision as error:
            current = await self.current_revision()
            raise RevisionTooLarge(requested=at.revision, current=current) from error
        if at.consistency is Consistency.NOT_OLDER_THAN and response.header.revision < at.revision:
            raise RevisionTooLarge(requested=at.revision, current=response.header.revision)
        return response

    def _require_open(self) -> None:
        if self._is_closed:
            raise _closed()


def _closed() -> StorageUnavailable:
    return StorageUnavailable("the store is closed")


def _stored(kv: pb.KeyValue) -> Stored:
    return Stored(decoded(kv.key), kv.value, kv.create_revision, kv.mod_revision, kv.lease)


def _transaction(conditions: Sequence[Condition], writes: Sequence[Put | Delete]) -> pb.TxnRequest:
    """Returns a transaction that also reads the keys of its conditions, in case one does not hold.

    Its parts are made in place: making each separately and copying it takes three times as long.
    """
    request = pb.TxnRequest()
    compares, failures, successes = request.compare, request.failure, request.success
    for condition in conditions:
        key = encoded(condition.key)
        compares.add(target=pb.Compare.MOD, key=key, mod_revision=condition.mod_revision)
        read = failures.add().request_range
        read.key, read.keys_only = key, True
    for write in writes:
        if isinstance(write, Put):
            put = successes.add().request_put
            put.key, put.value, put.lease = encoded(write.key), write.value, write.lease
        else:
            successes.add().request_delete_range.key = encoded(write.key)
    return request


def _first_failure(conditions: Sequence[Condition], response: pb.TxnResponse) -> StorageError:
    """Returns the error for the first condition that did not hold, from the keys that the transaction
    read.
    """
    for condition, answer in zip(conditions, response.responses, strict=True):
        kvs = answer.response_range.kvs
        found = kvs[0].mod_revision if kvs else 0
        if found != condition.mod_revision:
            if condition.mod_revision == 0:
                return KeyExists(condition.key, mod_revision=found)
            return RevisionMismatch(condition.key, expected=condition.mod_revision, found=found)
    raise AssertionError("etcd refused a transaction whose conditions all hold")
