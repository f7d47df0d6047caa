"""Built-in kinds as they are served: schema, defaults, conversion and rules together, without a store."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any, Final

from apiserver.brand import Brand
from apiserver.catalogue.builtins import builtin_resources
from apiserver.field_errors import FieldError, invalid
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.vocabulary import Document
from tests.unit.catalogue.lifecycle import UID, Changes, Written, changed

CREATED: Final = "2024-05-06T07:08:09Z"


@cache
def table() -> ResourceTable:
    return builtin_resources(Brand(), BuiltinSchemas((1, 34)), event_ttl_s=3600)


class ServedKind:
    """A kind, and a valid object of it. Documents that go in stay as they are."""

    def __init__(self, resource: str, valid: Document, version: str = "v1") -> None:
        """resource: with its group, as `ingresses.networking.k8s.io`."""
        name, _, group = resource.partition(".")
        found = table().find(group, version, name)
        assert found is not None, resource
        self.resource: ServedResource = found
        meta = {"name": "a", **valid.get("metadata", {})}
        if found.is_namespaced:
            meta["namespace"] = "default"
        self.valid = {
            "apiVersion": found.api_version,
            "kind": found.kind,
            **valid,
            "metadata": meta,
        }

    def create(self, changes: Changes | None = None) -> Written:
        """The valid object, changed, as it would be stored."""
        new = self._stored(changed(self.valid, changes or {}))
        strategy, meta = self.resource.strategy, new["metadata"]
        meta |= {"uid": UID, "creationTimestamp": CREATED}
        strategy.prepare_create(new)
        errors = _of_name(self.resource, meta["name"])
        return Written(new, errors + strategy.validate_create(new) + strategy.validate(new))

    def update(self, changes: Changes, subresource: str = "", *, old: Changes | None = None) -> Written:
        """The valid object is stored, changed by `old`, and then changed; both as it is stored."""
        before = self.create().document
        before = changed(before, old or {})
        new = copy.deepcopy(changed(before, changes))
        if self.resource.conversion is None:
            assert self.resource.check(new) == []
        strategy = self.resource.strategy
        rules = self.resource.subresources[subresource].update if subresource else strategy.update
        assert rules is not None
        rules.prepare(new, before)
        return Written(new, rules.validate(new, before) + strategy.validate(new))

    def cells(self, changes: Changes | None = None) -> dict[str, Any]:
        """The table's row of the valid object, changed, with all it has; by column."""
        document = copy.deepcopy(changed(self.valid, changes or {}))
        assert self.resource.check(document) == []
        shown = self.resource.columns
        names = [column["name"] for column in shown.definitions]
        return dict(zip(names, shown.cells(document, 0.0), strict=True))

    def _stored(self, document: Document) -> Document:
        document = copy.deepcopy(document)
        assert self.resource.check(document) == []
        return self.resource.to_stored(document)


def _of_name(resource: ServedResource, name: str) -> list[FieldError]:
    return [invalid("metadata.name", name, problem) for problem in resource.strategy.name_rule(name)]
