"""The group `resource.k8s.io`: devices, and who needs them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from apiserver.catalogue.builtin_type import STATUS_SUBRESOURCE, BuiltinType, fields
from apiserver.catalogue.pod_specs.templates import clear_status
from apiserver.catalogue.resource import device_requests, resource_slices
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.registry.strategy import STATUS, Strategy, UpdateStrategy, keep_status
from apiserver.validation.checks import at
from apiserver.vocabulary import Document


def types() -> tuple[BuiltinType, ...]:
    return (
        _type(
            "deviceclasses",
            "DeviceClass",
            is_namespaced=False,
            strategy=Strategy(validate=device_requests.validate_device_class, has_generation=True),
            columns=columns(AGE),
        ),
        _type(
            "resourceclaims",
            "ResourceClaim",
            subresources=(
                replace(
                    STATUS_SUBRESOURCE,
                    update=replace(STATUS, validate=device_requests.validate_claim_status_update),
                ),
            ),
            strategy=Strategy(
                prepare_create=clear_status,
                validate_create=device_requests.validate_claim_create,
                update=UpdateStrategy(keep_status, device_requests.validate_claim_update),
            ),
            columns=columns(
                Column("State", _state, description="Whether it has devices, and whether they are in use."),
                AGE,
            ),
        ),
        _type(
            "resourceclaimtemplates",
            "ResourceClaimTemplate",
            strategy=Strategy(
                validate_create=device_requests.validate_template_create,
                update=UpdateStrategy(validate=device_requests.validate_template_update),
            ),
            columns=columns(AGE),
        ),
        _type(
            "resourceslices",
            "ResourceSlice",
            is_namespaced=False,
            strategy=Strategy(
                validate=resource_slices.validate_slice,
                update=UpdateStrategy(validate=resource_slices.validate_slice_update),
                has_generation=True,
            ),
            columns=columns(
                Column(
                    "Node", field_cell("spec", "nodeName", default="<unset>"), description="Whose devices."
                ),
                Column("Driver", field_cell("spec", "driver"), description="The driver that has them."),
                Column(
                    "Pool", field_cell("spec", "pool", "name"), description="The pool that they belong to."
                ),
                AGE,
            ),
            selectable_fields=fields("spec.nodeName", "spec.driver"),
        ),
    )


def _type(resource: str, kind: str, **more: Any) -> BuiltinType:
    return BuiltinType("resource.", "v1", resource, kind, f"io.k8s.api.resource.v1.{kind}", **more)


def _state(document: Document, now: float) -> str:
    is_deleted = "deletionTimestamp" in document["metadata"]
    states = ["deleted"] if is_deleted else []
    if at(document, "status", "allocation") is not None:
        states.append("allocated")
        if at(document, "status", "reservedFor"):
            states.append("reserved")
    elif not is_deleted:
        states.append("pending")
    return ",".join(states)
