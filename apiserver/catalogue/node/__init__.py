"""The group `node.k8s.io`."""

from __future__ import annotations

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.node import runtime_classes
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.registry.strategy import Strategy, UpdateStrategy


def types() -> tuple[BuiltinType, ...]:
    return (
        BuiltinType(
            "node.",
            "v1",
            "runtimeclasses",
            "RuntimeClass",
            "io.k8s.api.node.v1.RuntimeClass",
            is_namespaced=False,
            strategy=Strategy(
                validate_create=runtime_classes.validate_runtime_class_create,
                update=UpdateStrategy(validate=runtime_classes.validate_runtime_class_update),
            ),
            columns=columns(
                Column("Handler", field_cell("handler"), description="What nodes call the runtime."), AGE
            ),
        ),
    )
