"""The group `scheduling.k8s.io`."""

from __future__ import annotations

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.scheduling import priority_classes
from apiserver.meta.table import AGE, Column, columns, path
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
                    path("value", default=0),
                    type="integer",
                    description="The priority of pods of this class; the higher goes first.",
                ),
                Column(
                    "Global-Default",
                    path("globalDefault", default=False),
                    type="boolean",
                    description="Whether pods that name no class are of this one.",
                ),
                AGE,
                Column(
                    "PreemptionPolicy",
                    path("preemptionPolicy"),
                    description="Whether such pods make room for themselves by removing others.",
                ),
            ),
        ),
    )
