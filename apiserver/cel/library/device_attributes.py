"""The library for selectors of devices: `attribute.includes(value)`, for a list or a single value.

Source: k8s.io/dynamic-resource-allocation, cel/compile.go (release 1.36).
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from apiserver.cel.compatibility_version import LIST_ATTRIBUTES_GATE
from apiserver.cel.declarations import Library
from apiserver.cel.functions import Bounds, CallEstimate, method
from apiserver.cel.types import BOOL, DYN
from apiserver.cel.values import LIST_CLASSES, EvaluationError, equal

# The most values that an attribute of a device may have.
VALUES_MAX: Final = 48


def _includes(value: Any, sought: Any) -> bool:
    if not isinstance(value, LIST_CLASSES):
        return equal(value, sought)
    if any(equal(each, sought) for each in islice(value, VALUES_MAX)):
        return True
    if len(value) > VALUES_MAX:
        text = f"'includes' function cannot be applied to lists longer than {VALUES_MAX} values"
        raise EvaluationError(text)
    return False


DEVICE_ATTRIBUTES: Final = Library(
    "dra",
    {
        "includes": method(
            "dra_includes_dyn_dyn",
            (DYN, DYN),
            BOOL,
            _includes,
            estimate=lambda _: CallEstimate(Bounds(0, VALUES_MAX)),
        )
    },
    gate=LIST_ATTRIBUTES_GATE,
)
