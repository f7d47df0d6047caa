"""Updates of the resources of pods, by the subresource `resize`.

Source: pkg/registry/core/pod, strategy.go, and pkg/apis/core/validation, ValidatePodResize.
"""

from __future__ import annotations

from typing import Any, Final

from apiserver.catalogue.core.pods.qos import qos_class
from apiserver.catalogue.core.pods.rules import PodRules
from apiserver.catalogue.core.pods.updates import only_spec, with_old_value
from apiserver.catalogue.core.pods.validation import validate_pod
from apiserver.catalogue.pod_specs import pod_annotations
from apiserver.meta.field_errors import NO_FIELD, Errors, forbidden, invalid
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.documents import at

_RESIZABLE: Final = ("cpu", "memory")
_AMOUNTS: Final = ("requests", "limits")
_CONTAINERS: Final = ("containers", "initContainers")
_ONLY: Final = "only cpu and memory resources"


def prepare_resize(rules: PodRules, new: Document, old: Document) -> None:
    """Applies the new resources to the old pod. If the containers differ, validation reports it."""
    spec, old_spec = new.get("spec") or {}, old["spec"]
    if any(len(spec.get(field) or ()) != len(old_spec.get(field) or ()) for field in _CONTAINERS):
        return
    only_spec(new, old)
    resized = with_old_value(old_spec, spec, "resources") if rules.resizes_pods else dict(old_spec)
    for field in _CONTAINERS:
        if not old_spec.get(field):
            continue
        if _names_of(spec, field) != _names_of(old_spec, field):
            resized[field] = spec[field]
        else:
            resized[field] = [
                with_old_value(with_old_value(known, container, "resources"), container, "resizePolicy")
                for known, container in zip(old_spec[field], spec[field], strict=True)
            ]
    new["spec"] = resized


def _names_of(spec: Document, field: str) -> list[Any]:
    return [container.get("name") for container in spec.get(field) or ()]


def validate_resize(rules: PodRules, new: Document, old: Document) -> Errors:
    spec, old_spec = new["spec"], old["spec"]
    if pod_annotations.MIRROR in (old["metadata"].get("annotations") or {}):
        return [forbidden(NO_FIELD, "static pods cannot be resized")]
    if at(old_spec, "os", "name") == "windows":
        return [forbidden(NO_FIELD, "windows pods cannot be resized")]
    errors = validate_pod(rules.specs, new, old)
    before = at(old, "status", "qosClass") or qos_class(old_spec)
    if before != qos_class(spec):
        shown = at(new, "status", "qosClass") or ""
        errors.append(invalid("spec", shown, "Pod QOS Class may not change as a result of resizing"))
    if not _can_be_resized(old):
        errors.append(forbidden("spec", "Pod running on node without support for resize"))
    has_amounts = any(at(each, "resources", kind) for each in (spec, old_spec) for kind in _AMOUNTS)
    if has_amounts:
        if not rules.resizes_pods:
            text = (
                "resize of pods with pod-level resources is forbidden when "
                "InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled"
            )
            return [*errors, forbidden(NO_FIELD, text)]
        errors += _pod_resources(spec.get("resources"), old_spec.get("resources"))
    if at(old, "status", "nodeAllocatableResourceClaimStatuses"):
        errors.append(forbidden("spec", "pods with node allocatable resource claims cannot be resized"))
    if others := _other_containers(spec, old_spec):
        return errors + others
    errors += _removed_from_containers(rules, spec, old_spec)
    for container, known in zip(spec.get("containers") or (), old_spec.get("containers") or (), strict=True):
        if _is_changed_otherwise(container, known):
            errors.append(forbidden("spec", f"{_ONLY} are mutable"))
    errors += _init_containers(rules, spec, old_spec)
    if not errors and not has_amounts and spec.get("resources") != old_spec.get("resources"):
        errors.append(forbidden("spec", f"{_ONLY} are mutable"))
    return errors


def _can_be_resized(pod: Document) -> bool:
    """Returns whether the node supports resizing: then its running containers report their resources."""
    for status in at(pod, "status", "containerStatuses") or ():
        if at(status, "state", "running") is not None:
            return status.get("resources") is not None
    return True


# ---- the pod as a whole


def _pod_resources(new: Document | None, old: Document | None) -> Errors:
    path = "spec.resources"
    if new is None:
        return [forbidden(path, "pod-level resources cannot be removed")]
    errors = [
        forbidden(f"{path}.{field}", f"pod-level resource {field} cannot be removed")
        for field in _AMOUNTS
        if _are_removed(new, old or {}, field)
    ]
    claims = {k: v for k, v in new.items() if k not in _AMOUNTS}
    if claims | _unresizable(new, old or {}) != {k: v for k, v in (old or {}).items() if v}:
        errors.append(forbidden("spec", f"{_ONLY} are mutable at pod-level"))
    return errors


# ---- containers


def _other_containers(spec: Document, old_spec: Document) -> Errors:
    """Checks that the containers are the same, in the same order."""
    errors: Errors = []
    for field in _CONTAINERS:
        names, old_names = _names_of(spec, field), _names_of(old_spec, field)
        if len(names) != len(old_names):
            errors.append(forbidden(f"spec.{field}", f"{field} may not be added or removed on resize"))
            continue
        text = f"{field} may not be renamed or reordered on resize"
        errors += [
            forbidden(f"spec.{field}[{index}].name", text)
            for index, (name, old_name) in enumerate(zip(names, old_names, strict=True))
            if name != old_name
        ]
    return errors


def _removed_from_containers(rules: PodRules, spec: Document, old_spec: Document) -> Errors:
    return [
        forbidden(f"spec.{field}[{index}].resources.{amounts}", f"resource {amounts} cannot be removed")
        for field in reversed(_CONTAINERS)
        for index, known in enumerate(old_spec.get(field) or ())
        if field == "containers" or rules.resizes_init_containers or _is_sidecar(known)
        for amounts in _AMOUNTS
        if _are_removed(spec[field][index]["resources"], known["resources"], amounts)
    ]


def _init_containers(rules: PodRules, spec: Document, old_spec: Document) -> Errors:
    errors: Errors = []
    for index, known in enumerate(old_spec.get("initContainers") or ()):
        container, where = spec["initContainers"][index], f"spec.initContainers[{index}]"
        is_sidecar = _is_sidecar(container)
        if not is_sidecar and not rules.resizes_init_containers:
            if container != known:
                text = "resources for non-sidecar init containers are immutable"
                errors.append(forbidden("spec", text))
            continue
        if _is_changed_otherwise(container, known):
            errors.append(forbidden(where, f"{_ONLY} for init or sidecar containers are mutable"))
        if container != known and not is_sidecar:
            text = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
            errors += [
                forbidden(where, text)
                for policy in container.get("resizePolicy") or ()
                if policy.get("restartPolicy") == "RestartContainer"
            ]
    return errors


def _is_sidecar(container: Document) -> bool:
    return bool(container.get("restartPolicy") == "Always")


def _is_changed_otherwise(container: Document, known: Document) -> bool:
    """Returns whether fields other than CPU and memory change."""
    fixed = {**container, "resources": _unresizable(container["resources"], known["resources"])}
    # What asks for devices by claims cannot be resized.
    return fixed != {**known, "resources": {k: v for k, v in known["resources"].items() if v}}


# ---- resources


def _are_removed(new: Document, old: Document, field: str) -> bool:
    return bool((old.get(field) or {}).keys() - (new.get(field) or {}).keys())


def _unresizable(new: Document, old: Document) -> Document:
    """Returns the new amounts, with old values for those that may change."""
    found: Document = {}
    for field in _AMOUNTS:
        amounts, known = new.get(field) or {}, old.get(field) or {}
        kept = {name: value for name, value in amounts.items() if name not in _RESIZABLE}
        kept |= {name: known[name] for name in _RESIZABLE if name in known}
        if kept:
            found[field] = kept
    return found
