"""An extension that converts up, but not down."""

from __future__ import annotations

from apiserver.extensions import Extension
from tests.extensions.modules.orders import V1, V2, V3, SpecV1, SpecV2, SpecV3, convert_between, up, version

app = Extension("one-way")
app.crd(
    version(V1, SpecV1, storage=True), version(V2, SpecV2, storage=False), version(V3, SpecV3, storage=False)
)
convert_between(app, ("v1", "v2", up), ("v2", "v3", up), ("v3", "v2", up))
