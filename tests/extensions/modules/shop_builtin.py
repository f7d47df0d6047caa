"""An extension that defines a type which the server has."""

from __future__ import annotations

from apiserver.extensions import Extension
from tests.support.definitions import definition

app = Extension("shop")
_classes = definition("storage.k8s.io", plural="storageclasses", kind="StorageClass", scope="Cluster")
_classes["metadata"]["annotations"] = {
    "api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/1"
}
app.crd(_classes)
