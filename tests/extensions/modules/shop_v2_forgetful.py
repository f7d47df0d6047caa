"""The extension shop, which has forgotten its first version altogether."""

from __future__ import annotations

from apiserver.extensions import Extension
from tests.extensions.modules.orders import V2, SpecV2, version

app = Extension("shop")
app.crd(version(V2, SpecV2, storage=True))
