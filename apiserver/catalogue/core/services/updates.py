"""Validation of the immutable fields of a Service: its cluster IP, IP families and load balancer class.

Source: pkg/apis/core/validation, ValidateServiceUpdate and validateServiceClusterIPsRelatedFields.
"""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.core.services.addresses import is_headless, needs_health_check_node_port
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, forbidden, invalid
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.checks import IMMUTABLE

LOAD_BALANCER_ONLY: Final = "may only be used when `type` is 'LoadBalancer'"
_MAY_NOT_CHANGE: Final = "may not change once set"


def validate_change(new: Document, old: Document) -> Errors:
    """Checks the changes in an update, apart from errors in the new service."""
    spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    errors: Errors = []
    if "ExternalName" not in (spec.get("type"), old_spec.get("type")):
        was_headless, headless = is_headless(old_spec), is_headless(spec)
        if not (was_headless and headless):
            errors += _changed_list(spec, old_spec, "clusterIPs", "clusterIP")
        if not was_headless and not headless:
            errors += _changed_list(spec, old_spec, "ipFamilies", "ipFamily")
    balancer = spec.get("loadBalancerClass")
    if spec.get("type") == old_spec.get("type") == "LoadBalancer" and balancer != old_spec.get(
        "loadBalancerClass"
    ):
        errors.append(invalid("spec.loadBalancerClass", balancer, _MAY_NOT_CHANGE))
    # Kubernetes checks the class itself here, too, and again as a part of the service.
    errors += validate_load_balancer_class(spec)
    if not needs_health_check_node_port(spec) or not needs_health_check_node_port(old_spec):
        return errors
    if spec.get("healthCheckNodePort") != old_spec.get("healthCheckNodePort"):
        errors.append(forbidden("spec.healthCheckNodePort", IMMUTABLE))
    return errors


def validate_load_balancer_class(spec: Document) -> Errors:
    name, path = spec.get("loadBalancerClass"), "spec.loadBalancerClass"
    if name is None:
        return []
    if spec.get("type") != "LoadBalancer":
        return [forbidden(path, LOAD_BALANCER_ONLY)]
    return [invalid(path, name, problem) for problem in names.qualified_name(name)]


def _changed_list(spec: Document, old_spec: Document, field: str, single: str) -> Errors:
    """Checks a list of up to two values, of which the first must not change.

    The second one may be added, and removed if the policy allows it.
    """
    new, old, path = list(spec.get(field) or ()), list(old_spec.get(field) or ()), f"spec.{field}"
    if len(new) == len(old):
        return [
            invalid(f"{path}[{index if field == 'clusterIPs' else 0}]", new, _MAY_NOT_CHANGE)
            for index in range(min(len(old), 2))
            if new[index] != old[index]
        ]
    if not new:
        return [invalid(f"{path}[0]", new, f"primary {single} can not be unset")]
    errors: Errors = []
    if old and new[0] != old[0]:
        errors.append(invalid(f"{path}[0]", new, _MAY_NOT_CHANGE))
    policy = spec.get("ipFamilyPolicy")
    if len(new) == 1 < len(old) and policy != "SingleStack":
        text = f"must be set to 'SingleStack' when releasing the secondary {single}"
        errors.append(invalid("spec.ipFamilyPolicy", policy, text))
    return errors
