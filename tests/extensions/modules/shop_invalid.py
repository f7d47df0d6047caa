"""An extension whose definition the server does not accept."""

from __future__ import annotations

from apiserver.extensions import Extension
from tests.support.definitions import definition, version

app = Extension("shop")
app.crd(definition("shop.example.com", version(schema={"type": "object", "properties": {"spec": {}}})))
