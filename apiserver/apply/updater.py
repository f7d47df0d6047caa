"""Who owns what: managedFields after an apply, and after any other write.

Owners are kept as the entries of metadata.managedFields, whose sets are used as they stand. An entry that a
write does not concern stays the same object, so that nothing is sorted or encoded anew for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson

from apiserver.apply import field_set
from apiserver.apply.field_set import (
    LEAF,
    FieldSet,
    InvalidFieldSet,
    difference,
    intersection,
    union,
)
from apiserver.apply.merge import add_back_owned, merge, prune, reconcile
from apiserver.apply.type_defs import TypeDef
from apiserver.apply.typed_value import Comparison, compare, stated
from apiserver.vocabulary import Document

APPLY: Final = "Apply"
UPDATE: Final = "Update"
# Row F27. More Update managers than that are merged into one, the oldest first.
UPDATE_MANAGERS_MAX: Final = 10
ANCIENT_CHANGES: Final = "ancient-changes"
# Row F24: who is taken to own what was there before anybody's fields were known.
BEFORE_FIRST_APPLY: Final = "before-first-apply"
UNKNOWN: Final = "unknown"
NAME_MAX: Final = 128
# Nobody reads more of them.
CONFLICTS_MAX: Final = 1_000


class FieldManager(NamedTuple):
    """Who writes. An applier is one in all versions; its entry has the one it last applied in (row F31).

    api_version: as in `apps/v1`. subresource: empty for the object itself.
    """

    name: str
    operation: str
    api_version: str
    subresource: str = ""

    @property
    def identity(self) -> Identity:
        version = "" if self.operation == APPLY else self.api_version
        return (self.name, self.operation, version, self.subresource)

    def shown(self) -> str:
        """As conflicts have it: `"m1"`, `"pa" using v1`."""
        text = orjson.dumps(self.name).decode()
        if self.subresource:
            text += f" with subresource {orjson.dumps(self.subresource).decode()}"
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text


Identity = tuple[str, str, str, str]


def updater_name(field_manager: str, user_agent: str) -> str:
    """The name of who writes without saying it: what its User-Agent begins with (row F05)."""
    if field_manager:
        return field_manager
    name = user_agent.partition("/")[0].encode()[:NAME_MAX].decode(errors="ignore")
    if not name.isprintable():
        name = "".join(c for c in name if c.isprintable())
    return name or UNKNOWN


class ManagedFieldsEntry(NamedTuple):
    """One entry. time: as documents have it, or empty. entry: as it was read; None if it is another now."""

    manager: FieldManager
    fields: FieldSet
    time: str
    entry: Document | None = None

    def to_entry(self) -> Document:
        if self.entry is not None:
            return self.entry
        manager = self.manager
        entry: Document = {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": manager.api_version,
        }
        if self.time:
            entry["time"] = self.time
        entry |= {"fieldsType": "FieldsV1", "fieldsV1": field_set.ordered(self.fields)}
        if manager.subresource:
            entry["subresource"] = manager.subresource
        return entry


ManagedFields = dict[Identity, ManagedFieldsEntry]


@dataclass(frozen=True, slots=True, eq=False)
class KeyVersion:
    """One version of a type: how its documents are owned, and made from those of the version that is written.

    empty: an object of it with nothing set, as it would be shown.
    ignored: the elements of fields at the top that an endpoint does not write, as `f:status`.
    others: the type's other versions, by apiVersion; what is in none of them is not served any more.
    convert: a document of the version that is written, not to be changed, in this version.
    restore: the other way round.
    is_custom: its schema may change from one write to the next.
    """

    api_version: str
    shape: TypeDef
    empty: Document = field(default_factory=dict)
    reset_fields: frozenset[str] = frozenset()
    others: Mapping[str, KeyVersion] = field(default_factory=dict)
    convert: Callable[[Document], Document] | None = None
    restore: Callable[[Document], Document] | None = None
    is_custom: bool = False


class FieldConflict(NamedTuple):
    """path: as in `.data.k`."""

    manager: FieldManager
    path: str


class ApplyConflict(Exception):
    """Others own what is applied with another value. There is at least one collision."""

    def __init__(self, collisions: Sequence[FieldConflict]) -> None:
        self.collisions = collisions
        super().__init__(self.text())

    def text(self) -> str:
        first = self.collisions[0]
        if len(self.collisions) == 1:
            return f"Apply failed with 1 conflict: conflict with {first.manager.shown()}: {first.path}"
        lines: list[str] = []
        told: FieldManager | None = None
        for manager, path in self.collisions:
            if manager != told:
                lines.append(f"conflicts with {manager.shown()}:")
                told = manager
            lines.append(f"- {path}")
        return f"Apply failed with {len(self.collisions)} conflicts: " + "\n".join(lines)


class Applied(NamedTuple):
    """document: with what is applied merged in; not yet checked, completed or defaulted."""

    document: Document
    owners: ManagedFields


# ---- entries


def read(entries: Any, *, is_own: bool) -> ManagedFields:
    """The owners in metadata.managedFields. is_own: this server wrote them; else each is looked at.

    Entries of one manager become one. Raises InvalidFieldSet.
    """
    owners: ManagedFields = {}
    for entry in entries or ():
        operation = entry.get("operation", "")
        fields = entry.get("fieldsV1")
        is_read_again = not is_own
        if fields is None:
            fields, is_read_again = entry.get("fields") or {}, True  # row F03
        if is_read_again:
            if operation not in (APPLY, UPDATE):
                raise InvalidFieldSet("the operation of a manager is Apply or Update")
            if entry.get("fieldsType", "FieldsV1") != "FieldsV1":
                raise InvalidFieldSet("the only type of fields is FieldsV1")
            fields = field_set.parse(fields)
        manager = FieldManager(
            entry.get("manager") or UNKNOWN,
            operation,
            entry.get("apiVersion", ""),
            entry.get("subresource", ""),
        )
        owner = ManagedFieldsEntry(manager, fields, entry.get("time") or "", None if is_read_again else entry)
        before = owners.get(manager.identity)
        if before is not None:
            owner = ManagedFieldsEntry(manager, union(before.fields, fields), max(before.time, owner.time))
        if owner.fields:
            owners[manager.identity] = owner
    return owners


def write(owners: ManagedFields) -> list[Document]:
    """Entries in the order in which Kubernetes has them: appliers first, then by time."""
    in_order = sorted(owners.values(), key=_entry_rank)
    return [owner.to_entry() for owner in in_order]


def _entry_rank(owner: ManagedFieldsEntry) -> tuple[Any, ...]:
    manager = owner.manager
    # Who only shares what others have set has no time, and comes last.
    return (
        manager.operation,
        not owner.time,
        owner.time,
        manager.name,
        manager.api_version,
        manager.subresource,
    )


def is_reset(entries: Any) -> bool:
    """Does a write with these managedFields strip all ownership? Rows F21, F22."""
    return bool(entries == [{}])


def decode_stored(document: Document) -> ManagedFields:
    """The owners of a stored object; none if its entries cannot be understood."""
    try:
        return read(document["metadata"].get("managedFields"), is_own=True)
    except (InvalidFieldSet, AttributeError, TypeError):
        return {}


# ---- writes that are no apply


def update(
    old: Document | None,
    new: Document,
    owners: ManagedFields,
    manager: FieldManager,
    version: KeyVersion,
    now: str,
) -> ManagedFields:
    """The owners after a write has made `new` of `old` (None: it is a new object). Rows F16, F17.

    What changes is the writer's, and nobody else's; what goes is nobody's. Returns `owners` itself if nothing
    changes. Raises documents.TooDeep.
    """
    comparisons = _Comparisons(version.empty if old is None else old, new, version)
    own = comparisons.of(version.api_version)
    assert own is not None
    if not own:
        return owners
    if version.is_custom:
        owners = _reconciled(owners, version)
    left = _without(owners, comparisons, keep=None)
    if own.changed:
        before = left.get(manager.identity)
        was = owners.get(manager.identity)
        fields = union(before.fields, own.changed) if before else own.changed
        if was is not None and was.fields == fields:
            left[manager.identity] = was
        else:
            left[manager.identity] = ManagedFieldsEntry(manager, fields, now)
    return cap_update_managers(left)


class _Comparisons:
    """The difference of two documents in each version that somebody owns fields in. Row F30."""

    def __init__(self, old: Document, new: Document, version: KeyVersion) -> None:
        self._old, self._new, self._version = old, new, version
        self._known: dict[str, tuple[Comparison, FieldSet] | None] = {}

    def of(self, api_version: str) -> Comparison | None:
        """None: there is no such version any more."""
        known = self._of(api_version)
        return known[0] if known else None

    def touched(self, api_version: str) -> FieldSet | None:
        """What is changed or removed."""
        known = self._of(api_version)
        return known[1] if known else None

    def _of(self, api_version: str) -> tuple[Comparison, FieldSet] | None:
        if api_version not in self._known:
            self._known[api_version] = self._worked_out(api_version)
        return self._known[api_version]

    def _worked_out(self, api_version: str) -> tuple[Comparison, FieldSet] | None:
        version = self._version
        old, new = self._old, self._new
        if old is new:
            return _NO_DIFFERENCE
        if api_version != version.api_version:
            other = version.others.get(api_version)
            if other is None:
                return None
            version = other
            if version.convert is not None:
                old, new = version.convert(old), version.convert(new)
        found = compare(old, new, version.shape)
        if self._version.reset_fields:
            found = Comparison(
                _without_roots(found.changed, self._version.reset_fields),
                _without_roots(found.removed, self._version.reset_fields),
            )
        return found, union(found.changed, found.removed)


_NO_DIFFERENCE: Final = (Comparison(LEAF, LEAF), LEAF)


def _without_roots(fields: FieldSet, roots: frozenset[str]) -> FieldSet:
    return {element: below for element, below in fields.items() if element not in roots}


def _without(owners: ManagedFields, comparisons: _Comparisons, *, keep: Identity | None) -> ManagedFields:
    """Owners without what was changed or removed; the one to keep as it is."""
    left: ManagedFields = {}
    for identity, owner in owners.items():
        if identity == keep:
            left[identity] = owner
            continue
        touched = comparisons.touched(owner.manager.api_version)
        if touched is None:
            continue
        fields = difference(owner.fields, touched)
        if fields is owner.fields:
            left[identity] = owner
        elif fields:
            left[identity] = ManagedFieldsEntry(owner.manager, fields, owner.time)
    return left


def _reconciled(owners: ManagedFields, version: KeyVersion) -> ManagedFields:
    """Owners as the schema has it now. Rows F19, F20."""
    reconciled: ManagedFields = {}
    for identity, owner in owners.items():
        api_version = owner.manager.api_version
        shape = version.shape
        if api_version != version.api_version and (other := version.others.get(api_version)):
            shape = other.shape
        fields = reconcile(owner.fields, shape)
        reconciled[identity] = owner if fields is owner.fields else owner._replace(fields=fields, entry=None)
    return reconciled


def cap_update_managers(owners: ManagedFields) -> ManagedFields:
    """At most so many Update managers: the oldest become one for each version. Row F27."""
    updaters = [identity for identity in owners if identity[1] == UPDATE]
    count = len(updaters)
    if count <= UPDATE_MANAGERS_MAX:
        return owners
    capped = dict(owners)
    firsts: dict[str, Identity] = {}
    for identity in sorted(updaters, key=lambda each: (owners[each].time, each)):
        if count <= UPDATE_MANAGERS_MAX:
            break
        owner = capped[identity]
        version = owner.manager.api_version
        bucket = FieldManager(ANCIENT_CHANGES, UPDATE, version)
        first = firsts.setdefault(version, identity)
        if first == identity:
            continue  # There has to be another one for it to be merged with.
        if bucket.identity not in capped:
            older = capped.pop(first)
            capped[bucket.identity] = ManagedFieldsEntry(bucket, older.fields, older.time)
        if identity == bucket.identity:
            continue
        merged = union(capped[bucket.identity].fields, owner.fields)
        capped[bucket.identity] = ManagedFieldsEntry(bucket, merged, owner.time)
        del capped[identity]
        count -= 1
    return capped


# ---- apply


def apply(
    live: Document | None,
    applied: Document,
    owners: ManagedFields,
    manager: FieldManager,
    version: KeyVersion,
    now: str,
    *,
    force: bool = False,
    wanted: FieldSet | None = None,
    allowed_conflicts: FieldSet = LEAF,
) -> Applied:
    """The object and its owners once `applied` is what the manager wants. Rows F08-F15, F24-F26.

    live: None if there is no such object. It is not changed; the result shares parts with it, and is it if
        nothing changes.
    wanted: what `applied` states, if that is known.
    taken_over: fields that are no conflict, whoever owns them.
    Raises ApplyConflict, documents.Untyped for what does not fit the schema, documents.TooDeep.
    """
    wanted = _without_roots(
        stated(applied, version.shape) if wanted is None else wanted, version.reset_fields
    )
    before = version.empty if live is None else live
    if live is not None and not owners:
        owners = _before_first_apply(live, version, now)
    if version.is_custom:
        owners = _reconciled(owners, version)
    last = owners.get(manager.identity)
    merged = merge(before, applied, version.shape)
    if last is not None and last.fields != wanted and difference(last.fields, wanted):
        owned = _owned({**owners, manager.identity: ManagedFieldsEntry(manager, wanted, "")})
        # Nobody is told to own an empty list, which is wanted all the same.
        merged = merge(_without_given_up(merged, last, owned, version), applied, version.shape)
    comparisons = _Comparisons(before, merged, version)
    if not force:
        _require_no_conflict(owners, comparisons, manager, allowed_conflicts)
    left = _without(owners, comparisons, keep=manager.identity)
    own = comparisons.of(version.api_version)
    left.pop(manager.identity, None)
    if wanted:
        if last is not None and last.fields == wanted and last.manager == manager:
            left[manager.identity] = last
        else:
            # Who changes nothing of the object keeps the time at which it last did, if ever.
            time = now if own or live is None else (last.time if last else "")
            left[manager.identity] = ManagedFieldsEntry(manager, wanted, time)
    return Applied(merged, left)


_NAME: Final[FieldSet] = {"f:metadata": {"f:name": LEAF}}


def _owned_by_version(live: Document, last_applied: Document, version: KeyVersion) -> FieldSet:
    """The fields of an earlier apply that nobody has changed since.

    Raises documents.Untyped, documents.TooDeep.
    """
    found = compare(last_applied, live, version.shape)
    return difference(stated(last_applied, version.shape), union(found.changed, found.removed))


def _before_first_apply(live: Document, version: KeyVersion, now: str) -> ManagedFields:
    found = compare(version.empty, live, version.shape).changed
    fields = _without_roots(found, version.reset_fields)
    manager = FieldManager(BEFORE_FIRST_APPLY, UPDATE, version.api_version)
    return {manager.identity: ManagedFieldsEntry(manager, fields, now)} if fields else {}


def _owned(owners: ManagedFields) -> dict[str, FieldSet]:
    """By version, everything that anybody owns in it."""
    owned: dict[str, FieldSet] = {}
    for owner in owners.values():
        api_version = owner.manager.api_version
        # Every apply names its object, though nobody is told to own the name: the metadata stay.
        owned[api_version] = union(owned.get(api_version, _NAME), owner.fields)
    return owned


def _without_given_up(
    merged: Document, last: ManagedFieldsEntry, owned: Mapping[str, FieldSet], version: KeyVersion
) -> Document:
    """The document without what its applier owned and has given up, unless somebody else owns it. Row F30.

    owned: by version, everything that anybody owns now.
    """
    served = {version.api_version, *version.others}
    # In a version that is not served any more things had the names that they have now.
    origin = last.manager.api_version if last.manager.api_version in served else version.api_version
    left = merged
    there, shape = _seen(merged, origin, version)
    pruned = prune(there, last.fields, owned.get(origin, _NAME), shape)
    if pruned is not there:
        left = _converted_back(pruned, origin, version)
    for api_version, fields in owned.items():
        if left is merged or api_version == origin or api_version not in served:
            continue
        # Another version may have another name for what has gone, and an owner for that.
        there, shape = _seen(merged, api_version, version)
        remaining, _ = _seen(left, api_version, version)
        restored = add_back_owned(remaining, there, fields, shape)
        if restored is not remaining:
            left = _converted_back(restored, api_version, version)
    return left


def _seen(document: Document, api_version: str, version: KeyVersion) -> tuple[Document, TypeDef]:
    """A document in a version, and that version's shape."""
    if api_version == version.api_version:
        return document, version.shape
    other = version.others[api_version]
    return other.convert(document) if other.convert else document, other.shape


def _converted_back(document: Document, api_version: str, version: KeyVersion) -> Document:
    """A document in a version, in the one that is written."""
    other = version.others.get(api_version)
    return other.restore(document) if other and other.restore else document


def _require_no_conflict(
    owners: ManagedFields, comparisons: _Comparisons, manager: FieldManager, allowed_conflicts: FieldSet
) -> None:
    collisions: list[FieldConflict] = []
    for identity in sorted(owners):
        owner = owners[identity]
        found = comparisons.of(owner.manager.api_version)
        if identity == manager.identity or not found:
            continue
        conflicting = difference(intersection(owner.fields, found.changed), allowed_conflicts)
        for path in field_set.paths(conflicting):
            collisions.append(FieldConflict(owner.manager, path))
            if len(collisions) == CONFLICTS_MAX:
                raise ApplyConflict(collisions)
    if collisions:
        raise ApplyConflict(collisions)
