"""HorizontalPodAutoscalers, whose rules are for v2, and which are also served as v1.

`validation` has defaults and checks of v2, `conversion` converts between v1 and v2.
"""

from __future__ import annotations

from functools import partial

from apiserver.catalogue.autoscaling.horizontal_pod_autoscalers.columns import COLUMNS, COLUMNS_OF_V1
from apiserver.catalogue.autoscaling.horizontal_pod_autoscalers.conversion import to_v1, to_v2
from apiserver.catalogue.autoscaling.horizontal_pod_autoscalers.validation import (
    complete_replicas,
    complete_spec,
    prepare_autoscaler_create,
    validate_autoscaler,
    validate_autoscaler_status_update,
)
from apiserver.catalogue.builtin_type import DEFAULT_GATES, BuiltinType, status_subresource
from apiserver.catalogue.common.other_versions import hub_of, other_version
from apiserver.meta.releases.gates import FeatureGates
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status


def builtin_types(gates: FeatureGates = DEFAULT_GATES) -> tuple[BuiltinType, ...]:
    v2 = BuiltinType(
        "autoscaling",
        "v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        short_names=("hpa",),
        categories=("all",),
        defaults={"HorizontalPodAutoscalerSpec": complete_spec},
        strategy=Strategy(
            prepare_create=prepare_autoscaler_create,
            validate_ratcheting=partial(validate_autoscaler, scales_to_zero=gates.is_on("HPAScaleToZero")),
            update=UpdateStrategy(prepare=keep_status),
        ),
        subresources=(status_subresource(validate_autoscaler_status_update),),
        columns=COLUMNS,
    )
    defaults = {"HorizontalPodAutoscalerSpec": complete_replicas}
    v1 = other_version(v2, "v1", defaults=defaults, columns=COLUMNS_OF_V1, hub=hub_of(v2, to_v2, to_v1))
    return v2, v1
