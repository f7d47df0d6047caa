"""The group `storage.k8s.io`."""

from __future__ import annotations

from typing import Any

from apiserver.catalogue.builtin_type import STATUS_SUBRESOURCE, BuiltinType, StoredAs
from apiserver.catalogue.storage import csi_drivers, storage_classes
from apiserver.meta import table
from apiserver.meta.table import AGE, Column, Columns, columns, field_cell
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status
from apiserver.validation.checks import at
from apiserver.vocabulary import Document


def types() -> tuple[BuiltinType, ...]:
    return (
        _storage(
            "csidrivers",
            "CSIDriver",
            is_namespaced=False,
            strategy=Strategy(
                validate=csi_drivers.validate_csi_driver,
                update=UpdateStrategy(
                    csi_drivers.prepare_csi_driver_update, csi_drivers.validate_csi_driver_update
                ),
            ),
            columns=columns(
                _flag("AttachRequired", "attachRequired", "Volumes are attached before they are mounted."),
                _flag("PodInfoOnMount", "podInfoOnMount", "The driver is told for which pod it mounts."),
                _flag("StorageCapacity", "storageCapacity", "Pods go where the driver says there is room."),
                Column("TokenRequests", _audiences, description="Whom the tokens that it gets are for."),
                _flag("RequiresRepublish", "requiresRepublish", "Mounts are refreshed again and again."),
                Column("Modes", _modes, description="The kinds of volumes that it has."),
                AGE,
            ),
        ),
        _storage(
            "csinodes",
            "CSINode",
            is_namespaced=False,
            strategy=Strategy(
                validate=csi_drivers.validate_csi_node,
                update=UpdateStrategy(validate=csi_drivers.validate_csi_node_update),
            ),
            columns=columns(
                Column("Drivers", _drivers, type="integer", description="How many drivers the node has."), AGE
            ),
        ),
        _storage(
            "csistoragecapacities",
            "CSIStorageCapacity",
            strategy=Strategy(
                validate_create=csi_drivers.validate_csi_storage_capacity_create,
                update=UpdateStrategy(validate=csi_drivers.validate_csi_storage_capacity_update),
            ),
            columns=columns(
                Column("StorageClassName", field_cell("storageClassName"), description="The class it is of."),
                Column(
                    "Capacity",
                    field_cell("capacity", default="<unset>"),
                    description="How much room there is.",
                ),
            ),
        ),
        _storage(
            "storageclasses",
            "StorageClass",
            is_namespaced=False,
            short_names=("sc",),
            strategy=Strategy(
                validate_create=storage_classes.validate_storage_class_create,
                update=UpdateStrategy(validate=storage_classes.validate_storage_class_update),
            ),
            columns=_CLASS_COLUMNS,
        ),
        _storage(
            "volumeattachments",
            "VolumeAttachment",
            is_namespaced=False,
            subresources=(STATUS_SUBRESOURCE,),
            strategy=Strategy(
                prepare_create=csi_drivers.prepare_volume_attachment_create,
                validate=csi_drivers.validate_volume_attachment,
                validate_create=csi_drivers.validate_volume_attachment_create,
                update=UpdateStrategy(keep_status, csi_drivers.validate_volume_attachment_update),
            ),
            columns=columns(
                Column(
                    "Attacher", field_cell("spec", "attacher"), description="The driver that attaches it."
                ),
                Column("PV", field_cell("spec", "source", "persistentVolumeName"), description="The volume."),
                Column(
                    "Node", field_cell("spec", "nodeName"), description="The node that it is attached to."
                ),
                Column(
                    "Attached",
                    field_cell("status", "attached", default=False),
                    type="boolean",
                    description="Whether it is attached now.",
                ),
                AGE,
            ),
        ),
        *(_volume_attributes_classes(version) for version in ("v1", "v1beta1")),
    )


def _storage(resource: str, kind: str, version: str = "v1", **more: Any) -> BuiltinType:
    return BuiltinType("storage.", version, resource, kind, f"io.k8s.api.storage.{version}.{kind}", **more)


def _volume_attributes_classes(version: str) -> BuiltinType:
    stored_as = StoredAs("storage.", "v1", "volumeattributesclasses", "VolumeAttributesClass", _same, _same)
    return _storage(
        "volumeattributesclasses",
        "VolumeAttributesClass",
        version,
        is_namespaced=False,
        short_names=("vac",),
        strategy=Strategy(
            validate=storage_classes.validate_volume_attributes_class,
            update=UpdateStrategy(validate=storage_classes.validate_volume_attributes_class_update),
        ),
        columns=columns(
            Column("DriverName", field_cell("driverName"), description="The driver that understands it."), AGE
        ),
        stored_as=None if version == "v1" else stored_as,
        in_runtime_config=version != "v1",
    )


def _same(document: Document) -> None:
    """The versions differ in nothing but their names."""


# ---- columns


def _flag(name: str, field: str, text: str) -> Column:
    return Column(name, field_cell("spec", field, default=False), type="boolean", description=text)


def _audiences(document: Document, now: float) -> str:
    requests = at(document, "spec", "tokenRequests") or ()
    return table.joined(requests, "audience") if requests else "<unset>"


def _modes(document: Document, now: float) -> str:
    return ",".join(at(document, "spec", "volumeLifecycleModes") or ()) or "<none>"


def _drivers(document: Document, now: float) -> int:
    return len(at(document, "spec", "drivers") or ())


_DEFAULT_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _name(document: Document, now: float) -> str:
    """The name, and whether it is what claims get that ask for no class."""
    annotations = document["metadata"].get("annotations") or {}
    is_default = any(annotations.get(each) == "true" for each in _DEFAULT_ANNOTATIONS)
    return f"{table.name_of(document, now)} (default)" if is_default else table.name_of(document, now)


_CLASS_COLUMNS = Columns(
    (
        Column("Name", _name, format="name", description=table.NAME.description),
        Column("Provisioner", field_cell("provisioner"), description="Who makes the volumes."),
        Column(
            "ReclaimPolicy",
            field_cell("reclaimPolicy", default="Delete"),
            description="What happens to a volume that nobody claims any longer: Delete or Retain.",
        ),
        Column(
            "VolumeBindingMode",
            field_cell("volumeBindingMode", default="<unset>"),
            description="Whether volumes are made at once or when the first pod needs them.",
        ),
        Column(
            "AllowVolumeExpansion",
            field_cell("allowVolumeExpansion", default=False),
            type="string",
            description="Whether volumes may grow.",
        ),
        AGE,
    )
)
