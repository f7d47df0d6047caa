"""Takes changes of one object back, each by an ordinary write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from apiserver.cli.api_client import RequestFailed
from apiserver.cli.history.listing import shown_time
from apiserver.cli.history.object_client import (
    CHANGED_FIELDS_MAX,
    ListedVersion,
    ObjectClient,
)
from apiserver.cli.history.reverts import (
    ABSENT,
    Path,
    Revert,
    differences,
    is_equal,
    reverted,
    text_of,
    value_at,
    without_owned,
)
from apiserver.cli.worker_answers import invalid_response
from apiserver.meta.vocabulary import Document

FIELD_MANAGER: Final = "apiserver-history-undo"
# What is shown of fields, and of conflicts, for each of which the history is read.
FIELDS_SHOWN: Final = 20
CONFLICTS_SHOWN: Final = 5
# Subresources with the kind of the object. What was changed through them can only be changed through them.
_OF_SAME_KIND: Final = frozenset({"approval", "ephemeralcontainers", "resize", "status"})
# Deleting one of these deletes what others have made since.
_HOLDERS: Final = frozenset({"customresourcedefinitions", "namespaces"})
_SECRETS: Final = ("", "secrets")
_VERSION: Final[Path] = ("metadata", "resourceVersion")
_REDACTED: Final[tuple[Path, ...]] = (("data",), ("metadata", "annotations"))
DRY_RUN: Final[Mapping[str, str]] = MappingProxyType({"dryRun": "All"})


class CannotUndo(Exception):
    """A change cannot be undone. The message says why; nothing was written."""


class NothingToUndo(CannotUndo):
    """Nothing is left of a change that could be undone."""


class _Change(NamedTuple):
    """A change of an object.

    later: returns the versions since, the newest first, without what was undone here.
    """

    version: ListedVersion
    later: Callable[[], Sequence[ListedVersion]]

    def __str__(self) -> str:
        return f"change {self.version.revision} by {_author(self.version)}"


class _States(NamedTuple):
    """The object before and after a change, and now; None if it did not exist."""

    before: Document | None
    after: Document | None
    live: Document | None


class _Plan(NamedTuple):
    """What a dry run has made of the object; None if it would not exist.

    is_apart: whether it is another object than that of the server, which then is asked nothing more about it.
    """

    state: Document | None
    is_apart: bool


class Undo:
    """Undoes changes of one object, one after another, the newest first. query: of the writes.

    Each change is undone in what those before have left, also in a dry run.
    """

    def __init__(self, client: ObjectClient, query: Mapping[str, str]) -> None:
        self._client = client
        self._query = urlencode({"fieldManager": FIELD_MANAGER, **query})
        self._is_dry_run, self._note = bool(query), " (server dry run)" if query else ""
        # Those that were read, their places by revision, and the others: to read them, or to look through
        # them, again for each change takes long.
        self._versions: list[ListedVersion] = []
        self._places: dict[int, int] = {}
        self._unread = client.all_versions()
        self._plan: _Plan | None = None
        # The revisions of changes that were undone, and of the writes that did it.
        self._done: set[str] = set()
        # The UIDs of objects that were created again, by those that they had.
        self._new_uids: dict[Any, Any] = {}

    def lines(self, revision: int | None) -> Iterator[str]:
        """Undo a change, and yield what was done. revision: None for the last change.

        Raises CannotUndo, RequestFailed. Then another change can still be undone.
        """
        client = self._client
        change = self._find(revision)
        at = change.version.revision
        states = _States(client.at(at - 1), client.at(at), self._live())
        match states:
            case _States(before=before, after=None) if before is not None and change.version.is_deleted:
                yield from self._create(change, states, before)
            # If fields have changed, there was an object that the user may not see.
            case _States(before=None, after=after) if after is not None and not change.version.changed:
                yield from self._delete(change, states, after)
            case _States(before=before, after=after) if before is not None and after is not None:
                yield from self._update(change, before, after, states.live)
            case _:
                raise CannotUndo(f"the history does not have all of {change} of {client.title}")
        self._done.add(str(at))

    def _find(self, revision: int | None) -> _Change:
        first = 0 if revision is None else self._places.get(revision, len(self._versions))
        for place, version in self._versions_from(first):
            is_it = version.revision == revision if revision is not None else version.subresource != "status"
            if is_it and version.is_recorded:
                return _Change(version, partial(self._later, place))
            if is_it or (revision is not None and version.revision < revision):
                break
        which = "a change to undo" if revision is None else f"change {revision}"
        raise CannotUndo(f"the history of {self._client.title} does not have {which}")

    def _versions_from(self, first: int) -> Iterator[tuple[int, ListedVersion]]:
        """Yields the versions from before the first change was undone, with their places, from one on.

        Raises RequestFailed.
        """
        yield from enumerate(islice(self._versions, first, None), first)
        try:
            for version in self._unread:
                place = self._places[version.revision] = len(self._versions)
                self._versions.append(version)
                yield place, version
        except RequestFailed:
            self._versions, self._places, self._unread = [], {}, self._client.all_versions()
            raise

    def _later(self, place: int) -> Sequence[ListedVersion]:
        return [each for each in self._versions[:place] if str(each.revision) not in self._done]

    # ---- writes

    def _live(self) -> Document | None:
        """Returns the object as it is now, or would be."""
        return self._client.live() if self._plan is None else self._plan.state

    @property
    def _is_apart(self) -> bool:
        return self._plan is not None and self._plan.is_apart

    def _is_same(self, live: Document | None, after: Document) -> bool:
        """Whether an object is still the one of a change, or what was created in its place here."""
        return live is not None and _uid(live) in (_uid(after), self._new_uids.get(_uid(after)))

    def _wrote(self, state: Document | None, *, is_apart: bool) -> None:
        """Note the state after a write."""
        if self._is_dry_run:
            self._plan = _Plan(state, is_apart)
        elif state is not None:
            self._done.add(str(value_at(state, _VERSION)))

    def _recorded(self, live: Document) -> Document:
        """Returns the object as the history has it: without what it does not keep of Secrets."""
        client = self._client
        recorded = None if self._is_apart else client.at(int(live["metadata"]["resourceVersion"]))
        if self._plan is None or recorded is None:
            return recorded or live
        if (client.group, client.resource) != _SECRETS:
            return live
        metadata = {**live["metadata"], "annotations": value_at(recorded, ("metadata", "annotations"))}
        return {**live, "data": value_at(recorded, ("data",)), "metadata": metadata}

    def _create(self, change: _Change, states: _States, before: Document) -> Iterator[str]:
        """Create a deleted object again."""
        client = self._client
        if states.live is not None:
            again = change.later()[-1:]
            raise CannotUndo(f"{client.title} has been created again{_since(again)} after its deletion")
        if (client.group, client.resource) == _SECRETS:
            raise CannotUndo(f"{client.title} cannot be created again: the history has no values of Secrets")
        created = made = without_owned(before)
        if not self._is_apart:
            created = client.client.post(f"{client.collection}?{self._query}", made)
        if not isinstance(value_at(created, ("metadata",)), dict):
            raise invalid_response(client.collection)
        self._wrote(created, is_apart=True)
        new, old = _uid(created), _uid(before)
        self._new_uids[old] = new
        yield f"{client.title}: undone {change}{self._note}"
        yield f"  created again with {'a new UID' if new is ABSENT else f'the new UID {new}'} (before: {old})"

    def _delete(self, change: _Change, states: _States, after: Document) -> Iterator[str]:
        """Delete an object that nobody has changed since it was created."""
        client, live = self._client, states.live
        if client.resource in _HOLDERS:
            raise CannotUndo(f"{client.title} was created by {change}; deleting it would delete all it holds")
        if live is None or not self._is_same(live, after):
            raise self._replaced(change)
        metadata = live["metadata"]
        made, now = ({**without_owned(each), "status": None} for each in (after, self._recorded(live)))
        if changed := [*differences(made, now)]:
            raise self._conflict(change, changed)
        if not self._is_apart:
            options: Document = {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "preconditions": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
            }
            # If there are options in the body, servers ignore those in the query.
            if self._is_dry_run:
                options["dryRun"] = ["All"]
            client.client.delete(f"{client.path}?{self._query}", options)
        self._wrote(None, is_apart=True)
        yield f"{client.title}: undone {change}{self._note}"
        yield "  deleted"

    def _update(
        self, change: _Change, before: Document, after: Document, live: Document | None
    ) -> Iterator[str]:
        """Write the fields of a change as they were."""
        client = self._client
        if live is None or not self._is_same(live, after):
            raise self._replaced(change)
        if (client.group, client.resource) == _SECRETS:
            for path in _REDACTED:
                if not is_equal(value_at(before, path), value_at(after, path)):
                    raise CannotUndo(
                        f"{change} of {client.title} cannot be undone: the history has no values and "
                        "annotations of Secrets"
                    )
        found = reverted(before, after, live)
        if found.conflicts:
            raise self._conflict(change, found.conflicts)
        if not found.reverted:
            raise self._nothing(change, before, after)
        answer = found.value if self._is_apart else self._put(change, found.value)
        self._wrote(answer, is_apart=self._is_apart)
        yield f"{client.title}: undone {change}{self._note}"
        for path in islice(found.reverted, FIELDS_SHOWN):
            yield f"  {text_of(path)}"
        if (more := len(found.reverted) - FIELDS_SHOWN) > 0:
            yield f"  ... {more} more field{'' if more == 1 else 's'}"
        if kept := _kept(found, answer):
            raise CannotUndo(f"the server has kept other values of {', '.join(map(text_of, kept))}")

    def _put(self, change: _Change, document: Document) -> Document:
        """Write the object. Returns what the server answers, in a dry run with the version of the object."""
        client, subresource = self._client, change.version.subresource
        below = f"/{subresource}" if subresource in _OF_SAME_KIND else ""
        # It has the resource version of the live object, so that the server refuses it if that has changed.
        answer: Document = client.client.put(f"{client.path}{below}?{self._query}", document)
        metadata = value_at(answer, ("metadata",))
        if not isinstance(metadata, dict):
            raise invalid_response(client.path)
        if not self._is_dry_run:
            return answer
        return {**answer, "metadata": {**metadata, "resourceVersion": value_at(document, _VERSION)}}

    # ---- why not

    def _nothing(self, change: _Change, before: Document, after: Document) -> CannotUndo:
        title = self._client.title
        deletion = ("metadata", "deletionTimestamp")
        if value_at(before, deletion) is ABSENT and value_at(after, deletion) is not ABSENT:
            return CannotUndo(f"{change} has begun the deletion of {title}, which cannot be undone")
        if is_equal(without_owned(before), without_owned(after)):
            return NothingToUndo(f"{change} has changed no field of {title} that a client can set")
        return NothingToUndo(f"the fields of {title} already have the values from before {change}")

    def _replaced(self, change: _Change) -> CannotUndo:
        """Returns the error for an object that has been deleted since."""
        deletions = [each for each in change.later() if each.is_deleted]
        return CannotUndo(f"{self._client.title} has been deleted{_since(deletions[-1:])} after {change}")

    def _conflict(self, change: _Change, paths: Sequence[Path]) -> CannotUndo:
        told = [
            f"{text_of(path)} has been changed{_since(self._writers(change, path))}"
            for path in paths[:CONFLICTS_SHOWN]
        ]
        more = len(paths) - CONFLICTS_SHOWN
        if more > 0:
            told.append(f"{more} more {'field has' if more == 1 else 'fields have'} been changed")
        return CannotUndo(f"cannot undo {change} of {self._client.title}: {'; '.join(told)}")

    def _writers(self, change: _Change, path: Path) -> Sequence[ListedVersion]:
        """Returns the last version that has changed a field since; none if it is not recorded."""
        for version in change.later():
            if _may_have_changed(version, path):
                old, new = (
                    ABSENT if state is None else value_at(state, path)
                    for state in (self._client.at(version.revision - 1), self._client.at(version.revision))
                )
                if not is_equal(old, new):
                    return [version]
        return []


def _may_have_changed(version: ListedVersion, path: Path) -> bool:
    """Returns whether the listed fields of a version are compatible with a change of a field."""
    if len(version.changed) >= CHANGED_FIELDS_MAX:
        return True
    # Lists are listed as a whole, and keys may contain points.
    text = ".".join(step for step in path if isinstance(step, str))
    return any(f"{text}.".startswith(f"{each}.") or each.startswith(f"{text}.") for each in version.changed)


def _kept(found: Revert, answer: Document) -> Sequence[Path]:
    """Returns the fields that a write has not changed as it should have."""
    return [
        path for path in found.reverted if not is_equal(value_at(answer, path), value_at(found.value, path))
    ][:CONFLICTS_SHOWN]


def _uid(document: Document) -> Any:
    return value_at(document, ("metadata", "uid"))


def _author(version: ListedVersion) -> str:
    return f"{version.user or 'an unknown user'} at {shown_time(version.time)}"


def _since(versions: Sequence[ListedVersion]) -> str:
    """Returns who has made a version; empty without one."""
    return f" by {_author(versions[0])} (version {versions[0].revision})" if versions else ""
