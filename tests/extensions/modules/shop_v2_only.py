"""The extension shop, at last: without the first version, but with a function that reads its objects."""

from __future__ import annotations

from apiserver.extensions import Extension
from tests.extensions.modules.orders import V2, SpecV2, convert_between, up, version

app = Extension("shop")
app.crd(version(V2, SpecV2, storage=True))
convert_between(app, ("v1", "v2", up))
