"""CSIStorageCapacities. Source: pkg/apis/storage/validation, ValidateCSIStorageCapacity."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.node_labels import selector_warnings
from apiserver.meta import names
from apiserver.meta.field_errors import Errors
from apiserver.meta.table import Column, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy
from apiserver.schema.validation.checks import follows, immutable_fields, non_negative_quantity
from apiserver.schema.validation.label_selectors import label_selector


def validate_csi_storage_capacity(document: Document, old: Document | None) -> Errors:
    class_name, topology = document.get("storageClassName", ""), document.get("nodeTopology")
    keeps_values = old is not None and bool(label_selector("", old.get("nodeTopology")))
    errors = [
        *label_selector("nodeTopology", topology, allows_invalid_values=keeps_values),
        *follows("storageClassName", class_name, names.dns_subdomain),
        *non_negative_quantity("capacity", document.get("capacity")),
    ]
    if old is not None:
        errors += immutable_fields("", document, old, ("nodeTopology", "storageClassName"))
    return errors


def warn_csi_storage_capacity(new: Document, old: Document | None) -> list[str]:
    return [*selector_warnings("nodeTopology", new.get("nodeTopology") or {})]


BUILTIN_TYPE: Final = BuiltinType(
    "storage.",
    "v1",
    "csistoragecapacities",
    "CSIStorageCapacity",
    strategy=Strategy(
        allows_unconditional_update=False,
        validate_ratcheting=validate_csi_storage_capacity,
        warn=warn_csi_storage_capacity,
    ),
    columns=columns(
        Column("StorageClassName", field_cell("storageClassName"), "The storage class of the capacity."),
        Column("Capacity", field_cell("capacity", default="<unset>"), "The available capacity."),
    ),
)
