"""Validation of pods' annotations with a meaning, most of which are older forms of fields.

Source: pkg/apis/core/validation, ValidatePodSpecificAnnotations and its callers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import orjson

from apiserver.catalogue.pod_specs.scheduling import validate_tolerations
from apiserver.catalogue.pod_specs.security_contexts import all_containers
from apiserver.catalogue.pod_specs.validation_options import PodValidationOptions
from apiserver.catalogue.pod_specs.volumes import validate_descending_path
from apiserver.golang.formatting import json_type
from apiserver.golang.json_errors import syntax_error
from apiserver.meta.field_errors import Errors, forbidden, invalid
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.documents import at

MIRROR: Final = "kubernetes.io/config.mirror"
SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER: Final = "container.seccomp.security.alpha.kubernetes.io/"
APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
APP_ARMOR_TEXT: Final = 'deprecated since v1.30; use the "appArmorProfile" field instead'
OF_PROFILES: Final = (SECCOMP_POD, SECCOMP_CONTAINER, APP_ARMOR)
TOLERATIONS: Final = "scheduler.alpha.kubernetes.io/tolerations"
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_LOCAL: Final = "localhost/"
# As ValidatePodSpecificAnnotations: zeros may only come first behind a minus.
_as_cost = re.compile(r"(?:(-)0*|(?!0.))(\d{1,10})", re.ASCII).fullmatch


def validate_meaning(
    path: str,
    annotations: Mapping[str, str],
    spec: Document,
    options: PodValidationOptions,
    old: Mapping[str, str],
) -> Errors:
    """Checks annotations that have a meaning. old: the stored ones."""
    errors: Errors = []
    if not annotations:
        return errors
    if MIRROR in annotations and not spec.get("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(invalid(f"{path}[{MIRROR}]", annotations[MIRROR], text))
    if tolerations := annotations.get(TOLERATIONS):
        errors += _tolerations(path, tolerations, options)
    cost, old_cost = annotations.get(DELETION_COST), old.get(DELETION_COST, "0")
    is_any = options.any_deletion_cost or deletion_cost(old_cost) is None
    if cost is not None and not is_any and deletion_cost(cost) is None:
        errors.append(invalid(f"{path}[{DELETION_COST}]", cost, "must be a 32bit integer"))
    if not mentions(annotations, OF_PROFILES):
        return errors
    containers: set[str] | None = None
    for key, value in sorted(annotations.items()):
        if key == SECCOMP_POD or key.startswith(SECCOMP_CONTAINER):
            errors += validate_seccomp_profile(f"{path}.{key}", value)
        elif key.startswith(APP_ARMOR):
            if containers is None:
                containers = {container.get("name", "") for _, container in all_containers("", spec)}
            name = key.removeprefix(APP_ARMOR)
            if name not in containers:
                errors.append(invalid(f"{path}[{key}]", name, "container not found"))
            errors += validate_app_armor_profile(f"{path}[{key}]", value)
    return errors


# Go finds the fields of a structure without regard to case.
_OF_TOLERATIONS: Final = {
    name.lower(): name for name in ("key", "operator", "value", "effect", "tolerationSeconds")
}


def _tolerations(path: str, text: str, options: PodValidationOptions) -> Errors:
    """Checks tolerations in JSON, the form before there was a field for them."""
    try:
        tolerations = [_toleration(each) for each in _list(orjson.loads(text), "core.Toleration")]
    except orjson.JSONDecodeError as error:
        return [invalid(path, TOLERATIONS, syntax_error(error, text.encode("utf-8", "replace")))]
    except TypeError as error:
        return [invalid(path, TOLERATIONS, str(error))]
    where = f"{path}.{TOLERATIONS}"
    return validate_tolerations(where, tolerations, has_comparisons=options.toleration_comparisons)


def _list(value: Any, item: str) -> Sequence[Any]:
    """Returns the items of a list; none for null. item: their type in Go. Raises TypeError."""
    if not isinstance(value, list | None):
        raise TypeError(f"json: cannot unmarshal {json_type(value)} into Go value of type []{item}")
    return value or ()


def _toleration(value: Any) -> Document:
    """Returns a toleration with its present fields; none for null. Raises TypeError."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise TypeError(f"json: cannot unmarshal {json_type(value)} into Go value of type core.Toleration")
    found = {
        _OF_TOLERATIONS[name.lower()]: each
        for name, each in value.items()
        if each is not None and name.lower() in _OF_TOLERATIONS
    }
    for name, each in found.items():
        expected = int if name == "tolerationSeconds" else str
        if type(each) is not expected:
            field = f"Toleration.{name} of type {'int64' if expected is int else 'string'}"
            raise TypeError(f"json: cannot unmarshal {json_type(each)} into Go struct field {field}")
    return found


def validate_app_armor_profile(path: str, profile: str) -> Errors:
    if profile in ("", "runtime/default", "unconfined") or profile.startswith(_LOCAL):
        return []
    return [invalid(path, profile, f'invalid AppArmor profile name: "{profile}"')]


def deletion_cost(text: str) -> int | None:
    """Returns the deletion cost in a pod's annotations; None if it is invalid.

    Source: pkg/apis/core/helper, GetDeletionCostFromPodAnnotations.
    """
    found = _as_cost(text)
    if found is None:
        return None
    sign, digits = found.groups("")
    cost = int(sign + digits)
    return cost if -(1 << 31) <= cost < 1 << 31 else None


def validate_seccomp_profile(path: str, profile: str) -> Errors:
    if profile in ("runtime/default", "docker/default", "unconfined"):
        return []
    if profile.startswith(_LOCAL):
        return validate_descending_path(path, profile.removeprefix(_LOCAL))
    return [invalid(path, profile, "must be a valid seccomp profile")]


def mentions(annotations: Iterable[str], prefixes: str | tuple[str, ...]) -> bool:
    """Returns whether a key of the annotations begins with a prefix, or with one of several."""
    return any(key.startswith(prefixes) for key in annotations)


def validate_changes(path: str, new: Mapping[str, str], old: Mapping[str, str]) -> Errors:
    """Checks that the annotations that kubelets rely on do not change."""
    errors: Errors = []
    for key in [*old, *(key for key in new if key not in old)]:
        if new.get(key) == old.get(key):
            continue
        text = "may not remove or update" if key in old else "may not add"
        if key.startswith(APP_ARMOR):
            errors.append(forbidden(f"{path}[{key}]", f"{text} AppArmor annotations"))
        if key == MIRROR:
            errors.append(forbidden(f"{path}[{key}]", f"{text} mirror pod annotation"))
    return errors


def validate_seccomp_fields(annotations: Mapping[str, str], path: str, spec: Document) -> Errors:
    """Checks that an annotation and its field agree if both are present. path: that of the spec."""
    if not mentions(annotations, SECCOMP_CONTAINER) and SECCOMP_POD not in annotations:
        return []
    errors = _agree("seccomp", path, spec, annotations.get(SECCOMP_POD))
    for where, container in all_containers(path, spec):
        annotation = annotations.get(SECCOMP_CONTAINER + container.get("name", ""))
        errors += _agree("seccomp", where, container, annotation)
    return errors


def validate_app_armor_fields(annotations: Mapping[str, str], path: str, spec: Document) -> Errors:
    if not mentions(annotations, APP_ARMOR) or at(spec, "os", "name") == "windows":
        return []
    of_pod = at(spec, "securityContext", "appArmorProfile")
    errors: Errors = []
    for where, container in all_containers(path, spec):
        profile = at(container, "securityContext", "appArmorProfile") or of_pod
        annotation = annotations.get(APP_ARMOR + container.get("name", ""))
        owner = {"securityContext": {"appArmorProfile": profile}}
        errors += _agree("apparmor", where, owner, annotation)
    return errors


_NAMES_OF_TYPES: Final = {
    "Unconfined": ("unconfined",),
    "RuntimeDefault": ("runtime/default", "docker/default"),
}


def _agree(what: str, path: str, owner: Document, annotation: str | None) -> Errors:
    field = "seccompProfile" if what == "seccomp" else "appArmorProfile"
    profile = at(owner, "securityContext", field)
    if profile is None or annotation is None:
        return []
    where, kind = f"{path}.securityContext.{field}", profile.get("type", "")
    if kind == "Localhost":
        if annotation.startswith(_LOCAL):
            if annotation.removeprefix(_LOCAL) == profile.get("localhostProfile"):
                return []
            text = f"{what} profile in annotation and field must match"
            return [forbidden(f"{where}.localhostProfile", text)]
    elif annotation in _NAMES_OF_TYPES.get(kind, (annotation,)):
        return []
    return [forbidden(f"{where}.type", f"{what} type in annotation and field must match")]


def app_armor_profile(annotation: str) -> Document | None:
    """Returns the `appArmorProfile` that corresponds to an annotation; None if none does."""
    match annotation:
        case "unconfined":
            return {"type": "Unconfined"}
        case "runtime/default":
            return {"type": "RuntimeDefault"}
    local = annotation.removeprefix(_LOCAL)
    if local in ("", annotation) or local != local.strip():
        return None
    return {"type": "Localhost", "localhostProfile": local}
