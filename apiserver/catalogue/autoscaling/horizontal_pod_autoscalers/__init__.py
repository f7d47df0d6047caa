"""HorizontalPodAutoscalers, whose rules are about v2, and which are served as v1 too.

`validation` has defaults and checks of v2, `conversion` turns v1 into v2 and back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from apiserver.catalogue.autoscaling.horizontal_pod_autoscalers.columns import COLUMNS, COLUMNS_OF_V1
from apiserver.catalogue.autoscaling.horizontal_pod_autoscalers.conversion import to_v1, to_v2
from apiserver.catalogue.autoscaling.horizontal_pod_autoscalers.validation import (
    DEFAULTS,
    prepare_autoscaler_create,
    validate_autoscaler,
    validate_autoscaler_status_update,
)
from apiserver.catalogue.builtin_type import DEFAULT_GATES, BuiltinType, HubConversion, status_subresource
from apiserver.meta.field_errors import Errors
from apiserver.meta.table import Columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status
from apiserver.releases.gates import FeatureGates

_RESOURCE: Final = "horizontalpodautoscalers"
_KIND: Final = "HorizontalPodAutoscaler"


def builtin_types(gates: FeatureGates = DEFAULT_GATES) -> tuple[BuiltinType, ...]:
    validate = partial(validate_autoscaler, scales_to_zero=gates.is_on("HPAScaleToZero"))
    hub = HubConversion("autoscaling", "v2", _RESOURCE, _KIND, to_hub=to_v2, from_hub=to_v1)
    return (
        _builtin_type("v2", validate, COLUMNS),
        _builtin_type("v1", validate, COLUMNS_OF_V1, hub=hub),
    )


def _builtin_type(
    version: str, validate: Callable[[Document, Document | None], Errors], columns: Columns, **more: Any
) -> BuiltinType:
    return BuiltinType(
        "autoscaling",
        version,
        _RESOURCE,
        _KIND,
        short_names=("hpa",),
        categories=("all",),
        defaults=DEFAULTS,
        strategy=Strategy(
            prepare_create=prepare_autoscaler_create,
            validate_ratcheting=validate,
            update=UpdateStrategy(prepare=keep_status),
        ),
        subresources=(status_subresource(validate_autoscaler_status_update),),
        columns=columns,
        **more,
    )
