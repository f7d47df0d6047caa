"""An extension with a definition that JSON cannot express."""

from __future__ import annotations

from apiserver.extensions import Extension

app = Extension("not-json")
app.crd({"kind": "CustomResourceDefinition", "metadata": {"name": "orders.shop"}, "spec": {"versions": {1}}})
