"""`Storage` in front of another store that encrypts the values of some resources."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from apiserver.storage.encryption.chains import (
    CannotEncrypt,
    DecryptedValue,
    IdentityTransformer,
    KeyNeeded,
    TransformerChain,
)
from apiserver.storage.encryption.ciphers import Undecryptable
from apiserver.storage.encryption.encryption import Encryption
from apiserver.storage.errors import EncryptionFailed, StorageUnavailable
from apiserver.storage.event_loop_turns import Turn
from apiserver.storage.interface import (
    ENCRYPTED_PREFIX,
    MOST_RECENT,
    NO_LEASE,
    Condition,
    Delete,
    Event,
    EventBatch,
    KeyRange,
    Page,
    Put,
    Read,
    ReadAt,
    Storage,
    Stored,
    UnreadableValue,
    Watch,
)
from apiserver.storage.keys import encoded
from apiserver.storage.wrapper import StorageWrapper

_T = TypeVar("_T")

# Larger values are encrypted and decrypted beside the event loop: it takes tenths of a millisecond from here.
LARGE_BYTES: Final = 128 * 1024
# How often a value is tried again because a key had to be fetched. Each attempt may need another one, if the
# provider before has failed.
ATTEMPTS_MAX: Final = 8
# How long a watch waits for a key: all that happens in the store comes by one watch, and plugins may be slow.
# What still has no key then is unreadable until it has.
WATCH_WAITS_FOR_KEY_S: Final = 1.0
# How the values of a resource are stored that is not configured.
_AS_IT_IS: Final = IdentityTransformer()


class EncryptedStorage(StorageWrapper):
    """A store whose values are encrypted. See `storage.interface.Storage` for what each method promises.

    A value that cannot be decrypted is read as `UnreadableValue`. Writes raise EncryptionFailed, too.
    """

    def __init__(
        self,
        store: Storage,
        encryption: Encryption,
        on_late_key: Callable[[], None] = lambda: None,
        *,
        watch_waits_for_key_s: float = WATCH_WAITS_FOR_KEY_S,
    ) -> None:
        """on_late_key: called when a key that a watch did not wait for has arrived, or will not."""
        self._on_late_key = on_late_key
        self._watch_waits_for_key_s = watch_waits_for_key_s
        # The keys that watches wait for no longer, and no others of their providers until they are there.
        self._late_keys: dict[str, asyncio.Future[None]] = {}
        super().__init__(store)
        self._encryption = encryption
        self._chain_of = encryption.chain_of
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="encryption")
        self._is_closed = False
        # The keys of values that a caller got as unreadable, and that no watch has delivered since.
        # Other reads do not count: a cache, which holds the previous value, does not see their results.
        self.unreadable: set[str] = set()

    async def is_stale(self, key: str) -> bool:
        """Whether writing a value back would store it in another form, since its key has changed.

        An undecryptable value is stale, too: a caller that still has it, from the cache, saves it by writing
        it.
        """
        stored = (await self._store.get(key)).stored
        if stored is None:
            return False
        try:
            return (await self._decrypt(self._chain_of(key), key, stored.value)).is_stale
        except Undecryptable:
            return True

    async def any_readable(self) -> bool:
        """Whether a value can be decrypted now that could not be when it was read.

        If so, all values should be read again, which also finds the unreadable ones again. All available keys
        are fetched before, since nothing is watched while everything is read.
        """
        is_any = False
        for key in list(self.unreadable):
            stored = (await self._store.get(key)).stored
            if stored is None:
                self.unreadable.discard(key)
                continue
            try:
                await self._decrypt(self._chain_of(key), key, stored.value)
            except Undecryptable:
                continue
            is_any = True
        if is_any:
            self.unreadable.clear()
        return is_any

    # ---- reads

    async def get(self, key: str, at: ReadAt = MOST_RECENT) -> Read:
        read = await self._store.get(key, at)
        if read.stored is None or not self._is_to_be_decrypted(key, read.stored.value):
            return read
        value = await self._readable(key, read.stored.value)
        return Read(read.stored._replace(value=value), read.revision)

    async def list(self, keys: KeyRange, at: ReadAt = MOST_RECENT, *, limit: int = 0) -> Page:
        page = await self._store.list(keys, at, limit=limit)
        items: list[Stored] = []
        turn = Turn()
        for item in page.items:
            if self._is_to_be_decrypted(item.key, item.value):
                if turn.is_over():
                    await turn.next()
                item = item._replace(value=await self._readable(item.key, item.value))
            items.append(item)
        return Page(items, page.revision, page.more)

    def watch(self, keys: KeyRange, *, after: int) -> Watch:
        return _DecryptedWatch(self._store.watch(keys, after=after), self._decrypted_batch)

    async def _decrypted_batch(self, batch: EventBatch) -> EventBatch:
        if not any(map(self._is_concerned, batch.events)):
            return batch
        events: list[Event] = []
        turn = Turn()
        deadline = asyncio.get_running_loop().time() + self._watch_waits_for_key_s
        for event in batch.events:
            if event.value is None:
                self.unreadable.discard(event.key)
            elif self._is_concerned(event):
                if turn.is_over():
                    await turn.next()
                value = await self._readable(event.key, event.value, deadline)
                if not isinstance(value, UnreadableValue):
                    self.unreadable.discard(event.key)
                event = event._replace(value=value)
            events.append(event)
        return EventBatch(events, batch.revision)

    def _is_concerned(self, event: Event) -> bool:
        """Whether the value of an event has to be decrypted, or the previous one could not be."""
        key, value = event.key, event.value
        return key in self.unreadable or (value is not None and self._is_to_be_decrypted(key, value))

    def _is_to_be_decrypted(self, key: str, data: bytes) -> bool:
        """Whether a stored value may be encrypted.

        The value of a resource that is not, or no longer, configured may have been encrypted earlier.
        """
        return self._chain_of(key) is not None or data.startswith(ENCRYPTED_PREFIX)

    async def _readable(self, key: str, data: bytes, deadline: float | None = None) -> bytes:
        """Returns the decrypted value, or an UnreadableValue.

        deadline: until when to wait for its key, by the clock of the event loop; None: without limit.
        """
        while True:
            chain = self._chain_of(key)
            try:
                return (await self._decrypt(chain, key, data, deadline)).value
            except Undecryptable as error:
                # The author of the changed configuration did not know of this value.
                if self._chain_of(key) is chain:
                    self.unreadable.add(key)
                    return UnreadableValue(str(error), is_temporary=error.is_temporary)

    async def _decrypt(
        self, chain: TransformerChain | None, key: str, data: bytes, deadline: float | None = None
    ) -> DecryptedValue:
        """Returns a decrypted value. chain: None for values that are stored unencrypted."""
        context = encoded(key)
        if chain is None:
            return _AS_IT_IS.decrypt(data, context)
        for _ in range(ATTEMPTS_MAX):
            try:
                return await self._run(len(data), lambda: chain.decrypt(data, context))
            except KeyNeeded as needed:
                if deadline is None:
                    await needed.fetch()
                else:
                    await self._fetch_in_time(needed, deadline)
        raise Undecryptable("the key was fetched, but is no longer cached", is_temporary=True)

    async def _fetch_in_time(self, needed: KeyNeeded, deadline: float) -> None:
        """Fetch a key before a deadline; the fetch continues afterwards."""
        provider = needed.provider
        if provider not in self._late_keys:
            fetching = asyncio.ensure_future(needed.fetch())
            try:
                within_s = max(0.0, deadline - asyncio.get_running_loop().time())
                await asyncio.wait((fetching,), timeout=within_s)
            except asyncio.CancelledError:
                fetching.cancel()
                raise
            if fetching.done():
                return
            self._late_keys[provider] = fetching
            fetching.add_done_callback(partial(self._on_key_fetched, provider))
        why = f"the KMS plugin {provider} has not provided the key in time"
        raise Undecryptable(why, is_temporary=True)

    def _on_key_fetched(self, provider: str, fetching: asyncio.Future[None]) -> None:
        del self._late_keys[provider]
        if not fetching.cancelled():
            self._on_late_key()

    # ---- writes

    async def create(self, key: str, value: bytes, *, lease: int = NO_LEASE) -> int:
        chain = self._chain_of(key)
        if chain is not None:
            value = await self._encrypted(chain, key, value)
        return await self._store.create(key, value, lease=lease)

    async def compare_and_put(self, key: str, value: bytes, *, expected: int, lease: int = NO_LEASE) -> int:
        chain = self._chain_of(key)
        if chain is not None:
            value = await self._encrypted(chain, key, value)
        return await self._store.compare_and_put(key, value, expected=expected, lease=lease)

    async def transact(
        self, conditions: Sequence[Condition], writes: Sequence[Put | Delete], *, note: bytes = b""
    ) -> int:
        encrypted: list[Put | Delete] = []
        for write in writes:
            if isinstance(write, Put) and (chain := self._chain_of(write.key)) is not None:
                write = write._replace(value=await self._encrypted(chain, write.key, write.value))
            encrypted.append(write)
        return await self._store.transact(conditions, encrypted, note=note)

    async def _encrypted(self, chain: TransformerChain, key: str, value: bytes) -> bytes:
        """Returns an encrypted value."""
        context = encoded(key)
        try:
            return await self._run(len(value), lambda: chain.encrypt(value, context))
        except CannotEncrypt as error:
            raise EncryptionFailed(key, str(error)) from None

    async def _run(self, size: int, work: Callable[[], _T]) -> _T:
        if size <= LARGE_BYTES:
            return work()
        if self._is_closed:
            raise StorageUnavailable("the store is closed")
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    # ---- the end

    def stop(self) -> None:
        """End the thread for large values; the underlying store stays open."""
        self._is_closed = True
        for fetching in self._late_keys.values():
            fetching.cancel()
        self._threads.shutdown(wait=False)

    async def close(self) -> None:
        self.stop()
        await self._store.close()


class _DecryptedWatch:
    """A watch whose batches are each decrypted as a whole before they are yielded."""

    def __init__(self, watch: Watch, decrypted: Callable[[EventBatch], Awaitable[EventBatch]]) -> None:
        self._watch = watch
        self._decrypted = decrypted

    async def __aiter__(self) -> AsyncIterator[EventBatch]:
        async for batch in self._watch:
            yield await self._decrypted(batch) if batch.events else batch

    async def request_progress(self) -> None:
        await self._watch.request_progress()

    async def close(self) -> None:
        await self._watch.close()
