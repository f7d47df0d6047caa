"""The versions of one object: the writer, time and changes of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice, pairwise
from typing import Any, Final

from apiserver.testing.differences import Change, differences, shown
from apiserver.testkit.object_history import ObjectHistory, ObjectVersion
from apiserver.testkit.write_history import StoreWrite

# What the text of a timeline shows.
VERSIONS_SHOWN: Final = 50
CHANGES_SHOWN: Final = 10
# Of one version.
CHANGES_MAX: Final = 100
EXPIRE: Final = "expire"


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an object.

    resource_version: the revision of the write or deletion that created the version.
    at: the time of the write, or None if the time is unknown.
    verb: the verb of the request, as in RBAC rules, or an empty string if the verb is unknown. If no request
        caused the write, the verb is `create`, `update`, `delete` or `expire`. The verb `expire` means that
        the object's lease has expired.
    user, user_agent: the user name and the user agent of the request. If the server itself wrote the object,
        the user is `system:apiserver` and the user agent is empty. If the writer is unknown, both values are
        empty.
    manager: the field manager of the write, or the name of the server task that wrote the object.
    changes: the fields that differ from the previous version. The first version has no changes.
    document: the complete object, including the values of Secrets, or None if the object was deleted.
    """

    resource_version: str
    at: datetime | None
    verb: str
    user: str
    user_agent: str
    manager: str
    changes: tuple[Change, ...]
    # pytest shows what a failed assertion is about.
    document: dict[str, Any] | None = field(repr=False)

    @property
    def writer(self) -> str:
        """The user, the user agent and the field manager, formatted as text."""
        manager = f"field manager {self.manager}" if self.manager else ""
        if not self.user:
            return manager or "an unknown writer"
        how = ", ".join(filter(None, (self.user_agent, manager)))
        return f"{self.user} ({how})" if how else self.user

    def __str__(self) -> str:
        at = self.at.strftime("%H:%M:%S.%f")[:-3] if self.at is not None else "at an unknown time"
        if self.verb == EXPIRE:
            return f"{at} {self.resource_version} the lease has expired"
        return f"{at} {self.resource_version} {self.verb or 'written'} by {self.writer}: {self._told()}"

    def _told(self) -> str:
        if self.document is None:
            return "the object was deleted"
        if not self.changes:
            return "no change" if self.verb not in ("create", "") else shown(self.document)
        told = ", ".join(map(str, self.changes[:CHANGES_SHOWN]))
        more = len(self.changes) - CHANGES_SHOWN
        return f"{told}, and {more} more" if more > 0 else told


class Timeline(Sequence[Version]):
    """A sequence of an object's most recent versions, from oldest to newest. Each element is a `Version`.

    is_complete: False if the object has older versions that the timeline does not contain.

    The `str()` function formats a timeline as text. This text shows the last 50 versions, with up to ten
    changes for each version. Secret values are redacted in this text.
    """

    def __init__(self, what: str, versions: Sequence[Version], *, is_complete: bool) -> None:
        self._what, self._versions, self.is_complete = what, tuple(versions), is_complete

    def __len__(self) -> int:
        return len(self._versions)

    def __getitem__(self, index: Any) -> Any:
        return self._versions[index]

    def __str__(self) -> str:
        cut = len(self._versions) - VERSIONS_SHOWN
        before = [] if self.is_complete else ["  ... earlier versions"]
        if cut > 0:
            before = [f"  ... {cut} earlier versions"]
        lines = [f"  {each}" for each in self._versions[-VERSIONS_SHOWN:]] or ["  the object did not exist"]
        return "\n".join((f"{self._what}:", *before, *lines))


def make_timeline(what: str, history: ObjectHistory, writes: Sequence[StoreWrite]) -> Timeline:
    """Returns the timeline of one object: its versions, each with the write that made it.

    what: names the object. writes: the last ones of the server.
    """
    by_revision: dict[int, StoreWrite] = {}
    for write in writes:
        if history.key in write.keys:
            by_revision.setdefault(write.revision, write)
    nothing = ObjectVersion(0, None, is_new=False)
    versions = [
        _version(before, version, by_revision.get(version.revision))
        for before, version in pairwise([nothing, *history.versions])
    ]
    return Timeline(what, versions, is_complete=history.is_complete)


def _version(before: ObjectVersion, version: ObjectVersion, write: StoreWrite | None) -> Version:
    old, new = before.document, version.document
    request = write.request if write is not None else None
    manager = _manager(old or {}, new) if new is not None else ""
    if not manager and request is None and write is not None:
        manager = write.task
    if request is not None:
        verb = request.verb
    elif new is None and write is None and before.may_expire:
        verb = EXPIRE
    else:
        verb = _verb(version, is_first=not before.revision)
    return Version(
        str(version.revision),
        datetime.fromtimestamp(write.at, UTC) if write is not None else _last_time(new),
        verb,
        write.user if write is not None else "",
        request.user_agent if request is not None else "",
        manager,
        () if old is None or new is None else tuple(islice(differences(old, new), CHANGES_MAX)),
        new,
    )


def _verb(version: ObjectVersion, *, is_first: bool) -> str:
    if version.document is None:
        return "delete"
    return "create" if version.is_new else "" if is_first else "update"


def _entries(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from document.get("metadata", {}).get("managedFields") or ()


def _manager(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Returns the manager that a write has given fields, or whose entry has changed; empty if there is none.

    The entries of managers that lose fields change, too.
    """
    before = {_who(each): each for each in _entries(old)}
    last, last_rank = "", (False, "")
    for entry in _entries(new):
        was = before.get(_who(entry), {})
        if entry != was:
            gains = bool(_owned(entry) - _owned(was))
            rank = (gains, str(entry.get("time", "")))
            if rank >= last_rank:
                last, last_rank = str(entry.get("manager", "")), rank
    return last


def _who(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(entry.get(key) for key in ("manager", "operation", "apiVersion", "subresource"))


def _owned(entry: Mapping[str, Any]) -> frozenset[tuple[str, ...]]:
    return frozenset(_paths(entry.get("fieldsV1") or {}, ()))


def _paths(fields: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for key, inside in fields.items():
        yield (*path, key)
        yield from _paths(inside, (*path, key))


def _last_time(document: Mapping[str, Any] | None) -> datetime | None:
    """Returns the latest time in an object's metadata, to the second."""
    if document is None:
        return None
    created = document.get("metadata", {}).get("creationTimestamp", "")
    times = [str(each.get("time", "")) for each in _entries(document)]
    last = max((created, *times), default="")
    return datetime.fromisoformat(last) if last else None
