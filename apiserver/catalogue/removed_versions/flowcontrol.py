"""FlowSchemas and PriorityLevelConfigurations of flowcontrol.apiserver.k8s.io, v1alpha1 to v1beta3.

v1 distinguishes a level with 0 seats from one without a number. In the others 0 means no number: v1beta3 adds
an annotation, which clients send back. `assuredConcurrencyShares` of versions before v1beta3 was renamed
later.

Source: pkg/apis/flowcontrol/{v1beta1,v1beta2,v1beta3} (defaults.go, conversion.go) of release 1.29.
Rows T01, T02, T04.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.annotation_values import take_annotation
from apiserver.catalogue.common.other_versions import CurrentTypes, columns_of_hub, hub_of, other_version
from apiserver.meta.brand import Brand
from apiserver.meta.table import Columns
from apiserver.meta.vocabulary import Document
from apiserver.schema.compile import Default

_GROUP: Final = "flowcontrol.apiserver."
_LIMITED: Final = "LimitedPriorityLevelConfiguration"
_SHARES: Final = 30
# The versions before v1beta3.
_ASSURING: Final = ("v1alpha1", "v1beta1", "v1beta2")
_NOMINAL: Final = "nominalConcurrencyShares"
_ASSURED: Final = "assuredConcurrencyShares"


def types(brand: Brand, current: CurrentTypes) -> tuple[BuiltinType, ...]:
    schemas = current[_GROUP, "flowschemas"]
    levels = current[_GROUP, "prioritylevelconfigurations"]
    return (
        *(other_version(schemas, version) for version in (*_ASSURING, "v1beta3")),
        *(_with_assured_shares(levels, version) for version in _ASSURING),
        _with_annotation(levels, brand),
    )


def _with_defaults(of_v1: BuiltinType, version: str, limited: Default) -> BuiltinType:
    """Returns a version with the defaults of v1, except those of levels with limits."""
    builtin = other_version(of_v1, version)
    package = builtin.definition.rpartition(".")[0]
    return replace(builtin, defaults={**builtin.defaults, f"{package}.{_LIMITED}": limited})


def _complete_lending(limited: Document) -> None:
    if limited.get("lendablePercent") is None:
        limited["lendablePercent"] = 0


# ---- v1alpha1, v1beta1 and v1beta2


def _with_assured_shares(of_v1: BuiltinType, version: str) -> BuiltinType:
    return replace(
        _with_defaults(of_v1, version, _complete_assured),
        columns=_assured_columns(of_v1.columns),
        hub=hub_of(of_v1, to_nominal, to_assured),
    )


def _complete_assured(limited: Document) -> None:
    limited[_ASSURED] = limited.get(_ASSURED) or _SHARES
    _complete_lending(limited)


def to_nominal(document: Document) -> None:
    """Converts a level to v1, where shares are called nominal."""
    if (limited := document.get("spec", {}).get("limited")) is not None:
        if _ASSURED in limited:
            limited[_NOMINAL] = limited.pop(_ASSURED)
        _complete_lending(limited)  # Releases that did not lend have stored none.


def to_assured(document: Document) -> None:
    """Converts a level to a version before v1beta3, where shares are called assured."""
    limited = document.get("spec", {}).get("limited")
    if limited is not None and _NOMINAL in limited:
        limited[_ASSURED] = limited.pop(_NOMINAL)


def _assured_columns(columns: Columns) -> Columns:
    names = {"NominalConcurrencyShares": "AssuredConcurrencyShares"}
    shown = columns_of_hub(columns, to_nominal).columns
    return Columns(tuple(each._replace(name=names.get(each.name, each.name)) for each in shown))


# ---- v1beta3


def _with_annotation(of_v1: BuiltinType, brand: Brand) -> BuiltinType:
    key = zero_annotation(brand)
    builtin = _with_defaults(of_v1, "v1beta3", _complete_lending)
    completions = {**builtin.defaults, builtin.definition: _complete_nominal(key)}
    hub = hub_of(of_v1, partial(without_annotation, key), partial(with_annotation, key))
    return replace(builtin, defaults=completions, hub=hub)


def zero_annotation(brand: Brand) -> str:
    """Returns the annotation of a level in v1beta3 whose shares are 0, and not unset."""
    return f"{brand.group('flowcontrol')}/v1beta3-preserve-zero-concurrency-shares"


def _complete_nominal(key: str) -> Callable[[Document], None]:
    def complete(document: Document) -> None:
        limited = document.get("spec", {}).get("limited")
        annotations = document.get("metadata", {}).get("annotations") or {}
        if limited is not None and not limited.get(_NOMINAL) and key not in annotations:
            limited[_NOMINAL] = _SHARES

    return complete


def without_annotation(key: str, document: Document) -> None:
    """Converts a level from v1beta3 to v1, without the annotation."""
    take_annotation(document, key)


def with_annotation(key: str, document: Document) -> None:
    """Converts a level from v1 to v1beta3, with the annotation."""
    limited = document.get("spec", {}).get("limited")
    if limited is not None and limited.get(_NOMINAL) == 0:
        document["metadata"].setdefault("annotations", {})[key] = ""
