"""PersistentVolumes, and what PersistentVolumeClaims share with them.

Source: pkg/apis/core/v1/defaults.go, pkg/apis/core/validation, ValidatePersistentVolume;
pkg/registry/core/persistentvolume. Kubernetes adds to its errors of changes a listing of the differences;
here they end with the sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from apiserver.catalogue.builtin_type import CORE, STATUS_SUBRESOURCE, BuiltinType
from apiserver.catalogue.common.claim_specs import (
    VOLUME_MODES,
    validate_access_modes,
    validate_class_name,
    validate_positive,
    warn_fraction,
)
from apiserver.catalogue.pod_specs import volumes
from apiserver.catalogue.pod_specs.scheduling import validate_node_selector
from apiserver.catalogue.pod_specs.warnings import DEPRECATED_NODE_LABELS
from apiserver.field_errors import Errors, forbidden, invalid, not_supported, required
from apiserver.meta import names
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status
from apiserver.schema.compile import Default
from apiserver.validation.checks import (
    IMMUTABLE,
    immutable,
    named,
    one_of,
    quantity_of,
)
from apiserver.validation.defaults import setting
from apiserver.validation.documents import at
from apiserver.vocabulary import Document


def builtin_type() -> BuiltinType:
    return BuiltinType(
        "",
        "v1",
        "persistentvolumes",
        "PersistentVolume",
        f"{CORE}PersistentVolume",
        is_namespaced=False,
        short_names=("pv",),
        subresources=(STATUS_SUBRESOURCE,),
        defaults=DEFAULTS,
        strategy=Strategy(
            prepare_create=prepare_volume_create,
            validate=validate_volume,
            warn=warn_volume,
            update=UpdateStrategy(keep_status, validate_volume_update),
            returns_deleted=True,
        ),
        columns=_COLUMNS,
    )


_Check: TypeAlias = Callable[[str, Document], Errors]

_RECLAIM_POLICIES: Final = ("Delete", "Recycle", "Retain")
STORAGE_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_MOUNT_ANNOTATION: Final = "volume.beta.kubernetes.io/mount-options"
STORAGE_CLASS_WARNING: Final = 'deprecated since v1.8; use "storageClassName" attribute instead'


# ---- defaults


def _default_volume(volume: Document) -> None:
    setting(phase="Pending")(volume["status"])


DEFAULTS: Final[Mapping[str, Default]] = MappingProxyType(
    {
        f"{CORE}PersistentVolume": _default_volume,
        f"{CORE}PersistentVolumeSpec": setting(
            persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem"
        ),
        f"{CORE}ISCSIPersistentVolumeSource": setting(iscsiInterface="default"),
        f"{CORE}RBDPersistentVolumeSource": setting(pool="rbd", user="admin", keyring="/etc/ceph/keyring"),
        f"{CORE}ScaleIOPersistentVolumeSource": setting(storageMode="ThinProvisioned", fsType="xfs"),
    }
)


# ---- checks that volumes and claims share


def validate_quantity(path: str, value: Any) -> Errors:
    amount = quantity_of(value)
    return (
        [] if amount.value >= 0 else [invalid(path, amount.rounded_up(), "must be a valid resource quantity")]
    )


def validate_attributes_class_change(new: Document, old: Document, *, takes_empty: bool) -> Errors:
    """Checks that the VolumeAttributesClass may change but not be removed."""
    path, name = "spec.volumeAttributesClassName", new.get("volumeAttributesClassName")
    if old.get("volumeAttributesClassName") is None:
        return []
    if name is None:
        return [forbidden(path, "update from non-nil value to nil is forbidden")]
    if not name and not takes_empty:
        return [forbidden(path, "update from non-nil value to an empty string is forbidden")]
    return []


# ---- sources of volumes


def _secret(path: str, reference: Document | None) -> Errors:
    if reference is None:
        return []
    errors = named(f"{path}.name", reference.get("name"), names.dns_subdomain)
    return errors + named(f"{path}.namespace", reference.get("namespace"), names.dns_label)


def _csi(path: str, source: Document) -> Errors:
    errors = volumes.validate_csi_driver_name(f"{path}.driver", source.get("driver", ""))
    errors += volumes.required_fields("volumeHandle")(path, source)
    for field in ("controllerPublish", "controllerExpand", "nodePublish", "nodeExpand"):
        errors += _secret(f"{path}.{field}SecretRef", source.get(f"{field}SecretRef"))
    return errors


def _local(path: str, source: Document) -> Errors:
    if not source.get("path"):
        return [required(f"{path}.path")]
    return volumes.validate_no_backsteps(f"{path}.path", source["path"])


def _with_secret(*fields: str) -> _Check:
    check = volumes.required_fields(*fields)
    return lambda path, source: check(path, source) + _secret(f"{path}.secretRef", source.get("secretRef"))


# In the order in which Kubernetes looks for them: the first is the volume's source, others are too many.
_SOURCES: Final[Mapping[str, _Check]] = {
    "hostPath": volumes.validate_host_path,
    "gcePersistentDisk": volumes.required_fields("pdName"),
    "awsElasticBlockStore": volumes.required_fields("volumeID"),
    "glusterfs": volumes.required_fields("endpoints", "path"),
    "flocker": volumes.validate_flocker,
    "nfs": volumes.validate_nfs,
    "rbd": volumes.required_fields("monitors", "image"),
    "quobyte": volumes.validate_quobyte,
    "cephfs": volumes.required_fields("monitors"),
    "iscsi": volumes.validate_iscsi,
    "cinder": _with_secret("volumeID"),
    "fc": volumes.validate_fc,
    "flexVolume": volumes.validate_flex_volume,
    "azureFile": volumes.required_fields("secretName", "shareName"),
    "vsphereVolume": volumes.required_fields("volumePath"),
    "photonPersistentDisk": volumes.required_fields("pdID"),
    "portworxVolume": volumes.required_fields("volumeID"),
    "azureDisk": volumes.validate_azure_disk,
    "scaleIO": volumes.required_fields("gateway", "system", "volumeName"),
    "local": _local,
    "storageos": volumes.required_fields("volumeName"),
    "csi": _csi,
}
# Paths that Kubernetes spells in its own way.
_PATHS: Final = {"gcePersistentDisk": "persistentDisk"}
_PATHS_OF_SECOND: Final = {"cephfs": "cephFS"}
_DEPRECATED_SOURCES: Final = {
    "photonPersistentDisk": "photonPersistentDisk: deprecated in v1.11, non-functional in v1.16+",
    "scaleIO": "scaleIO: deprecated in v1.16, non-functional in v1.22+",
    "storageos": "storageOS: deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "glusterfs: deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "cephfs: deprecated in v1.28, non-functional in v1.31+",
    "rbd": "rbd: deprecated in v1.28, non-functional in v1.31+",
}


def _source(spec: Document) -> Errors:
    errors: Errors = []
    found = False
    for field, check in _SOURCES.items():
        if (source := spec.get(field)) is None:
            continue
        if found and field != "flexVolume":
            where = f"spec.{_PATHS_OF_SECOND.get(field, field)}"
            errors.append(forbidden(where, "may not specify more than 1 volume type"))
            continue
        found = True
        errors += check(f"spec.{_PATHS.get(field, field)}", source)
        if field == "local" and spec.get("nodeAffinity") is None:
            errors.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    return errors if found else [*errors, required("spec", "must specify a volume type")]


# ---- volumes


def prepare_volume_create(document: Document) -> None:
    document["status"] = {"phase": "Pending"}
    if created := document["metadata"].get("creationTimestamp"):
        document["status"]["lastPhaseTransitionTime"] = created


def validate_volume(document: Document) -> Errors:
    spec = document.get("spec") or {}
    modes, policy = spec.get("accessModes") or (), spec.get("persistentVolumeReclaimPolicy")
    errors = [] if modes else [required("spec.accessModes")]
    errors += validate_access_modes("spec.accessModes", modes) + _capacity(spec.get("capacity") or {})
    if policy:
        errors += one_of("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM_POLICIES)
    if (affinity := spec.get("nodeAffinity")) is not None:
        where = "spec.nodeAffinity.required"
        if affinity.get("required") is None:
            errors.append(required(where, "must specify required node constraints"))
        else:
            errors += validate_node_selector(where, affinity["required"])
    errors += _source(spec)
    host_path = at(spec, "hostPath", "path") or ""
    if policy == "Recycle" and host_path.startswith("/") and not host_path.strip("/."):
        text = "may not be 'recycle' for a hostPath mount of '/'"
        errors.append(forbidden("spec.persistentVolumeReclaimPolicy", text))
    errors += validate_class_name("spec.storageClassName", spec.get("storageClassName"))
    if (mode := spec.get("volumeMode")) is not None:
        errors += one_of("spec.volumeMode", mode, VOLUME_MODES)
    if (name := spec.get("volumeAttributesClassName")) is not None:
        path = "spec.volumeAttributesClassName"
        errors += (
            validate_class_name(path, name) if name else [required(path, "an empty string is disallowed")]
        )
        if spec.get("csi") is None:
            text = "has to be specified when using volumeAttributesClassName"
            errors.append(required("spec.csi", text))
    return errors


def _capacity(capacity: Mapping[str, Any]) -> Errors:
    errors = [] if capacity else [required("spec.capacity")]
    if capacity.keys() != {"storage"}:
        errors.append(not_supported("spec.capacity", dict(capacity), ["storage"]))
    for name, value in capacity.items():
        errors += validate_quantity(f"spec.capacity[{name}]", value) + validate_positive(
            f"spec.capacity[{name}]", value
        )
    return errors


def validate_volume_update(new: Document, old: Document) -> Errors:
    spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    errors: Errors = []
    if _sources_of(spec, old_spec) != _sources_of(old_spec, old_spec):
        text = "spec.persistentvolumesource is immutable after creation"
        errors.append(forbidden("spec.persistentvolumesource", text))
    errors += immutable("volumeMode", spec.get("volumeMode"), old_spec.get("volumeMode"))
    affinity, old_affinity = spec.get("nodeAffinity"), old_spec.get("nodeAffinity")
    if old_affinity is not None and not _is_same_affinity(affinity or {}, old_affinity):
        errors.append(
            invalid("nodeAffinity", affinity, f"{IMMUTABLE}, except for updating from beta label to GA")
        )
    return errors + validate_attributes_class_change(spec, old_spec, takes_empty=True)


def _sources_of(spec: Document, old_spec: Document) -> Document:
    """Returns the sources of a spec, without a secret for expansion that the old spec lacks."""
    found = {field: spec[field] for field in _SOURCES if spec.get(field) is not None}
    if "csi" in found and "controllerExpandSecretRef" not in (old_spec.get("csi") or {}):
        found["csi"] = {k: v for k, v in found["csi"].items() if k != "controllerExpandSecretRef"}
    return found


# The stable labels of nodes by their beta names.
_LABELS_NOW: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}


def _is_same_affinity(new: Document, old: Document) -> bool:
    terms, old_terms = _terms(new), _terms(old)
    return len(terms) == len(old_terms) and all(map(_is_same_term, terms, old_terms))


def _terms(affinity: Document) -> list[Document]:
    return at(affinity, "required", "nodeSelectorTerms") or []


def _is_same_term(new: Document, old: Document) -> bool:
    expressions, old_expressions = new.get("matchExpressions") or (), old.get("matchExpressions") or ()
    if len(expressions) != len(old_expressions) or new.get("matchFields") != old.get("matchFields"):
        return False
    return all(
        one == other or one == {**other, "key": _LABELS_NOW.get(other.get("key", ""))}
        for one, other in zip(expressions, old_expressions, strict=True)
    )


def warn_volume(new: Document, old: Document | None) -> list[str]:
    spec, annotations = new.get("spec") or {}, new["metadata"].get("annotations") or {}
    warnings = []
    for index, term in enumerate(_terms(spec.get("nodeAffinity") or {})):
        for place, expression in enumerate(term.get("matchExpressions") or ()):
            key = expression.get("key", "")
            if text := DEPRECATED_NODE_LABELS.get(key):
                where = f"spec.nodeAffinity.required.nodeSelectorTerms[{index}].matchExpressions[{place}].key"
                warnings.append(f"{where}: {key} is {text}")
    if STORAGE_CLASS_ANNOTATION in annotations:
        warnings.append(f"metadata.annotations[{STORAGE_CLASS_ANNOTATION}]: {STORAGE_CLASS_WARNING}")
    if _MOUNT_ANNOTATION in annotations:
        text = 'deprecated since v1.31; use "mountOptions" attribute instead'
        warnings.append(f"metadata.annotations[{_MOUNT_ANNOTATION}]: {text}")
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        warnings.append(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the "
            "recommended approach is to use dynamic provisioning."
        )
    warnings += [f"spec.{text}" for field, text in _DEPRECATED_SOURCES.items() if spec.get(field) is not None]
    return warnings + warn_fraction("spec.capacity[storage]", at(spec, "capacity", "storage"))


# ---- columns

_MODES_SHOWN: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def access_modes_text(modes: Any) -> str:
    return ",".join(short for mode, short in _MODES_SHOWN.items() if mode in (modes or ()))


def _volume_phase(document: Document, now: float) -> str:
    if document["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return at(document, "status", "phase") or ""


def _claim_of(document: Document, now: float) -> str:
    claim = at(document, "spec", "claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _storage_class(document: Document, now: float) -> str:
    annotations = document["metadata"].get("annotations") or {}
    named = annotations.get(STORAGE_CLASS_ANNOTATION)
    return named if named is not None else at(document, "spec", "storageClassName") or ""


PHASE_COLUMN: Final = Column(
    "Status", _volume_phase, description="The phase: whether it is free, bound, or on its way out."
)
STORAGE_CLASS_COLUMN: Final = Column(
    "StorageClass", _storage_class, description="The class of storage it belongs to."
)
ATTRIBUTES_CLASS_COLUMN: Final = Column(
    "VolumeAttributesClass",
    field_cell("spec", "volumeAttributesClassName", default="<unset>"),
    description="The class from which the volume's attributes are taken.",
)
VOLUME_MODE_COLUMN: Final = Column(
    "VolumeMode",
    field_cell("spec", "volumeMode", default="<unset>"),
    priority=1,
    description="Whether it is used as a file system or as a raw block device.",
)
_COLUMNS: Final = columns(
    Column("Capacity", field_cell("spec", "capacity", "storage"), description="How much the volume holds."),
    Column(
        "Access Modes",
        lambda document, now: access_modes_text(at(document, "spec", "accessModes")),
        description="The ways in which nodes and pods can use the volume.",
    ),
    Column(
        "Reclaim Policy",
        field_cell("spec", "persistentVolumeReclaimPolicy"),
        description="What becomes of the volume when nobody claims it any more.",
    ),
    PHASE_COLUMN,
    Column("Claim", _claim_of, description="The claim that has the volume, with its namespace."),
    STORAGE_CLASS_COLUMN,
    ATTRIBUTES_CLASS_COLUMN,
    Column("Reason", field_cell("status", "reason"), description="Why the volume has failed, if it has."),
    AGE,
    VOLUME_MODE_COLUMN,
)
