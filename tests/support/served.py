"""The resources that servers serve: the built-in types, and what discovery shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from apiserver.catalogue.builtins import Catalogue
from apiserver.meta.brand import Brand
from apiserver.schema.builtin import BuiltinSchemas
from tests.support.api import Api

TABLE: Final = Catalogue(Brand(), BuiltinSchemas((1, 34)), event_ttl_s=3600).resources()
# The root paths of their versions. On a server that they share, other tests may have defined more.
BUILT_IN: Final = [
    f"/apis/{version}" if version.group else f"/api/{version}" for version in TABLE.group_versions
]


def versions(api: Api) -> Iterator[str]:
    """The root path of every version of every group."""
    yield from (f"/api/{version}" for version in api.get("/api").ok()["versions"])
    for group in api.get("/apis").ok()["groups"]:
        yield from (f"/apis/{each['groupVersion']}" for each in group["versions"])
