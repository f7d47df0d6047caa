"""Reads the changes of all objects, the newest first: only those that a user may see.

What a user may see is decided by place: a resource in a namespace. The history does not know resources, so a
scan looks at all changes, and a request may look at many to find few. Its bounds end it in between, and
another request continues there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from apiserver.registry.history.past import HistoryKey, PastReads, VersionPage
from apiserver.registry.served_resource import ResourceTable, ServedResource, ServedTable
from apiserver.storage.history.changes import KeyChange, Span
from apiserver.storage.history.past_values import HistoryGap, RecordedVersion, Scan
from apiserver.storage.history.rows import position_after, revision_at_position
from apiserver.storage.history.undo_log import UndoLog
from apiserver.storage.keys import resource_of

# What one request looks at: less than a fifth of a second in the thread of the history.
ROWS_SCANNED_MAX: Final = 10_000
# What it reads of values.
VALUES_BYTES_MAX: Final = 16 * 1024 * 1024
# The places that it decides about, each of which may ask a webhook.
PLACES_MAX: Final = 500
# What is read at once: others use the thread in between, and large values do not add up.
FOUND_AT_ONCE: Final = 25
ROWS_AT_ONCE: Final = 2_000


class Place(NamedTuple):
    """A resource in a namespace; the namespace is empty for cluster-scoped objects, or for all."""

    resource: ServedResource
    namespace: str


# Whether the user may see changes in a place.
PlaceRight: TypeAlias = Callable[[Place], Awaitable[bool]]


class ChangesQuery(NamedTuple):
    """The changes in `span` that are wanted, at most `limit`.

    position: that of the page before; 0 for the first page. user, namespace: empty for all.
    """

    span: Span
    position: int
    limit: int
    user: str
    namespace: str


class PlacedChange(NamedTuple):
    """A change. before: the version that it has replaced, if that is recorded; also a deletion."""

    place: Place
    name: str
    version: RecordedVersion
    before: RecordedVersion | None


class ChangesPage(NamedTuple):
    """Changes and gaps, the newest first. position: where the next page begins; 0 if this is the last one."""

    entries: Sequence[PlacedChange | Span]
    position: int


class _Located(NamedTuple):
    """A change, and where its object is."""

    change: KeyChange
    place: Place
    name: str


class _ReadChange(NamedTuple):
    """A change that was read. begin: see `PastReads.begin`."""

    change: PlacedChange
    begin: float


class RecentChanges:
    """Reads changes. prefix: of all keys."""

    def __init__(self, past: PastReads, history: UndoLog, served: ServedTable, prefix: str) -> None:
        self._past, self._history, self._served, self._prefix = past, history, served, prefix

    def is_position(self, position: int, span: Span) -> bool:
        """Whether a page of the changes in a span may begin there."""
        return span.after < revision_at_position(position) <= span.until

    async def read(self, query: ChangesQuery, may_see: PlaceRight) -> ChangesPage:
        """Returns a page of changes. may_see: called once for each place.

        Without the limit, a page may be shorter, because of the bounds, and yet not be the last one.
        Raises Expired if the history does not go back that far any more, ServiceUnavailable.
        """
        request = _Request(query, self._prefix, self._served.current, may_see)
        until = await self._past.complete()
        while request.is_unfinished:
            scan = await self._past.read(partial(request.scan, self._history))
            located = [each for each in map(request.located, scan.found) if await request.is_open(each.place)]
            keys = {
                each.change.key: await self._past.key(each.change.key, each.place.namespace, until)
                for each in located
            }
            found = await self._past.read(partial(self._changes, located, keys))
            await request.add(scan, found)
        return ChangesPage(request.entries, 0 if request.is_complete else request.position)

    # ---- in the thread of the history

    def _changes(self, located: Sequence[_Located], keys: Mapping[str, HistoryKey]) -> Sequence[_ReadChange]:
        """Returns the changes without those that were purged or dropped meanwhile.

        Raises HistoryGap if another one cannot be read any more.
        """
        of_keys: dict[str, list[_Located]] = {}
        for each in located:
            of_keys.setdefault(each.change.key, []).append(each)
        found: dict[int, _ReadChange] = {}
        for key, changes in of_keys.items():
            begin = self._past.begin(keys[key])
            versions = {
                version.revision: (version, before)
                for version, before in self._versions(keys[key], [each.change.revision for each in changes])
            }
            for each in changes:
                if each.change.revision in versions:
                    change = PlacedChange(each.place, each.name, *versions[each.change.revision])
                    found[each.change.position] = _ReadChange(change, begin)
        return [found[each.change.position] for each in located if each.change.position in found]

    def _versions(
        self, known: HistoryKey, revisions: Sequence[int]
    ) -> Iterator[tuple[RecordedVersion, RecordedVersion | None]]:
        """Yields versions of a key, each with the one before, but none that were purged or dropped meanwhile.

        revisions: theirs, the newest first.
        Many are read at once, as each is decoded from those after it. There may be others between them.
        """
        wanted = deque(revisions)
        while wanted:
            # One more for the version before the last one, and one that may come first: it is newer, and only
            # known to exist.
            page = VersionPage(wanted[0] + 1, len(wanted) + 2)
            versions = self._past.versions_of(known, page)
            remaining = len(wanted)
            ended = (None,) if len(versions) < page.limit else ()
            for version, before in zip(versions, (*versions[1:], *ended), strict=False):
                if wanted and version.revision == wanted[0]:
                    wanted.popleft()
                    if not version.is_purged:
                        yield version, before
            if len(wanted) == remaining:
                if self._history.purged_since(known.key, wanted[0] - 1):
                    return
                if not self._history.is_thinned(known.key, wanted.popleft()):
                    raise HistoryGap(self._history.listed_since())


class _Request:
    """What one request has found. position: of the last change that it has looked at."""

    def __init__(self, query: ChangesQuery, prefix: str, table: ResourceTable, may_see: PlaceRight) -> None:
        self._query, self._prefix, self._may_see = query, prefix, may_see
        self._folders = table.derived(_resources_by_folder, _resources_by_folder)
        self._places: dict[Place, bool] = {}
        self.entries: list[PlacedChange | Span] = []
        self.position = query.position or position_after(query.span.until)
        self._rows = self._bytes = 0
        # Gaps above it were shown, or are newer than the request.
        self._shown_down_to = revision_at_position(query.position) if query.position else query.span.until
        self.is_complete = False

    @property
    def is_unfinished(self) -> bool:
        return not (
            self.is_complete
            or len(self.entries) >= self._query.limit
            or self._rows >= ROWS_SCANNED_MAX
            or self._bytes >= VALUES_BYTES_MAX
            or len(self._places) >= PLACES_MAX
        )

    def scan(self, history: UndoLog) -> Scan:
        """Returns the next changes that may be wanted. Called in the thread of the history."""
        return history.changes(
            self._query.span,
            self.position,
            self._is_wanted,
            found_max=min(FOUND_AT_ONCE, self._query.limit - len(self.entries)),
            rows_max=min(ROWS_AT_ONCE, ROWS_SCANNED_MAX - self._rows),
        )

    def _is_wanted(self, change: KeyChange) -> bool:
        if self._query.user and change.author.user != self._query.user:
            return False
        # A definition may have been deleted since.
        if self._folder(change.key) not in self._folders:
            return False
        place = self.located(change).place
        if self._query.namespace and place.namespace != self._query.namespace:
            return False
        return self._places.get(place, True)

    def located(self, change: KeyChange) -> _Located:
        folder = self._folder(change.key)
        resource, rest = self._folders[folder], change.key[len(self._prefix) + len(folder) :]
        namespace, _, name = rest.partition("/") if resource.is_namespaced else ("", "", rest)
        return _Located(change, Place(resource, namespace), name)

    def _folder(self, key: str) -> str:
        return (resource_of(self._prefix, key) or "")[len(self._prefix) :]

    async def is_open(self, place: Place) -> bool:
        """Whether the user may see changes in a place, decided at the first time."""
        found = self._places.get(place)
        if found is None:
            found = self._places[place] = await self._may_see(place)
        return found

    async def add(self, scan: Scan, found: Sequence[_ReadChange]) -> None:
        """Add what was read of a scan, except what only users may see who may see all namespaces."""
        for change, begin in found:
            if change.version.revision < begin and not await self.is_open(Place(change.place.resource, "")):
                continue
            self._add_gaps(scan, change.version.revision)
            self.entries.append(change)
            self._bytes += sum(len(each.value or b"") for each in (change.version, change.before) if each)
        self._rows += scan.rows
        self.position, self.is_complete = scan.position, scan.is_complete
        self._add_gaps(scan, 0 if scan.is_complete else revision_at_position(scan.position))

    def _add_gaps(self, scan: Scan, revision: int) -> None:
        """Add the gaps above a revision."""
        for gap in scan.gaps:
            if revision <= gap.after < self._shown_down_to and gap.until > self._query.span.after:
                self.entries.append(gap)
        self._shown_down_to = min(self._shown_down_to, revision)


def _resources_by_folder(table: ResourceTable) -> Mapping[str, ServedResource]:
    """Returns the resources that have a past, by their folders: each in the preferred version of its group.

    Of a resource that several groups serve, that of the group in which it is stored, if it is served there.
    """
    found: dict[str, ServedResource] = {}
    versions = [version for versions in table.groups.values() for version in versions]
    resources = [each for version in versions for each in table.group_versions[version] if each.has_past]
    for is_of_stored_group in (True, False):
        for each in resources:
            if (each.stored_group_resource.group == each.group_version.group) is is_of_stored_group:
                found.setdefault(each.folder, each)
    return found
