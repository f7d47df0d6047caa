"""Validation of updates of pods, and of their ephemeral containers.

Source: pkg/registry/core/pod, strategy.go, and pkg/apis/core/validation, ValidatePodUpdate and
ValidatePodEphemeralContainersUpdate.
"""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.core.pods.rules import PodRules
from apiserver.catalogue.core.pods.validation import validate_pod
from apiserver.catalogue.pod_specs import pod_annotations
from apiserver.catalogue.pod_specs.containers import validate_pod_image
from apiserver.catalogue.pod_specs.ratcheting import ratcheted
from apiserver.catalogue.pod_specs.scheduling import REQUIRED, validate_tolerations
from apiserver.meta.field_errors import NO_FIELD, Errors, forbidden, invalid, quote, required
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import CLIENT_METADATA, keep_metadata, keep_status
from apiserver.schema.validation.checks import in_range
from apiserver.schema.validation.documents import at, items

_SECONDS_MAX: Final = (1 << 31) - 1
# The length of each side of a difference.
_DIFFERENCE_LENGTH_MAX: Final = 512
_UPDATABLE: Final = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    )
)


def difference(old: Document, new: Document) -> str:
    """Returns the fields that differ, with their old and their new values."""
    lines = []
    for field in sorted(old.keys() | new.keys()):
        if old.get(field) != new.get(field):
            lines += [
                f"{sign} {field}: {_shortened(quote(value[field]))}"
                for sign, value in (("-", old), ("+", new))
                if field in value
            ]
    return "\n".join(lines)


def _shortened(text: str) -> str:
    return text if len(text) <= _DIFFERENCE_LENGTH_MAX else f"{text[:_DIFFERENCE_LENGTH_MAX]}..."


def annotation_changes(rules: PodRules, new: Document, old: Document) -> Errors:
    """Checks the annotations in an update. Source: ValidatePodSpecificAnnotationUpdates."""
    annotations = new["metadata"].get("annotations") or {}
    known = old["metadata"].get("annotations") or {}
    if not annotations and not known:
        return []
    path = "metadata.annotations"
    return [
        *pod_annotations.validate_changes(path, annotations, known),
        *pod_annotations.validate_meaning(path, annotations, new["spec"], rules.specs.options, known),
    ]


# ---- the main endpoint


def validate_pod_update(rules: PodRules, new: Document, old: Document) -> Errors:
    spec, old_spec = new["spec"], old["spec"]
    errors = validate_pod(rules.specs, new, old) + annotation_changes(rules, new, old)
    for field in ("containers", "initContainers"):
        if len(spec.get(field) or ()) != len(old_spec.get(field) or ()):
            return [*errors, forbidden(f"spec.{field}", "pod updates may not add or remove containers")]
        for where, container in items(spec, field, "spec"):
            if not container.get("image"):
                errors.append(required(f"{where}.image"))
            errors += validate_pod_image(where, container)
    deadline_errors, is_final = _deadline(
        spec.get("activeDeadlineSeconds"), old_spec.get("activeDeadlineSeconds")
    )
    errors += deadline_errors
    if is_final:
        return errors
    errors += _only_more_tolerations(rules, spec, old_spec)
    errors += _only_fewer_gates(spec, old_spec)
    if spec == old_spec:
        return errors
    masked = _without_allowed_changes(spec, old_spec)
    if old_spec.get("schedulingGates"):
        masked, found = _narrowed_nodes(masked, old_spec)
        errors += found
    if masked != old_spec:
        text = f"pod updates may not change fields other than {_UPDATABLE}\n{difference(old_spec, masked)}"
        errors.append(forbidden("spec", text))
    return errors


def _deadline(new_s: int | None, old_s: int | None) -> tuple[Errors, bool]:
    """Checks that the deadline is only set or reduced. Also returns whether to stop checking."""
    where = "spec.activeDeadlineSeconds"
    if new_s is None:
        if old_s is None:
            return [], False
        return [invalid(where, None, "must not update from a positive integer to nil value")], False
    if errors := in_range(where, new_s, 0, _SECONDS_MAX):
        return errors, True
    if old_s is not None and old_s < new_s:
        return [invalid(where, new_s, "must be less than or equal to previous value")], True
    return [], False


def _only_more_tolerations(rules: PodRules, spec: Document, old_spec: Document) -> Errors:
    def identities(owner: Document) -> set[tuple[str, ...]]:
        return {
            tuple(each.get(field, "") for field in ("key", "operator", "value", "effect"))
            for each in owner.get("tolerations") or ()
        }

    if identities(old_spec) - identities(spec):
        text = "existing toleration can not be modified except its tolerationSeconds"
        return [forbidden("spec.tolerations", text)]
    options = ratcheted(rules.specs.options, spec, old_spec)
    return validate_tolerations(
        "spec.tolerations", spec.get("tolerations") or (), has_comparisons=options.toleration_comparisons
    )


def _only_fewer_gates(spec: Document, old_spec: Document) -> Errors:
    known = {gate.get("name", "") for gate in old_spec.get("schedulingGates") or ()}
    places = {gate.get("name", ""): where for where, gate in items(spec, "schedulingGates", "spec")}
    return [
        forbidden(f"{where}.name", f"only deletion is allowed, but found new scheduling gate '{name}'")
        for name, where in places.items()
        if name not in known
    ]


def _without_allowed_changes(spec: Document, old_spec: Document) -> Document:
    """Returns the spec with the old values of all fields that may change."""
    masked = dict(spec)
    for field in ("containers", "initContainers"):
        if masked.get(field):
            masked[field] = [
                with_old_value(container, old, "image")
                for container, old in zip(spec[field], old_spec[field], strict=True)
            ]
    for field in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        masked = with_old_value(masked, old_spec, field)
    old_grace_s = old_spec.get("terminationGracePeriodSeconds", 0)
    if old_grace_s < 0 and masked.get("terminationGracePeriodSeconds") == 1:
        masked["terminationGracePeriodSeconds"] = old_grace_s
    return masked


def with_old_value(value: Document, old: Document, field: str) -> Document:
    """Returns a copy with the old value of a field; without the field if the old object lacks it."""
    if field in old:
        return {**value, field: old[field]}
    return {name: each for name, each in value.items() if name != field}


def _narrowed_nodes(masked: Document, old_spec: Document) -> tuple[Document, Errors]:
    """Checks that the scheduling of a gated pod only changes to fewer nodes.

    Returns `masked` with the old values of fields with allowed changes, and the errors.
    """
    errors: Errors = []
    selector, old_selector = masked.get("nodeSelector"), old_spec.get("nodeSelector") or {}
    if not old_selector.items() <= (selector or {}).items():
        text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        errors.append(invalid("spec.nodeSelector", selector, text))
    masked = with_old_value(masked, old_spec, "nodeSelector")
    affinity, old_affinity = masked.get("affinity"), old_spec.get("affinity")
    nodes, old_nodes = at(affinity or {}, "nodeAffinity"), at(old_affinity or {}, "nodeAffinity")
    if nodes == old_nodes:
        return masked, errors
    errors += _narrowed_affinity(nodes, old_nodes)
    if old_affinity is None and affinity is not None and affinity.keys() == {"nodeAffinity"}:
        del masked["affinity"]
    else:
        masked["affinity"] = with_old_value(affinity or {}, old_affinity or {}, "nodeAffinity")
    return masked, errors


def _narrowed_affinity(new: Document | None, old: Document | None) -> Errors:
    old_terms, new_terms = (at(each or {}, REQUIRED, "nodeSelectorTerms") or [] for each in (old, new))
    path = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
    if old_terms and len(old_terms) != len(new_terms):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [invalid(path, new_terms, text)]
    text = "only additions are allowed (no mutations or deletions)"
    return [
        invalid(f"{path}[{index}]", term, text)
        for index, (term, old_term) in enumerate(zip(new_terms, old_terms, strict=False))
        if not _adds_only(term, old_term)
    ]


def _adds_only(term: Document, old_term: Document) -> bool:
    fields = ("matchExpressions", "matchFields")
    if not any(old_term.get(field) for field in fields):
        return not any(term.get(field) for field in fields)
    return all(
        (term.get(field) or [])[: len(old_term.get(field) or ())] == (old_term.get(field) or [])
        for field in fields
    )


# ---- ephemeralcontainers


def only_spec(new: Document, old: Document) -> None:
    """Keeps the old status, and the metadata that users set."""
    keep_status(new, old)
    keep_metadata(new, old, *CLIENT_METADATA, "deletionTimestamp")


def prepare_ephemeral_containers(new: Document, old: Document) -> None:
    only_spec(new, old)
    new["spec"] = with_old_value(old["spec"], new.get("spec") or {}, "ephemeralContainers")


def validate_ephemeral_containers_update(rules: PodRules, new: Document, old: Document) -> Errors:
    if pod_annotations.MIRROR in (old["metadata"].get("annotations") or {}):
        return [forbidden(NO_FIELD, "static pods do not support ephemeral containers")]
    errors = validate_pod(rules.specs, new, old) + annotation_changes(rules, new, old)
    where = "spec.ephemeralContainers"
    by_name = {each.get("name", ""): each for each in new["spec"].get("ephemeralContainers") or ()}
    for known in old["spec"].get("ephemeralContainers") or ():
        name = known.get("name", "")
        container = by_name.get(name)
        text = f"existing ephemeral containers {quote(name)} may not be"
        if container is None:
            errors.append(forbidden(where, f"{text} removed\n"))
        elif container != known:
            errors.append(forbidden(where, f"{text} changed\n{difference(known, container)}"))
    return errors
