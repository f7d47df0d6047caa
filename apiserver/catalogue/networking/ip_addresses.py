"""IPAddresses. Source: pkg/apis/networking/validation, ValidateIPAddress."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, required
from apiserver.meta.table import AGE, Column, columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy
from apiserver.schema.validation.addresses import canonical_ip
from apiserver.schema.validation.checks import immutable, named
from apiserver.schema.validation.documents import at


def _builtin_type(version: str) -> BuiltinType:
    return BuiltinType(
        "networking.",
        version,
        "ipaddresses",
        "IPAddress",
        is_namespaced=False,
        short_names=("ip",),
        strategy=Strategy(name_rule=canonical_ip, validate_ratcheting=validate_ip_address),
        columns=columns(Column("ParentRef", _parent, "The object that uses the address."), AGE),
    )


def validate_ip_address(document: Document, old: Document | None) -> Errors:
    errors = _validate_parent(document)
    if old is not None:
        errors += immutable("spec.parentRef", _without_empty(document), _without_empty(old))
    return errors


def _validate_parent(document: Document) -> Errors:
    parent = at(document, "spec", "parentRef")
    path = "spec.parentRef"
    if parent is None:
        return [required(path)]
    return [
        *named(f"{path}.group", parent.get("group"), names.dns_subdomain, is_required=False),
        *named(f"{path}.resource", parent.get("resource"), names.path_segment),
        *named(f"{path}.name", parent.get("name"), names.path_segment),
        *named(f"{path}.namespace", parent.get("namespace"), names.path_segment, is_required=False),
    ]


def _without_empty(document: Document) -> Document:
    """Returns the reference without empty fields, which are the same as absent."""
    parent = at(document, "spec", "parentRef") or {}
    return {name: value for name, value in parent.items() if value}


# ---- columns


def _parent(document: Document, now: float) -> str:
    parent = at(document, "spec", "parentRef") or {}
    resource, group = parent.get("resource", ""), parent.get("group")
    parts = [f"{resource}.{group}" if group else resource, parent.get("namespace"), parent.get("name", "")]
    return "/".join(part for part in parts if part)


# All versions, which differ in their names only.
TYPES: Final = (_builtin_type("v1"), _builtin_type("v1beta1"))
