"""CSIStorageCapacities. Source: pkg/apis/storage/validation, ValidateCSIStorageCapacity."""

from __future__ import annotations

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.field_errors import Errors, invalid
from apiserver.meta import names
from apiserver.meta.table import Column, columns, field_cell
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.validation.checks import immutable, non_negative_quantity
from apiserver.validation.label_selectors import label_selector
from apiserver.vocabulary import Document


def builtin_type() -> BuiltinType:
    return BuiltinType(
        "storage.",
        "v1",
        "csistoragecapacities",
        "CSIStorageCapacity",
        "io.k8s.api.storage.v1.CSIStorageCapacity",
        strategy=Strategy(
            allows_unconditional_update=False,
            validate_create=validate_csi_storage_capacity_create,
            update=UpdateStrategy(validate=validate_csi_storage_capacity_update),
        ),
        columns=columns(
            Column("StorageClassName", field_cell("storageClassName"), description="The class it is of."),
            Column(
                "Capacity", field_cell("capacity", default="<unset>"), description="How much room there is."
            ),
        ),
    )


def validate_csi_storage_capacity_create(document: Document) -> Errors:
    class_name = document.get("storageClassName", "")
    return [
        *label_selector("nodeTopology", document.get("nodeTopology")),
        *(invalid("storageClassName", class_name, problem) for problem in names.dns_subdomain(class_name)),
        *non_negative_quantity("capacity", document.get("capacity")),
    ]


def validate_csi_storage_capacity_update(new: Document, old: Document) -> Errors:
    return [
        *immutable("nodeTopology", new.get("nodeTopology"), old.get("nodeTopology")),
        *immutable("storageClassName", new.get("storageClassName"), old.get("storageClassName")),
    ]
