"""Warnings about pods and pod templates.

Source: pkg/api/pod, warnings.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from apiserver.catalogue.common.claim_specs import warn_claim_spec
from apiserver.catalogue.common.node_labels import DEPRECATED_NODE_LABELS, term_warnings
from apiserver.catalogue.pod_specs.overlapping_paths import warn_overlapping_paths
from apiserver.catalogue.pod_specs.pod_annotations import (
    APP_ARMOR,
    APP_ARMOR_TEXT,
    OF_PROFILES,
    SECCOMP_CONTAINER,
    SECCOMP_POD,
    app_armor_profile,
    mentions,
)
from apiserver.catalogue.pod_specs.scheduling import PREFERRED, REQUIRED, pod_affinity_terms
from apiserver.catalogue.pod_specs.security_contexts import all_containers
from apiserver.meta import names
from apiserver.meta.field_errors import quote
from apiserver.meta.text_caches import text_cache
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.addresses import ip_warnings
from apiserver.schema.validation.checks import quantity_of
from apiserver.schema.validation.documents import at, items, join

# How many warnings there are about ports that look alike.
_PORTS_COMPARED_MAX: Final = 8

_DEPRECATED_ANNOTATIONS: Final = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": (
        'non-functional in v1.11+; use the "sysctls" field instead'
    ),
}
_GIT_REPO: Final = "gitRepo"
_EPHEMERAL: Final = "ephemeral"
# The paths of volumes' sources in warnings, and their texts; of ephemeral ones the claims are checked. In the
# order of the warnings about one volume.
DEPRECATED_VOLUMES: Final = {
    "photonPersistentDisk": ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    _GIT_REPO: (_GIT_REPO, "deprecated in v1.11"),
    "scaleIO": ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    "flocker": ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    "storageos": ("storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    "quobyte": ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    "glusterfs": ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    _EPHEMERAL: (_EPHEMERAL, ""),
    "cephfs": ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    "rbd": ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
}
_SECCOMP_TEXT: Final = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_NULL_SELECTOR_TEXT: Final = "a null labelSelector results in matching no pod"


def pod_warnings(path: str, pod: Document, *, has_git_repos: bool) -> list[str]:
    """Returns warnings about discouraged fields in pods and templates.

    path: that of the template; empty for a pod. has_git_repos: the gate GitRepoVolumeDriver, on until 1.32.
    """
    spec, annotations = pod.get("spec") or {}, at(pod, "metadata", "annotations") or {}
    where = join(path, "spec")
    containers = [*all_containers(where, spec)]
    return [
        *_node_labels(where, spec),
        *(_annotations(path, annotations) if annotations else ()),
        *(_volumes(where, spec["volumes"], has_git_repos) if spec.get("volumes") else ()),
        *_duplicates(where, spec),
        *_fractions(where, spec, "overhead"),
        *(_profiles(path, annotations, spec) if mentions(annotations, OF_PROFILES) else ()),
        *_containers(containers),
        *_ports(containers),
        *_grace(where, spec),
        *(_pod_affinity(where, spec) if "affinity" in spec else ()),
        *_addresses(where, spec),
    ]


def _addresses(path: str, spec: Document) -> Iterator[str]:
    for where, server in items(spec.get("dnsConfig") or {}, "nameservers", f"{path}.dnsConfig"):
        yield from ip_warnings(where, server)
    for where, alias in items(spec, "hostAliases", path):
        yield from ip_warnings(f"{where}.ip", alias.get("ip", ""))


def _node_labels(path: str, spec: Document) -> Iterator[str]:
    for key in sorted(spec.get("nodeSelector") or ()):
        if text := DEPRECATED_NODE_LABELS.get(key):
            yield f"{path}.nodeSelector[{key}]: {text}"
    if "affinity" in spec and (affinity := at(spec, "affinity", "nodeAffinity")):
        yield from _node_affinity(f"{path}.affinity.nodeAffinity", affinity)
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        where, key = f"{path}.topologySpreadConstraints[{index}]", constraint.get("topologyKey", "")
        if text := DEPRECATED_NODE_LABELS.get(key):
            yield f"{where}.topologyKey: {key} is {text}"
        if "labelSelector" not in constraint:
            yield f"{where}.labelSelector: {_NULL_SELECTOR_TEXT}"


def _node_affinity(path: str, affinity: Document) -> Iterator[str]:
    for where, term in items(affinity.get(REQUIRED) or {}, "nodeSelectorTerms", f"{path}.{REQUIRED}"):
        yield from term_warnings(where, term, checks_values=False)
    for where, preferred in items(affinity, PREFERRED, path):
        yield from term_warnings(f"{where}.preference", preferred.get("preference") or {}, checks_values=True)


def _annotations(path: str, annotations: Mapping[str, str]) -> Iterator[str]:
    for key, text in _DEPRECATED_ANNOTATIONS.items():
        if key in annotations:
            yield f"{join(path, 'metadata.annotations')}[{key}]: {text}"


def _volumes(path: str, volumes: Sequence[Document], has_git_repos: bool) -> Iterator[str]:
    for index, volume in enumerate(volumes):
        if DEPRECATED_VOLUMES.keys().isdisjoint(volume):
            continue
        for field, (shown, text) in DEPRECATED_VOLUMES.items():
            if field not in volume:
                continue
            where = f"{path}.volumes[{index}].{shown}"
            if field == _EPHEMERAL:
                claim = at(volume, field, "volumeClaimTemplate", "spec") or {}
                yield from warn_claim_spec(f"{where}.volumeClaimTemplate.spec", claim)
            else:
                is_off = field == _GIT_REPO and not has_git_repos
                yield f"{where}: {text}" + (", and disabled by default in v1.33+" if is_off else "")
    yield from warn_overlapping_paths(volumes)


def _duplicates(path: str, spec: Document) -> Iterator[str]:
    for field, key in (("hostAliases", "ip"), ("imagePullSecrets", "name")):
        seen: set[str] = set()
        for index, item in enumerate(spec.get(field) or ()):
            value = item.get(key, "")
            if value in seen:
                yield f"{path}.{field}[{index}].{key}: duplicate {key} {quote(value)}"
            seen.add(value)
    for index, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if not secret.get("name"):
            yield f'{path}.imagePullSecrets[{index}].name: invalid empty name ""'


_COUNTED_IN_BYTES: Final = ("memory", "ephemeral-storage")


def _fractions(path: str, owner: Document, *fields: str) -> list[str]:
    """Returns warnings about fractions in the amounts of these fields."""
    found: list[str] = []
    for name in _COUNTED_IN_BYTES:
        for field in fields:
            amounts = owner.get(field) or {}
            if name in amounts and not _is_whole(value := amounts[name]):
                shown = f"{path}.{field}[{name}]"
                found.append(f"{shown}: fractional byte value {quote(value)} is invalid, must be an integer")
    return found


# Cached, like the amounts in `resource_requirements`.
@text_cache(names.CACHED_MAX)
def _is_whole(value: str) -> bool:
    return quantity_of(value).is_whole


def _profiles(path: str, annotations: Mapping[str, str], spec: Document) -> Iterator[str]:
    """Returns warnings about annotations that have become fields, where the fields are absent."""
    where = join(path, "metadata.annotations")
    if SECCOMP_POD in annotations and at(spec, "securityContext", "seccompProfile") is None:
        yield f"{where}[{SECCOMP_POD}]: {_SECCOMP_TEXT}"
    of_pod = at(spec, "securityContext", "appArmorProfile")
    for _, container in all_containers("", spec):
        name, context = container.get("name", ""), container.get("securityContext") or {}
        if SECCOMP_CONTAINER + name in annotations and "seccompProfile" not in context:
            yield f"{where}[{SECCOMP_CONTAINER}{name}]: {_SECCOMP_TEXT}"
        # Of those of pods `pods.preparation` warns, which makes fields of them.
        profile = annotations.get(APP_ARMOR + name) if path and "appArmorProfile" not in context else None
        if profile is not None and (of_pod is None or of_pod != app_armor_profile(profile)):
            yield f"{where}[{APP_ARMOR}{name}]: {APP_ARMOR_TEXT}"


def _containers(containers: Iterable[tuple[str, Document]]) -> Iterator[str]:
    for where, container in containers:
        if resources := container["resources"]:
            yield from _fractions(f"{where}.resources", resources, "limits", "requests")
        seen: set[str] = set()
        for index, variable in enumerate(container.get("env") or ()):
            name = variable.get("name", "")
            if name in seen and _hides(variable, name):
                text = "which may be dropped when using apply"
                yield f"{where}.env[{index}]: hides previous definition of {quote(name)}, {text}"
            seen.add(name)


def _hides(variable: Document, name: str) -> bool:
    """Returns whether the new value does not contain the old one."""
    value, reference = variable.get("value", ""), f"$({name})"
    return "valueFrom" in variable or value == reference or reference not in value


def _ports(containers: Iterable[tuple[str, Document]]) -> Iterator[str]:
    alike: dict[tuple[Any, Any], list[tuple[str, Document]]] = {}
    named: dict[str, str] = {}
    of_names: list[str] = []
    for place, container in containers:
        for index, port in enumerate(container.get("ports") or ()):
            where = f"{place}.ports[{index}]"
            if port.get("hostIP") and not port.get("hostPort"):
                yield f"{where}: hostIP set without hostPort: {_as_in_go(port)}"
            others = alike.setdefault((port.get("containerPort"), port.get("protocol")), [])
            for other_path, other in others:
                if text := _conflict(port, other):
                    yield f"{where}: {text} port definition with {other_path}"
            if len(others) < _PORTS_COMPARED_MAX:
                others.append((where, port))
            if name := port.get("name"):
                first = named.setdefault(name, where)
                if first != where:
                    text = f"services and probes that select ports by name will use {first}"
                    of_names.append(f"{where}: duplicate port name {quote(name)} with {first}, {text}")
    yield from of_names


def _as_in_go(port: Document) -> str:
    """Returns a port as Go prints the struct."""
    fields = {"Name": "", "HostPort": 0, "ContainerPort": 0, "Protocol": "", "HostIP": ""}
    shown = (f"{name}:{port.get(name[0].lower() + name[1:], empty)}" for name, empty in fields.items())
    return "{" + " ".join(shown) + "}"


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
    for where, term in pod_affinity_terms(f"{path}.affinity", spec["affinity"] or {}):
        if "labelSelector" not in term:
            yield f"{where}.labelSelector: {_NULL_SELECTOR_TEXT}"
