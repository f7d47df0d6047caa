"""Validation of the resources of containers and pods: their names, amounts, and requests against limits.

Source: pkg/apis/core/validation, validateResourceRequirements, and pkg/apis/core/helper.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from apiserver.meta import names
from apiserver.meta.field_errors import (
    Errors,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from apiserver.meta.quantity import InvalidQuantity, Quantity, parse_quantity
from apiserver.meta.text_caches import text_cache
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.checks import quantity_of
from apiserver.schema.validation.documents import at, items

_NameCheck: TypeAlias = Callable[[str, str], Errors]

_HUGE_PAGES: Final = "hugepages-"
# How many of a pod's claims an error lists.
_CLAIMS_LISTED_MAX: Final = 32
# Resources that containers and pods may ask for, in fractions, and that may be overcommitted.
_OF_ALL: Final = frozenset({"cpu", "memory"})
_OF_CONTAINERS: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
# Counted, not measured.
_OBJECTS: Final = frozenset(
    {
        *("pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps"),
        *("persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
    }
)
_STANDARD: Final = frozenset(
    {
        *(f"{prefix}{name}" for prefix in ("", "requests.", "limits.") for name in _OF_CONTAINERS),
        *("storage", "requests.storage"),
        *_OBJECTS,
    }
)


# ---- names


def is_huge_page_resource(name: str) -> bool:
    return name.startswith(_HUGE_PAGES)


def is_native_resource(name: str) -> bool:
    """Returns whether a resource is one of Kubernetes' own."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended_resource(name: str) -> bool:
    """Returns whether a resource is defined by a third party, as `example.com/gpu`."""
    return (
        not is_native_resource(name)
        and not name.startswith("requests.")
        and not names.qualified_name(f"requests.{name}")
    )


def is_integer_resource(name: str) -> bool:
    """Returns whether a resource only has whole amounts."""
    return name not in _OF_CONTAINERS and (name in _OBJECTS or is_extended_resource(name))


def may_be_overcommitted(name: str) -> bool:
    return name in _OF_CONTAINERS or (is_native_resource(name) and not is_huge_page_resource(name))


def is_pod_level_resource(name: str) -> bool:
    """Returns whether a pod as a whole can request a resource."""
    return name in _OF_ALL or is_huge_page_resource(name)


def validate_resource_name(path: str, name: str) -> Errors:
    """Checks the name of any resource."""
    errors = [invalid(path, name, problem) for problem in names.qualified_name(name)]
    if errors or "/" in name or name in _STANDARD or name.removeprefix("requests.").startswith(_HUGE_PAGES):
        return errors
    return [invalid(path, name, "must be a standard resource type or fully qualified")]


def validate_container_resource_name(path: str, name: str) -> Errors:
    if name in _OF_CONTAINERS:
        return []
    errors = validate_resource_name(path, name)
    if "/" not in name:
        if name not in _OF_CONTAINERS and not is_huge_page_resource(name):
            errors.append(invalid(path, name, "must be a standard resource for containers"))
    elif not is_native_resource(name) and not is_extended_resource(name):
        errors.append(invalid(path, name, "doesn't follow extended resource name standard"))
    return errors


def _pod_resource_name(path: str, name: str) -> Errors:
    errors = validate_resource_name(path, name)
    if not errors and not is_pod_level_resource(name):
        errors.append(not_supported(path, name, ("cpu", _HUGE_PAGES, "memory")))
    return errors


# ---- amounts


def validate_amount(path: str, name: str, value: Any) -> Errors:
    """Checks an amount of a resource."""
    quantity = quantity_of(value)
    errors = []
    if quantity.value < 0:
        errors.append(invalid(path, value, "must be greater than or equal to 0"))
    if is_integer_resource(name) and not quantity.is_whole:
        errors.append(invalid(path, value, "must be an integer"))
    return errors


def is_multiple_of_page(name: str, value: Any) -> bool:
    """Returns whether an amount of huge pages is a multiple of the page size. name: that of the resource."""
    try:
        size = parse_quantity(name.removeprefix(_HUGE_PAGES))
    except InvalidQuantity:
        return False
    if size.value <= 0 or not size.is_whole:
        return False
    return quantity_of(value).rounded_up() % size.rounded_up() == 0


# ---- requirements


def validate_requirements(
    path: str, value: Document, claims: Collection[str] = (), *, any_huge_pages: bool = False
) -> Errors:
    """Checks a container's ResourceRequirements.

    claims: the names of the pod's claims. any_huge_pages: whether amounts need not be multiples of a page.
    """
    return _requirements(path, value, claims, validate_container_resource_name, any_huge_pages)


def validate_overhead(path: str, value: Document, *, any_huge_pages: bool = False) -> Errors:
    name_check = validate_container_resource_name
    return _requirements(path, {"limits": value}, (), name_check, any_huge_pages)


def _requirements(
    path: str, value: Document, claims: Collection[str], name_check: _NameCheck, any_huge_pages: bool
) -> Errors:
    limits, requests = value.get("limits") or {}, value.get("requests") or {}
    errors: Errors = []
    has_huge_pages = False
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name in sorted(amounts):
            each = amounts[name]
            if name in _OF_ALL and _is_within(each, limits.get(name)):
                continue
            where = f"{path}.{field}[{name}]"
            errors += name_check(where, name)
            errors += validate_amount(where, name, each)
            if field == "requests":
                errors += _fits(path, name, each, limits)
            if is_huge_page_resource(name):
                has_huge_pages = True
                if not any_huge_pages and not is_multiple_of_page(name, each):
                    text = f"{each} is not positive integer multiple of {name}"
                    errors.append(invalid(where, each, text))
    if has_huge_pages and _OF_ALL.isdisjoint(limits) and _OF_ALL.isdisjoint(requests):
        errors.append(forbidden(path, "HugePages require cpu or memory"))
    if asked_claims := value.get("claims"):
        errors += _claims(f"{path}.claims", asked_claims, claims)
    return errors


# Amounts are as `quantity.canonical_quantity` writes them, and come again with each pod of a workload.
@text_cache(names.CACHED_MAX)
def _is_within(value: str, limit: str | None) -> bool:
    """Returns whether an amount is not negative, and not above its limit if there is one."""
    number = quantity_of(value).value
    return number >= 0 and (limit is None or number <= quantity_of(limit).value)


def _fits(path: str, name: str, request: Any, limits: Mapping[str, Any]) -> Errors:
    """Checks that a request does not exceed its limit; without overcommitment they must be equal."""
    limit = limits.get(name)
    if limit is None:
        if may_be_overcommitted(name):
            return []
        return [required(f"{path}.limits", "Limit must be set for non overcommitable resources")]
    asked, allowed = quantity_of(request).value, quantity_of(limit).value
    if asked != allowed and not may_be_overcommitted(name):
        return [invalid(f"{path}.requests", request, f"must be equal to {name} limit of {limit}")]
    if asked > allowed:
        return [
            invalid(f"{path}.requests", request, f"must be less than or equal to {name} limit of {limit}")
        ]
    return []


def _claims(path: str, asked: Collection[Document], known: Collection[str]) -> Errors:
    errors: Errors = []
    seen: set[str] = set()  # claims, and `claim/request`
    in_part: set[str] = set()  # claims of which some request is seen
    listed = ""
    for where, claim in items({"claims": asked}, "claims", path.removesuffix(".claims")):
        name, request = claim.get("name", ""), claim.get("request", "")
        if not name:
            errors.append(required(where))
            continue
        key = f"{name}/{request}" if request else name
        if name in seen:
            errors.append(duplicate(where, name))
        else:
            if request:
                errors += [invalid(f"{where}.request", request, text) for text in names.dns_label(request)]
            if key in seen or (not request and name in in_part):
                errors.append(duplicate(where, key))
            seen.add(key)
            if request:
                in_part.add(name)
        if name not in known:
            listed = listed or _listed(known)
            error = not_found(where, name)
            text = f"{error.message}: must be one of the names in pod.spec.resourceClaims{listed}"
            errors.append(replace(error, message=text))
    return errors


def _listed(names_of_claims: Collection[str]) -> str:
    if not names_of_claims:
        return " which is empty"
    shown = sorted(names_of_claims)[: _CLAIMS_LISTED_MAX + 1]
    return ": " + ", ".join(
        [*shown[:_CLAIMS_LISTED_MAX], *(["..."] if len(shown) > _CLAIMS_LISTED_MAX else [])]
    )


# ---- pods as a whole


def validate_pod_resources(
    path: str, spec: Document, claims: Collection[str], *, any_huge_pages: bool
) -> Errors:
    """Checks the resources of a pod as a whole, which must cover those of its containers."""
    resources = spec.get("resources")
    if resources is None:
        return []
    if at(spec, "os", "name") == "windows":
        return [forbidden(path, "may not be set for a windows pod")]
    errors: Errors = []
    if "claims" in resources:
        errors.append(forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level"))
    errors += _requirements(path, resources, claims, _pod_resource_name, any_huge_pages)
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for field, own in (("requests", requests), ("limits", limits)):
        text = f"must be greater than or equal to aggregate container {field} of"
        errors += [
            invalid(f"{path}.{field}[{name}]", own[name], f"{text} {needed}")
            for name, needed in sorted(total_of_containers(spec, field).items())
            if (field == "requests" or is_huge_page_resource(name))
            and name in own
            and needed > quantity_of(own[name])
        ]
    for where, container in items(spec, "containers", path):
        for name, limit in sorted((container["resources"].get("limits") or {}).items()):
            if name in limits and quantity_of(limit) > quantity_of(limits[name]):
                text = f"must be less than or equal to pod limits of {limits[name]}"
                errors.append(invalid(f"{where}[{name}].limits", limit, text))
    return errors


def total_of_containers(spec: Document, field: str) -> dict[str, Quantity]:
    """Returns the total of containers: the sum of concurrent ones, or the largest init container if it is
    more.

    field: `requests` or `limits`. Source: component-helpers, resource.AggregateContainerRequests.
    """
    total: dict[str, Quantity] = {}
    for container in spec.get("containers") or ():
        _add(total, container, field)
    sidecars: dict[str, Quantity] = {}
    peak: dict[str, Quantity] = {}
    for container in spec.get("initContainers") or ():
        alone: dict[str, Quantity] = {}
        _add(alone, container, field)
        if container.get("restartPolicy") == "Always":
            _add(total, container, field)
            _add(sidecars, container, field)
            at_start = {name: sidecars[name] for name in alone}
        else:
            at_start = {name: _sum(each, sidecars.get(name)) for name, each in alone.items()}
        for name, each in at_start.items():
            peak[name] = max(peak.get(name, each), each)
    return {name: max(each[name] for each in (total, peak) if name in each) for name in {**total, **peak}}


def _add(total: dict[str, Quantity], container: Document, field: str) -> None:
    for name, value in (container["resources"].get(field) or {}).items():
        total[name] = _sum(quantity_of(value), total.get(name))


def _sum(one: Quantity, other: Quantity | None) -> Quantity:
    return one if other is None else other + one
