"""Removed versions as a release served them: schema, defaults, conversion and rules together."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any, Final

from apiserver.catalogue.builtins import Catalogue
from apiserver.catalogue.runtime_config import RuntimeConfig
from apiserver.meta.brand import Brand
from apiserver.meta.releases.emulation import DEFAULT_MINOR, EmulatedRelease
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.registry.stored_object import encode, head_of
from apiserver.registry.stored_version_decoder import StoredVersionDecoder
from apiserver.registry.strategy import Strategy, WriteContext
from apiserver.registry.transactions import OwnWrites
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.storage.interface import Stored
from tests.unit.catalogue.served_kinds import CREATED, UID, Changes, Written, changed

# When objects are changed.
NOW: Final = "2024-05-07T00:00:00Z"


@cache
def catalogue(minor: int) -> Catalogue:
    return Catalogue(Brand(), BuiltinSchemas((1, minor)), release=EmulatedRelease.of(minor))


@cache
def table(minor: int) -> ResourceTable:
    """All that a release has, with what it does not serve by default."""
    return catalogue(minor).resources(RuntimeConfig({"api/all": True}))


class OldKind:
    """A kind in a version that a release had, and a valid object. Documents that go in stay as they are."""

    def __init__(self, resource: str, version: str, minor: int, valid: Document) -> None:
        """resource: with its group, as `leases.coordination.k8s.io`. valid: what it has but names."""
        name, _, group = resource.partition(".")
        found, hub = table(minor).find(group, version, name), table(minor).hub(group, name)
        assert found is not None, (resource, version)
        self.resource: ServedResource = found
        self.hub = hub
        meta = {"name": "a", **valid.get("metadata", {})}
        if found.is_namespaced:
            meta["namespace"] = "default"
        self.valid = {"apiVersion": found.api_version, "kind": found.kind, **valid, "metadata": meta}

    @property
    def strategy(self) -> Strategy:
        return self.resource.strategy

    def completed(self, changes: Changes | None = None) -> Document:
        """The valid object, changed, with its defaults, in its own version."""
        document = changed(self.valid, copy.deepcopy(changes or {}))
        assert self.resource.check(document) == []
        return document

    def cells(self, changes: Changes | None = None) -> dict[str, Any]:
        """The row of a table for the valid object, changed: cells by column."""
        document = self.completed(changes)
        shown = self.resource.columns
        names = [column["name"] for column in shown.definitions]
        return dict(zip(names, shown.cells(document, 0.0), strict=True))

    def current(self, changes: Changes | None = None) -> Document:
        """The same, in the version that has replaced it."""
        return self.to_hub(self.completed(changes))

    def to_hub(self, document: Document) -> Document:
        return self.resource.codec.to_hub(copy.deepcopy(document))

    def from_hub(self, document: Document) -> Document:
        return self.resource.codec.from_hub(copy.deepcopy(document))

    def create(self, changes: Changes | None = None) -> Written:
        """The object as it would be stored, in the current version."""
        new = self.current(changes)
        new["metadata"] = {"creationTimestamp": CREATED, **new["metadata"], "uid": UID}
        self.strategy.prepare_create(new)
        strategy = self.strategy
        errors = strategy.validate_create(new) + strategy.validate(new)
        return Written(new, errors + strategy.validate_ratcheting(new, None))

    def update(
        self,
        changes: Changes,
        subresource: str = "",
        *,
        old: Changes | None = None,
        stored: Document | None = None,
    ) -> Written:
        """The valid object is stored, changed by `old`, and then changed; changes are of the old version.

        stored: fields that it has since, as its status.
        """
        stored = {**self.create(old).document, **copy.deepcopy(stored or {})}
        new = self.to_hub(changed(self.from_hub(stored), copy.deepcopy(changes)))
        rules = self.resource.subresources[subresource].update if subresource else self.strategy.update
        assert rules is not None
        rules.prepare(new, stored)
        errors = rules.validate(new, stored)
        if rules.validate_write is not None:
            errors += rules.validate_write(WriteContext(None, NOW), new, stored)
        if rules.checks_object:
            errors += self.strategy.validate(new)
        if not subresource:
            errors += self.strategy.validate_ratcheting(new, stored)
        return Written(new, errors)


def read_by_current(document: Document) -> Any:
    """What today's release makes of an object that is stored in another version."""
    head, current = head_of(document["apiVersion"], document["kind"]), catalogue(DEFAULT_MINOR)
    kind = current.kind(head)  # None for one that no release of today has
    folder = kind.folder if kind is not None else "/gone/"
    stored = Stored(f"/registry{folder}a", encode(document, head), 1, 7)
    found = StoredVersionDecoder(OwnWrites(), current)(stored).document()
    found["metadata"].pop("resourceVersion")
    return found
