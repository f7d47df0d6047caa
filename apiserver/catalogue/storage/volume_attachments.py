"""VolumeAttachments. Source: pkg/apis/storage/validation, ValidateVolumeAttachment; pkg/registry/storage."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType, status_without_metadata
from apiserver.catalogue.core.persistent_volumes import validate_inline_volume
from apiserver.catalogue.pod_specs.volumes import validate_csi_driver_name
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, forbidden, invalid, required, too_long
from apiserver.meta.names import byte_length
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status
from apiserver.schema.validation.checks import follows, immutable

_ATTACHMENT_BYTES_MAX: Final = 256 * 1024
_ERROR_BYTES_MAX: Final = 1024
_ONE_SOURCE: Final = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


def prepare_volume_attachment_create(document: Document) -> None:
    document["status"] = {"attached": False}


def validate_volume_attachment(document: Document, old: Document | None) -> Errors:
    """Checks an attachment as a whole, also for a status update, as Kubernetes does."""
    spec = document.get("spec", {})
    errors = validate_csi_driver_name("spec.attacher", spec.get("attacher", ""))
    source = spec.get("source", {})
    volume, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
    if volume is None and inline is None:
        errors.append(required("spec.source", _ONE_SOURCE))
    elif volume is not None and inline is not None:
        errors.append(forbidden("spec.source", _ONE_SOURCE))
    elif volume == "":
        text = "must specify non empty persistentVolumeName"
        errors.append(required("spec.source.persistentVolumeName", text))
    elif inline is not None:
        errors += validate_inline_volume("spec.source.inlineVolumeSpec", inline)
    node = spec.get("nodeName", "")
    errors += follows("spec.nodeName", node, names.dns_subdomain)
    errors += _attachment_status(document.get("status", {}))
    errors += follows("spec.source.persistentVolumeName", volume, names.dns_subdomain)
    return errors if old is None else errors + immutable("spec", spec, old.get("spec"))


def _attachment_status(status: Document) -> Errors:
    errors: Errors = []
    metadata = status.get("attachmentMetadata") or {}
    size_bytes = sum(byte_length(key) + byte_length(value) for key, value in metadata.items())
    if size_bytes > _ATTACHMENT_BYTES_MAX:
        errors.append(too_long("status.attachmentMetadata", _ATTACHMENT_BYTES_MAX))
    for field in ("attachError", "detachError"):
        error = status.get(field) or {}
        if byte_length(error.get("message", "")) > _ERROR_BYTES_MAX:
            errors.append(too_long(f"status.{field}.message", _ATTACHMENT_BYTES_MAX))
        if (code := error.get("errorCode")) is not None and code < 0:
            text = "must be between 0 and 2147483647, inclusive"
            errors.append(invalid(f"status.{field}.errorCode", code, text))
    return errors


BUILTIN_TYPE: Final = BuiltinType(
    "storage.",
    "v1",
    "volumeattachments",
    "VolumeAttachment",
    is_namespaced=False,
    subresources=(status_without_metadata(validate_volume_attachment),),
    strategy=Strategy(
        returns_deleted=True,
        allows_unconditional_update=False,
        prepare_create=prepare_volume_attachment_create,
        validate_ratcheting=validate_volume_attachment,
        update=UpdateStrategy(keep_status),
    ),
    columns=columns(
        Column("Attacher", field_cell("spec", "attacher"), "The driver of the volume."),
        Column("PV", field_cell("spec", "source", "persistentVolumeName"), "The name of the volume."),
        Column("Node", field_cell("spec", "nodeName"), "The node of the attachment."),
        Column(
            "Attached",
            field_cell("status", "attached", default=False),
            "Whether the volume is attached.",
            type="boolean",
        ),
        AGE,
    ),
)
