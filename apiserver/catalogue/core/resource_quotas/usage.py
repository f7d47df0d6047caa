"""The usage of quotas by objects, and the quotas that apply to them.

Source: k8s.io/apiserver, pkg/quota/v1 and pkg/admission/plugin/resourcequota; kubernetes,
pkg/quota/v1/evaluator/core.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from itertools import chain
from typing import Final, NamedTuple

from apiserver.catalogue.core.persistent_volume_claims import storage_class_of
from apiserver.catalogue.pod_specs.resource_requirements import (
    is_extended_resource,
    is_huge_page_resource,
    is_native_resource,
    is_pod_level_resource,
)
from apiserver.catalogue.pod_specs.resource_totals import (
    quantities,
    sum_of,
    total_of_pod,
    with_actual_resources,
)
from apiserver.catalogue.pod_specs.scheduling import pod_affinity_terms
from apiserver.catalogue.resource.device_requests import LIST_MAX
from apiserver.meta import timestamps
from apiserver.meta.brand import Brand
from apiserver.meta.quantity import Quantity
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.schema.validation.documents import at

Usage = Mapping[str, Quantity]

PODS: Final = GroupResource("", "pods")
CLAIMS: Final = GroupResource("", "persistentvolumeclaims")
SERVICES: Final = GroupResource("", "services")
# Resources that quotas count by their bare names as well as by `count/`.
_BARE_NAMES: Final = frozenset(
    GroupResource("", name) for name in ("configmaps", "replicationcontrollers", "resourcequotas", "secrets")
)
_NONE: Final = Quantity(Decimal(0))
_ONE: Final = Quantity(Decimal(1))
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
# The names under which an object is one more, whatever is in it; a pod that has ended is none.
_BY_THE_PIECE: Final = {resource: resource.resource for resource in (PODS, CLAIMS, SERVICES)}
_OF_PODS: Final = frozenset(
    {"pods", "count/pods", *_COMPUTE}
    | {f"{field}.{name}" for field in ("requests", "limits") for name in _COMPUTE}
)
_OF_CLAIMS: Final = ("persistentvolumeclaims", "requests.storage")
# Each container must say how much of these it needs, once there is a quota for them.
_REQUIRED: Final = frozenset(
    f"{field}{name}" for field in ("", "requests.", "limits.") for name in ("cpu", "memory")
)


class QuotaViolation(Exception):
    """A quota does not allow a write. The message is for the client."""


def resources_without_quota(brand: Brand) -> tuple[GroupResource, ...]:
    """Returns the resources that no quota counts: Events, which are created and deleted too fast, under both
    names.
    """
    return GroupResource("", "events"), GroupResource(brand.group("events"), "events")


class QuotaEvaluator(NamedTuple):
    """Measures the usage of the objects of one resource."""

    resource: GroupResource
    brand: Brand

    def measures(self, name: str) -> bool:
        """Returns whether objects of the resource use the quota's resource `name`."""
        if self.resource == PODS:
            is_prefixed = name.startswith("requests.")
            return (
                name in _OF_PODS
                or is_huge_page_resource(name.removeprefix("requests."))
                or (is_prefixed and not is_native_resource(name))
            )
        if self.resource == CLAIMS:
            of_class = tuple(map(self._class_suffix, _OF_CLAIMS))
            return name in (*_OF_CLAIMS, self._count) or name.endswith(of_class)
        if self.resource == SERVICES:
            return name in ("services", "services.loadbalancers", "services.nodeports", self._count)
        if self._is_resource_claim:
            return name == self._count or name.endswith(self._devices)
        return self._is_count(name)

    def only_counts(self, names: Collection[str]) -> bool:
        """Returns whether each object uses exactly one of each of `names`."""
        return all(map(self._is_count, names))

    def counts(self, name: str) -> bool:
        """Returns whether an object uses at most one of `name`, whatever its content."""
        return self._is_count(name) or name == _BY_THE_PIECE.get(self.resource)

    def usage(self, document: Document, now: float) -> Usage:
        """Returns the usage of the object. now: seconds since 1970."""
        used = {self._count: _ONE}
        if self.resource in _BARE_NAMES:
            used[self.resource.resource] = _ONE
        elif self.resource == PODS and not _is_over(document, now):
            spec = with_actual_resources(document)
            used |= {"pods": _ONE, **_compute(requests_of_pod(spec), _limits(spec))}
        elif self.resource == SERVICES:
            used |= _service_usage(document["spec"])
        elif self.resource == CLAIMS:
            used |= self._claim_usage(document)
        elif self._is_resource_claim:
            for name, count in devices_by_class(document).items():
                used[f"{name}{self._devices}"] = Quantity(Decimal(count))
        return used

    def require_complete(self, document: Document, names: Collection[str]) -> None:
        """Check that a pod declares its usage of `names`, which a quota limits. Raises QuotaViolation."""
        required = _REQUIRED.intersection(names)
        if self.resource != PODS or not required:
            return
        spec = document["spec"]
        own = (spec.get("resources") or {}).values()
        if any(map(is_pod_level_resource, chain.from_iterable(each or () for each in own))):
            return
        missing: dict[str, set[str]] = {}
        for container in _containers(spec):
            needed = container.get("resources") or {}
            declared = _compute(quantities(needed.get("requests")), quantities(needed.get("limits")))
            for name in required - declared.keys():
                missing.setdefault(name, set()).add(container["name"])
        if missing:
            texts = (f"{name} for: {','.join(sorted(where))}" for name, where in sorted(missing.items()))
            raise QuotaViolation(f"must specify {'; '.join(texts)}")

    def is_in_scope(self, quota: Document, document: Document) -> bool:
        """Returns whether a quota applies to an object."""
        return all(self._has_scope(each, document) for each in scopes_of(quota))

    def matching_scopes(self, scopes: Iterable[Document], document: Document) -> list[Document]:
        return [each for each in scopes if self._has_scope(each, document)]

    def _has_scope(self, scope: Document, document: Document) -> bool:
        spec, name = document.get("spec") or {}, scope.get("scopeName")
        if self.resource == CLAIMS:
            return name == "VolumeAttributesClass" and _selects(scope, _attributes_classes(document))
        if self.resource != PODS:
            return False
        match name:
            case "Terminating" | "NotTerminating":
                return is_terminating(document) is (name == "Terminating")
            case "BestEffort" | "NotBestEffort":
                return _is_best_effort(spec) is (name == "BestEffort")
            case "PriorityClass":
                return _selects(scope, _names(spec.get("priorityClassName")))
            case "CrossNamespacePodAffinity":
                return _selects_other_namespaces(spec)
            case _:
                return False

    @property
    def _count(self) -> str:
        return f"count/{self.resource}"

    def _is_count(self, name: str) -> bool:
        return name == self._count or (self.resource in _BARE_NAMES and name == self.resource.resource)

    @property
    def _is_resource_claim(self) -> bool:
        return self.resource == (self.brand.group("resource"), "resourceclaims")

    @property
    def _devices(self) -> str:
        return f".deviceclass.{self.brand.group('resource')}/devices"

    def _class_suffix(self, name: str) -> str:
        return f".storageclass.{self.brand.group('storage')}/{name}"

    def _claim_usage(self, claim: Document) -> Usage:
        used = {"persistentvolumeclaims": _ONE}
        requests = quantities((claim["spec"].get("resources") or {}).get("requests"))
        if storage := requests.get("storage"):
            # What has been allocated to a claim that was larger once.
            allocated = quantities((claim.get("status") or {}).get("allocatedResources"))
            used["requests.storage"] = max(storage, allocated.get("storage", storage)).with_scale(0)
        if name := storage_class_of(claim):
            used |= {f"{name}{self._class_suffix(field)}": value for field, value in used.items()}
        return used


# ---- pods


def _containers(spec: Document) -> Iterator[Document]:
    for field in ("containers", "initContainers"):
        yield from spec.get(field) or ()


def requests_of_pod(spec: Document) -> Usage:
    """Returns the requests of a pod, including its overhead."""
    return sum_of(total_of_pod(spec, "requests"), quantities(spec.get("overhead")))


def _limits(spec: Document) -> Usage:
    limits = total_of_pod(spec, "limits")
    overhead = quantities(spec.get("overhead"))
    return sum_of(limits, {name: value for name, value in overhead.items() if name in limits})


def _compute(requests: Usage, limits: Usage) -> dict[str, Quantity]:
    """Returns requests and limits under their names in quotas."""
    used: dict[str, Quantity] = {}
    for name, value in requests.items():
        if name in _COMPUTE or is_huge_page_resource(name):
            used[name] = used[f"requests.{name}"] = value
        elif is_extended_resource(name):
            used[f"requests.{name}"] = value
    return used | {f"limits.{name}": value for name, value in limits.items() if name in _COMPUTE}


def _is_over(pod: Document, now: float) -> bool:
    """Returns whether a pod has ended, or is past its grace period."""
    if (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
        return True
    meta = pod["metadata"]
    deleted_at = timestamps.from_text(meta.get("deletionTimestamp", ""))
    grace_s = meta.get("deletionGracePeriodSeconds")
    return deleted_at is not None and grace_s is not None and now > deleted_at + grace_s


def _is_best_effort(spec: Document) -> bool:
    """Returns whether a pod has no requests and limits for CPU and memory."""
    whole = (spec, *_containers(spec))
    needs = (
        values
        for each in whole
        for values in (each.get("resources") or {}).values()
        if isinstance(values, dict)
    )
    return not any(
        quantities(values)[name].value for values in needs for name in values.keys() & {"cpu", "memory"}
    )


def is_terminating(pod: Document) -> bool:
    """Returns whether the scope Terminating applies to a pod: it has an activeDeadlineSeconds."""
    seconds = (pod.get("spec") or {}).get("activeDeadlineSeconds")
    return seconds is not None and seconds >= 0


def _selects_other_namespaces(spec: Document) -> bool:
    """Returns whether the (anti-)affinity of a pod names other namespaces."""
    return any(
        term.get("namespaces") or term.get("namespaceSelector") is not None
        for _, term in pod_affinity_terms("", spec.get("affinity") or {})
    )


def _selects(scope: Document, names: Collection[str]) -> bool:
    """Returns whether a scope selects at least one of an object's classes."""
    values = scope.get("values") or ()
    match scope.get("operator"):
        case "In":
            return any(name in values for name in names)
        case "NotIn":
            return not names or any(name not in values for name in names)
        case "Exists":
            return bool(names)
        case _:
            return not names


def _names(*names: str | None) -> Collection[str]:
    """Returns the names that are not empty."""
    return {name for name in names if name}


# ---- claims


def _attributes_classes(claim: Document) -> Collection[str]:
    """Returns the current, requested and pending attributes classes of a claim's volume."""
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    target = (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName")
    current = status.get("currentVolumeAttributesClassName")
    return _names(spec.get("volumeAttributesClassName"), current, target)


def devices_by_class(claim: Document) -> Mapping[str, int]:
    """Returns the maximum number of devices of each class that a ResourceClaim may get."""
    counts: Counter[str] = Counter()
    for request in at(claim, "spec", "devices", "requests") or ():
        most: Counter[str] = Counter()
        # v1beta1 has what is requested in the request itself.
        for each in request.get("firstAvailable") or (request.get("exactly") or request,):
            count = LIST_MAX if each.get("allocationMode") == "All" else each.get("count") or 0
            most |= Counter({each.get("deviceClassName", ""): count})
        counts += most
    return counts


# ---- services


def _service_usage(spec: Document) -> Usage:
    ports = spec.get("ports") or ()
    node_ports = load_balancers = 0
    match spec.get("type"):
        case "NodePort":
            node_ports = len(ports)
        case "LoadBalancer":
            load_balancers = 1
            if spec.get("allocateLoadBalancerNodePorts") is False:
                ports = [each for each in ports if each.get("nodePort")]
            node_ports = len(ports)
    return {
        "services": _ONE,
        "services.loadbalancers": Quantity(Decimal(load_balancers)),
        "services.nodeports": Quantity(Decimal(node_ports)),
    }


# ---- quotas


def scopes_of(quota: Document) -> list[Document]:
    """Returns all scopes of a quota, in the form of its scope selector."""
    spec = quota["spec"]
    scopes = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    return [*scopes, *((spec.get("scopeSelector") or {}).get("matchExpressions") or ())]


class UsageCalculation:
    """Recalculates the status of a quota. Resources that this server does not measure keep their values.

    Callers call `begin` for each evaluator, and then add those of its objects that are in scope.

    An object that cannot be read may be in every scope, and use any amount: it counts as an object, and the
    usage of other resources does not decrease, since the quota could then be exceeded. A usage without a
    previous value stays unknown, and writes that would add to it are refused.
    """

    def __init__(self, quota: Document) -> None:
        self.quota = quota
        self._limits: dict[str, str] = (quota.get("spec") or {}).get("hard") or {}
        self._before: Document = quota.get("status") or {}
        self._known = quantities(self._before.get("used"))
        self._used = {name: value for name, value in self._known.items() if name in self._limits}
        self._uncertain: set[str] = set()  # the amounts that objects may use which cannot be read

    @property
    def has_limits(self) -> bool:
        """Whether the status already has the limits of the spec."""
        return bool((self._before.get("hard") or {}) == self._limits)

    @property
    def has_scopes(self) -> bool:
        spec = self.quota.get("spec") or {}
        return bool(spec.get("scopes") or (spec.get("scopeSelector") or {}).get("matchExpressions"))

    def begin(self, evaluator: QuotaEvaluator) -> list[str]:
        """Reset the usage of the resources that an evaluator measures; returns those that the quota
        limits.
        """
        names = [name for name in self._limits if evaluator.measures(name)]
        self._used |= dict.fromkeys(names, _NONE)
        return names

    def add(self, usage: Usage, names: Collection[str]) -> None:
        self._used = sum_of(self._used, {name: usage[name] for name in names if name in usage})

    def add_objects(self, count: int, names: Collection[str]) -> None:
        """Add objects that each use one of each of `names`."""
        self.add(dict.fromkeys(names, Quantity(Decimal(count))), names)

    def add_unreadable(self, count: int, evaluator: QuotaEvaluator, names: Collection[str]) -> None:
        """Add objects that cannot be read."""
        self.add_objects(count, [name for name in names if evaluator.counts(name)])
        self._uncertain.update(name for name in names if not evaluator.counts(name))

    def status(self) -> dict[str, dict[str, str]] | None:
        """Returns the new status; None if its amounts have not changed."""
        used = {name: value for name, value in self._used.items() if name not in self._uncertain}
        for name in self._uncertain & self._known.keys():
            used[name] = max(self._used[name], self._known[name])
        if self.has_limits and self._known == used:
            return None
        found = {"hard": dict(self._limits), "used": {name: str(value) for name, value in used.items()}}
        return {field: values for field, values in found.items() if values}


def may_change_usage(resource: GroupResource, subresource: str, new: Document, old: Document | None) -> bool:
    """Returns whether the update of an object can change its usage, or the quotas that apply to it.

    Source: `Handles` of kubernetes' evaluators.
    """
    # Of the scopes of pods only that changes.
    return (resource, subresource) != (PODS, "") or is_terminating(new) is not is_terminating(old or {})


def usage_after_write(
    quota: Document,
    evaluator: QuotaEvaluator,
    new: Document,
    old: Document | None,
    now: float,
    *,
    is_limited: bool = True,
) -> dict[str, str] | None:
    """Returns the quota's `status.used` with `new` in place of `old`; None if it does not change.

    is_limited: whether to refuse a write beyond the quota; else it is only charged.
    If the quota does not apply to the old object, the new one is charged as a whole. Only resources that the
    quota's status limits count: a quota whose usage has not been calculated yet limits nothing. The next
    calculation releases the usage that an object gave up.
    Raises QuotaViolation.
    """
    name, status = quota["metadata"]["name"], quota.get("status") or {}
    hard = quantities(status.get("hard"))
    limited = [each for each in hard if evaluator.measures(each)]
    if not limited or not evaluator.is_in_scope(quota, new):
        return None
    try:
        evaluator.require_complete(new, limited)
    except QuotaViolation as problem:
        raise QuotaViolation(f"failed quota: {name}: {problem}") from None
    used = quantities(status.get("used"))
    if any(each not in used for each in limited):
        raise QuotaViolation(f"status unknown for quota: {name}, resources: {','.join(sorted(limited))}")
    was_charged = old is not None and evaluator.is_in_scope(quota, old)
    before = evaluator.usage(old, now) if old is not None and was_charged else {}
    added = {
        each: value - before[each] if each in before else value
        for each, value in evaluator.usage(new, now).items()
        if each in hard
    }
    added = {each: value for each, value in added.items() if value.value > 0}
    after = sum_of(used, added)
    exceeded = sorted(each for each in added if after[each] > hard[each])
    if exceeded and is_limited:
        requested, so_far, limit = (
            ",".join(f"{each}={amounts[each]}" for each in exceeded) for amounts in (added, used, hard)
        )
        raise QuotaViolation(
            f"exceeded quota: {name}, requested: {requested}, used: {so_far}, limited: {limit}"
        )
    return {each: str(value) for each, value in after.items()} if added else None
