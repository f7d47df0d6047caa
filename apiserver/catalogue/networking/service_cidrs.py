"""ServiceCIDRs. Source: pkg/apis/networking/validation, ValidateServiceCIDR."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType, clear_status, status_without_metadata
from apiserver.meta.field_errors import Errors, invalid, required
from apiserver.meta.table import AGE, Column, columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status
from apiserver.schema.validation.addresses import canonical_cidr, parse_cidr
from apiserver.schema.validation.checks import IMMUTABLE
from apiserver.schema.validation.documents import at


def _builtin_type(version: str) -> BuiltinType:
    return BuiltinType(
        "networking.",
        version,
        "servicecidrs",
        "ServiceCIDR",
        is_namespaced=False,
        subresources=(status_without_metadata(),),
        strategy=Strategy(
            prepare_create=clear_status,
            validate_create=validate_service_cidr,
            update=UpdateStrategy(keep_status, validate_service_cidr_update),
        ),
        columns=columns(Column("CIDRs", _cidrs_cell, "The ranges of service addresses."), AGE),
    )


_CIDRS: Final = "spec.cidrs"


def validate_service_cidr(document: Document) -> Errors:
    cidrs = at(document, "spec", "cidrs") or []
    if not cidrs:
        return [required(_CIDRS, "at least one CIDR required")]
    if len(cidrs) > 2:
        return [invalid(_CIDRS, {"CIDRs": cidrs}, "may only hold up to 2 values")]
    errors = [
        error for index, cidr in enumerate(cidrs) for error in canonical_cidr(f"{_CIDRS}[{index}]", cidr)
    ]
    families = [found.ip.family for cidr in cidrs if (found := parse_cidr(cidr)) is not None]
    if len(families) == 2 and families[0] == families[1]:
        text = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        errors.append(invalid(_CIDRS, cidrs, text))
    return errors


def validate_service_cidr_update(new: Document, old: Document) -> Errors:
    """Checks that nothing changes, except that a second IP family may be added."""
    cidrs, before = at(new, "spec", "cidrs") or [], at(old, "spec", "cidrs") or []
    is_extended = len(before) == 1 and len(cidrs) == 2
    if len(cidrs) != len(before) and not is_extended:
        return [invalid(_CIDRS, cidrs, IMMUTABLE)]
    errors = [
        invalid(f"{_CIDRS}[{index}]", cidrs[index], IMMUTABLE)
        for index, cidr in enumerate(before)
        if cidrs[index] != cidr
    ]
    return errors + (validate_service_cidr(new) if is_extended else [])


# ---- columns


def _cidrs_cell(document: Document, now: float) -> str:
    return ",".join(at(document, "spec", "cidrs") or ())


# All versions, which differ in their names only.
TYPES: Final = (_builtin_type("v1"), _builtin_type("v1beta1"))
