"""Defaults of pods and of all fields in a pod's spec.

Source: pkg/apis/core/v1/defaults.go, the +default markers of k8s.io/api/core/v1, and the effects of
conversion to the internal version and back on fields that exist twice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from apiserver.catalogue.builtin_type import CORE
from apiserver.catalogue.common.claim_specs import CLAIM_DEFAULTS
from apiserver.catalogue.pod_specs import resource_requirements
from apiserver.meta.text_caches import text_cache
from apiserver.meta.vocabulary import Document
from apiserver.schema.compile import Default
from apiserver.schema.validation.defaults import in_turn, rounding, setting

# ---- Images

# No registry is that deep; longer texts are not images.
_IMAGE_LENGTH_MAX: Final = 1_024
_IMAGES_REMEMBERED: Final = 1_024
_HOST: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_COMPONENT: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_IMAGE: Final = re.compile(
    rf"(?P<name>(?:(?:{_HOST}(?:\.{_HOST})*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?/)?{_COMPONENT}(?:/{_COMPONENT})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
    r"(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)
# What is named by its digest alone has no tag.
_is_identifier = re.compile("[0-9a-f]{64}").fullmatch
_PATH_LENGTH_MAX: Final = 255
_DOCKER_HUB: Final = ("docker.io", "index.docker.io")


def pull_policy(image: str) -> str:
    """Returns the default pull policy of an image: Always only for the tag `latest`, whose image may
    change.
    """
    return "Always" if len(image) <= _IMAGE_LENGTH_MAX and _is_latest(image) else "IfNotPresent"


@text_cache(_IMAGES_REMEMBERED)
def _is_latest(image: str) -> bool:
    match = _IMAGE.fullmatch(image)
    if match is None or _is_identifier(image) or len(_repository_path(match["name"])) > _PATH_LENGTH_MAX:
        return False
    return (match["tag"] or (not match["digest"] and "latest")) == "latest"


def _repository_path(name: str) -> str:
    """Returns the path of an image in its registry. Source: distribution/reference, normalize.go."""
    host, slash, rest = name.partition("/")
    is_host = slash and ("." in host or ":" in host or host == "localhost" or host != host.lower())
    if is_host and host not in _DOCKER_HUB:
        return rest
    path = rest if is_host else name
    return path if "/" in path else f"library/{path}"


# ---- Containers


def _container(container: Document) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = pull_policy(container.get("image", ""))


# ---- Volumes

_FILE_MODE: Final = 0o644


def _volume(volume: Document) -> None:
    if not volume or (len(volume) == 1 and "name" in volume):
        volume["emptyDir"] = {}
    if "image" in volume:
        image = volume["image"]
        if not image.get("pullPolicy"):
            image["pullPolicy"] = pull_policy(image.get("reference", ""))


# ---- Pods

# Annotations that held init containers before there was a field. They are dropped: kubelets would read them.
_OF_INIT_CONTAINERS: Final = frozenset(
    f"pod.{stage}.kubernetes.io/init-{what}"
    for stage in ("alpha", "beta")
    for what in ("containers", "container-statuses")
)


def _drop_annotations_of_init_containers(pod: Document) -> None:
    annotations = (pod.get("metadata") or {}).get("annotations")
    if annotations and not _OF_INIT_CONTAINERS.isdisjoint(annotations):
        kept = {key: text for key, text in annotations.items() if key not in _OF_INIT_CONTAINERS}
        pod["metadata"].update(annotations=kept)
        if not kept:
            del pod["metadata"]["annotations"]


def _pod_spec(spec: Document) -> None:
    for name, value in (
        ("dnsPolicy", "ClusterFirst"),
        ("restartPolicy", "Always"),
        ("terminationGracePeriodSeconds", 30),
        ("schedulerName", "default-scheduler"),
    ):
        spec.setdefault(name, value)
    spec.setdefault("securityContext", {})
    # The older of two names for one thing follows the newer.
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def _pod_status(status: Document) -> None:
    """Makes the single address and the first address of the list equal."""
    alone, addresses = status.get("podIP"), status.get("podIPs") or [{}]
    if not alone:
        alone = addresses[0].get("ip")
    elif addresses[0].get("ip") != alone:
        status["podIPs"] = [{"ip": alone}]
    if alone:
        status["podIP"] = alone


def _pod(pod: Document) -> None:
    """Sets the defaults of pods that templates do not have."""
    _drop_annotations_of_init_containers(pod)
    spec = pod["spec"]
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    for container in containers:
        resources = container["resources"]
        if limits := resources.get("limits"):
            resources["requests"] = {**limits, **resources.get("requests", {})}
    _pod_level_resources(spec)
    spec.setdefault("enableServiceLinks", True)
    if spec.get("hostNetwork"):
        for container in containers:
            for port in container.get("ports") or ():
                if number := port.get("containerPort"):
                    port.setdefault("hostPort", number)


def _pod_level_resources(spec: Document) -> None:
    """Derives the resources of a pod as a whole from its containers, or from its limits."""
    resources = spec.get("resources")
    if not resources or not (resources.get("limits") or resources.get("requests")):
        return
    limits, requests = dict(resources.get("limits", {})), dict(resources.get("requests", {}))
    for name, amount in resource_requirements.total_of_containers(spec, "limits").items():
        if name.startswith("hugepages-") and name not in requests:
            limits.setdefault(name, str(amount))
    if limits:
        for name, amount in resource_requirements.total_of_containers(spec, "requests").items():
            if name in ("cpu", "memory"):
                requests.setdefault(name, str(amount))
        for name, limit in limits.items():
            if resource_requirements.is_pod_level_resource(name):
                requests.setdefault(name, limit)
    resources.update({k: v for k, v in (("limits", limits), ("requests", requests)) if v})


DEFAULTS: Final[Mapping[str, Default]] = MappingProxyType(
    {
        **CLAIM_DEFAULTS,
        **{
            CORE + name: default
            for name, default in {
                "AzureDiskVolumeSource": setting(
                    cachingMode="ReadWrite", fsType="ext4", readOnly=False, kind="Shared"
                ),
                "ConfigMapVolumeSource": setting(defaultMode=_FILE_MODE),
                "Container": _container,
                "ContainerPort": setting(protocol="TCP"),
                "ContainerStatus": rounding("allocatedResources"),
                "DownwardAPIVolumeSource": setting(defaultMode=_FILE_MODE),
                "EphemeralContainer": _container,
                "FileKeySelector": setting(optional=False),
                "GRPCAction": setting(service=""),
                "HTTPGetAction": setting(path="/", scheme="HTTP"),
                "HostPathVolumeSource": setting(type=""),
                "ISCSIVolumeSource": setting(iscsiInterface="default"),
                "ObjectFieldSelector": setting(apiVersion="v1"),
                "Pod": _pod,
                "PodSpec": in_turn(_pod_spec, rounding("overhead")),
                "PodStatus": in_turn(_pod_status, rounding("allocatedResources")),
                "PodTemplateSpec": _drop_annotations_of_init_containers,
                "Probe": setting(timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3),
                "ProjectedVolumeSource": setting(defaultMode=_FILE_MODE),
                "RBDVolumeSource": setting(pool="rbd", user="admin", keyring="/etc/ceph/keyring"),
                "ResourceRequirements": rounding("limits", "requests"),
                "ScaleIOVolumeSource": setting(storageMode="ThinProvisioned", fsType="xfs"),
                "SecretVolumeSource": setting(defaultMode=_FILE_MODE),
                "ServiceAccountTokenProjection": setting(expirationSeconds=3600),
                "Volume": _volume,
            }.items()
        },
    }
)
