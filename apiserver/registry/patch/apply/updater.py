"""Computes the managed fields after a write, and the object after an apply.

Source of the rules: structured-merge-diff, merge/update.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from apiserver.meta.vocabulary import Document
from apiserver.registry.patch.apply import field_set
from apiserver.registry.patch.apply.endpoint_fields import ALL_FIELDS, EndpointFields
from apiserver.registry.patch.apply.field_set import LEAF, FieldSet, difference, intersection, union
from apiserver.registry.patch.apply.managed_fields import (
    BEFORE_FIRST_APPLY,
    UPDATE,
    FieldManager,
    ManagedFields,
    ManagedFieldsEntry,
    ManagerIdentity,
    cap_update_managers,
)
from apiserver.registry.patch.apply.merge import merge, reconcile_with_schema, with_owned, without_fields
from apiserver.registry.patch.apply.type_defs import TypeDef
from apiserver.registry.patch.apply.typed_value import Comparison, compare, to_field_set

# More would not be read.
CONFLICTS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class TypeVersion:
    """One version of a type: the ownership of its fields, and the conversion of its documents.

    In the `other_versions` of a type version, `convert` and `convert_back` are from and to that type version.

    empty: an object of this version with nothing set, as the server encodes it.
    endpoint: the fields that the endpoint writes, by their names in this version.
    other_versions: the type's other versions, by apiVersion; missing ones are no longer served.
    convert: converts a document of the written version to this one, without changing its argument.
    convert_back: converts a document of this version to the written one.
    convert_ahead: for conversions that need I/O: requests all documents in several apiVersions at once, and
        raises an exception that interrupts the work until they are available.
    is_custom: whether its schema may change from one write to the next.
    """

    api_version: str
    type_def: TypeDef
    empty: Document = field(default_factory=dict)
    endpoint: EndpointFields = ALL_FIELDS
    other_versions: Mapping[str, TypeVersion] = field(default_factory=dict)
    convert: Callable[[Document], Document] | None = None
    convert_back: Callable[[Document], Document] | None = None
    convert_ahead: Callable[[Sequence[Document], Iterable[str]], object] | None = None
    is_custom: bool = False


class FieldConflict(NamedTuple):
    """A field that another manager owns with another value. path: as in `.data.k`."""

    manager: FieldManager
    path: str


class FieldConflicts(Exception):
    """Other managers own applied fields with other values. There is at least one conflict."""

    def __init__(self, conflicts: Sequence[FieldConflict]) -> None:
        self.conflicts = conflicts
        super().__init__(self.text())

    def text(self) -> str:
        first = self.conflicts[0]
        if len(self.conflicts) == 1:
            return f"Apply failed with 1 conflict: conflict with {first.manager.describe()}: {first.path}"
        lines: list[str] = []
        last: FieldManager | None = None
        for manager, path in self.conflicts:
            if manager != last:
                lines.append(f"conflicts with {manager.describe()}:")
                last = manager
            lines.append(f"- {path}")
        return f"Apply failed with {len(self.conflicts)} conflicts: " + "\n".join(lines)


class ApplyResult(NamedTuple):
    """The result of an apply.

    document: the live object with the applied one merged in; not yet validated, pruned or defaulted.
    """

    document: Document
    managed: ManagedFields


class Updater(NamedTuple):
    """The rules for one write of one manager.

    version: the type version that is written. now: the time for entries that change.
    """

    version: TypeVersion
    manager: FieldManager
    now: str

    def update(self, old: Document | None, new: Document, managed: ManagedFields) -> ManagedFields:
        """Returns the managed fields after a write other than an apply. Rows F16, F17.

        The writer becomes the only owner of changed fields; removed fields have no owner. The time of the
        writer's entry is that of its last change; entries that only lose fields keep their time.

        old: None for a new object. managed: the managed fields of `old`; returned itself if nothing changes.
        Raises typed_value.DocumentTooDeep.
        """
        version, manager = self.version, self.manager
        if old is None and not managed:
            return self._create(new)
        comparisons = _Comparisons(version.empty if old is None else old, new, version, managed)
        compared = comparisons.of(version.api_version)
        assert compared is not None
        own, touched = compared
        if not touched:
            return managed
        identity = manager.identity
        if version.is_custom:
            managed = _reconciled(managed, version)
        left = _without_touched(managed, comparisons, keep=None)
        if own.changed:
            before = left.get(identity)
            fields = union(before.fields, own.changed) if before else own.changed
            left[identity] = self._entry(managed.get(identity), fields)
        return cap_update_managers(left)

    def _create(self, new: Document) -> ManagedFields:
        """Returns the managed fields of a new object that has none yet."""
        version, manager = self.version, self.manager
        endpoint = version.endpoint
        if endpoint is ALL_FIELDS:
            fields = compare(version.empty, new, version.type_def).changed
        else:
            parts = endpoint.part_of(version.empty), endpoint.part_of(new)
            fields = endpoint.written(compare(*parts, version.type_def).changed)
        return {manager.identity: ManagedFieldsEntry(manager, fields, self.now)} if fields else {}

    def apply(
        self,
        live: Document | None,
        applied: Document,
        managed: ManagedFields,
        *,
        force: bool = False,
        applied_fields: FieldSet | None = None,
        allowed_conflicts: FieldSet = LEAF,
    ) -> ApplyResult:
        """Returns the object and its managed fields after an apply. Rows F08-F15, F24-F26.

        live: None if there is no such object. It is not changed; the result shares parts with it, or is it if
            nothing changes.
        managed: the managed fields of `live`.
        applied_fields: the field set of `applied`, if the caller has it already.
        allowed_conflicts: fields that never conflict, whichever manager owns them.
        Raises FieldConflicts, typed_value.SchemaMismatch for values that do not fit the schema,
        typed_value.DocumentTooDeep.
        """
        version, manager = self.version, self.manager
        if applied_fields is None:
            applied_fields = to_field_set(applied, version.type_def)
        if version.endpoint is not ALL_FIELDS:
            applied_fields = version.endpoint.written(applied_fields)
        before = version.empty if live is None else live
        if live is not None and not managed:
            managed = self._before_first_apply(live)
        if version.is_custom:
            managed = _reconciled(managed, version)
        identity = manager.identity
        last = managed.get(identity)
        merged = merge(before, applied, version.type_def)
        if last is not None and last.fields != applied_fields and difference(last.fields, applied_fields):
            own_entry = ManagedFieldsEntry(manager, applied_fields, "")
            owned = _owned_by_version({**managed, identity: own_entry})
            merged = _without_given_up(merged, last, owned, version)
        comparisons = _Comparisons(before, merged, version, managed)
        if not force:
            _require_no_conflict(managed, comparisons, identity, allowed_conflicts)
        left = _without_touched(managed, comparisons, keep=identity)
        own = comparisons.of(version.api_version)
        left.pop(identity, None)
        if applied_fields:
            # A change counts also where the endpoint takes it back, as a status that it does not write.
            is_change = bool(own and own[1]) or live is None or (merged is not live and merged != live)
            left[identity] = self._entry(last, applied_fields, is_change=is_change)
        return ApplyResult(merged, left)

    def _before_first_apply(self, live: Document) -> ManagedFields:
        """Returns managed fields for an object without any: one manager owns all that the endpoint writes."""
        version = self.version
        fields = version.endpoint.written(compare(version.empty, live, version.type_def).changed)
        manager = FieldManager(BEFORE_FIRST_APPLY, UPDATE, version.api_version, self.manager.subresource)
        return {manager.identity: ManagedFieldsEntry(manager, fields, self.now)} if fields else {}

    def _entry(
        self, last: ManagedFieldsEntry | None, fields: FieldSet, *, is_change: bool = True
    ) -> ManagedFieldsEntry:
        """Returns the manager's entry. last: the previous entry. is_change: whether the write changes the
        object.

        A manager that changes nothing in the object keeps the time of its last change, if any.
        """
        time = last.time if last is not None else ""
        if is_change:
            time = self.now or time
        if last is not None and last.fields == fields and last.manager == self.manager:
            return last.at(time)
        return ManagedFieldsEntry(self.manager, fields, time)


class _Comparisons:
    """Comparisons of two documents in each version in which fields are owned. Row F30."""

    def __init__(self, old: Document, new: Document, version: TypeVersion, managed: ManagedFields) -> None:
        self._old, self._new, self._version, self._managed = old, new, version, managed
        self._is_converted_ahead = False
        self._known: dict[str, tuple[Comparison, FieldSet] | None] = {}

    def of(self, api_version: str) -> tuple[Comparison, FieldSet] | None:
        """Returns a comparison, and all fields that were changed or removed.

        Returns None if that version is no longer served.
        """
        if api_version not in self._known:
            self._known[api_version] = self._compare(api_version)
        return self._known[api_version]

    def _compare(self, api_version: str) -> tuple[Comparison, FieldSet] | None:
        version = self._version
        old, new = self._old, self._new
        if old is new:
            return _NO_DIFFERENCE
        if api_version != version.api_version:
            other = version.other_versions.get(api_version)
            if other is None:
                return None
            own = self.of(version.api_version)
            if own is not None and _are_in_all_versions(own[1]):
                return own
            version = other
            if version.convert is not None:
                self._convert_ahead()
                old, new = version.convert(old), version.convert(new)
        endpoint = version.endpoint
        if endpoint is not ALL_FIELDS:
            old, new = endpoint.part_of(old), endpoint.part_of(new)
        changed, removed = comparison = compare(old, new, version.type_def)
        if endpoint is not ALL_FIELDS:
            changed, removed = endpoint.written(changed), endpoint.written(removed)
            comparison = Comparison(changed, removed)
        return comparison, union(changed, removed)

    def _convert_ahead(self) -> None:
        if self._is_converted_ahead or self._version.convert_ahead is None:
            return
        owned_in = {entry.manager.api_version for entry in self._managed.values()}
        self._version.convert_ahead((self._old, self._new), owned_in - {self._version.api_version})
        self._is_converted_ahead = True


_NO_DIFFERENCE: Final = (Comparison(LEAF, LEAF), LEAF)
_CONVERTED_METADATA: Final = frozenset({"f:annotations", "f:labels"})


def _are_in_all_versions(fields: FieldSet) -> bool:
    """Returns whether these are fields of metadata that no conversion changes."""
    return fields.keys() <= {"f:metadata"} and _CONVERTED_METADATA.isdisjoint(fields.get("f:metadata", LEAF))


def _without_touched(
    managed: ManagedFields, comparisons: _Comparisons, *, keep: ManagerIdentity | None
) -> ManagedFields:
    """Returns managed fields without changed and removed fields. keep: the manager whose entry does not
    change.
    """
    left: ManagedFields = {}
    for identity, entry in managed.items():
        if identity == keep:
            left[identity] = entry
            continue
        compared = comparisons.of(entry.manager.api_version)
        if compared is None:
            continue
        fields = difference(entry.fields, compared[1])
        if fields is entry.fields:
            left[identity] = entry
        elif fields:
            left[identity] = ManagedFieldsEntry(entry.manager, fields, entry.time)
    return left


def _reconciled(managed: ManagedFields, version: TypeVersion) -> ManagedFields:
    """Returns managed fields reconciled with the current schema. Rows F19, F20."""
    reconciled: ManagedFields = {}
    for identity, entry in managed.items():
        api_version = entry.manager.api_version
        type_def = version.type_def
        if api_version != version.api_version and (other := version.other_versions.get(api_version)):
            type_def = other.type_def
        fields = reconcile_with_schema(entry.fields, type_def)
        reconciled[identity] = (
            entry if fields is entry.fields else entry._replace(fields=fields, document=None)
        )
    return reconciled


# ---- apply


# The metadata that no manager applies or gives up. A webhook cannot convert an object without it.
_IDENTITY: Final[FieldSet] = {
    "f:metadata": dict.fromkeys(
        ("f:creationTimestamp", "f:generation", "f:name", "f:namespace", "f:resourceVersion", "f:uid"), LEAF
    )
}


def _owned_by_version(managed: ManagedFields) -> dict[str, FieldSet]:
    """Returns all owned fields, by the version in which they are owned."""
    owned: dict[str, FieldSet] = {}
    for entry in managed.values():
        api_version = entry.manager.api_version
        owned[api_version] = union(owned.get(api_version, _IDENTITY), entry.fields)
    return owned


def _without_given_up(
    merged: Document, last: ManagedFieldsEntry, owned: Mapping[str, FieldSet], version: TypeVersion
) -> Document:
    """Returns the document without fields that its applier owned and no longer applies, unless others own
    them.

    Row F30. last: the applier's entry before this apply. owned: by version, the fields with owners now.
    """
    served = {version.api_version, *version.other_versions}
    # Fields of a version that is not served any more are looked up under the names that they have now.
    origin = last.manager.api_version if last.manager.api_version in served else version.api_version
    whole, type_def = _in_version(merged, origin, version)
    left = without_fields(whole, last.fields, type_def)
    if left is whole:
        return merged
    # The origin comes first: what is owned there may be needed to convert the rest.
    left = with_owned(left, whole, owned.get(origin, _IDENTITY), type_def)
    for api_version in sorted(owned.keys() & served - {origin}):
        left = _converted(left, origin, api_version, version)
        whole_there, type_def_there = _in_version(merged, api_version, version)
        left = with_owned(left, whole_there, owned[api_version], type_def_there)
        left = _converted(left, api_version, origin, version)
    left = without_fields(whole, last.fields, type_def, left=left)
    return merged if left is whole else _converted(left, origin, version.api_version, version)


def _in_version(document: Document, api_version: str, version: TypeVersion) -> tuple[Document, TypeDef]:
    """Returns a document converted to `api_version`, and that version's type_def."""
    if api_version == version.api_version:
        return document, version.type_def
    other = version.other_versions[api_version]
    return other.convert(document) if other.convert else document, other.type_def


def _converted(document: Document, api_version: str, to: str, version: TypeVersion) -> Document:
    """Returns a document of one version converted to another, by way of the written version."""
    if api_version == to:
        return document
    other = version.other_versions.get(api_version)
    if other and other.convert_back:
        document = other.convert_back(document)
    return _in_version(document, to, version)[0]


def _require_no_conflict(
    managed: ManagedFields, comparisons: _Comparisons, own: ManagerIdentity, allowed: FieldSet
) -> None:
    conflicts: list[FieldConflict] = []
    for identity in sorted(managed):
        entry = managed[identity]
        compared = comparisons.of(entry.manager.api_version)
        if identity == own or compared is None:
            continue
        conflicting = difference(intersection(entry.fields, compared[0].changed), allowed)
        for path in field_set.paths(conflicting):
            conflicts.append(FieldConflict(entry.manager, path))
            if len(conflicts) == CONFLICTS_MAX:
                raise FieldConflicts(conflicts)
    if conflicts:
        raise FieldConflicts(conflicts)
