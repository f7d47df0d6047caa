"""Server-side apply by the server itself: with force, and without a request.

The merge and the owners are those of a client's apply. Applying the same configuration again changes
nothing, even if the schema writes a part of it in another way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import orjson

from apiserver.meta.errors import BadRequest
from apiserver.meta.vocabulary import Document
from apiserver.registry.field_managers import FieldManagers
from apiserver.registry.patch.apply import managed_fields
from apiserver.registry.patch.apply.managed_fields import APPLY, FieldManager
from apiserver.registry.patch.apply.typed_value import DocumentTooDeep, SchemaMismatch
from apiserver.registry.patch.apply.updater import Updater
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_request import ProposedObject
from apiserver.schema.compile import TypeMismatch


class ServerApply(NamedTuple):
    """Applies the configuration of one object.

    manager: the name of the field manager. configuration: returns what to apply, given the object as it is,
    or None if there is none.
    """

    field_managers: FieldManagers
    resource: ServedResource
    manager: str
    configuration: Callable[[Document | None], Document]

    def new_object(self) -> ProposedObject:
        """Returns the object if there is none. Raises BadRequest."""
        return self._applied(None)

    def changed_object(self, current: StoredObject) -> ProposedObject:
        """Returns the object as it is with the configuration merged into it. Raises BadRequest."""
        live = current.document()
        applied = self._applied(live)
        before = live["metadata"].get("managedFields")
        if _is_same(applied.document, live) and _timeless(applied.managed_fields) == _timeless(before):
            return ProposedObject(live, managed_fields=before)
        return applied

    def _applied(self, live: Document | None) -> ProposedObject:
        version = self.field_managers.version_to_write(self.resource, "", is_apply=True)
        manager = FieldManager(self.manager, APPLY, self.resource.api_version)
        updater = Updater(version, manager, self.field_managers.now(""))
        managed = {} if live is None else managed_fields.decode_stored(live)
        try:
            merged = updater.apply(live, self.configuration(live), managed, force=True)
            document: Document = orjson.loads(orjson.dumps(merged.document))
            self.resource.check.checked(document, is_merged=True)
        except (DocumentTooDeep, SchemaMismatch, TypeMismatch, orjson.JSONEncodeError) as error:
            raise BadRequest(str(error)) from None
        return ProposedObject(document, managed_fields=managed_fields.encode(merged.managed))


def _is_same(document: Document, other: Document) -> bool:
    """Returns whether two objects differ in nothing but the owners of their fields."""
    return _without_owners(document) == _without_owners(other)


def _without_owners(document: Document) -> Document:
    meta = {name: value for name, value in document["metadata"].items() if name != "managedFields"}
    return {**document, "metadata": meta}


def _timeless(owners: Sequence[Document] | None) -> Sequence[dict[str, Any]]:
    return [{name: value for name, value in each.items() if name != "time"} for each in owners or ()]
