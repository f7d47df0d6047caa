"""The group `scheduling.k8s.io`."""

from __future__ import annotations

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.scheduling import priority_classes
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.registry.strategy import Strategy, UpdateStrategy


def types() -> tuple[BuiltinType, ...]:
    return (
        BuiltinType(
            "scheduling.",
            "v1",
            "priorityclasses",
            "PriorityClass",
            "io.k8s.api.scheduling.v1.PriorityClass",
            is_namespaced=False,
            short_names=("pc",),
            strategy=Strategy(
                prepare_create=priority_classes.prepare_priority_class_create,
                validate_create=priority_classes.validate_priority_class_create,
                update=UpdateStrategy(validate=priority_classes.validate_priority_class_update),
            ),
            columns=columns(
                Column(
                    "Value",
                    field_cell("value", default=0),
                    type="integer",
                    description="The priority of pods of this class; the higher goes first.",
                ),
                Column(
                    "Global-Default",
                    field_cell("globalDefault", default=False),
                    type="boolean",
                    description="Whether pods that name no class are of this one.",
                ),
                AGE,
                Column(
                    "PreemptionPolicy",
                    field_cell("preemptionPolicy"),
                    description="Whether such pods make room for themselves by removing others.",
                ),
            ),
        ),
    )
