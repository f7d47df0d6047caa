"""The group `flowcontrol.apiserver.k8s.io`."""

from __future__ import annotations

from typing import Any

from apiserver.catalogue.builtin_type import STATUS_SUBRESOURCE, BuiltinType
from apiserver.catalogue.flowcontrol import flow_schemas
from apiserver.catalogue.pod_specs.templates import clear_status
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status
from apiserver.validation.checks import at
from apiserver.vocabulary import Document


def types() -> tuple[BuiltinType, ...]:
    return (
        _type(
            "flowschemas",
            "FlowSchema",
            flow_schemas.validate_flow_schema,
            Column(
                "PriorityLevel",
                field_cell("spec", "priorityLevelConfiguration", "name"),
                description="The level that the requests are handled at.",
            ),
            Column(
                "MatchingPrecedence",
                field_cell("spec", "matchingPrecedence", default=0),
                description="Of all schemas that match a request, the one with the least number takes it.",
            ),
            Column(
                "DistinguisherMethod",
                field_cell("spec", "distinguisherMethod", "type", default="<none>"),
                description="What divides the requests into flows: ByUser, ByNamespace, or nothing.",
            ),
            AGE,
            Column("MissingPL", _is_dangling, description="Whether the level is not there."),
        ),
        _type(
            "prioritylevelconfigurations",
            "PriorityLevelConfiguration",
            flow_schemas.validate_priority_level,
            Column("Type", field_cell("spec", "type"), description="Limited, or Exempt from limits."),
            _limit("NominalConcurrencyShares", "nominalConcurrencyShares", text="Its part of all requests."),
            _limit("Queues", *_QUEUING, "queues", text="How many queues it has."),
            _limit("HandSize", *_QUEUING, "handSize", text="How many queues a flow is dealt."),
            _limit(
                "QueueLengthLimit", *_QUEUING, "queueLengthLimit", text="How many requests fit in a queue."
            ),
            AGE,
        ),
    )


def _type(resource: str, kind: str, validate: Any, *more: Column) -> BuiltinType:
    return BuiltinType(
        "flowcontrol.apiserver.",
        "v1",
        resource,
        kind,
        f"io.k8s.api.flowcontrol.v1.{kind}",
        is_namespaced=False,
        subresources=(STATUS_SUBRESOURCE,),
        strategy=Strategy(
            prepare_create=clear_status,
            validate=validate,
            update=UpdateStrategy(prepare=keep_status),
            has_generation=True,
        ),
        columns=columns(*more),
    )


def _is_dangling(document: Document, now: float) -> str:
    conditions = at(document, "status", "conditions") or ()
    return next((c.get("status", "") for c in conditions if c.get("type") == "Dangling"), "?")


_QUEUING = ("limitResponse", "queuing")


def _limit(name: str, *steps: str, text: str) -> Column:
    cell = field_cell("spec", "limited", *steps, default="<none>")
    return Column(name, cell, description=text)
