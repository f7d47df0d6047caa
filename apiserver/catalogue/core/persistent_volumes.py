"""What is set, checked and told of PersistentVolumes and PersistentVolumeClaims.

Source: pkg/apis/core/v1/defaults.go, pkg/apis/core/validation (ValidatePersistentVolume,
ValidatePersistentVolumeClaim), pkg/registry/core/persistentvolume, persistentvolumeclaim. Kubernetes adds to
its errors of changes a listing of the differences; here they end with the sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from apiserver.catalogue.pod_specs import volumes
from apiserver.catalogue.pod_specs.resource_requirements import is_native_resource
from apiserver.catalogue.pod_specs.scheduling import validate_node_selector
from apiserver.catalogue.pod_specs.warnings import DEPRECATED_NODE_LABELS
from apiserver.field_errors import forbidden, invalid, not_supported, required
from apiserver.meta import names
from apiserver.registry.strategy import keep_status
from apiserver.schema.compile import Default
from apiserver.validation.checks import (
    CORE,
    IMMUTABLE,
    Errors,
    at,
    immutable,
    label_selector,
    named,
    non_negative_quantity,
    one_of,
    quantity_of,
    setting,
)
from apiserver.vocabulary import Document

_Check: TypeAlias = Callable[[str, Document], Errors]

_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_RECLAIM_POLICIES: Final = ("Delete", "Recycle", "Retain")
VOLUME_MODES: Final = ("Block", "Filesystem")
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_MOUNT_ANNOTATION: Final = "volume.beta.kubernetes.io/mount-options"
STORAGE_CLASS_WARNING: Final = 'deprecated since v1.8; use "storageClassName" attribute instead'


# ---- defaults


def _default_claim(claim: Document) -> None:
    setting(phase="Pending")(claim["status"])


def _default_volume(volume: Document) -> None:
    setting(phase="Pending")(volume["status"])


DEFAULTS: Final[Mapping[str, Default]] = MappingProxyType(
    {
        f"{CORE}PersistentVolume": _default_volume,
        f"{CORE}PersistentVolumeSpec": setting(
            persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem"
        ),
        f"{CORE}PersistentVolumeClaim": _default_claim,
        f"{CORE}PersistentVolumeClaimSpec": setting(volumeMode="Filesystem"),
        f"{CORE}ISCSIPersistentVolumeSource": setting(iscsiInterface="default"),
        f"{CORE}RBDPersistentVolumeSource": setting(pool="rbd", user="admin", keyring="/etc/ceph/keyring"),
        f"{CORE}ScaleIOPersistentVolumeSource": setting(storageMode="ThinProvisioned", fsType="xfs"),
    }
)


# ---- what volumes and claims share


def validate_access_modes(path: str, modes: Sequence[str]) -> Errors:
    errors = [error for mode in modes for error in one_of(path, mode, _ACCESS_MODES)]
    if "ReadWriteOncePod" in modes and set(modes) & {*_ACCESS_MODES} - {"ReadWriteOncePod"}:
        errors.append(forbidden(path, "may not use ReadWriteOncePod with other access modes"))
    return errors


def validate_positive(path: str, value: Any) -> Errors:
    return [] if quantity_of(value).value > 0 else [invalid(path, value, "must be greater than zero")]


def validate_quantity(path: str, value: Any) -> Errors:
    amount = quantity_of(value)
    return (
        [] if amount.value >= 0 else [invalid(path, amount.rounded_up(), "must be a valid resource quantity")]
    )


def validate_class_name(path: str, name: str | None) -> Errors:
    return named(path, name, names.dns_subdomain, is_required=False)


def validate_attributes_class_change(new: Document, old: Document, *, takes_empty: bool) -> Errors:
    """The class of attributes can be changed, and not be taken away."""
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
    errors += volumes.needs("volumeHandle")(path, source)
    for field in ("controllerPublish", "controllerExpand", "nodePublish", "nodeExpand"):
        errors += _secret(f"{path}.{field}SecretRef", source.get(f"{field}SecretRef"))
    return errors


def _local(path: str, source: Document) -> Errors:
    if not source.get("path"):
        return [required(f"{path}.path")]
    return volumes.validate_no_backsteps(f"{path}.path", source["path"])


def _with_secret(*fields: str) -> _Check:
    check = volumes.needs(*fields)
    return lambda path, source: check(path, source) + _secret(f"{path}.secretRef", source.get("secretRef"))


# In the order in which Kubernetes looks for them: the first is the volume's source, others are too many.
_SOURCES: Final[Mapping[str, _Check]] = {
    "hostPath": volumes.host_path,
    "gcePersistentDisk": volumes.needs("pdName"),
    "awsElasticBlockStore": volumes.needs("volumeID"),
    "glusterfs": volumes.needs("endpoints", "path"),
    "flocker": volumes.validate_flocker,
    "nfs": volumes.validate_nfs,
    "rbd": volumes.needs("monitors", "image"),
    "quobyte": volumes.validate_quobyte,
    "cephfs": volumes.needs("monitors"),
    "iscsi": volumes.validate_iscsi,
    "cinder": _with_secret("volumeID"),
    "fc": volumes.validate_fc,
    "flexVolume": volumes.validate_flex_volume,
    "azureFile": volumes.needs("secretName", "shareName"),
    "vsphereVolume": volumes.needs("volumePath"),
    "photonPersistentDisk": volumes.needs("pdID"),
    "portworxVolume": volumes.needs("volumeID"),
    "azureDisk": volumes.validate_azure_disk,
    "scaleIO": volumes.needs("gateway", "system", "volumeName"),
    "local": _local,
    "storageos": volumes.needs("volumeName"),
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


prepare_volume_update: Final = keep_status


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
    """The sources; a secret for expanding that was not there before may come."""
    found = {field: spec[field] for field in _SOURCES if spec.get(field) is not None}
    if "csi" in found and "controllerExpandSecretRef" not in (old_spec.get("csi") or {}):
        found["csi"] = {k: v for k, v in found["csi"].items() if k != "controllerExpandSecretRef"}
    return found


# What a beta label of nodes has become.
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
    told = []
    for index, term in enumerate(_terms(spec.get("nodeAffinity") or {})):
        for place, expression in enumerate(term.get("matchExpressions") or ()):
            key = expression.get("key", "")
            if text := DEPRECATED_NODE_LABELS.get(key):
                where = f"spec.nodeAffinity.required.nodeSelectorTerms[{index}].matchExpressions[{place}].key"
                told.append(f"{where}: {key} is {text}")
    if _CLASS_ANNOTATION in annotations:
        told.append(f"metadata.annotations[{_CLASS_ANNOTATION}]: {STORAGE_CLASS_WARNING}")
    if _MOUNT_ANNOTATION in annotations:
        text = 'deprecated since v1.31; use "mountOptions" attribute instead'
        told.append(f"metadata.annotations[{_MOUNT_ANNOTATION}]: {text}")
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        told.append(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the "
            "recommended approach is to use dynamic provisioning."
        )
    told += [f"spec.{text}" for field, text in _DEPRECATED_SOURCES.items() if spec.get(field) is not None]
    return told + _fraction("spec.capacity[storage]", at(spec, "capacity", "storage"))


def _fraction(path: str, value: Any) -> list[str]:
    if quantity_of(value).value % Decimal(1) == 0:
        return []
    return [f'{path}: fractional byte value "{value}" is invalid, must be an integer']


# ---- claims


def prepare_claim_create(document: Document) -> None:
    document["status"] = {"phase": "Pending"}
    spec = document.get("spec") or {}
    _drop_data_sources(spec, {})
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None:
        spec["dataSource"] = {k: v for k, v in reference.items() if k != "namespace"}


def prepare_claim_update(new: Document, old: Document) -> None:
    keep_status(new, old)
    _drop_data_sources(new.get("spec") or {}, old.get("spec") or {})


def _drop_data_sources(spec: Document, old: Document) -> None:
    """What is no source that claims may have is dropped without a word, as ever."""
    if at(spec, "dataSourceRef", "namespace") and old.get("dataSourceRef") is None:
        del spec["dataSourceRef"]
    if old.get("dataSource") is not None or old.get("dataSourceRef") is not None:
        return
    source = spec.get("dataSource") or {}
    known = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))
    if spec.get("dataSourceRef") is None and (source.get("apiGroup") or "", source.get("kind")) not in known:
        spec.pop("dataSource", None)


def validate_claim(document: Document) -> Errors:
    spec = document.get("spec") or {}
    modes = spec.get("accessModes") or ()
    errors = [] if modes else [required("spec.accessModes", "at least 1 access mode is required")]
    errors += label_selector("spec.selector", spec.get("selector"))
    errors += validate_access_modes("spec.accessModes", modes)
    size, where = at(spec, "resources", "requests", "storage"), "spec.resources[storage]"
    errors += validate_positive(where, size) if size is not None else [required(where)]
    errors += validate_class_name("spec.storageClassName", spec.get("storageClassName"))
    if (mode := spec.get("volumeMode")) is not None:
        errors += one_of("spec.volumeMode", mode, VOLUME_MODES)
    errors += _data_sources(spec)
    return errors + validate_class_name(
        "spec.volumeAttributesClassName", spec.get("volumeAttributesClassName")
    )


def _data_sources(spec: Document) -> Errors:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    errors: Errors = []
    if source is not None:
        errors += _data_source("spec.dataSource", source)
    if reference is not None:
        errors += _data_source("spec.dataSourceRef", reference)
        namespace = reference.get("namespace")
        errors += named("spec.dataSourceRef.namespace", namespace, names.dns_label, is_required=False)
        if source is not None and namespace:
            text = "may not be specified when dataSourceRef.namespace is specified"
            errors.append(invalid("spec", "spec.dataSource", text))
        elif source is not None and source != {k: v for k, v in reference.items() if k != "namespace"}:
            errors.append(invalid("spec", "spec.dataSource", "must match dataSourceRef"))
    return errors


def _data_source(path: str, source: Document) -> Errors:
    group, kind = source.get("apiGroup") or "", source.get("kind", "")
    errors = volumes.needs("name", "kind")(path, source)
    if not group and kind != "PersistentVolumeClaim":
        text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        errors.append(invalid(path, kind, text))
    return errors + named(f"{path}.apiGroup", group, names.dns_subdomain, is_required=False)


def validate_claim_update(new: Document, old: Document) -> Errors:
    """A claim that is bound can grow; all else stays as it is."""
    spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    annotations, old_annotations = (each["metadata"].get("annotations") or {} for each in (new, old))
    before, now = old_annotations.get(_CLASS_ANNOTATION), annotations.get(_CLASS_ANNOTATION)
    name, old_name = spec.get("storageClassName"), old_spec.get("storageClassName")
    # The class may come, or move here from the annotation that was its place once.
    moves = before is not None and old_name is None and name == before and now in (None, before)
    errors: Errors = []
    if not moves and now != before:
        where = f"metadata.annotations[{_CLASS_ANNOTATION}]"
        errors.append(invalid(where, now or "", IMMUTABLE))
    comes = old_name is None and name is not None and before in (None, name)
    if _kept(spec, new, old_spec, any_class=moves or comes) != _kept(
        old_spec, new, old_spec, any_class=moves or comes
    ):
        text = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for "
            "bound claims"
        )
        errors.append(forbidden("spec", text))
    size, old_size = (at(each, "resources", "requests", "storage") for each in (spec, old_spec))
    # What could not be made larger may be asked for in a smaller size, though not in one that is had already.
    has = quantity_of(at(old, "status", "capacity", "storage"))
    if quantity_of(size) < quantity_of(old_size) and quantity_of(size) <= has:
        errors.append(
            forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")
        )
    errors += immutable("volumeMode", spec.get("volumeMode"), old_spec.get("volumeMode"))
    return errors + validate_attributes_class_change(spec, old_spec, takes_empty=False)


def _kept(spec: Document, new: Document, old_spec: Document, *, any_class: bool) -> Document:
    """What of a spec may not change."""
    kept = dict(spec)
    if not old_spec.get("volumeName"):
        kept.pop("volumeName", None)
    if any_class:
        kept.pop("storageClassName", None)
    if at(new, "status", "phase") == "Bound":
        if at(new, "spec", "volumeAttributesClassName") is not None:
            kept.pop("volumeAttributesClassName", None)
        requests = {k: v for k, v in (at(spec, "resources", "requests") or {}).items() if k != "storage"}
        kept["resources"] = {**(spec.get("resources") or {}), "requests": requests}
    return kept


_RESIZE_STATUSES: Final = (
    *("ControllerResizeInProgress", "ControllerResizeInfeasible"),
    *("NodeResizeInProgress", "NodeResizeInfeasible", "NodeResizePending"),
)


def validate_claim_status(new: Document, old: Document) -> Errors:
    status = new.get("status") or {}
    errors: Errors = []
    for name, value in (status.get("capacity") or {}).items():
        errors += validate_quantity(f"status.capacity[{name}]", value)
    path = "status.allocatedResourceStatus"
    for name, value in (status.get("allocatedResourceStatuses") or {}).items():
        errors += _claim_resource(path, name)
        if value not in _RESIZE_STATUSES:
            errors.append(not_supported(path, name, sorted(_RESIZE_STATUSES)))
    path = "status.allocatedResources"
    for name, value in (status.get("allocatedResources") or {}).items():
        where = f"{path}[{name}]"
        errors += (
            _claim_resource(path, name)
            or validate_quantity(where, value)
            or non_negative_quantity(where, value)
        )
    return errors


def _claim_resource(path: str, name: str) -> Errors:
    errors = [invalid(path, name, problem) for problem in names.qualified_name(name)]
    if not errors and is_native_resource(name) and name != "storage":
        errors.append(not_supported(path, name, ["storage"]))
    return errors


def warn_claim(new: Document, old: Document | None) -> list[str]:
    spec, told = new.get("spec") or {}, []
    if _CLASS_ANNOTATION in (new["metadata"].get("annotations") or {}):
        told.append(f"metadata.annotations[{_CLASS_ANNOTATION}]: {STORAGE_CLASS_WARNING}")
    for field in ("requests", "limits"):
        told += _fraction(f"spec.resources.{field}[storage]", at(spec, "resources", field, "storage"))
    return told
