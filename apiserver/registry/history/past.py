"""Reads the objects of a past moment: the current ones, with the changes since undone."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

from apiserver.meta import timestamps
from apiserver.meta.errors import BadRequest, Expired, NotFound, ServiceUnavailable
from apiserver.meta.options import ListOptions
from apiserver.registry.history.forms import RecordedForms, without_status
from apiserver.registry.history.recorder import CANNOT_RECORD
from apiserver.registry.results import ObjectList
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.storage.history.changes import Span
from apiserver.storage.history.past_values import HistoryGap, RecordedVersion, Value
from apiserver.storage.history.undo_log import UndoLog
from apiserver.storage.interface import KeyRange, ReadAt, Stored
from apiserver.storage.keys import after
from apiserver.storage.watch_cache import KeyVersion

log = logging.getLogger(__name__)

_T = TypeVar("_T")
_REVISION_DIGITS_MAX: Final = 18


_NOT_KEPT: Final = "the history does not have all changes of this resource since that moment, by its policy"


class _Dropped(Exception):
    """Changes of the resource were dropped since."""


# Whether the user may do something that is looked at only if it matters.
Right: TypeAlias = Callable[[], Awaitable[bool]]


class PastList(NamedTuple):
    """A list of the past.

    omitted: how many objects it lacks that the user may not see.
    lost: `NAMESPACE/NAME` of the objects that may be missing, as the history has lost what they were.
    purged: how many objects may be missing, as their history was purged.
    thinned: of how many objects the status is left out, as it is not known any more: see `thinning`.
    """

    listed: ObjectList
    omitted: int
    lost: Sequence[str]
    purged: int
    thinned: int


class PastObject(NamedTuple):
    """An object of the past. is_thinned: whether its status is left out: see `PastList`."""

    found: StoredObject
    is_thinned: bool


class VersionPage(NamedTuple):
    """A page of versions: at most `limit`, with revisions below `before`, unless that is 0."""

    before: int
    limit: int


class HistoryKey(NamedTuple):
    """A key, the version that it has at the revision `until`, and since when it may have been that object.

    begin: at least the revision at which the object and its namespace were created.
    """

    key: str
    version: KeyVersion[StoredObject] | None
    begin: float
    until: int


def _not_now(error: Exception) -> ServiceUnavailable:
    return ServiceUnavailable(f"the history cannot be read at present: {error}")


class _State(NamedTuple):
    """The objects in a range of keys.

    earlier: the keys of those that no longer are the same objects.
    lost: the keys of those that cannot be read.
    purged: of how many objects changes since were purged, so that it is not known what they were.
    purged_live: how many of these are certain to be objects that exist now.
    thinned: the keys of those whose status is not known.
    is_in_earlier_namespace: whether the namespace of all of them was replaced by another one.
    """

    objects: list[StoredObject]
    earlier: frozenset[str]
    lost: Sequence[str]
    purged: int
    purged_live: int
    thinned: frozenset[str]
    is_in_earlier_namespace: bool = False


class HistoryAccess(Protocol):
    """Reads the history, once it has what the caller wants. Both methods raise as `Recorder`'s."""

    async def wait_for(self, revision: int) -> None: ...

    async def read(self, work: Callable[[], _T]) -> _T: ...


class PastReads:
    """Reads past states of objects in the history.

    decode: makes an object of a recorded value. clock: seconds since 1970.
    """

    def __init__(
        self,
        registry: Registry,
        history: UndoLog,
        recorder: HistoryAccess,
        forms: RecordedForms,
        decode: Callable[[Stored], StoredObject],
        clock: Callable[[], float],
    ) -> None:
        self._registry, self._cache = registry, registry.cache
        self._history, self._recorder, self._forms = history, recorder, forms
        self._decode, self._clock = decode, clock

    async def revision_of(self, moment: str) -> int:
        """Returns the revision of a moment, which is a revision, or a time (RFC 3339); empty for the present.

        Raises BadRequest for another text and for the future, Expired for what is not recorded any more.
        """
        revision = await self._revision(moment, await self.complete())
        if revision < (oldest := self._history.readable_since()) or not oldest:
            raise self._expired(oldest)
        return revision

    async def revision_before(self, moment: str) -> int:
        """Returns the last revision before a moment, whether or not it can be read. See `revision_of`.

        Raises BadRequest, ServiceUnavailable.
        """
        revision = await self._revision(moment, await self.complete(), is_included=True)
        return max(0, revision - 1) if moment.isdigit() else revision

    async def span(self, since: str, until: str) -> Span:
        """Returns the revisions after a moment, up to and including another one. See `revision_of`.

        since: a time is included; empty for all that is recorded. There may be gaps.
        Raises as `revision_of`, with the names of these parameters, ServiceUnavailable.
        """
        current = await self.complete()
        oldest = self._history.listed_since()
        after = oldest
        if since:
            with _naming("since"):
                after = await self._revision(since, current, is_included=True)
                if after < oldest or not oldest:
                    raise self._expired(oldest)
        with _naming("until"):
            last = await self._revision(until, current)
            if last < oldest or not oldest:
                raise self._expired(oldest)
            if last < after:
                raise BadRequest(f"{until} is before since, {since}")
        return Span(after, last)

    async def _revision(self, moment: str, current: int, *, is_included: bool = False) -> int:
        """Returns the revision of a moment, whether or not it can be read. current: the newest revision.

        is_included: for a time, the revision before the changes at that time, not that after them.
        """
        if not moment:
            revision = current
        elif moment.isascii() and moment.isdigit() and len(moment) <= _REVISION_DIGITS_MAX:
            revision = int(moment)
            if revision > current:
                raise BadRequest(f"revision {revision} is in the future: the current revision is {current}")
        else:
            at = timestamps.from_text(moment)
            if at is None:
                raise BadRequest(f"{moment!r} is neither a revision nor a time such as 2026-11-28T10:00:00Z")
            if at > self._clock():
                raise BadRequest(f"{moment} is in the future")
            # `10:00:00Z` includes all of that second, as times in objects have no fractions.
            # In two steps, as a float a little below a whole millisecond would be the millisecond before.
            at_ms = round(at * 1_000_000) // 1000
            at_ms += -1 if is_included else 0 if "." in moment else 999
            # Earlier times may have more than the 64 bits of SQLite.
            at_ms = max(at_ms, 0)
            revision = await self.read(lambda: self._history.revision_at(at_ms))
        return revision

    def _expired(self, oldest: int) -> Expired:
        return Expired(
            "the history does not have all changes since that moment; the oldest that can be read is "
            f"revision {oldest}"
        )

    async def complete(self) -> int:
        """Wait until the history has every change that was answered; returns the revision."""
        try:
            revision = await self._cache.revision_at()
            if not (self._cache.is_filled and await self._cache.has_reached(revision)):
                raise OSError("the watch cache is not up to date")
            await self._recorder.wait_for(revision)
        except CANNOT_RECORD as error:
            raise _not_now(error) from None
        return revision

    async def read(self, work: Callable[[], _T]) -> _T:
        """Returns the result of `work`, which reads the history. Raises Expired, ServiceUnavailable."""
        try:
            return await self._recorder.read(work)
        except HistoryGap as gap:
            raise self._expired(gap.oldest) from None
        except CANNOT_RECORD as error:
            raise _not_now(error) from None

    # ---- states

    async def get(
        self, resource: ServedResource, namespace: str, name: str, revision: int, may_see_earlier: Right
    ) -> PastObject:
        """Returns an object as it was. may_see_earlier: see `list`.

        Raises NotFound, Expired also if the history has lost what it was, ServiceUnavailable.
        """
        key = self._registry.key(resource, namespace, name)
        state = await self._state(KeyRange(key, after(key)), revision, namespace)
        is_known = bool(state.objects or state.lost or state.purged)
        # The marks of a purge do not say whether it was another object, or did not exist yet.
        may_be_earlier = bool(state.earlier) or state.purged > state.purged_live
        if not is_known or (may_be_earlier and not await may_see_earlier()):
            raise NotFound(resource.group_resource, name)
        if state.purged:
            raise Expired(f"the history of {resource.resource}/{name} was purged")
        if state.lost:
            what = f"{resource.resource}/{name}"
            raise Expired(f"the history has lost what {what} was at revision {revision}; others can be read")
        (found,) = await resource.codec.views(state.objects, self._registry.offload)
        return PastObject(found, bool(state.thinned))

    async def list(
        self,
        resource: ServedResource,
        namespace: str,
        options: ListOptions,
        revision: int,
        may_see_earlier: Right,
    ) -> PastList:
        """Returns all objects that the selectors select, as they were; a limit has no effect.

        Objects that the history has lost are left out, whether or not the selectors would select them.

        may_see_earlier: whether the user may see objects that have been deleted and created again since, or
            that were in an earlier namespace of the same name. Others do not get them, nor the
            number of those that were purged in an earlier namespace.
        Raises as `get` does.
        """
        selection = self._registry.selection(resource, namespace, options)
        state = await self._state(selection.keys, revision, namespace)
        found, earlier, lost, purged = state.objects, state.earlier, state.lost, state.purged
        predicate = selection.predicate
        if predicate is not None and not selection.is_of_views:
            found = [each for each in found if predicate(each)]
        if not resource.codec.is_identity:
            found = await resource.codec.views(found, self._registry.offload)
        if predicate is not None and selection.is_of_views:
            found = [each for each in found if predicate(each)]
        omitted = sum(each.key in earlier for each in found)
        # As for one object: the marks of a purge do not say whether it was another object.
        purged_here = 0 if state.is_in_earlier_namespace else state.purged_live
        hides_purged = purged > purged_here
        if not (omitted or hides_purged or not earlier.isdisjoint(lost)) or await may_see_earlier():
            omitted = 0
        else:
            purged = purged_here
            found = [each for each in found if each.key not in earlier]
            lost = [key for key in lost if key not in earlier]
        prefix = self._registry.prefix_of(resource)
        return PastList(
            ObjectList(found, revision),
            *(omitted, [key.removeprefix(prefix) for key in lost], purged),
            len(state.thinned if earlier.isdisjoint(state.thinned) else state.thinned - earlier),
        )

    async def _state(self, keys: KeyRange, revision: int, namespace: str) -> _State:
        """Returns the objects in a range at a revision, in the order of their keys."""
        until = await self.complete()
        live = {
            each.key: each
            for each in (await self._cache.list(keys, ReadAt.exactly(until))).versions
            if each.value is not None
        }

        def newest(key: str) -> Value | None:
            return self._value(live.get(key))

        def read() -> _State:
            changed = self._history.changed_since(keys, revision, until, newest)
            # After the changes, of which a purge meanwhile may have removed some.
            purged = self._history.purged_since(keys.start, revision)
            if self._is_dropped(keys.start, revision):
                raise _Dropped
            found: list[StoredObject] = []
            lost: list[str] = []
            purged_live = 0
            thinned = frozenset(key for key, past in changed.items() if past.is_thinned)
            for key in sorted(live.keys() | changed.keys()):
                if purged and self._history.digest(key) in purged:
                    purged_live += key in live and live[key].create_revision <= revision
                    continue
                if key not in changed and live[key].revision > revision:
                    value = None  # It has changed since, and this change is missing.
                elif key not in changed and not self._forms.redacts(key):
                    value = live[key].value
                elif (past := changed[key].value if key in changed else newest(key)) is None:
                    continue
                else:
                    is_thinned = key in thinned
                    content = without_status(past.value) if is_thinned and past.value else past.value
                    stored = Stored(key, content, past.revision, past.revision)
                    value = self._decode(stored) if content else None
                if value is not None and value.head:
                    found.append(value)
                else:
                    lost.append(key)
            earlier = frozenset(key for key, past in changed.items() if past.was_created_since)
            return _State(found, earlier, lost, len(purged), purged_live, thinned)

        try:
            state = await self.read(read)
        except _Dropped:
            raise Expired(_NOT_KEPT) from None
        if state.lost:
            log.error(
                "the history has lost what %d objects were at revision %d; the first of them is %s",
                *(len(state.lost), revision, state.lost[0]),
            )
        if namespace and self._begin_of_namespace(namespace) > revision:
            hidden = frozenset((*(each.key for each in state.objects), *state.lost))
            return state._replace(earlier=hidden, is_in_earlier_namespace=True)
        return state

    def _is_dropped(self, key: str, revision: int) -> bool:
        """Whether changes of the resource of a key after a revision were not recorded."""
        resource = self._forms.resource_of(key)
        return self._history.dropped_until(resource) > revision

    def _value(self, version: KeyVersion[StoredObject] | None) -> Value | None:
        """Returns the recorded form of a current object."""
        if version is None or version.value is None:
            return None
        return Value(self._forms.of(version.key, version.value), version.revision)

    def _begin_of_namespace(self, name: str) -> float:
        """Returns the revision at which a namespace was created; infinite if there is none."""
        namespace = self._cache.get_cached(self._forms.namespace_key(name))
        return math.inf if namespace is None else namespace.create_revision

    # ---- versions

    async def versions(
        self,
        resource: ServedResource,
        namespace: str,
        name: str,
        page: VersionPage,
        may_see_earlier: Right,
    ) -> Sequence[RecordedVersion]:
        """Returns the recorded versions of an object, the newest first. may_see_earlier: see `list`.

        Raises NotFound if there are none, ServiceUnavailable.
        """
        key = self._registry.key(resource, namespace, name)
        known = await self.key(key, namespace, await self.complete())
        begin, found = await self.read(lambda: (self.begin(known), self.versions_of(known, page)))
        if any(each.revision < begin for each in found) and not await may_see_earlier():
            found = [each for each in found if each.revision >= begin]
        if not found and not page.before:
            if await self.read(lambda: self._is_dropped(key, 0)):
                raise Expired(_NOT_KEPT)
            raise NotFound(resource.group_resource, name)
        return found

    async def key(self, key: str, namespace: str, until: int) -> HistoryKey:
        """Returns what is known of a key before its history is read. until: what `complete` has returned.

        Raises as `Registry.get`, but not NotFound.
        """
        version = await self._cache.get(key, ReadAt.exactly(until))
        begin = self._begin_of_namespace(namespace) if namespace else 0.0
        if version is not None:
            begin = max(begin, version.create_revision)
        return HistoryKey(key, version, begin, until)

    async def newest(self, key: str, until: int) -> Value | None:
        """Returns the recorded form of an object at a revision. until: what `complete` has returned.

        Raises as `key` does.
        """
        return self._value((await self.key(key, "", until)).version)

    def begin(self, found: HistoryKey) -> float:
        """Returns since which revision a key has been of one object, in one namespace. To be run by `read`.

        Earlier versions are only for users who may see those of all namespaces.
        """
        created = self._history.last_creation(found.key)
        if found.version is None:
            # It may have been created again in a gap, and deleted.
            created = max(created, self._history.readable_since() + 1)
        return max(found.begin, created)

    def versions_of(self, found: HistoryKey, page: VersionPage) -> Sequence[RecordedVersion]:
        """Returns versions of a key, the newest first. To be run by `read`."""
        return self._history.versions(
            found.key, self._value(found.version), until=found.until, before=page.before, limit=page.limit
        )


@contextmanager
def _naming(parameter: str) -> Iterator[None]:
    """Names a parameter in the errors about its value."""
    try:
        yield
    except (BadRequest, Expired) as error:
        raise type(error)(f"{parameter}: {error.message}") from None
