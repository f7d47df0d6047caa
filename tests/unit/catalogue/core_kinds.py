"""The types of the core group that are no pods, for tests of their rules."""

from __future__ import annotations

import ipaddress
import random
from typing import Any, Final

from apiserver.brand import Brand
from apiserver.catalogue import core
from apiserver.catalogue.core.services.allocation import ServiceAllocator, service_allocator
from apiserver.catalogue.rules.defaults import DEFAULTS
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.compile import SchemaCompiler
from apiserver.vocabulary import Document
from tests.unit.catalogue.lifecycle import Kind

_SCHEMAS: Final = BuiltinSchemas((1, 34))
_WALKS: Final = SchemaCompiler(DEFAULTS)


class CoreKind(Kind):
    """families: of service addresses, as in `core.types`."""

    def __init__(self, kind: str, families: tuple[str, ...] = ("IPv4",)) -> None:
        super().__init__(core.types(Brand(), event_ttl_s=3600, service_allocator=_pools(families)), kind)
        self._walk = _WALKS.of(_SCHEMAS.get(self.builtin.definition))


def _pools(families: tuple[str, ...]) -> ServiceAllocator:
    networks = {"IPv4": "10.0.0.0/16", "IPv6": "fd00::/112"}
    return service_allocator(
        [ipaddress.ip_network(networks[family]) for family in families],
        (30_000, 32_767),
        random.Random(0).randint,
    )


def least(kind: str, **fields: Any) -> Document:
    """A document with a name and these fields."""
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a", "namespace": "ns"}, **fields}
