"""An extension whose definition has a field that does not exist."""

from __future__ import annotations

from apiserver.extensions import Extension
from tests.support.definitions import definition

app = Extension("shop")
app.crd(definition("shop.example.com", shortNames=["w"]))
