"""`apiserver history undo`: takes one change of an object back, by an ordinary write."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from apiserver.cli.history.listing import shown_time
from apiserver.cli.history.object_client import (
    CHANGED_FIELDS_MAX,
    ListedVersion,
    ObjectClient,
    add_object_arguments,
    object_client,
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
from apiserver.cli.printing import print_error, print_lines
from apiserver.meta.vocabulary import Document

COMMAND: Final = "history undo"
_ABOUT: Final = """
Undoes one change of an object: the fields that the change has set get the values that they had before it. By
default, this is the last change, except changes of the object's status.

If one of these fields has been changed again since, the command prints who changed it, and changes nothing.
The command creates an object again if the change has deleted it, with a new UID. It deletes an object that
the change has created, unless the object has been changed since.

The command sends ordinary requests, with the credentials in the kubeconfig or in the connection flags. The
server refuses the write if the object changes in the meantime. The history does not contain the values and
annotations of Secrets, so changes of them cannot be undone.
"""
DONE, FAILED = 0, 1
FIELD_MANAGER: Final = "apiserver-history-undo"
# What is shown of fields, and of conflicts, for each of which the history is read.
FIELDS_SHOWN: Final = 20
CONFLICTS_SHOWN: Final = 5
# Subresources with the kind of the object. What was changed through them can only be changed through them.
_OF_SAME_KIND: Final = frozenset({"approval", "ephemeralcontainers", "resize", "status"})
# Deleting one of these deletes what others have made since.
_HOLDERS: Final = frozenset({"customresourcedefinitions", "namespaces"})
_SECRETS: Final = ("", "secrets")
_REDACTED: Final[tuple[Path, ...]] = (("data",), ("metadata", "annotations"))
_DRY_RUN: Final[Mapping[str, str]] = MappingProxyType({"dryRun": "All"})


class CannotUndo(Exception):
    """A change cannot be undone. The message says why; nothing was written."""


class _Change(NamedTuple):
    """A change of an object. later: the versions since, the newest first."""

    version: ListedVersion
    later: Sequence[ListedVersion]

    def __str__(self) -> str:
        return f"change {self.version.revision} by {_author(self.version)}"


class _States(NamedTuple):
    """The object before and after a change, and now; None if it did not exist."""

    before: Document | None
    after: Document | None
    live: Document | None


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("undo", description=_ABOUT, help="Undo a change of an object.")
    add_object_arguments(parser)
    parser.add_argument(
        "--change",
        type=int,
        metavar="REVISION",
        help="The change to undo: the REVISION that `apiserver history list` shows.",
    )
    parser.add_argument(
        "--dry-run",
        choices=("none", "server"),
        default="none",
        help="With `server`, the server checks the request, but does not store the result. (default none)",
    )
    parser.set_defaults(command=_run)


def _run(given: argparse.Namespace) -> int:
    """Undo the change. Returns the exit code. Raises UsageError, RequestFailed."""
    with object_client(given, COMMAND) as client:
        undo = Undo(client, _DRY_RUN if given.dry_run == "server" else {})
        try:
            for line in undo.lines(given.change):
                print_lines(line)
        except CannotUndo as error:
            print_error(error)
            return FAILED
    return DONE


class Undo:
    """Undoes a change of one object. query: of the write."""

    def __init__(self, client: ObjectClient, query: Mapping[str, str]) -> None:
        self._client = client
        self._query = urlencode({"fieldManager": FIELD_MANAGER, **query})
        self._note = " (server dry run)" if query else ""

    def lines(self, revision: int | None) -> Iterator[str]:
        """Undo a change, and yield what was done. revision: None for the last change.

        Raises CannotUndo, RequestFailed.
        """
        client = self._client
        change = self._find(revision)
        at = change.version.revision
        states = _States(client.at(at - 1), client.at(at), client.live())
        match states:
            case _States(before=before, after=None) if before is not None and change.version.is_deleted:
                yield from self._create(change, states, before)
            # If fields have changed, there was an object that the user may not see.
            case _States(before=None, after=after) if after is not None and not change.version.changed:
                yield from self._delete(change, states, after)
            case _States(before=before, after=after) if before is not None and after is not None:
                yield from self._update(change, before, after, states.live)
            case _:
                raise CannotUndo(f"the history does not have all of {change}")

    def _find(self, revision: int | None) -> _Change:
        later: list[ListedVersion] = []
        for version in self._client.all_versions():
            is_it = version.revision == revision if revision is not None else version.subresource != "status"
            if is_it and version.is_recorded:
                return _Change(version, later)
            if is_it or (revision is not None and version.revision < revision):
                break
            later.append(version)
        which = "a change to undo" if revision is None else f"change {revision}"
        raise CannotUndo(f"the history of {self._client.title} does not have {which}")

    # ---- writes

    def _create(self, change: _Change, states: _States, before: Document) -> Iterator[str]:
        """Create a deleted object again."""
        client = self._client
        if states.live is not None:
            again = change.later[-1:]
            raise CannotUndo(f"{client.title} has been created again{_since(again)} after its deletion")
        if (client.group, client.resource) == _SECRETS:
            raise CannotUndo(f"{client.title} cannot be created again: the history has no values of Secrets")
        created = client.client.post(f"{client.collection}?{self._query}", without_owned(before))
        yield f"{client.title}: undone {change}{self._note}"
        new, old = (value_at(each, ("metadata", "uid")) for each in (created, before))
        yield f"  created again with the new UID {new} (before: {old})"

    def _delete(self, change: _Change, states: _States, after: Document) -> Iterator[str]:
        """Delete an object that nobody has changed since it was created."""
        client, live = self._client, states.live
        if client.resource in _HOLDERS:
            raise CannotUndo(f"{client.title} was created by {change}; deleting it would delete all it holds")
        if live is None or _uid(live) != _uid(after):
            raise self._replaced(change)
        metadata = live["metadata"]
        # In the form in which the history has it.
        recorded = client.at(int(metadata["resourceVersion"])) or live
        made, now = ({**without_owned(each), "status": None} for each in (after, recorded))
        if changed := [*differences(made, now)]:
            raise self._conflict(change, changed)
        preconditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        client.client.delete(
            f"{client.path}?{self._query}",
            {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions},
        )
        yield f"{client.title}: undone {change}{self._note}"
        yield "  deleted"

    def _update(
        self, change: _Change, before: Document, after: Document, live: Document | None
    ) -> Iterator[str]:
        """Write the fields of a change as they were."""
        client = self._client
        if live is None or _uid(live) != _uid(after):
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
            raise CannotUndo(self._nothing(change, before, after))
        subresource = change.version.subresource
        below = f"/{subresource}" if subresource in _OF_SAME_KIND else ""
        # It has the resource version of the live object, so that the server refuses it if that has changed.
        answer = client.client.put(f"{client.path}{below}?{self._query}", found.value)
        yield f"{client.title}: undone {change}{self._note}"
        for path in islice(found.reverted, FIELDS_SHOWN):
            yield f"  {text_of(path)}"
        if len(found.reverted) > FIELDS_SHOWN:
            yield f"  ... {len(found.reverted) - FIELDS_SHOWN} more fields"
        if kept := _kept(found, answer):
            raise CannotUndo(f"the server has kept other values of {', '.join(map(text_of, kept))}")

    # ---- why not

    def _nothing(self, change: _Change, before: Document, after: Document) -> str:
        title = self._client.title
        deletion = ("metadata", "deletionTimestamp")
        if value_at(before, deletion) is ABSENT and value_at(after, deletion) is not ABSENT:
            return f"{change} has begun the deletion of {title}, which cannot be undone"
        if is_equal(without_owned(before), without_owned(after)):
            return f"{change} has changed no field of {title} that a client can set"
        return f"the fields of {title} already have the values from before {change}"

    def _replaced(self, change: _Change) -> CannotUndo:
        """Returns the error for an object that has been deleted since."""
        deletions = [each for each in change.later if each.is_deleted]
        return CannotUndo(f"{self._client.title} has been deleted{_since(deletions[-1:])} after {change}")

    def _conflict(self, change: _Change, paths: Sequence[Path]) -> CannotUndo:
        told = [
            f"{text_of(path)} has been changed{_since(self._writers(change, path))}"
            for path in paths[:CONFLICTS_SHOWN]
        ]
        more = len(paths) - CONFLICTS_SHOWN
        told += [f"{more} more fields have been changed"] if more > 0 else []
        return CannotUndo(f"cannot undo {change} of {self._client.title}: {'; '.join(told)}")

    def _writers(self, change: _Change, path: Path) -> Sequence[ListedVersion]:
        """Returns the last version that has changed a field since; none if it is not recorded."""
        for version in change.later:
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
