"""Finds the API objects that a mirror pod refers to, which must be none, as its node could read them.

Source: kubernetes, pkg/api/pod/util.go (HasAPIObjectReference).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from apiserver.auth.authz.node.references import config_map_names, secret_names
from apiserver.meta.field_errors import quote
from apiserver.meta.vocabulary import Document

# Volumes for which a kubelet needs no objects but Secrets and ConfigMaps: all volumes are searched for those.
_FREE: Final = frozenset(
    {
        *("awsElasticBlockStore", "azureDisk", "cephfs", "cinder", "downwardAPI", "emptyDir", "fc"),
        *("flexVolume", "flocker", "gcePersistentDisk", "gitRepo", "hostPath", "image", "iscsi", "nfs"),
        *("photonPersistentDisk", "portworxVolume", "quobyte", "rbd", "scaleIO", "storageos"),
        "vsphereVolume",
    }
)
# What the others refer to.
_VOLUMES: Final = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_PROJECTED: Final = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
    "downwardAPI": "",
}


class UnknownVolume(ValueError):
    """A volume of an unknown type might refer to any object."""


def api_references(spec: Document) -> Iterator[str]:
    """Yields the references of a pod, as messages name them, in Kubernetes' order. Raises UnknownVolume."""
    if spec.get("serviceAccountName"):
        yield "serviceaccounts"
    if any(secret_names(spec)):
        yield "secrets"
    if any(config_map_names(spec)):
        yield "configmaps"
    if spec.get("resourceClaims"):
        yield "resourceclaims"
    for volume in spec.get("volumes") or ():
        if any(volume.get(kind) is not None for kind in _FREE):
            continue
        if (what := _reference(volume, _VOLUMES)) is not None:
            yield what
            continue
        if (projected := volume.get("projected")) is None:
            raise UnknownVolume(f"unknown volume type for volume  {quote(volume.get('name', ''))}")
        for source in projected.get("sources") or ():
            if (what := _reference(source, _PROJECTED)) is None:
                raise UnknownVolume(f"unknown source for projected volume {quote(volume.get('name', ''))}")
            if what:
                yield what


def _reference(source: Document, references: dict[str, str]) -> str | None:
    return next((what for kind, what in references.items() if source.get(kind) is not None), None)
