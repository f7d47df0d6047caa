"""ResourceQuotas. Source: pkg/apis/core/validation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from apiserver.catalogue.builtin_type import CORE, BuiltinType, clear_status, status_subresource
from apiserver.catalogue.pod_specs.resource_requirements import validate_amount, validate_resource_name
from apiserver.meta.field_errors import Errors, invalid, required
from apiserver.meta.table import AGE, Column, columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status
from apiserver.schema.validation.checks import IMMUTABLE, quantity_of
from apiserver.schema.validation.defaults import rounding

_MEASURED: Final = ("cpu", "memory", "ephemeral-storage")
_OF_PODS: Final = frozenset(
    {"pods", *(f"{prefix}{name}" for prefix in ("", "requests.", "limits.") for name in ("cpu", "memory"))}
)
_OF_CLAIMS: Final = frozenset({"persistentvolumeclaims", "requests.storage"})
_STANDARD: Final = _OF_CLAIMS | {
    *(f"{prefix}{name}" for prefix in ("", "requests.", "limits.") for name in _MEASURED),
    *("pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps"),
    *("services.nodeports", "services.loadbalancers"),
}
# The resources that each scope can be about.
_SCOPES: Final[Mapping[str, frozenset[str]]] = {
    "Terminating": _OF_PODS,
    "NotTerminating": _OF_PODS,
    "BestEffort": frozenset({"pods"}),
    "NotBestEffort": _OF_PODS,
    "PriorityClass": _OF_PODS,
    "CrossNamespacePodAffinity": _OF_PODS,
    "VolumeAttributesClass": _OF_CLAIMS,
}
# Scopes that have no values to choose among.
_BARE: Final = ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity")
# Each scope repeats an error for each resource that it cannot have, and shows all scopes in it.
_ERRORS_MAX: Final = 100
# The resources of which requests are compared with limits, and those whose requests have a short name, too.
_COMPARED: Final = ("cpu", "memory", "storage", "ephemeral-storage")
_BARE_REQUESTS: Final = ("cpu", "memory")
_CONFLICTS: Final = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))


def validate_quota(document: Document, old: Document | None) -> Errors:
    spec = document.get("spec") or {}
    errors = _amounts("spec.hard", spec.get("hard")) + _scopes(spec) + _scope_selector(spec)
    scopes = spec.get("scopes") or []
    if old is not None and set(scopes) != set((old.get("spec") or {}).get("scopes") or ()):
        errors.append(invalid("spec.scopes", scopes, IMMUTABLE))
    return errors


def validate_quota_status(new: Document, old: Document) -> Errors:
    status = new.get("status") or {}
    return _amounts("status.hard", status.get("hard")) + _amounts("status.used", status.get("used"))


def _is_standard(name: str) -> bool:
    return name in _STANDARD or name.startswith(("hugepages-", "requests.hugepages-"))


def _amounts(path: str, amounts: Mapping[str, Any] | None) -> Errors:
    errors: Errors = []
    for name, value in (amounts or {}).items():
        where = f"{path}[{name}]"
        errors += validate_resource_name(where, name)
        if "/" not in name and not _is_standard(name):
            errors.append(invalid(where, name, "must be a standard resource for quota"))
        errors += validate_amount(where, name, value)
    return errors


def _misfits(spec: Document) -> Mapping[str, int]:
    """Returns the number of the quota's resources that each scope does not support."""
    standard = {name for name in spec.get("hard") or () if _is_standard(name)}
    return {scope: len(standard - fitting) for scope, fitting in _SCOPES.items()}


def _scopes(spec: Document) -> Errors:
    scopes, path = spec.get("scopes") or [], "spec.scopes"
    misfits = _misfits(spec)
    errors: Errors = []
    for scope in scopes:
        if scope not in _SCOPES:
            errors.append(invalid(path, scopes, "unsupported scope"))
        text = "unsupported scope applied to resource"
        errors += [invalid(path, scopes, text)] * misfits.get(scope, 0)
        if len(errors) >= _ERRORS_MAX:
            break
    return errors + _conflicts(scopes, scopes)


def _scope_selector(spec: Document) -> Errors:
    selector = spec.get("scopeSelector") or {}
    path = "spec.scopeSelector.matchExpressions"
    errors: Errors = []
    requirements = selector.get("matchExpressions") or ()
    scopes = [requirement.get("scopeName", "") for requirement in requirements]
    misfits = _misfits(spec)
    for scope, requirement in zip(scopes, requirements, strict=True):
        operator = requirement.get("operator", "")
        if scope not in _SCOPES:
            errors.append(invalid(f"{path}.scopeName", scope, "unsupported scope"))
        text = "unsupported scope applied to resource"
        errors += [invalid(path, selector, text)] * misfits.get(scope, 0)
        if scope in _BARE and operator != "Exists":
            text = (
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
                "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
                "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
            )
            errors.append(invalid(f"{path}.operator", operator, text))
        errors += _values(path, operator, requirement.get("values") or [])
        if len(errors) >= _ERRORS_MAX:
            break
    return errors + _conflicts(scopes, spec.get("scopes") or [])


def _values(path: str, operator: str, values: list[str]) -> Errors:
    if operator in ("In", "NotIn"):
        text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
        return [] if values else [required(f"{path}.values", text)]
    if operator in ("Exists", "DoesNotExist"):
        text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
        return [invalid(f"{path}.values", values, text)] if values else []
    return [invalid(f"{path}.operator", operator, "not a valid selector operator")]


def _conflicts(named: Iterable[str], shown: list[str]) -> Errors:
    found = set(named)
    return [
        invalid("spec.scopes", shown, "conflicting scopes") for pair in _CONFLICTS if found.issuperset(pair)
    ]


def warn_quota(new: Document, old: Document | None) -> list[str]:
    """Returns warnings about requests above their limits, when a quota is created."""
    hard = (new.get("spec") or {}).get("hard") or {}
    warnings: list[str] = []
    for resource in _COMPARED if old is None else ():
        request, limit = f"requests.{resource}", f"limits.{resource}"
        if request not in hard and resource in _BARE_REQUESTS:
            request = resource
        if request in hard and limit in hard and quantity_of(hard[request]) > quantity_of(hard[limit]):
            problem = f"{request} ({hard[request]}) should be less than {limit} ({hard[limit]})"
            warnings.append(f"ResourceQuota {problem}")
    return warnings


# ---- columns


def _quota(*, of_limits: bool) -> Callable[[Document, float], str]:
    """Returns a cell like `pods: 3/10, requests.cpu: 1/4`."""

    def cell(document: Document, now: float) -> str:
        status = document.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        return ", ".join(
            f"{name}: {used.get(name, '0')}/{hard[name]}"
            for name in sorted(hard)
            if name.startswith("limits.") == of_limits
        )

    return cell


BUILTIN_TYPE: Final = BuiltinType(
    "",
    "v1",
    "resourcequotas",
    "ResourceQuota",
    short_names=("quota",),
    subresources=(status_subresource(validate_quota_status),),
    defaults={
        f"{CORE}ResourceQuotaSpec": rounding("hard"),
        f"{CORE}ResourceQuotaStatus": rounding("hard", "used"),
    },
    strategy=Strategy(
        prepare_create=clear_status,
        validate_ratcheting=validate_quota,
        warn=warn_quota,
        update=UpdateStrategy(keep_status),
        returns_deleted=True,
    ),
    columns=columns(
        Column("Request", _quota(of_limits=False), "The usage and the limits of requested resources."),
        Column("Limit", _quota(of_limits=True), "The usage and the limits of resource limits."),
        AGE,
    ),
)
