"""The extension shop, at first: one version."""

from __future__ import annotations

from apiserver.extensions import Extension
from tests.extensions.modules.orders import V1, SpecV1, version

app = Extension("shop")
app.crd(version(V1, SpecV1, storage=True))
