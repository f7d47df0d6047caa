"""APIServices. Source: kube-aggregator, pkg/apis/apiregistration/validation and pkg/registry/apiservice."""

from __future__ import annotations

import base64
from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType, status_without_metadata
from apiserver.golang.quoting import go_quote
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, invalid, required
from apiserver.meta.table import AGE, Column, columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status
from apiserver.schema.validation.checks import follows, one_of
from apiserver.schema.validation.defaults import setting
from apiserver.schema.validation.documents import at, items

_GROUP_PRIORITY_MAX: Final = 20_000
_VERSION_PRIORITY_MAX: Final = 1_000
_TRUTHS: Final = ("True", "False", "Unknown")


def prepare_api_service_create(document: Document) -> None:
    """Marks versions that this server serves as available; others are checked first."""
    document["status"] = {}
    if at(document, "spec", "service") is None:
        condition = {
            "type": "Available",
            "status": "True",
            "lastTransitionTime": document["metadata"].get("creationTimestamp"),
            "reason": "Local",
            "message": "Local APIServices are always available",
        }
        document["status"] = {"conditions": [condition]}


def validate_api_service(document: Document) -> Errors:
    spec = document.get("spec", {})
    group, version = spec.get("group", ""), spec.get("version", "")
    meta = document["metadata"]
    errors: Errors = []
    for field in ("generateName", "name"):
        errors += _name(f"metadata.{field}", meta.get(field, ""), f"{version}.{group}")
    if group:
        errors += follows("spec.group", group, names.dns_subdomain)
    elif version != "v1":
        text = "only v1 may have an empty group and it better be legacy kube"
        errors.append(required("spec.group", text))
    errors += follows("spec.version", version, names.dns1035_label)
    errors += _priority("spec.groupPriorityMinimum", spec.get("groupPriorityMinimum", 0), _GROUP_PRIORITY_MAX)
    errors += _priority("spec.versionPriority", spec.get("versionPriority", 0), _VERSION_PRIORITY_MAX)
    return errors + _service(spec)


def validate_api_service_status_update(new: Document, old: Document) -> Errors:
    return [
        error
        for where, condition in items(new.get("status", {}), "conditions", "status")
        for error in one_of(f"{where}.status", condition.get("status"), _TRUTHS)
    ]


def _name(path: str, name: str, expected: str) -> Errors:
    if not name or names.path_segment(name) or name == expected:
        return []  # its error is one of the metadata
    text = f'must be `spec.version+"."+spec.group`: {go_quote(expected)}'
    return [invalid(path, name, text)]


def _priority(path: str, value: int, limit: int) -> Errors:
    return [] if 0 < value <= limit else [invalid(path, value, f"must be positive and less than {limit}")]


def _service(spec: Document) -> Errors:
    service, bundle = spec.get("service"), spec.get("caBundle")
    skips_tls = bool(spec.get("insecureSkipTLSVerify"))
    tls_path = "spec.insecureSkipTLSVerify"
    errors: Errors = []
    if service is None:
        if bundle:
            size = f"{len(base64.b64decode(bundle))} bytes"
            errors.append(invalid("spec.caBundle", size, "local APIServices may not have a caBundle"))
        if skips_tls:
            text = "local APIServices may not have insecureSkipTLSVerify"
            errors.append(invalid(tls_path, True, text))
        return errors
    errors += [required(f"spec.service.{field}") for field in ("namespace", "name") if not service.get(field)]
    if not 1 <= (port := service.get("port", 443)) <= 65_535:
        text = "port is not valid: must be between 1 and 65535, inclusive"
        errors.append(invalid("spec.service.port", port, text))
    if skips_tls and bundle:
        errors.append(invalid(tls_path, True, "may not be true if caBundle is present"))
    return errors


# ---- columns


def _service_cell(document: Document, now: float) -> str:
    service = at(document, "spec", "service")
    return f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"


def _available(document: Document, now: float) -> str:
    conditions = at(document, "status", "conditions") or ()
    found = next((each for each in conditions if each.get("type") == "Available"), None)
    if found is None:
        return "Unknown"
    status, reason = found.get("status", ""), found.get("reason")
    return f"{status} ({reason})" if reason and status != "True" else status


BUILTIN_TYPE: Final = BuiltinType(
    "apiregistration.",
    "v1",
    "apiservices",
    "APIService",
    "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService",
    is_namespaced=False,
    categories=("api-extensions",),
    defaults={"io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.ServiceReference": setting(port=443)},
    subresources=(status_without_metadata(validate_api_service_status_update),),
    strategy=Strategy(
        allows_unconditional_update=False,
        name_rule=names.path_segment,
        prepare_create=prepare_api_service_create,
        validate=validate_api_service,
        update=UpdateStrategy(prepare=keep_status),
    ),
    columns=columns(
        Column("Service", _service_cell, "The service that serves the version; Local is this server."),
        Column("Available", _available, "Whether the version is available, and otherwise the reason."),
        AGE,
    ),
)
