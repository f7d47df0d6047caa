"""The group `apiregistration.k8s.io`."""

from __future__ import annotations

from dataclasses import replace

from apiserver.catalogue.apiregistration import api_services
from apiserver.catalogue.builtin_type import STATUS_SUBRESOURCE, BuiltinType
from apiserver.meta import names
from apiserver.meta.table import AGE, Column, columns
from apiserver.registry.strategy import STATUS, Strategy, UpdateStrategy, keep_status
from apiserver.validation.checks import at
from apiserver.vocabulary import Document


def types() -> tuple[BuiltinType, ...]:
    return (
        BuiltinType(
            "apiregistration.",
            "v1",
            "apiservices",
            "APIService",
            "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService",
            is_namespaced=False,
            categories=("api-extensions",),
            subresources=(
                replace(
                    STATUS_SUBRESOURCE,
                    update=replace(STATUS, validate=api_services.validate_api_service_status_update),
                ),
            ),
            strategy=Strategy(
                name_rule=names.path_segment,
                prepare_create=api_services.prepare_api_service_create,
                validate=api_services.validate_api_service,
                update=UpdateStrategy(prepare=keep_status),
            ),
            columns=columns(
                Column("Service", _service, description="Who serves the version; Local is this server."),
                Column("Available", _available, description="Whether it can be reached, and if not, why."),
                AGE,
            ),
        ),
    )


def _service(document: Document, now: float) -> str:
    service = at(document, "spec", "service")
    return f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"


def _available(document: Document, now: float) -> str:
    conditions = at(document, "status", "conditions") or ()
    found = next((each for each in conditions if each.get("type") == "Available"), None)
    if found is None:
        return "Unknown"
    status, reason = found.get("status", ""), found.get("reason")
    return f"{status} ({reason})" if reason and status != "True" else status
