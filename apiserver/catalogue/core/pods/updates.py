"""Updates of pods: of the pod, its status, its ephemeral containers and its resources.

Source: pkg/registry/core/pod, strategy.go, and pkg/apis/core/validation, ValidatePodUpdate,
ValidatePodStatusUpdate, ValidatePodEphemeralContainersUpdate and ValidatePodResize.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any, Final

from apiserver.catalogue.core.pods.qos import qos_class
from apiserver.catalogue.core.pods.validation import validate_pod
from apiserver.catalogue.pod_specs import pod_annotations
from apiserver.catalogue.pod_specs.scheduling import validate_tolerations
from apiserver.field_errors import Errors, duplicate, forbidden, invalid, quote, required
from apiserver.meta import names
from apiserver.registry.strategy import keep_status, only_status
from apiserver.validation.checks import immutable, in_range, ip_address
from apiserver.validation.documents import at, items, join
from apiserver.vocabulary import Document

_SECONDS_MAX: Final = (1 << 31) - 1
_ID_MAX: Final = (1 << 31) - 1
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


def _annotation_changes(new: Document, old: Document) -> Errors:
    return pod_annotations.validate_changes(
        "metadata.annotations",
        new["metadata"].get("annotations") or {},
        old["metadata"].get("annotations") or {},
    )


# ---- the main endpoint


def validate_pod_update(new: Document, old: Document) -> Errors:
    spec, old_spec = new["spec"], old["spec"]
    errors = validate_pod(new) + _annotation_changes(new, old)
    for field in ("containers", "initContainers"):
        if len(spec.get(field) or ()) != len(old_spec.get(field) or ()):
            return [*errors, forbidden(f"spec.{field}", "pod updates may not add or remove containers")]
        errors += [
            required(f"{where}.image")
            for where, container in items(spec, field, "spec")
            if not container.get("image")
        ]
    deadline_errors, is_final = _deadline(
        spec.get("activeDeadlineSeconds"), old_spec.get("activeDeadlineSeconds")
    )
    errors += deadline_errors
    if is_final:
        return errors
    errors += _only_more_tolerations(spec, old_spec)
    errors += _only_fewer_gates(spec, old_spec)
    if spec == old_spec:
        return errors
    masked = _without_allowed_changes(spec, old_spec)
    if old_spec.get("schedulingGates"):
        errors += _narrowed_nodes(masked, old_spec)
    if masked != old_spec:
        text = f"pod updates may not change fields other than {_UPDATABLE}\n{difference(old_spec, masked)}"
        errors.append(forbidden("spec", text))
    return errors


def _deadline(new_s: int | None, old_s: int | None) -> tuple[Errors, bool]:
    """Checks that the deadline is only set or brought forward. Also returns whether to stop checking."""
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


def _only_more_tolerations(spec: Document, old_spec: Document) -> Errors:
    def identities(owner: Document) -> set[tuple[str, ...]]:
        return {
            tuple(each.get(field, "") for field in ("key", "operator", "value", "effect"))
            for each in owner.get("tolerations") or ()
        }

    if identities(old_spec) - identities(spec):
        text = "existing toleration can not be modified except its tolerationSeconds"
        return [forbidden("spec.tolerations", text)]
    return validate_tolerations("spec.tolerations", spec.get("tolerations") or ())


def _only_fewer_gates(spec: Document, old_spec: Document) -> Errors:
    known = {gate.get("name", "") for gate in old_spec.get("schedulingGates") or ()}
    return [
        forbidden(f"{where}.name", f"only deletion is allowed, but found new scheduling gate '{name}'")
        for where, gate in items(spec, "schedulingGates", "spec")
        if (name := gate.get("name", "")) not in known
    ]


def _without_allowed_changes(spec: Document, old_spec: Document) -> Document:
    """Returns the spec with the old values of all fields that may change."""
    masked = dict(spec)
    for field in ("containers", "initContainers"):
        if masked.get(field):
            masked[field] = [
                _taken_from(container, old, "image")
                for container, old in zip(spec[field], old_spec[field], strict=True)
            ]
    for field in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        masked = _taken_from(masked, old_spec, field)
    old_grace_s = old_spec.get("terminationGracePeriodSeconds", 0)
    if old_grace_s < 0 and masked.get("terminationGracePeriodSeconds") == 1:
        masked["terminationGracePeriodSeconds"] = old_grace_s
    return masked


def _taken_from(value: Document, old: Document, field: str) -> Document:
    """Returns a copy with the old value of a field; without the field if the old one lacks it."""
    if field in old:
        return {**value, field: old[field]}
    return {name: each for name, each in value.items() if name != field}


def _narrowed_nodes(masked: Document, old_spec: Document) -> Errors:
    """Checks that a pod with closed scheduling gates is only restricted to fewer nodes.

    Gives `masked` the old values of what may change so.
    """
    errors: Errors = []
    selector, old_selector = masked.get("nodeSelector") or {}, old_spec.get("nodeSelector") or {}
    if not old_selector.items() <= selector.items():
        text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        errors.append(invalid("spec.nodeSelector", selector, text))
    _put_back(masked, old_spec, "nodeSelector")
    affinity, old_affinity = masked.get("affinity"), old_spec.get("affinity")
    errors += _narrowed_affinity(
        at(masked, "affinity", "nodeAffinity"), at(old_spec, "affinity", "nodeAffinity")
    )
    rest = _taken_from(affinity or {}, old_affinity or {}, "nodeAffinity")
    if rest or old_affinity is not None:
        masked["affinity"] = rest
    else:
        masked.pop("affinity", None)
    return errors


def _put_back(masked: Document, old: Document, field: str) -> None:
    if field in old:
        masked[field] = old[field]
    else:
        masked.pop(field, None)


def _narrowed_affinity(new: Document | None, old: Document | None) -> Errors:
    where = "requiredDuringSchedulingIgnoredDuringExecution"
    old_terms = at(old or {}, where, "nodeSelectorTerms") or []
    new_terms = at(new or {}, where, "nodeSelectorTerms") or []
    path = f"spec.affinity.nodeAffinity.{where}.nodeSelectorTerms"
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


# ---- status


def prepare_pod_status(new: Document, old: Document) -> None:
    only_status(new, old)
    status, old_status = new.setdefault("status", {}), old.get("status") or {}
    for field in ("qosClass", "observedGeneration"):
        if not status.get(field) and old_status.get(field):
            status[field] = old_status[field]
    # A type may be there more than once.
    generations: defaultdict[str, deque[int]] = defaultdict(deque)
    for condition in old_status.get("conditions") or ():
        generations[condition.get("type", "")].append(condition.get("observedGeneration", 0))
    for condition in status.get("conditions") or ():
        known = generations[condition.get("type", "")]
        generation = known.popleft() if known else 0
        if generation and not condition.get("observedGeneration"):
            condition["observedGeneration"] = generation


_SYSTEM_CONDITIONS: Final = ("PodScheduled", "Ready", "Initialized")


def validate_pod_status(new: Document, old: Document) -> Errors:
    spec, status, old_status = old["spec"], new.get("status") or {}, old.get("status") or {}
    errors = _annotation_changes(new, old)
    for where, condition in items(status, "conditions", "metadata"):  # Kubernetes says metadata.
        kind = condition.get("type", "")
        if kind not in _SYSTEM_CONDITIONS:
            errors += [invalid(f"{where}.Type", kind, problem) for problem in names.qualified_name(kind)]
    nominated = status.get("nominatedNodeName")
    if nominated and nominated != old_status.get("nominatedNodeName"):
        where = "status.nominatedNodeName"
        errors += [invalid(where, nominated, problem) for problem in names.dns_subdomain(nominated)]
    errors += immutable("status.qosClass", status.get("qosClass", ""), old_status.get("qosClass", ""))
    policy = spec.get("restartPolicy", "")
    sidecars = {
        container.get("name", "")
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    }
    for field, restarts, exempt in (
        ("containerStatuses", policy, set()),
        ("initContainerStatuses", policy, sidecars),
        ("ephemeralContainerStatuses", "Never", set()),
    ):
        errors += _transitions(field, status, old_status, restarts, exempt)
    errors += _claim_statuses(status, spec)
    errors += _addresses("status.podIPs", status.get("podIPs") or [])
    host_ips = status.get("hostIPs") or []
    if host_ips and status.get("hostIP", "") != host_ips[0].get("ip"):
        text = "must be equal to `hostIP`"
        errors.append(invalid("status.hostIPs[0].ip", host_ips[0].get("ip", ""), text))
    errors += _addresses("status.hostIPs", host_ips)
    for field in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        errors += _users(field, status, at(spec, "os", "name") or "linux")
    return errors


def _transitions(field: str, status: Document, old_status: Document, policy: str, exempt: set[str]) -> Errors:
    """Checks that a container that has ended, and is not restarted, does not run again."""
    if policy == "Always":
        return []
    running = {
        each.get("name", "") for each in status.get(field) or () if at(each, "state", "terminated") is None
    }
    errors = []
    for where, old in items(old_status, field, "status"):
        ended, name = at(old, "state", "terminated"), old.get("name", "")
        if ended is None or name in exempt or (ended.get("exitCode", 0) != 0 and policy == "OnFailure"):
            continue
        if name in running:
            errors.append(forbidden(f"{where}.state", "may not be transitioned to non-terminated state"))
    return errors


def _claim_statuses(status: Document, spec: Document) -> Errors:
    known = {claim.get("name", "") for claim in spec.get("resourceClaims") or ()}
    errors: Errors = []
    seen: set[str] = set()
    for where, each in items(status, "resourceClaimStatuses", "status"):
        name, claim = each.get("name", ""), each.get("resourceClaimName")
        if name not in known:
            text = "must match the name of an entry in `spec.resourceClaims`"
            errors.append(invalid(f"{where}.name", name, text))
        if name in seen:
            errors.append(duplicate(f"{where}.name", name))
        seen.add(name)
        if claim is not None:
            errors += [invalid(f"{where}.name", claim, problem) for problem in names.dns_subdomain(claim)]
    return errors


def _addresses(path: str, addresses: list[Document]) -> Errors:
    """Checks that there is at most one address of each IP family."""
    errors: Errors = []
    for index, address in enumerate(addresses):
        errors += ip_address(f"{path}[{index}]", address.get("ip"))
    if len(addresses) < 2:
        return errors
    families = {":" in address.get("ip", "") for address in addresses}
    if len(families) < 2 or len(addresses) > 2:
        errors.append(invalid(path, addresses, "may specify no more than one IP for each IP family"))
    seen: set[str] = set()
    for index, address in enumerate(addresses):
        ip = address.get("ip", "")
        if ip in seen:
            errors.append(duplicate(f"{path}[{index}]", address))
        seen.add(ip)
    return errors


def _users(field: str, status: Document, system: str) -> Errors:
    errors: Errors = []
    for where, each in items(status, field, "status"):
        user = at(each, "user", "linux")
        if user is None:
            continue
        if system == "windows":
            errors.append(forbidden(f"{where}.linux", "cannot be set for a windows pod"))
            continue
        for name in ("uid", "gid"):
            errors += in_range(f"{where}.linux.{name}", user.get(name, 0), 0, _ID_MAX)
        for place, group in items(user, "supplementalGroups", f"{where}.linux"):
            errors += in_range(place, group, 0, _ID_MAX)
    return errors


# ---- ephemeralcontainers


def _only_spec(new: Document, old: Document) -> None:
    """Keeps the old status, labels, annotations, finalizers and owner references."""
    keep_status(new, old)
    for field in ("labels", "annotations", "finalizers", "ownerReferences"):
        _put_back(new["metadata"], old["metadata"], field)


def prepare_ephemeral_containers(new: Document, old: Document) -> None:
    _only_spec(new, old)
    new["spec"] = _taken_from(old["spec"], new.get("spec") or {}, "ephemeralContainers")


def validate_ephemeral_containers_update(new: Document, old: Document) -> Errors:
    if pod_annotations.MIRROR in (old["metadata"].get("annotations") or {}):
        return [forbidden("", "static pods do not support ephemeral containers")]
    errors = validate_pod(new)
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


# ---- resize

_RESIZABLE: Final = ("cpu", "memory")
_CONTAINERS: Final = ("containers", "initContainers")


def prepare_resize(new: Document, old: Document) -> None:
    """Takes over resources. If there are other containers than before, validation will tell."""
    spec, old_spec = new.get("spec") or {}, old["spec"]
    if any(_names_of(spec, field) != _names_of(old_spec, field) for field in _CONTAINERS):
        return
    _only_spec(new, old)
    resized = dict(old_spec)
    for field in _CONTAINERS:
        if old_spec.get(field):
            resized[field] = [
                _taken_from(_taken_from(known, container, "resources"), container, "resizePolicy")
                for known, container in zip(old_spec[field], spec[field], strict=True)
            ]
    new["spec"] = resized


def _names_of(spec: Document, field: str) -> list[Any]:
    return [container.get("name") for container in spec.get(field) or ()]


def validate_resize(new: Document, old: Document) -> Errors:
    spec, old_spec = new["spec"], old["spec"]
    if any(at(each, "resources", kind) for each in (spec, old_spec) for kind in ("requests", "limits")):
        return [forbidden("", "pods with pod-level resources cannot be resized")]
    if pod_annotations.MIRROR in (old["metadata"].get("annotations") or {}):
        return [forbidden("", "static pods cannot be resized")]
    if at(old_spec, "os", "name") == "windows":
        return [forbidden("", "windows pods cannot be resized")]
    errors = validate_pod(new)
    if any(_names_of(spec, field) != _names_of(old_spec, field) for field in _CONTAINERS):
        return [*errors, forbidden("spec", "only cpu and memory resources are mutable")]
    before = at(old, "status", "qosClass") or qos_class(old_spec)
    if before != qos_class(spec):
        errors.append(invalid("spec", before, "Pod QOS Class may not change as a result of resizing"))
    if not _can_be_resized(old):
        errors.append(forbidden("spec", "Pod running on node without support for resize"))
    for field in ("initContainers", "containers"):
        for index, known in enumerate(old_spec.get(field) or ()):
            if field == "containers" or known.get("restartPolicy") == "Always":
                where = join("spec", f"{field}[{index}].resources")
                errors += _nothing_removed(where, spec[field][index]["resources"], known["resources"])
    for field, text in (
        ("containers", "only cpu and memory resources are mutable"),
        ("initContainers", "only cpu and memory resources for sidecar containers are mutable"),
    ):
        for index, known in enumerate(old_spec.get(field) or ()):
            container = spec[field][index]
            if field == "initContainers" and known.get("restartPolicy") != "Always":
                if container != known:
                    text = "resources for non-sidecar init containers are immutable"
                    errors.append(forbidden("spec", text))
            elif _fixed(container) != _fixed(known):
                errors.append(forbidden("spec", text))
    return errors


def _can_be_resized(pod: Document) -> bool:
    """Tells whether the node supports resizing: then its running containers report their resources."""
    for status in at(pod, "status", "containerStatuses") or ():
        if at(status, "state", "running") is not None:
            return status.get("resources") is not None
    return True


def _nothing_removed(path: str, new: Document, old: Document) -> Errors:
    return [
        forbidden(f"{path}.{field}", f"resource {field} cannot be removed")
        for field in ("requests", "limits")
        if (old.get(field) or {}).keys() - (new.get(field) or {}).keys()
    ]


def _fixed(container: Document) -> Document:
    """Returns the container without what can be resized: CPU and memory."""
    resources = {
        field: {
            name: value
            for name, value in (container["resources"].get(field) or {}).items()
            if name not in _RESIZABLE
        }
        for field in ("requests", "limits")
    }
    return {**container, "resources": {**container["resources"], **resources}}
