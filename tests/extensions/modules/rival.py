"""Another extension with the definition of shop."""

from __future__ import annotations

from apiserver.extensions import Extension
from tests.extensions.modules.orders import V1, SpecV1, version

app = Extension("rival")
app.crd(version(V1, SpecV1, storage=True))
