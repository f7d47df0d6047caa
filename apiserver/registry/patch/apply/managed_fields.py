"""The entries of metadata.managedFields, which record the field managers that own fields.

Sets of fields have the same form as in the entries. An entry that a write does not change stays the same
object, so that it is not sorted or encoded again.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from apiserver.golang.times import ZERO_TIME
from apiserver.meta.vocabulary import Document
from apiserver.registry.patch.apply import field_set
from apiserver.registry.patch.apply.field_set import FieldSet, InvalidFieldSet, union

APPLY: Final = "Apply"
UPDATE: Final = "Update"
# Row F27. More Update managers than that are merged into one, the oldest first.
UPDATE_MANAGERS_MAX: Final = 10
ANCIENT_CHANGES: Final = "ancient-changes"
# Row F24: the manager of fields that were set before the first apply, when ownership was not tracked.
BEFORE_FIRST_APPLY: Final = "before-first-apply"
UNKNOWN_MANAGER: Final = "unknown"
MANAGER_NAME_BYTES_MAX: Final = 128

# Name, operation, API version (empty for an Apply manager) and subresource.
ManagerIdentity: TypeAlias = tuple[str, str, str, str]


class FieldManager(NamedTuple):
    """The field manager of a write.

    An Apply manager is the same in all versions; its entry has the version of its last apply (row F31).

    api_version: as in `apps/v1`. subresource: empty for the object itself.
    """

    name: str
    operation: str
    api_version: str
    subresource: str = ""

    @property
    def identity(self) -> ManagerIdentity:
        version = "" if self.operation == APPLY else self.api_version
        return (self.name, self.operation, version, self.subresource)

    def describe(self) -> str:
        """Returns the manager as messages about conflicts name it: `"m1"`, `"pa" using v1`."""
        text = orjson.dumps(self.name).decode()
        if self.subresource:
            text += f" with subresource {orjson.dumps(self.subresource).decode()}"
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text


def manager_or_user_agent(field_manager: str, user_agent: str) -> str:
    """Returns the name of an Update manager; without one, the start of its User-Agent (row F05)."""
    if field_manager:
        return field_manager
    name = user_agent.partition("/")[0].encode()[:MANAGER_NAME_BYTES_MAX].decode(errors="ignore")
    if not name.isprintable():
        name = "".join(c for c in name if c.isprintable())
    return name or UNKNOWN_MANAGER


class ManagedFieldsEntry(NamedTuple):
    """An entry of managedFields: the fields that one manager owns.

    time: as documents have it, or empty; `ZERO_TIME` where they have null.
    document: the entry as it was read; None if it has changed since.
    """

    manager: FieldManager
    fields: FieldSet
    time: str
    document: Document | None = None

    def at(self, time: str) -> ManagedFieldsEntry:
        """Returns the entry with another time, or itself. Its fields need not be encoded again."""
        if time == self.time:
            return self
        document = None if self.document is None else {**self.document, "time": time}
        return ManagedFieldsEntry(self.manager, self.fields, time, document)

    def to_document(self) -> Document:
        if self.document is not None:
            return self.document
        manager = self.manager
        document: Document = {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": manager.api_version,
        }
        if self.time:
            document["time"] = None if self.time == ZERO_TIME else self.time
        document |= {"fieldsType": "FieldsV1", "fieldsV1": field_set.ordered(self.fields)}
        if manager.subresource:
            document["subresource"] = manager.subresource
        return document


# The entries of one object. Values of this type are never changed; a write makes another one.
ManagedFields: TypeAlias = dict[ManagerIdentity, ManagedFieldsEntry]


def decode(documents: Any, *, is_own: bool) -> ManagedFields:
    """Decode metadata.managedFields. is_own: whether this server wrote them; else each entry is checked.

    Entries of the same manager are merged. Raises InvalidFieldSet.
    """
    managed: ManagedFields = {}
    for document in documents or ():
        operation = document.get("operation", "")
        fields = document.get("fieldsV1")
        is_parsed = not is_own
        if fields is None:
            fields, is_parsed = document.get("fields") or {}, True  # row F03
        if is_parsed:
            if operation not in (APPLY, UPDATE):
                raise InvalidFieldSet("the operation of a manager must be Apply or Update")
            if document.get("fieldsType", "FieldsV1") != "FieldsV1":
                raise InvalidFieldSet("fieldsType must be FieldsV1")
            if not document.get("apiVersion"):
                raise InvalidFieldSet("apiVersion must not be empty")
            fields = field_set.parse(fields)
        manager = FieldManager(
            document.get("manager") or UNKNOWN_MANAGER,
            operation,
            document.get("apiVersion", ""),
            document.get("subresource", ""),
        )
        time = document.get("time", "")
        entry = ManagedFieldsEntry(
            manager, fields, ZERO_TIME if time is None else time, None if is_parsed else document
        )
        identity = manager.identity
        before = managed.get(identity)
        if before is not None:
            entry = ManagedFieldsEntry(manager, union(before.fields, fields), max(before.time, entry.time))
        if entry.fields:
            managed[identity] = entry
    return managed


def decode_stored(document: Document) -> ManagedFields:
    """Returns the managed fields of a stored object; none if its entries cannot be decoded."""
    try:
        return decode(document["metadata"].get("managedFields"), is_own=True)
    except (InvalidFieldSet, AttributeError, TypeError):
        return {}


def encode(managed: ManagedFields) -> list[Document]:
    """Returns metadata.managedFields in Kubernetes' order: Apply managers first, then by time."""
    if len(managed) == 1:
        return [entry.to_document() for entry in managed.values()]
    in_order = sorted(managed.values(), key=_entry_rank)
    return [entry.to_document() for entry in in_order]


def _entry_rank(entry: ManagedFieldsEntry) -> tuple[Any, ...]:
    manager = entry.manager
    # A manager that only shares what others have set has no time, and comes last.
    return (
        manager.operation,
        not entry.time,
        entry.time,
        manager.name,
        manager.api_version,
        manager.subresource,
    )


def is_reset(documents: Any) -> bool:
    """Returns whether a write with these managedFields removes all of them. Rows F21, F22."""
    return bool(documents == [{}])


def cap_update_managers(managed: ManagedFields) -> ManagedFields:
    """Merge the oldest Update managers, one for each version, until UPDATE_MANAGERS_MAX are left. Row F27."""
    if len(managed) <= UPDATE_MANAGERS_MAX:
        return managed
    updaters = [identity for identity in managed if identity[1] == UPDATE]
    count = len(updaters)
    if count <= UPDATE_MANAGERS_MAX:
        return managed
    capped = dict(managed)
    firsts: dict[str, ManagerIdentity] = {}
    for identity in sorted(updaters, key=lambda each: (managed[each].time, each)):
        if count <= UPDATE_MANAGERS_MAX:
            break
        entry = capped[identity]
        version = entry.manager.api_version
        bucket = FieldManager(ANCIENT_CHANGES, UPDATE, version)
        first = firsts.setdefault(version, identity)
        if first == identity:
            continue  # There has to be another one for it to be merged with.
        if bucket.identity not in capped:
            older = capped.pop(first)
            capped[bucket.identity] = ManagedFieldsEntry(bucket, older.fields, older.time)
        if identity == bucket.identity:
            continue
        merged = union(capped[bucket.identity].fields, entry.fields)
        capped[bucket.identity] = ManagedFieldsEntry(bucket, merged, entry.time)
        del capped[identity]
        count -= 1
    return capped
