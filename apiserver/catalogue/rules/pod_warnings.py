"""What is allowed in pods and templates, and still not wise.

Source: pkg/api/pod, warnings.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from apiserver.catalogue.rules.common import at, items, join, quantity_of
from apiserver.catalogue.rules.pod_annotations import (
    APP_ARMOR,
    SECCOMP_CONTAINER,
    SECCOMP_POD,
    mentions,
)
from apiserver.catalogue.rules.pod_security import all_containers
from apiserver.field_errors import quote
from apiserver.vocabulary import Document

# Of ports that look alike; a container that opens one port often is told of the first few.
_PORTS_COMPARED_MAX: Final = 8
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"

DEPRECATED_NODE_LABELS: Final = {
    old: f'deprecated since {release}; use "{new}" instead'
    for old, release, new in (
        ("beta.kubernetes.io/arch", "v1.14", "kubernetes.io/arch"),
        ("beta.kubernetes.io/os", "v1.14", "kubernetes.io/os"),
        ("failure-domain.beta.kubernetes.io/region", "v1.17", "topology.kubernetes.io/region"),
        ("failure-domain.beta.kubernetes.io/zone", "v1.17", "topology.kubernetes.io/zone"),
        ("beta.kubernetes.io/instance-type", "v1.17", "node.kubernetes.io/instance-type"),
    )
}
_DEPRECATED_ANNOTATIONS: Final = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": (
        'non-functional in v1.11+; use the "sysctls" field instead'
    ),
}
# In the order in which they are told of one volume.
_DEPRECATED_VOLUMES: Final = {
    "photonPersistentDisk": ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    "gitRepo": ("gitRepo", "deprecated in v1.11"),
    "scaleIO": ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    "flocker": ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    "storageos": ("storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    "quobyte": ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    "glusterfs": ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    "cephfs": ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    "rbd": ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
}
_SECCOMP_TEXT: Final = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_NULL_SELECTOR_TEXT: Final = "a null labelSelector results in matching no pod"


def pod_warnings(path: str, pod: Document) -> list[str]:
    """path: of the template; empty for a pod."""
    spec = pod.get("spec") or {}
    where = join(path, "spec")
    return [
        *_node_labels(where, spec),
        *_annotations(join(path, "metadata.annotations"), pod),
        *_volumes(where, spec),
        *_duplicates(where, spec),
        *(_fractions(f"{where}.overhead", spec["overhead"]) if "overhead" in spec else ()),
        *_profiles(path, pod),
        *_containers(where, spec),
        *_ports(where, spec),
        *_grace(where, spec),
        *(_pod_affinity(where, spec) if "affinity" in spec else ()),
    ]


def _node_labels(path: str, spec: Document) -> Iterator[str]:
    for key in sorted(spec.get("nodeSelector") or ()):
        if text := DEPRECATED_NODE_LABELS.get(key):
            yield f"{path}.nodeSelector[{key}]: {text}"
    affinity = at(spec, "affinity", "nodeAffinity") or {}
    where = f"{path}.affinity.nodeAffinity"
    terms = [*items(affinity.get(_REQUIRED) or {}, "nodeSelectorTerms", f"{where}.{_REQUIRED}")]
    for place, preferred in items(affinity, _PREFERRED, where):
        terms.append((f"{place}.preference", preferred.get("preference") or {}))
    for place, term in terms:
        for each, expression in items(term, "matchExpressions", place):
            key = expression.get("key", "")
            if text := DEPRECATED_NODE_LABELS.get(key):
                yield f"{each}.key: {key} is {text}"
    for place, constraint in items(spec, "topologySpreadConstraints", path):
        key = constraint.get("topologyKey", "")
        if text := DEPRECATED_NODE_LABELS.get(key):
            yield f"{place}.topologyKey: {key} is {text}"
        if "labelSelector" not in constraint:
            yield f"{place}.labelSelector: {_NULL_SELECTOR_TEXT}"


def _annotations(path: str, pod: Document) -> Iterator[str]:
    annotations = at(pod, "metadata", "annotations") or {}
    for key, text in _DEPRECATED_ANNOTATIONS.items():
        if key in annotations:
            yield f"{path}[{key}]: {text}"


def _volumes(path: str, spec: Document) -> Iterator[str]:
    for where, volume in items(spec, "volumes", path):
        if not _DEPRECATED_VOLUMES.keys().isdisjoint(volume):
            for field, (shown, text) in _DEPRECATED_VOLUMES.items():
                if field in volume:
                    yield f"{where}.{shown}: {text}"
    sources = [
        (where, source)
        for where, volume in items(spec, "volumes", path)
        if "projected" in volume
        for source in at(volume, "projected", "sources") or ()
    ]
    tokens = {at(source, "serviceAccountToken", "path") for _, source in sources} - {None}
    for where, source in sources if tokens else ():
        for field, shown in (
            ("configMap", "configMap"),
            ("secret", "secrets"),
            ("downwardAPI", "downwardAPI"),
        ):
            for index, item in enumerate(at(source, field, "items") or ()):
                if item.get("path") in tokens:
                    text = f"has duplicated path with ServiceAccountToken {quote(item['path'])}"
                    yield f"{where}.projected.sources.{shown}[{index}]: {text}"
        bundle = at(source, "clusterTrustBundle", "path")
        if bundle in tokens:
            text = f"has duplicated path with ServiceAccountToken {quote(bundle)}"
            yield f"{where}.projected.sources.ClusterTrustBundle: {text}"


def _duplicates(path: str, spec: Document) -> Iterator[str]:
    for field, key in (("hostAliases", "ip"), ("imagePullSecrets", "name")):
        seen: set[str] = set()
        for where, item in items(spec, field, path):
            value = item.get(key, "")
            if value in seen:
                yield f"{where}.{key}: duplicate {key} {quote(value)}"
            seen.add(value)
    for where, secret in items(spec, "imagePullSecrets", path):
        if not secret.get("name"):
            yield f'{where}.name: invalid empty name ""'


def _fractions(path: str, amounts: Document | None) -> Iterator[str]:
    for name in ("memory", "ephemeral-storage"):
        value = (amounts or {}).get(name)
        if value is not None and (number := quantity_of(value).value) != number.to_integral_value():
            yield f"{path}[{name}]: fractional byte value {quote(value)} is invalid, must be an integer"


def _profiles(path: str, pod: Document) -> Iterator[str]:
    """Annotations that have become fields, without the fields."""
    spec = pod.get("spec") or {}
    annotations, where = at(pod, "metadata", "annotations") or {}, join(path, "metadata.annotations")
    if SECCOMP_POD in annotations and at(spec, "securityContext", "seccompProfile") is None:
        yield f"{where}[{SECCOMP_POD}]: {_SECCOMP_TEXT}"
    if not mentions(annotations, SECCOMP_CONTAINER) and not mentions(annotations, APP_ARMOR):
        return
    has_app_armor = at(spec, "securityContext", "appArmorProfile") is not None
    for _, container in all_containers("", spec):
        name, context = container.get("name", ""), container.get("securityContext") or {}
        if SECCOMP_CONTAINER + name in annotations and "seccompProfile" not in context:
            yield f"{where}[{SECCOMP_CONTAINER}{name}]: {_SECCOMP_TEXT}"
        if (
            path
            and APP_ARMOR + name in annotations
            and not has_app_armor
            and "appArmorProfile" not in context
        ):
            text = 'deprecated since v1.30; use the "appArmorProfile" field instead'
            yield f"{where}[{APP_ARMOR}{name}]: {text}"


def _containers(path: str, spec: Document) -> Iterator[str]:
    for where, container in all_containers(path, spec):
        for field in ("limits", "requests"):
            if field in container["resources"]:
                yield from _fractions(f"{where}.resources.{field}", container["resources"][field])
        variables = container.get("env") or ()
        if len({variable.get("name", "") for variable in variables}) == len(variables):
            continue
        seen: set[str] = set()
        for place, variable in items(container, "env", where):
            name = variable.get("name", "")
            if name in seen and _hides(variable, name):
                text = "which may be dropped when using apply"
                yield f"{place}: hides previous definition of {quote(name)}, {text}"
            seen.add(name)


def _hides(variable: Document, name: str) -> bool:
    """The new value does not contain the old one."""
    value, reference = variable.get("value", ""), f"$({name})"
    return "valueFrom" in variable or value == reference or reference not in value


def _ports(path: str, spec: Document) -> Iterator[str]:
    alike: dict[tuple[Any, Any], list[tuple[str, Document]]] = {}
    for place, container in all_containers(path, spec):
        for where, port in items(container, "ports", place):
            if port.get("hostIP") and not port.get("hostPort"):
                yield f"{where}: hostIP set without hostPort: {quote(port)}"
            others = alike.setdefault((port.get("containerPort"), port.get("protocol")), [])
            for other_path, other in others:
                if text := _conflict(port, other):
                    yield f"{where}: {text} port definition with {other_path}"
            if len(others) < _PORTS_COMPARED_MAX:
                others.append((where, port))


def _conflict(one: Document, other: Document) -> str:
    ip, other_ip = one.get("hostIP", ""), other.get("hostIP", "")
    number, other_number = one.get("hostPort", 0), other.get("hostPort", 0)
    if (ip, number) == (other_ip, other_number):
        return "duplicate"
    if not number or not other_number:
        return "overlapping"
    return "dangerously ambiguous" if number == other_number and bool(ip) != bool(other_ip) else ""


def _grace(path: str, spec: Document) -> Iterator[str]:
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{path}.terminationGracePeriodSeconds: {text}"


def _pod_affinity(path: str, spec: Document) -> Iterator[str]:
    for field in ("podAffinity", "podAntiAffinity"):
        value, where = at(spec, "affinity", field) or {}, f"{path}.affinity.{field}"
        for place, term in items(value, _REQUIRED, where):
            if "labelSelector" not in term:
                yield f"{place}.labelSelector: {_NULL_SELECTOR_TEXT}"
        for place, weighted in items(value, _PREFERRED, where):
            if "labelSelector" not in (weighted.get("podAffinityTerm") or {}):
                yield f"{place}.podAffinityTerm.labelSelector: {_NULL_SELECTOR_TEXT}"
