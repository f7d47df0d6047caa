"""An extension whose kind another definition of the group has."""

from __future__ import annotations

from apiserver.extensions import Extension
from tests.support.definitions import definition

app = Extension("names-in-use")
app.crd(definition("shop.example.com", plural="otherorders", kind="Order"))
