"""LeaseCandidates of coordination/v1alpha1 in release 1.31, which have a list of preferred strategies.

Later versions have the first of them; if there are others, all are kept in the stored object. Source:
pkg/apis/coordination/validation (release 1.31).
"""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.other_versions import CurrentTypes, hub_of, other_version
from apiserver.catalogue.coordination.lease_candidates import (
    OLDEST_EMULATION_VERSION,
    validate_strategy,
    validate_versions,
)
from apiserver.cel.library.semver import Semver, parse_semver
from apiserver.meta.field_errors import Errors, required
from apiserver.meta.vocabulary import Document

_ALL: Final = "preferredStrategies"
_FIRST: Final = "strategy"


def types(current: CurrentTypes) -> tuple[BuiltinType, ...]:
    later = current["coordination.", "leasecandidates"]
    strategy = later.strategy._replace(validate=_validate)
    return (other_version(later, "v1alpha1", strategy=strategy, hub=hub_of(later, to_hub, from_hub)),)


def to_hub(document: Document) -> None:
    spec = document.get("spec") or {}
    if strategies := spec.get(_ALL):
        spec[_FIRST] = strategies[0]
        if len(strategies) == 1 and strategies[0]:
            del spec[_ALL]


def from_hub(document: Document) -> None:
    spec = document.get("spec") or {}
    first = spec.pop(_FIRST, "")
    # One that was written since, in a later version, has replaced them.
    if first and (spec.get(_ALL) or [None])[0] != first:
        spec[_ALL] = [first]


def _validate(document: Document) -> Errors:
    spec = document.get("spec", {})
    errors: Errors = [] if spec.get("leaseName") else [required("spec.leaseName")]
    errors += validate_versions(spec)
    # If there is only one, it is stored as later versions have it.
    strategies = spec.get(_ALL) or [each for each in (spec.get(_FIRST),) if each]
    if not strategies:
        return [*errors, required(f"spec.{_ALL}", "must contain at least one strategy")]
    for index, strategy in enumerate(strategies):
        if strategy == OLDEST_EMULATION_VERSION:
            errors += _no_versions(spec)
        errors += validate_strategy(f"spec.{_ALL}[{index}]", strategy)
    return errors


def _no_versions(spec: Document) -> Errors:
    """Returns the errors about versions that are missing or invalid."""
    text = f"must be specified when `strategy` is '{OLDEST_EMULATION_VERSION}'"
    none = Semver((0, 0, 0))
    return [
        required(f"spec.{field}", text)
        for field in ("binaryVersion", "emulationVersion")
        if (parse_semver(spec.get(field) or "") or none) == none
    ]
