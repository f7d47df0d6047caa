"""Validation of status updates of pods.

Source: pkg/registry/core/pod, strategy.go, and pkg/apis/core/validation, ValidatePodStatusUpdate.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection
from typing import Final

from apiserver.catalogue.core.pods.rules import PodRules
from apiserver.catalogue.core.pods.updates import annotation_changes
from apiserver.catalogue.pod_specs.ratcheting import ratcheted
from apiserver.catalogue.pod_specs.resource_requirements import is_native_resource
from apiserver.catalogue.pod_specs.restart_policies import CONTAINER_STATUSES, validate_transitions
from apiserver.meta import names
from apiserver.meta.field_errors import (
    Errors,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import keep_metadata, only_status
from apiserver.schema.validation.addresses import AddressChecks, ip_warnings, parse_ip
from apiserver.schema.validation.checks import immutable, in_range, named, quantity_of
from apiserver.schema.validation.documents import at, items

_ID_MAX: Final = (1 << 31) - 1
_SYSTEM_CONDITIONS: Final = ("PodScheduled", "Ready", "Initialized")
_NEGATIVE: Final = "must be a non-negative integer"


def prepare_pod_status(new: Document, old: Document) -> None:
    """Keeps the old owners, too, which the status of other kinds may change."""
    only_status(new, old)
    keep_metadata(new, old, "ownerReferences", "deletionTimestamp")
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


def validate_pod_status(rules: PodRules, new: Document, old: Document) -> Errors:
    spec, status, old_status = old["spec"], new.get("status") or {}, old.get("status") or {}
    errors = annotation_changes(rules, new, old)
    for where, condition in items(status, "conditions", "status"):
        errors += _condition(where, condition)
    errors += _nomination(rules, spec, status, old_status)
    if status.get("observedGeneration", 0) < 0:
        errors.append(invalid("status.observedGeneration", status["observedGeneration"], _NEGATIVE))
    errors += immutable("status.qosClass", status.get("qosClass", ""), old_status.get("qosClass", ""))
    options = rules.specs.options
    if not (options.restart_rules and options.restart_all_containers):
        options = ratcheted(options, spec, spec)
    errors += validate_transitions(status, old_status, spec, options)
    errors += _claim_statuses(status, spec)
    if "extendedResourceClaimStatus" in status:
        errors += _extended_resources("status.extendedResourceClaimStatus", status, spec)
    errors += _node_allocatable_claims(status, spec)
    addresses = AddressChecks(not rules.specs.options.unusual_addresses)
    errors += _addresses("podIPs", status, old_status, addresses)
    host_ips = status.get("hostIPs") or []
    if host_ips and status.get("hostIP", "") != host_ips[0].get("ip", ""):
        text = "must be equal to `hostIP`"
        errors.append(invalid("status.hostIPs[0].ip", host_ips[0].get("ip", ""), text))
    errors += _addresses("hostIPs", status, old_status, addresses)
    return errors + _containers(rules, status, spec)


def _condition(path: str, condition: Document) -> Errors:
    kind, generation = condition.get("type", ""), condition.get("observedGeneration", 0)
    errors: Errors = []
    if generation < 0:
        errors.append(invalid(f"{path}.observedGeneration", generation, _NEGATIVE))
    if kind not in _SYSTEM_CONDITIONS:
        errors += [invalid(f"{path}.Type", kind, problem) for problem in names.qualified_name(kind)]
    return errors


def _nomination(rules: PodRules, spec: Document, status: Document, old_status: Document) -> Errors:
    """Checks the nominated node of a pod."""
    path, nominated = "status.nominatedNodeName", status.get("nominatedNodeName")
    if not nominated or nominated == old_status.get("nominatedNodeName"):
        return []
    errors = [invalid(path, nominated, problem) for problem in names.dns_subdomain(nominated)]
    if rules.clears_nomination and spec.get("nodeName"):
        errors.append(forbidden(path, "may not be set on pods that are already bound to a node"))
    return errors


# ---- claims


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
            path = f"{where}.resourceClaimName"
            errors += [invalid(path, claim, problem) for problem in names.dns_subdomain(claim)]
    return errors


def _extended_resources(path: str, status: Document, spec: Document) -> Errors:
    """Checks the mapping of containers' extended resources to requests of a claim."""
    claim = status["extendedResourceClaimStatus"]
    containers = {
        each.get("name", ""): each
        for field in ("initContainers", "containers")
        for each in spec.get(field) or ()
    }
    errors: Errors = []
    if not claim.get("requestMappings"):
        errors.append(required(f"{path}.requestMappings", "at least one request mapping is required"))
    seen: set[tuple[str, ...]] = set()
    for where, mapping in items(claim, "requestMappings", path):
        fields = ("containerName", "resourceName", "requestName")
        key = tuple(mapping.get(field, "") for field in fields)
        container = containers.get(key[0])
        if container is None:
            text = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
            errors.append(invalid(f"{where}.containerName", key[0], text))
        elif key[1] not in (at(container, "resources", "requests") or ()):
            text = (
                "must match the extended resource name of an entry in spec.initContainers.resources.requests "
                "or spec.containers.resources.requests"
            )
            errors.append(invalid(f"{where}.resourceName", key[1], text))
        # Kubernetes names no index here.
        errors += [invalid(f"{path}.requestName", key[2], problem) for problem in names.dns_label(key[2])]
        if key in seen:
            errors += [duplicate(f"{where}.{field}", part) for field, part in zip(fields, key, strict=True)]
        seen.add(key)
    return errors + named(f"{path}.resourceClaimName", claim.get("resourceClaimName"), names.dns_subdomain)


def _node_allocatable_claims(status: Document, spec: Document) -> Errors:
    known = {
        claim.get("resourceClaimName")
        for claims in (spec.get("resourceClaims"), status.get("resourceClaimStatuses"))
        for claim in claims or ()
    }
    return [
        error
        for where, each in items(status, "nodeAllocatableResourceClaimStatuses", "status")
        for error in _node_allocatable(where, each, known)
    ]


def _node_allocatable(path: str, each: Document, known: Collection[str | None]) -> Errors:
    """Checks the node-allocatable resources that a pod gets by a claim. known: the names of its claims."""
    name, resources = each.get("resourceClaimName", ""), each.get("resources") or {}
    errors = [] if name else [required(f"{path}.resourceClaimName", "must not be empty")]
    if name not in known:
        errors.append(invalid(f"{path}.resourceClaimName", name, "no mapping found in pod reference"))
    if not each.get("containers"):
        errors.append(required(f"{path}.containers", "must not be empty"))
    if not resources:
        errors.append(required(f"{path}.resources", "must not be empty"))
    for resource, amount in sorted(resources.items()):
        where = f"{path}.resources[{resource}]"
        if not is_native_resource(resource):
            errors.append(invalid(where, resource, "must be a node allocatable resource name"))
        if quantity_of(amount).value < 0:
            errors.append(invalid(where, amount, "must be non-negative"))
    return errors


# ---- addresses


def _addresses(field: str, status: Document, old_status: Document, checks: AddressChecks) -> Errors:
    """Checks that there is at most one address of each IP family. Stored ones remain valid."""
    path, addresses = f"status.{field}", status.get(field) or []
    stored = {address.get("ip") for address in old_status.get(field) or ()}
    errors: Errors = []
    for index, address in enumerate(addresses):
        errors += checks.ip(f"{path}[{index}]", address.get("ip"), stored)
    if len(addresses) < 2:
        return errors
    families: set[str] = set()
    for address in addresses:
        if (found := parse_ip(address.get("ip", ""))) is None:
            text = f"failed to check for dual stack with error:invalid IP: {address.get('ip', '')}"
            errors.append(FieldError(path, "InternalError", f"Internal error: {text}"))
            break
        families.add(found.family)
    if len(families) < 2 or len(addresses) > 2:
        shown = [{"IP": address.get("ip", "")} for address in addresses]
        errors.append(invalid(path, shown, "may specify no more than one IP for each IP family"))
    return errors


def warn_pod_status(new: Document, old: Document) -> list[str]:
    return [
        text
        for field in ("podIPs", "hostIPs")
        for where, address in items(new.get("status") or {}, field, "status")
        for text in ip_warnings(f"{where}.ip", address.get("ip", ""))
    ]


# ---- containers


def _containers(rules: PodRules, status: Document, spec: Document) -> Errors:
    errors: Errors = []
    system = at(spec, "os", "name") or "linux"
    for field, _ in CONTAINER_STATUSES:
        for where, each in items(status, field, "status"):
            if each.get("user") is not None:
                errors += _user(f"{where}.user.linux", each["user"].get("linux"), system)
    for field, spec_field in CONTAINER_STATUSES:
        containers = {each.get("name", ""): each for each in reversed(spec.get(spec_field) or ())}
        for where, each in items(status, field, "status"):
            if not each.get("allocatedResourcesStatus"):
                continue
            if spec_field == "ephemeralContainers":
                text = "must not be specified in container status"
                errors.append(forbidden(f"{where}.allocatedResourcesStatus", text))
            else:
                errors += _allocated(where, each, containers.get(each.get("name", "")))
    for field, _ in CONTAINER_STATUSES if rules.checks_image_digests else ():
        for where, each in items(status, field, "status"):
            for place, mount in items(each, "volumeMounts", where):
                errors += _image_digest(f"{place}.volumeStatus", at(mount, "volumeStatus", "image"))
    return errors


def _user(path: str, user: Document | None, system: str) -> Errors:
    if user is None:
        return []
    if system == "windows":
        return [forbidden(path, "cannot be set for a windows pod")]
    errors: Errors = []
    for name in ("uid", "gid"):
        errors += in_range(f"{path}.{name}", user.get(name, 0), 0, _ID_MAX)
    for where, group in items(user, "supplementalGroups", path):
        errors += in_range(where, group, 0, _ID_MAX)
    return errors


_HEALTHS: Final = ("Healthy", "Unhealthy", "Unknown")
_HEALTH_MESSAGE_BYTES_MAX: Final = 1024


def _allocated(path: str, status: Document, container: Document | None) -> Errors:
    """Checks the health of a container's allocated resources. container: None if the spec lacks it."""
    errors: Errors = []
    claims = _claims_of(container or {})
    for where, resource in items(status, "allocatedResourcesStatus", path):
        name = resource.get("name", "")
        if container is not None and (text := _not_asked_for(name, container, claims)):
            errors.append(invalid(f"{where}.name", name, text))
        seen: set[str] = set()
        for place, each in items(resource, "resources", where):
            health, message, device = each.get("health", ""), each.get("message"), each.get("resourceID", "")
            if health not in _HEALTHS:
                errors.append(not_supported(f"{place}.health", health, _HEALTHS))
            if message == "":
                errors.append(required(f"{place}.message", "must be non-empty if specified"))
            elif message is not None and names.byte_length(message) > _HEALTH_MESSAGE_BYTES_MAX:
                errors.append(too_long(f"{place}.message", _HEALTH_MESSAGE_BYTES_MAX))
            if device in seen:
                errors.append(duplicate(f"{place}.resourceID", device))
            seen.add(device)
    return errors


def _claims_of(container: Document) -> Collection[str]:
    """Returns the resource claims of a container by their names in its status."""
    return {
        f"claim:{claim.get('name', '')}" + (f"/{claim['request']}" if claim.get("request") else "")
        for claim in at(container, "resources", "claims") or ()
    }


def _not_asked_for(name: str, container: Document, claims: Collection[str]) -> str:
    """Returns the error in the name of an allocated resource; empty if the container requests it."""
    if not name.startswith("claim:"):
        is_known = name in (at(container, "resources", "requests") or ())
        return "" if is_known else "must match one of the container's resource requests"
    if name in claims:
        return ""
    return (
        "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or "
        "'claim:<claimName>' if request is empty"
    )


_IMAGE_BYTES_MAX: Final = 256


def _image_digest(path: str, image: Document | None) -> Errors:
    if image is None:
        return []
    where, reference = f"{path}.imageVolumeStatus.imageRef", image.get("imageRef", "")
    errors = [] if reference else [required(where, "imageRef must not be empty")]
    return (
        [*errors, too_long(where, _IMAGE_BYTES_MAX)]
        if names.byte_length(reference) > _IMAGE_BYTES_MAX
        else errors
    )
