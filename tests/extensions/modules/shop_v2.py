"""The extension shop, later: two versions, of which the new one is stored."""

from __future__ import annotations

from apiserver.extensions import Extension
from tests.extensions.modules.orders import V1, V2, SpecV1, SpecV2, convert_between, down, up, version

app = Extension("shop")
app.crd(version(V1, SpecV1, storage=False), version(V2, SpecV2, storage=True))
convert_between(app, ("v1", "v2", up), ("v2", "v1", down))
