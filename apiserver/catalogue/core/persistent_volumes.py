"""PersistentVolumes, and rules that PersistentVolumeClaims share with them.

Source: pkg/apis/core/v1/defaults.go, pkg/apis/core/validation, ValidatePersistentVolume;
pkg/registry/core/persistentvolume. Kubernetes adds a list of the differences to its errors about changes;
here they end with the sentence.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from apiserver.catalogue.builtin_type import CORE, DEFAULT_GATES, BuiltinType
from apiserver.catalogue.common.claim_specs import (
    VOLUME_MODES,
    validate_access_modes,
    validate_class_name,
    validate_positive,
)
from apiserver.catalogue.common.node_labels import term_warnings
from apiserver.catalogue.pod_specs import volumes
from apiserver.catalogue.pod_specs.scheduling import validate_node_selector
from apiserver.catalogue.pod_specs.warnings import DEPRECATED_VOLUMES
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, forbidden, invalid, not_supported, required
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import Subresource
from apiserver.registry.strategy import STATUS, Strategy, UpdateStrategy, WriteContext, keep_status
from apiserver.schema.validation.checks import IMMUTABLE, immutable, in_range, named, one_of, quantity_of
from apiserver.schema.validation.defaults import rounding, setting
from apiserver.schema.validation.documents import at, items


def builtin_type(gates: FeatureGates = DEFAULT_GATES) -> BuiltinType:
    rules = VolumeRules(gates.is_on("MutablePVNodeAffinity"), gates.is_on("VolumeAttributesClass"))
    return BuiltinType(
        "",
        "v1",
        "persistentvolumes",
        "PersistentVolume",
        is_namespaced=False,
        short_names=("pv",),
        subresources=(Subresource("status", update=STATUS._replace(stamp=_date_transition)),),
        defaults={
            f"{CORE}PersistentVolume": _default_volume,
            f"{CORE}PersistentVolumeSpec": rounding("capacity"),
            f"{CORE}ISCSIPersistentVolumeSource": setting(iscsiInterface="default"),
            f"{CORE}RBDPersistentVolumeSource": setting(
                pool="rbd", user="admin", keyring="/etc/ceph/keyring"
            ),
            f"{CORE}ScaleIOPersistentVolumeSource": setting(storageMode="ThinProvisioned", fsType="xfs"),
        },
        strategy=Strategy(
            prepare_create=prepare_volume_create,
            validate_ratcheting=partial(validate_volume, rules=rules),
            warn=warn_volume,
            update=UpdateStrategy(keep_status),
            returns_deleted=True,
        ),
        columns=columns(
            Column("Capacity", field_cell("spec", "capacity", "storage"), "The capacity of the volume."),
            Column(
                "Access Modes",
                lambda document, now: access_modes_text(at(document, "spec", "accessModes")),
                "The access modes of the volume.",
            ),
            Column(
                "Reclaim Policy",
                field_cell("spec", "persistentVolumeReclaimPolicy"),
                "The policy for the volume after its claim is deleted.",
            ),
            PHASE_COLUMN,
            Column("Claim", _claim_of, "The claim that is bound to the volume, with its namespace."),
            STORAGE_CLASS_COLUMN,
            ATTRIBUTES_CLASS_COLUMN,
            Column("Reason", field_cell("status", "reason"), "The reason for the phase Failed."),
            AGE,
            VOLUME_MODE_COLUMN,
        ),
    )


_Check: TypeAlias = Callable[[str, Document], Errors]

_RECLAIM_POLICIES: Final = ("Delete", "Recycle", "Retain")
STORAGE_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_MOUNT_ANNOTATION: Final = "volume.beta.kubernetes.io/mount-options"


# ---- defaults


def _default_volume(volume: Document) -> None:
    setting(phase="Pending")(volume["status"])
    # Not those of a spec in a VolumeAttachment.
    setting(persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")(volume["spec"])


# ---- checks that volumes and claims share


def validate_quantity(path: str, value: Any) -> Errors:
    amount = quantity_of(value)
    return (
        [] if amount.value >= 0 else [invalid(path, amount.rounded_up(), "must be a valid resource quantity")]
    )


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


def _secret_reference(path: str, source: Document) -> Errors:
    """Checks that a reference to a Secret, if there is one, has its name and namespace."""
    secret = source.get("secretRef")
    if secret is None:
        return []
    return [required(f"{path}.secretRef.{field}") for field in ("name", "namespace") if not secret.get(field)]


def _glusterfs(path: str, source: Document) -> Errors:
    errors = volumes.required_fields("endpoints", "path")(path, source)
    namespace, path = source.get("endpointsNamespace"), f"{path}.endpointsNamespace"
    if namespace == "":
        text = "if the endpointnamespace is set, it must be a valid namespace name"
        errors.append(invalid(path, namespace, text))
    elif namespace is not None:
        errors += [invalid(path, namespace, problem) for problem in names.dns_label(namespace)]
    return errors


def _azure_file(path: str, source: Document) -> Errors:
    errors = volumes.required_fields("secretName", "shareName")(path, source)
    if source.get("secretNamespace") == "":
        errors.append(required(f"{path}.secretNamespace"))
    return errors


def _storage_os(path: str, source: Document) -> Errors:
    errors = named(f"{path}.volumeName", source.get("volumeName"), names.dns_label)
    namespace = source.get("volumeNamespace")
    errors += named(f"{path}.volumeNamespace", namespace, names.dns_label, is_required=False)
    return errors + _secret_reference(path, source)


def _iscsi(name: str, path: str, source: Document) -> Errors:
    """Checks an iSCSI source. name: that of the volume."""
    portal, initiator = source.get("targetPortal", ""), source.get("initiatorName")
    errors: Errors = [] if portal else [required(f"{path}.targetPortal")]
    if volumes.has_too_long_portal(name, source):
        errors.append(invalid(f"{path}.targetportal", portal, volumes.ISCSI_TOO_LONG_TEXT))
    if not (iqn := source.get("iqn")):
        errors.append(required(f"{path}.iqn"))
    elif not volumes.is_iscsi_name(iqn):
        errors.append(invalid(f"{path}.iqn", iqn, "must be valid format"))
    errors += in_range(f"{path}.lun", source.get("lun", 0), 0, 255)
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and "secretRef" not in source:
        errors.append(required(f"{path}.secretRef"))
    if "secretRef" in source and not source["secretRef"].get("name"):
        errors.append(required(f"{path}.secretRef.name"))
    if initiator is not None and not volumes.is_iscsi_name(initiator):
        errors.append(invalid(f"{path}.initiatorname", initiator, "must be valid format"))
    return errors


# In the order in which Kubernetes looks for them: the first is the volume's source, others are too many.
_SOURCES: Final[Mapping[str, _Check]] = {
    "hostPath": volumes.validate_host_path,
    "gcePersistentDisk": volumes.all_of(volumes.required_fields("pdName"), volumes.validate_partition),
    "awsElasticBlockStore": volumes.all_of(volumes.required_fields("volumeID"), volumes.validate_partition),
    "glusterfs": _glusterfs,
    "flocker": volumes.validate_flocker,
    "nfs": volumes.validate_nfs,
    "rbd": volumes.required_fields("monitors", "image"),
    "quobyte": volumes.validate_quobyte,
    "cephfs": volumes.required_fields("monitors"),
    "iscsi": partial(_iscsi, ""),
    "cinder": volumes.all_of(volumes.required_fields("volumeID"), _secret_reference),
    "fc": volumes.validate_fc,
    "flexVolume": volumes.validate_flex_volume,
    "azureFile": _azure_file,
    "vsphereVolume": volumes.required_fields("volumePath"),
    "photonPersistentDisk": volumes.required_fields("pdID"),
    "portworxVolume": volumes.required_fields("volumeID"),
    "azureDisk": volumes.validate_azure_disk,
    "scaleIO": volumes.required_fields("gateway", "system", "volumeName"),
    "local": _local,
    "storageos": _storage_os,
    "csi": _csi,
}
# The sources that take options of mounts from the annotation.
_MOUNTED: Final = (
    *("gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "nfs", "rbd", "quobyte", "iscsi", "cinder"),
    *("cephfs", "azureFile", "vsphereVolume", "azureDisk", "photonPersistentDisk"),
)
# Paths that Kubernetes spells in its own way.
_PATHS: Final = {"gcePersistentDisk": "persistentDisk"}
_PATHS_OF_SECOND: Final = {"cephfs": "cephFS"}
# In the order of the warnings.
_DEPRECATED_SOURCES: Final = ("cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd")


def _source(path: str, spec: Document, name: str) -> Errors:
    errors: Errors = []
    found = False
    for field, check in _SOURCES.items():
        if (source := spec.get(field)) is None:
            continue
        if found and field != "flexVolume":
            where = f"{path}.{_PATHS_OF_SECOND.get(field, field)}"
            errors.append(forbidden(where, "may not specify more than 1 volume type"))
            continue
        found = True
        where = f"{path}.{_PATHS.get(field, field)}"
        errors += _iscsi(name, where, source) if field == "iscsi" else check(where, source)
        if field == "local" and spec.get("nodeAffinity") is None:
            errors.append(required(f"{path}.nodeAffinity", "Local volume requires node affinity"))
    return errors if found else [*errors, required(path, "must specify a volume type")]


# ---- volumes


def prepare_volume_create(document: Document) -> None:
    document["status"] = {"phase": "Pending"}
    if created := document["metadata"].get("creationTimestamp"):
        document["status"]["lastPhaseTransitionTime"] = created


def _date_transition(context: WriteContext, new: Document, old: Document) -> None:
    """Sets the time of a change of the phase, unless the client does."""
    status, before = new.setdefault("status", {}), old.get("status") or {}
    given, stored = status.get(_TRANSITION), before.get(_TRANSITION)
    if status.get("phase") == before.get("phase"):
        if given is None and stored is not None:
            status[_TRANSITION] = stored
    elif given is None or given == stored:
        status[_TRANSITION] = context.now


_TRANSITION: Final = "lastPhaseTransitionTime"


class VolumeRules(NamedTuple):
    """The rules for updates of volumes that depend on feature gates.

    may_move: whether the node affinity may change. has_attributes_classes: whether the VolumeAttributesClass
        may change.
    """

    may_move: bool
    has_attributes_classes: bool


def validate_volume(document: Document, old: Document | None, *, rules: VolumeRules) -> Errors:
    spec, name = document.get("spec") or {}, document["metadata"].get("name", "")
    keeps_values = old is not None and bool(_affinity("", at(old, "spec", "nodeAffinity")))
    found = _validate_spec("spec", spec, name, keeps_values=keeps_values)
    errors = [*found]
    if _MOUNT_ANNOTATION in (at(document, "metadata", "annotations") or {}) and not any(
        spec.get(field) is not None for field in _MOUNTED
    ):
        text = "may not specify mount options for this volume type"
        errors.append(forbidden(f"metadata.annotations.{_MOUNT_ANNOTATION}", text))
    # Kubernetes checks the spec once more with an update.
    return errors if old is None else [*errors, *found, *_validate_change(spec, old, rules)]


def _validate_spec(path: str, spec: Document, name: str, *, keeps_values: bool) -> Errors:
    policy = spec.get("persistentVolumeReclaimPolicy")
    errors = _access_modes(path, spec)
    errors += _capacity(f"{path}.capacity", spec.get("capacity") or {})
    if policy:
        errors += one_of(f"{path}.persistentVolumeReclaimPolicy", policy, _RECLAIM_POLICIES)
    errors += _affinity(f"{path}.nodeAffinity", spec.get("nodeAffinity"), keeps_values=keeps_values)
    errors += _source(path, spec, name) + _recycled(path, spec)
    errors += validate_class_name(f"{path}.storageClassName", spec.get("storageClassName"))
    if (mode := spec.get("volumeMode")) is not None:
        errors += one_of(f"{path}.volumeMode", mode, VOLUME_MODES)
    return errors + _attributes_class(path, spec)


def _access_modes(path: str, spec: Document) -> Errors:
    modes, where = spec.get("accessModes") or (), f"{path}.accessModes"
    return validate_access_modes(where, modes) if modes else [required(where)]


def validate_inline_volume(path: str, spec: Document) -> Errors:
    """Checks the spec of a volume that is inline in a VolumeAttachment."""
    errors: Errors = []
    context = "in the context of inline volumes"
    not_here = f"may not be specified {context}"
    if spec.get("claimRef") is not None:
        errors.append(forbidden(f"{path}.claimRef", not_here))
    if spec.get("capacity"):
        errors.append(forbidden(f"{path}.capacity", not_here))
    if spec.get("csi") is None:
        errors.append(required(f"{path}.csi", f"has to be specified {context}"))
    errors += _access_modes(path, spec)
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy and policy != _RETAIN:
        where = f"{path}.persistentVolumeReclaimPolicy"
        errors.append(forbidden(where, f"may only be {_RETAIN} {context}"))
    if spec.get("nodeAffinity") is not None:
        errors.append(forbidden(f"{path}.nodeAffinity", not_here))
    errors += _source(path, spec, "") + _recycled(path, spec)
    if spec.get("storageClassName"):
        errors.append(forbidden(f"{path}.storageClassName", not_here))
    if spec.get("volumeMode") not in (None, _FILESYSTEM):
        text = f"may not specify volumeMode other than {_FILESYSTEM} {context}"
        errors.append(forbidden(f"{path}.volumeMode", text))
    return errors


_RETAIN: Final = "Retain"
_FILESYSTEM: Final = "Filesystem"


def _affinity(path: str, affinity: Document | None, *, keeps_values: bool = False) -> Errors:
    if affinity is None:
        return []
    if affinity.get("required") is None:
        return [required(f"{path}.required", "must specify required node constraints")]
    return validate_node_selector(
        f"{path}.required", affinity["required"], allows_invalid_values=keeps_values
    )


def _recycled(path: str, spec: Document) -> Errors:
    host_path = at(spec, "hostPath", "path") or ""
    is_root = host_path.startswith("/") and posixpath.normpath(f"/{host_path.lstrip('/')}") == "/"
    if spec.get("persistentVolumeReclaimPolicy") != "Recycle" or not is_root:
        return []
    text = "may not be 'recycle' for a hostPath mount of '/'"
    return [forbidden(f"{path}.persistentVolumeReclaimPolicy", text)]


def _attributes_class(path: str, spec: Document) -> Errors:
    name, where = spec.get("volumeAttributesClassName"), f"{path}.volumeAttributesClassName"
    if name is None:
        return []
    errors = [] if name else [required(where, "an empty string is disallowed")]
    errors += validate_class_name(where, name)
    if spec.get("csi") is None:
        errors.append(required(f"{path}.csi", "has to be specified when using volumeAttributesClassName"))
    return errors


def _capacity(path: str, capacity: Mapping[str, Any]) -> Errors:
    errors = [] if capacity else [required(path)]
    if capacity.keys() != {"storage"}:
        errors.append(not_supported(path, dict(sorted(capacity.items())) or None, ["storage"]))
    for name, value in capacity.items():
        errors += validate_quantity(f"{path}[{name}]", value) + validate_positive(f"{path}[{name}]", value)
    return errors


def _validate_change(spec: Document, old: Document, rules: VolumeRules) -> Errors:
    old_spec = old.get("spec") or {}
    errors: Errors = []
    if _sources_of(spec, old_spec) != _sources_of(old_spec, old_spec):
        text = "spec.persistentvolumesource is immutable after creation"
        errors.append(forbidden("spec.persistentvolumesource", text))
    errors += immutable("volumeMode", spec.get("volumeMode"), old_spec.get("volumeMode"))
    affinity, old_affinity = spec.get("nodeAffinity"), old_spec.get("nodeAffinity")
    if old_affinity is not None and not rules.may_move and not _is_same_affinity(affinity, old_affinity):
        errors.append(
            invalid("nodeAffinity", affinity, f"{IMMUTABLE}, except for updating from beta label to GA")
        )
    path, name = "spec.volumeAttributesClassName", spec.get("volumeAttributesClassName")
    if name != (before := old_spec.get("volumeAttributesClassName")):
        if not rules.has_attributes_classes:
            text = "update is forbidden when the VolumeAttributesClass feature gate is disabled"
            errors.append(forbidden(path, text))
        if before is not None and name is None:
            errors.append(forbidden(path, "update from non-nil value to nil is forbidden"))
    return errors


def _sources_of(spec: Document, old_spec: Document) -> Document:
    """Returns the sources in a spec, without a secret for expansion that the old spec lacks."""
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


def _is_same_affinity(new: Document | None, old: Document) -> bool:
    if new is None or (new.get("required") is None) != (old.get("required") is None):
        return False
    terms, old_terms = _terms(new), _terms(old)
    return len(terms) == len(old_terms) and all(map(_is_same_term, terms, old_terms))


def _terms(affinity: Document) -> list[Document]:
    return at(affinity, "required", "nodeSelectorTerms") or []


def _is_same_term(new: Document, old: Document) -> bool:
    return all(
        _are_same(new.get(each) or (), old.get(each) or ()) for each in ("matchExpressions", "matchFields")
    )


def _are_same(requirements: Sequence[Document], old: Sequence[Document]) -> bool:
    # A label without a new name has the empty one.
    return len(requirements) == len(old) and all(
        one == other or one == {**other, "key": _LABELS_NOW.get(other.get("key", ""), "")}
        for one, other in zip(requirements, old, strict=True)
    )


def warn_volume(new: Document, old: Document | None) -> list[str]:
    spec, annotations = new.get("spec") or {}, new["metadata"].get("annotations") or {}
    warnings = storage_class_warnings(new)
    if _MOUNT_ANNOTATION in annotations:
        text = 'deprecated since v1.31; use "mountOptions" attribute instead'
        warnings.append(f"metadata.annotations[{_MOUNT_ANNOTATION}]: {text}")
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        warnings.append(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the "
            "recommended approach is to use dynamic provisioning."
        )
    selector = at(spec, "nodeAffinity", "required") or {}
    for where, term in items(selector, "nodeSelectorTerms", "spec.nodeAffinity.required"):
        warnings += term_warnings(where, term, checks_values=False)
    for field in _DEPRECATED_SOURCES:
        if spec.get(field) is not None:
            shown, text = DEPRECATED_VOLUMES[field]
            warnings.append(f"spec.{shown}: {text}")
    return warnings


def storage_class_warnings(document: Document) -> list[str]:
    """Returns warnings about the annotation that preceded the field for the class."""
    if STORAGE_CLASS_ANNOTATION not in (document["metadata"].get("annotations") or {}):
        return []
    text = 'deprecated since v1.8; use "storageClassName" attribute instead'
    return [f"metadata.annotations[{STORAGE_CLASS_ANNOTATION}]: {text}"]


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


PHASE_COLUMN: Final = Column("Status", _volume_phase, "The phase of the volume.")
STORAGE_CLASS_COLUMN: Final = Column("StorageClass", _storage_class, "The storage class of the volume.")
ATTRIBUTES_CLASS_COLUMN: Final = Column(
    "VolumeAttributesClass",
    field_cell("spec", "volumeAttributesClassName", default="<unset>"),
    "The VolumeAttributesClass of the volume.",
)
VOLUME_MODE_COLUMN: Final = Column(
    "VolumeMode",
    field_cell("spec", "volumeMode", default="<unset>"),
    "The volume mode: Filesystem or Block.",
    priority=1,
)
