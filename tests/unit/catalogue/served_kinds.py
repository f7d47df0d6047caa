"""Built-in kinds as they are served: schema, defaults, conversion and rules together, without a store."""

from __future__ import annotations

import copy
import ipaddress
import random
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, Final, NamedTuple

from apiserver.catalogue.builtins import Catalogue
from apiserver.catalogue.core.services.allocation import ServiceAllocator
from apiserver.meta.brand import Brand
from apiserver.meta.field_errors import FieldError, invalid
from apiserver.meta.releases.emulation import DEFAULT_MINOR, EmulatedRelease
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.registry.strategy import Strategy
from apiserver.schema.builtin import BuiltinSchemas

UID: Final = "6e1f3f0c-0b8f-4b0e-9b62-0c86a36f8a31"
CREATED: Final = "2024-05-06T07:08:09Z"
_A_MINUTE_LATER: Final = datetime.fromisoformat(CREATED).timestamp() + 60
_NETWORKS: Final = {"IPv4": "10.0.0.0/16", "IPv6": "fd00::/112"}

# Paths, as `spec.ports.0.name`, and what stands there; None takes it away.
Changes = Mapping[str, Any]


class Written(NamedTuple):
    """document: as it would be stored. errors: if it were."""

    document: Document
    errors: list[FieldError]

    @property
    def texts(self) -> list[str]:
        return list(map(str, self.errors))


@cache
def table(
    families: tuple[str, ...] = ("IPv4",), gates: tuple[str, ...] = (), minor: int = DEFAULT_MINOR
) -> ResourceTable:
    """families: of service addresses. gates: `Name`, or `Name=false`, if not as in the release 1.`minor`."""
    networks = [ipaddress.ip_network(_NETWORKS[family]) for family in families]
    allocator = ServiceAllocator.for_networks(networks, (30_000, 32_767), random.Random(0).randint)
    catalogue = Catalogue(
        Brand(),
        BuiltinSchemas((1, minor)),
        service_allocator=allocator,
        release=EmulatedRelease.of(minor),
        gates=FeatureGates(minor, dict(map(_gate, gates))) if gates else None,
    )
    return catalogue.resources()


def _gate(text: str) -> tuple[str, bool]:
    name, _, state = text.partition("=")
    return name, state != "false"


class ServedKind:
    """A kind, and a valid object of it. Documents that go in stay as they are."""

    def __init__(
        self,
        resource: str,
        valid: Document | None = None,
        version: str = "v1",
        *,
        families: tuple[str, ...] = ("IPv4",),
        gates: tuple[str, ...] = (),
        minor: int = DEFAULT_MINOR,
    ) -> None:
        """resource: with its group, as `ingresses.networking.k8s.io`. valid: what it has but names.

        families, gates, minor: see `table`.
        """
        name, _, group = resource.partition(".")
        found = table(families, gates, minor).find(group, version, name)
        assert found is not None, resource
        self.resource: ServedResource = found
        fields = valid or {}
        meta = {"name": "a", **fields.get("metadata", {})}
        if found.is_namespaced:
            meta["namespace"] = "default"
        self.valid = {"apiVersion": found.api_version, "kind": found.kind, **fields, "metadata": meta}

    @property
    def strategy(self) -> Strategy:
        return self.resource.strategy

    # ---- any document

    def completed(self, document: Document) -> Document:
        """The document with its defaults. Its types must be right."""
        document = copy.deepcopy(document)
        assert self.resource.check(document) == []
        return document

    def created(self, document: Document, changes: Changes | None = None) -> Written:
        """The document, changed, as it would be stored."""
        new = self.resource.codec.to_hub(self.completed(changed(document, changes or {})))
        new["metadata"] = {"creationTimestamp": CREATED, **new["metadata"], "uid": UID}
        strategy, name = self.strategy, new["metadata"]["name"]
        strategy.prepare_create(new)
        errors: list[FieldError] = [
            invalid("metadata.name", name, problem) for problem in strategy.name_rule(name)
        ]
        errors += strategy.validate_create(new) + strategy.validate(new)
        return Written(new, errors + strategy.validate_ratcheting(new, None))

    def updated(self, old: Document, changes: Changes, subresource: str = "") -> Written:
        """What is stored, changed; both in the version in which it is stored."""
        old, new = copy.deepcopy(old), changed(old, changes)
        if not self.resource.codec.converts_hub:
            new = self.completed(new)
        rules = self.resource.subresources[subresource].update if subresource else self.strategy.update
        assert rules is not None
        rules.prepare(new, old)
        errors = rules.validate(new, old) + (self.strategy.validate(new) if rules.checks_object else [])
        if not subresource:
            errors += self.strategy.validate_ratcheting(new, old)
        return Written(new, errors)

    def row(self, document: Document, now: float = _A_MINUTE_LATER) -> dict[str, Any]:
        """The row of a table for a document with its defaults: cells by column."""
        shown = self.resource.columns
        names = [column["name"] for column in shown.definitions]
        return dict(zip(names, shown.cells(document, now), strict=True))

    # ---- the valid object

    def create(self, changes: Changes | None = None) -> Written:
        return self.created(self.valid, changes)

    def update(self, changes: Changes, subresource: str = "", *, old: Changes | None = None) -> Written:
        """The valid object is stored, changed by `old`, and then changed."""
        return self.updated(changed(self.create().document, old or {}), changes, subresource)

    def cells(self, changes: Changes | None = None) -> dict[str, Any]:
        return self.row(self.completed(changed(self.valid, changes or {})))


def changed(document: Document, changes: Changes) -> Document:
    document = copy.deepcopy(document)
    for path, value in changes.items():
        *way, last = path.split(".")
        inner: Any = document
        for step in way:
            inner = inner[int(step)] if isinstance(inner, list) else inner.setdefault(step, {})
        if value is None:
            inner.pop(last, None)
        else:
            inner[int(last) if isinstance(inner, list) else last] = value
    return document


def assert_texts_begin(texts: list[str], beginnings: list[str]) -> None:
    assert len(texts) == len(beginnings), texts
    assert all(map(str.startswith, texts, beginnings)), texts


def least(kind: str, **fields: Any) -> Document:
    """A document of the core group with a name and these fields."""
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a", "namespace": "ns"}, **fields}
