"""Returns the objects that pods and volumes refer to, ignoring malformed fields.

Source: k8s.io/kubernetes, pkg/api/v1/pod/util.go and pkg/api/v1/persistentvolume/util.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from apiserver.meta.vocabulary import Document

MIRROR: Final = "kubernetes.io/config.mirror"
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
# Volumes that name a Secret, and their fields that do.
_VOLUME_SECRETS: Final = {
    "azureFile": ("secretName",),
    "cephfs": ("secretRef", "name"),
    "cinder": ("secretRef", "name"),
    "csi": ("nodePublishSecretRef", "name"),
    "flexVolume": ("secretRef", "name"),
    "iscsi": ("secretRef", "name"),
    "rbd": ("secretRef", "name"),
    "scaleIO": ("secretRef", "name"),
    "secret": ("secretName",),
    "storageos": ("secretRef", "name"),
}
# Persistent volumes whose Secrets kubelets need, and the fields that name those. The Secrets of csi volumes
# that controllers need are not among them.
_PERSISTENT_SECRETS: Final = {
    "cephfs": ("secretRef",),
    "cinder": ("secretRef",),
    "csi": ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"),
    "flexVolume": ("secretRef",),
    "iscsi": ("secretRef",),
    "rbd": ("secretRef",),
    "scaleIO": ("secretRef",),
    "storageos": ("secretRef",),
}


class Reference(NamedTuple):
    """A reference to an object. resource: its plural, without its group."""

    resource: str
    namespace: str
    name: str


def pod_references(pod: Document) -> frozenset[Reference]:
    """Returns the objects that a node may read for a pod; none for mirror pods, which nodes create."""
    meta, spec = _object(pod.get("metadata")), _object(pod.get("spec"))
    if MIRROR in _object(meta.get("annotations")):
        return frozenset()
    namespace = meta.get("namespace", "")
    found = {
        "serviceaccounts": (spec.get("serviceAccountName"),),
        "secrets": secret_names(spec),
        "configmaps": config_map_names(spec),
        "persistentvolumeclaims": _volume_claims(meta.get("name", ""), spec),
        "resourceclaims": _resource_claims(spec, _object(pod.get("status"))),
    }
    return frozenset(
        Reference(resource, namespace, name) for resource, names in found.items() for name in _texts(names)
    )


def secret_names(spec: Document) -> Iterator[str]:
    """Yields the Secrets that a pod refers to. spec: that of the pod."""
    return _texts(_pod_secrets(spec))


def config_map_names(spec: Document) -> Iterator[str]:
    """Yields the ConfigMaps that a pod refers to. spec: that of the pod."""
    return _texts(_pod_config_maps(spec))


def _texts(names: Iterable[Any]) -> Iterator[str]:
    return (name for name in names if isinstance(name, str) and name)


def _pod_secrets(spec: Document) -> Iterator[Any]:
    for each in _objects(spec.get("imagePullSecrets")):
        yield each.get("name")
    for source in _environment(spec):
        for field in ("secretKeyRef", "secretRef"):
            yield _object(source.get(field)).get("name")
    for volume in _objects(spec.get("volumes")):
        for kind, path in _VOLUME_SECRETS.items():
            value: Any = volume.get(kind)
            for step in path:
                value = _object(value).get(step)
            yield value
        for source in _projected(volume):
            yield _object(source.get("secret")).get("name")


def _pod_config_maps(spec: Document) -> Iterator[Any]:
    for source in _environment(spec):
        for field in ("configMapKeyRef", "configMapRef"):
            yield _object(source.get(field)).get("name")
    for volume in _objects(spec.get("volumes")):
        yield _object(volume.get("configMap")).get("name")
        for source in _projected(volume):
            yield _object(source.get("configMap")).get("name")


def _volume_claims(pod_name: str, spec: Document) -> Iterator[Any]:
    for volume in _objects(spec.get("volumes")):
        if "persistentVolumeClaim" in volume:
            yield _object(volume["persistentVolumeClaim"]).get("claimName")
        elif volume.get("ephemeral") is not None:
            yield f"{pod_name}-{volume.get('name', '')}"


def _resource_claims(spec: Document, status: Document) -> Iterator[Any]:
    """Yields the existing claims; those made from a template are in the pod's status."""
    made = {
        each.get("name"): each.get("resourceClaimName")
        for each in _objects(status.get("resourceClaimStatuses"))
    }
    for claim in _objects(spec.get("resourceClaims")):
        if (name := claim.get("resourceClaimName")) is not None:
            yield name
        elif claim.get("resourceClaimTemplateName") is not None:
            yield made.get(claim.get("name"))
    yield _object(status.get("extendedResourceClaimStatus")).get("resourceClaimName")


def _environment(spec: Document) -> Iterator[Document]:
    """Yields the sources of the environment of containers."""
    for field in _CONTAINERS:
        for container in _objects(spec.get(field)):
            for each in _objects(container.get("env")):
                yield _object(each.get("valueFrom"))
            yield from _objects(container.get("envFrom"))


def _projected(volume: Document) -> Iterator[Document]:
    return _objects(_object(volume.get("projected")).get("sources"))


class VolumeReferences(NamedTuple):
    """The objects that a persistent volume refers to.

    claim: the namespace and name of the claim that it is bound to.
    """

    claim: tuple[str, str]
    secrets: frozenset[tuple[str, str]] = frozenset()


def volume_references(volume: Document) -> VolumeReferences | None:
    """Returns the objects that a volume refers to; none if it is not bound to a claim."""
    spec = _object(volume.get("spec"))
    claim = _object(spec.get("claimRef"))
    namespace, name = claim.get("namespace"), claim.get("name")
    if not isinstance(namespace, str) or not isinstance(name, str):
        return None
    return VolumeReferences(
        (namespace, name),
        frozenset(
            (where, each)
            for where, each in _persistent_secrets(spec, namespace)
            if isinstance(where, str) and isinstance(each, str)
        ),
    )


def _persistent_secrets(spec: Document, claim_namespace: str) -> Iterator[tuple[Any, Any]]:
    """Yields the namespace and name of each Secret; the claim's namespace if the volume names none."""
    azure = _object(spec.get("azureFile"))
    yield azure.get("secretNamespace") or claim_namespace, azure.get("secretName")
    for kind, fields in _PERSISTENT_SECRETS.items():
        for field in fields:
            secret = _object(_object(spec.get(kind)).get(field))
            yield secret.get("namespace") or claim_namespace, secret.get("name")


def _object(value: Any) -> Document:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> Iterator[Document]:
    return (each for each in value if isinstance(each, dict)) if isinstance(value, list) else iter(())
