"""LeaseCandidates: the candidates for a lease that coordinated leader election assigns.

Source: pkg/apis/coordination/validation, ValidateLeaseCandidate; pkg/registry/coordination/leasecandidate;
KEP-4355 (release 1.36).
"""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.other_versions import other_version
from apiserver.cel.library.semver import Semver, parse_semver
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, invalid, not_supported, required
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.field_getters import field_texts
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.schema.validation.checks import follows, immutable
from apiserver.schema.validation.documents import at

OLDEST_EMULATION_VERSION: Final = "OldestEmulationVersion"
# The strategies that are Kubernetes' own; those of others have a domain.
_STRATEGIES: Final = (OLDEST_EMULATION_VERSION,)
_NO_VERSION: Final = Semver((0, 0, 0))
_NOT_SEMANTIC: Final = "must be a valid semantic version"


def validate_candidate(document: Document) -> Errors:
    spec = document.get("spec", {})
    errors: Errors = [] if spec.get("leaseName") else [required("spec.leaseName")]
    errors += validate_versions(spec, needs_own=True)
    strategy = spec.get("strategy") or ""
    if not strategy:
        return [*errors, required("spec.strategy")]
    emulated = parse_semver(spec.get("emulationVersion") or "")
    if strategy == OLDEST_EMULATION_VERSION and (emulated or _NO_VERSION) == _NO_VERSION:
        text = f"must be specified when `strategy` is '{OLDEST_EMULATION_VERSION}'"
        errors.append(required("spec.emulationVersion", text))
    return errors + validate_strategy("spec.strategy", strategy)


def validate_versions(spec: Document, *, needs_own: bool = False) -> Errors:
    """Checks the version that a program emulates, and its binary version."""
    errors: Errors = []
    emulated, own = (spec.get(field) or "" for field in ("emulationVersion", "binaryVersion"))
    emulated_version, own_version = parse_semver(emulated), parse_semver(own)
    if emulated and emulated_version is None:
        errors.append(invalid("spec.emulationVersion", emulated, _NOT_SEMANTIC))
    if not own and needs_own:
        errors.append(required("spec.binaryVersion"))
    if own and own_version is None:
        errors.append(invalid("spec.binaryVersion", own, _NOT_SEMANTIC))
    # What cannot be read is the least version of all.
    if own and emulated and (own_version or _NO_VERSION) < (emulated_version or _NO_VERSION):
        text = "must be greater than or equal to `emulationVersion`"
        errors.append(invalid("spec.binaryVersion", own, text))
    return errors


def validate_strategy(path: str, strategy: str) -> Errors:
    """Checks the strategy of a candidate or of a lease. As in Kubernetes, the path repeats its name."""
    path = f"{path}.strategy"
    if "/" in strategy:
        return follows(path, strategy, names.qualified_name)
    return [] if strategy in _STRATEGIES else [not_supported(path, strategy, _STRATEGIES)]


def validate_candidate_update(new: Document, old: Document) -> Errors:
    now, before = (at(each, "spec", "leaseName") or "" for each in (new, old))
    return immutable("spec.leaseName", now, before)


BUILTIN_TYPE: Final = BuiltinType(
    "coordination.",
    "v1beta1",
    "leasecandidates",
    "LeaseCandidate",
    strategy=Strategy(
        name_rule=names.config_map_key,
        validate=validate_candidate,
        update=UpdateStrategy(validate=validate_candidate_update),
        allows_create_on_update=True,
        allows_unconditional_update=False,
    ),
    columns=columns(
        Column("LeaseName", field_cell("spec", "leaseName"), "The lease of the candidate."),
        Column("BinaryVersion", field_cell("spec", "binaryVersion"), "The program's version."),
        Column(
            "EmulationVersion",
            field_cell("spec", "emulationVersion"),
            "The release that the program emulates.",
        ),
        AGE,
    ),
    selectable_fields=field_texts("spec.leaseName"),
)
TYPES: Final = (BUILTIN_TYPE, other_version(BUILTIN_TYPE, "v1alpha2"))
