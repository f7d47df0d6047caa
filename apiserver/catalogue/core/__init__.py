"""The core group, `v1`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from apiserver.brand import Brand
from apiserver.catalogue import subresources
from apiserver.catalogue.builtin_type import STATUS_SUBRESOURCE, BuiltinType, field, fields
from apiserver.catalogue.common import columns as core_columns
from apiserver.catalogue.core import (
    config_maps,
    endpoints,
    events,
    limit_ranges,
    namespaces,
    nodes,
    persistent_volumes,
    replication_controllers,
    resource_quotas,
    secrets,
    service_accounts,
)
from apiserver.catalogue.core.pods import columns as pods
from apiserver.catalogue.core.services import validation
from apiserver.catalogue.core.services.allocation import ServiceAllocator
from apiserver.field_errors import FieldError
from apiserver.meta import names
from apiserver.meta.table import AGE, columns
from apiserver.registry.served_resource import Subresource
from apiserver.registry.strategy import STATUS, Strategy, UpdateStrategy
from apiserver.vocabulary import Deprecation, Document

_PACKAGE: Final = "io.k8s.api.core.v1."


def types(brand: Brand, *, event_ttl_s: int, service_allocator: ServiceAllocator) -> tuple[BuiltinType, ...]:
    return (
        _core("bindings", "Binding", verbs=("create",)),
        _core(
            "componentstatuses",
            "ComponentStatus",
            is_namespaced=False,
            short_names=("cs",),
            verbs=("get", "list"),  # Nobody makes one.
            deprecation=Deprecation("1.19"),
            columns=core_columns.COMPONENT_STATUSES,
        ),
        _core(
            "configmaps",
            "ConfigMap",
            short_names=("cm",),
            strategy=Strategy(
                validate=config_maps.validate_config_map,
                update=UpdateStrategy(validate=config_maps.validate_config_map_update),
            ),
            columns=core_columns.CONFIG_MAPS,
        ),
        _core(
            "endpoints",
            "Endpoints",
            deprecation=Deprecation("1.33", "", f"{brand.group('discovery')}/v1 EndpointSlice"),
            short_names=("ep",),
            strategy=Strategy(
                validate=endpoints.validate_endpoints,
                warn=endpoints.warn_endpoints,
                allows_create_on_update=True,
            ),
            columns=core_columns.ENDPOINTS,
        ),
        _events(event_ttl_s),
        _core(
            "limitranges",
            "LimitRange",
            short_names=("limits",),
            strategy=Strategy(validate=limit_ranges.validate_limit_range, allows_create_on_update=True),
        ),
        _namespaces(brand),
        _nodes(),
        _core(
            "persistentvolumeclaims",
            "PersistentVolumeClaim",
            short_names=("pvc",),
            subresources=(_status(persistent_volumes.validate_claim_status),),
            strategy=Strategy(
                prepare_create=persistent_volumes.prepare_claim_create,
                validate=persistent_volumes.validate_claim,
                warn=persistent_volumes.warn_claim,
                update=UpdateStrategy(
                    persistent_volumes.prepare_claim_update, persistent_volumes.validate_claim_update
                ),
                returns_deleted=True,
            ),
            columns=core_columns.PERSISTENT_VOLUME_CLAIMS,
        ),
        _core(
            "persistentvolumes",
            "PersistentVolume",
            is_namespaced=False,
            short_names=("pv",),
            subresources=(STATUS_SUBRESOURCE,),
            strategy=Strategy(
                prepare_create=persistent_volumes.prepare_volume_create,
                validate=persistent_volumes.validate_volume,
                warn=persistent_volumes.warn_volume,
                update=UpdateStrategy(
                    persistent_volumes.prepare_volume_update, persistent_volumes.validate_volume_update
                ),
                returns_deleted=True,
            ),
            columns=core_columns.PERSISTENT_VOLUMES,
        ),
        pods.pod_type(),
        _core(
            "podtemplates",
            "PodTemplate",
            strategy=Strategy(
                validate=replication_controllers.validate_pod_template,
                warn=replication_controllers.warn_pod_template,
                has_generation=True,
                returns_deleted=True,
            ),
            columns=core_columns.POD_TEMPLATES,
        ),
        _replication_controllers(),
        _core(
            "resourcequotas",
            "ResourceQuota",
            short_names=("quota",),
            subresources=(STATUS_SUBRESOURCE,),
            strategy=Strategy(
                prepare_create=resource_quotas.prepare_quota_create,
                validate=resource_quotas.validate_quota,
                update=UpdateStrategy(
                    resource_quotas.prepare_quota_update, resource_quotas.validate_quota_update
                ),
                returns_deleted=True,
            ),
            columns=core_columns.RESOURCE_QUOTAS,
        ),
        _core(
            "secrets",
            "Secret",
            strategy=Strategy(
                prepare_create=secrets.prepare_secret,
                validate=secrets.validate_secret,
                update=UpdateStrategy(secrets.prepare_secret_update, secrets.validate_secret_update),
            ),
            columns=core_columns.SECRETS,
            selectable_fields=fields("type"),
        ),
        _core(
            "serviceaccounts",
            "ServiceAccount",
            short_names=("sa",),
            subresources=(subresources.service_account_token(brand),),
            strategy=Strategy(
                prepare_create=service_accounts.prepare_service_account,
                warn=service_accounts.warn_service_account,
                update=UpdateStrategy(service_accounts.prepare_service_account_update),
                returns_deleted=True,
            ),
            columns=columns(AGE),
        ),
        _services(service_allocator),
    )


def _core(resource: str, kind: str, **more: Any) -> BuiltinType:
    return BuiltinType("", "v1", resource, kind, _PACKAGE + kind, **more)


def _status(validate: Callable[[Document, Document], list[FieldError]]) -> Subresource:
    return replace(STATUS_SUBRESOURCE, update=replace(STATUS, validate=validate))


def _events(ttl_s: int) -> BuiltinType:
    return _core(
        "events",
        "Event",
        short_names=("ev",),
        strategy=Strategy(
            name_rule=names.path_segment,
            validate=events.validate_event,
            allows_create_on_update=True,
            ttl_s=ttl_s,
        ),
        columns=core_columns.EVENTS,
        selectable_fields={
            **fields(
                "involvedObject.kind",
                "involvedObject.namespace",
                "involvedObject.name",
                "involvedObject.uid",
                "involvedObject.apiVersion",
                "involvedObject.resourceVersion",
                "involvedObject.fieldPath",
                "reason",
                "reportingComponent",
                "type",
            ),
            "source": field("source", "component"),
        },
    )


def _namespaces(brand: Brand) -> BuiltinType:
    label = brand.namespace_name_label
    return _core(
        "namespaces",
        "Namespace",
        is_namespaced=False,
        short_names=("ns",),
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
        subresources=(
            _status(namespaces.validate_namespace_status),
            Subresource(
                "finalize",
                verbs=("update",),
                update=UpdateStrategy(partial(namespaces.prepare_namespace_finalize, label=label)),
            ),
        ),
        strategy=Strategy(
            name_rule=names.dns_label,
            prepare_create=partial(namespaces.prepare_namespace_create, label=label),
            validate=namespaces.validate_namespace,
            update=UpdateStrategy(partial(namespaces.prepare_namespace_update, label=label)),
            mark_deleted=namespaces.mark_namespace_deleted,
            blockers=namespaces.namespace_blockers,
        ),
        columns=core_columns.NAMESPACES,
        selectable_fields=fields("status.phase"),
    )


def _nodes() -> BuiltinType:
    return _core(
        "nodes",
        "Node",
        is_namespaced=False,
        short_names=("no",),
        subresources=(subresources.NODE_PROXY, _status(nodes.validate_node_update)),
        strategy=Strategy(
            prepare_create=nodes.prepare_node_create,
            validate=nodes.validate_node,
            warn=nodes.warn_node,
            update=UpdateStrategy(nodes.prepare_node_update, nodes.validate_node_update),
        ),
        columns=core_columns.NODES,
        selectable_fields={"spec.unschedulable": field("spec", "unschedulable", default="false")},
    )


def _replication_controllers() -> BuiltinType:
    return _core(
        "replicationcontrollers",
        "ReplicationController",
        short_names=("rc",),
        categories=("all",),
        subresources=(
            subresources._SCALE,
            _status(replication_controllers.validate_controller_status),
        ),
        strategy=Strategy(
            prepare_create=replication_controllers.prepare_controller_create,
            validate=replication_controllers.validate_controller,
            warn=replication_controllers.warn_controller,
            update=UpdateStrategy(replication_controllers.prepare_controller_update),
            has_generation=True,
            orphans_dependents=True,
        ),
        columns=core_columns.REPLICATION_CONTROLLERS,
        selectable_fields={"status.replicas": field("status", "replicas", default="0")},
    )


def _services(pools: ServiceAllocator) -> BuiltinType:
    families = tuple(pools.networks)
    return _core(
        "services",
        "Service",
        short_names=("svc",),
        categories=("all",),
        subresources=(subresources.SERVICE_PROXY, _status(validation.validate_service_status)),
        strategy=Strategy(
            name_rule=names.dns_label,
            prepare_create=partial(validation.prepare_service_create, families=families),
            validate=partial(validation.validate_service, families=families),
            warn=validation.warn_service,
            update=UpdateStrategy(
                partial(validation.prepare_service_update, families=families),
                validation.validate_service_update,
            ),
            allows_create_on_update=True,
            returns_deleted=True,
            allocator=pools,
        ),
        columns=core_columns.SERVICES,
        selectable_fields=fields("spec.clusterIP", "spec.type"),
    )
