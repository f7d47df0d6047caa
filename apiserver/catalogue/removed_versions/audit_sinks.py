"""AuditSinks of auditregistration/v1alpha1 in releases 1.13 to 1.18: destinations of audit events.

They are stored, but no events are sent to them, as in a kube-apiserver without
`--audit-dynamic-configuration`. Source: pkg/apis/auditregistration (validation, v1alpha1/defaults.go; release
1.18).
"""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.meta.field_errors import Errors, invalid, not_supported, required
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy
from apiserver.schema.validation.defaults import setting
from apiserver.schema.validation.webhooks import client_config

_PACKAGE: Final = "io.k8s.api.auditregistration.v1alpha1"
_LEVELS: Final = ("Metadata", "None", "Request", "RequestResponse")
_STAGES: Final = ("Panic", "RequestReceived", "ResponseComplete", "ResponseStarted")


_complete_throttle: Final = setting(qps=10, burst=15)


def _complete_webhook(webhook: Document) -> None:
    if webhook.get("throttle") is None:
        webhook["throttle"] = {}
    _complete_throttle(webhook["throttle"])


def validate_audit_sink(document: Document) -> Errors:
    spec = document.get("spec") or {}
    return _policy("spec.policy", spec.get("policy") or {}) + _webhook(spec.get("webhook") or {})


def _policy(path: str, policy: Document) -> Errors:
    level, stages = policy.get("level", ""), policy.get("stages") or ()
    if level != "None" and not stages:
        return [required(f"{path}.stages")]
    errors = [
        invalid(f"{path}.stages[{index}]", stage, f"allowed stages are {','.join(_STAGES)}")
        for index, stage in enumerate(stages)
        if stage not in _STAGES
    ]
    if not level:
        errors.append(required(f"{path}.level"))
    elif level not in _LEVELS:
        errors.append(not_supported(f"{path}.level", level, _LEVELS))
    return errors


def _webhook(webhook: Document) -> Errors:
    path = "spec.webhook"
    errors = [
        invalid(f"{path}.throttle.{field}", number, f"{field} must be a positive number")
        for field in ("qps", "burst")
        if (number := (webhook.get("throttle") or {}).get(field)) is not None and number <= 0
    ]
    return errors + client_config(f"{path}.clientConfig", webhook.get("clientConfig") or {})


BUILTIN_TYPE: Final = BuiltinType(
    "auditregistration.",
    "v1alpha1",
    "auditsinks",
    "AuditSink",
    is_namespaced=False,
    defaults={f"{_PACKAGE}.Webhook": _complete_webhook, f"{_PACKAGE}.ServiceReference": setting(port=443)},
    strategy=Strategy(validate=validate_audit_sink, has_generation=True, allows_unconditional_update=False),
)
