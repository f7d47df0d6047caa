"""Volumes of pods: each has one source, and each source has its rules.

Source: pkg/apis/core/validation, ValidateVolumes and validateVolumeSource.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from apiserver.catalogue.common.claim_specs import validate_claim_metadata, validate_claim_spec
from apiserver.catalogue.common.signer_names import (
    POD_CERTIFICATE_S_MIN,
    bundle_name_problems,
    pod_certificate_s_max,
    validate_signer_name,
    validate_user_annotations,
)
from apiserver.catalogue.pod_specs.field_references import (
    validate_field_selector,
    validate_resource_field_selector,
)
from apiserver.meta import names
from apiserver.meta.field_errors import (
    Errors,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.checks import in_range, named, one_of, quantity_of
from apiserver.schema.validation.documents import at, items
from apiserver.schema.validation.label_selectors import label_selector

_Check: TypeAlias = Callable[[str, Document], Errors]

PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_HOST_PATH_TYPES: Final = (
    *("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"),
)
_CACHING_MODES: Final = ("None", "ReadOnly", "ReadWrite")
_DISK_KINDS: Final = ("Dedicated", "Managed", "Shared")
_MANAGED_DISK: Final = (
    "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
)
_BLOB_DISK: Final = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
_ISCSI_NAMES: Final = {
    "iqn": re.compile(r"(?s:.*)iqn\.\d{4}-\d{2}\.[A-Za-z0-9-.]+:[^,;*&$|\s]+", re.ASCII),
    "eui": re.compile("eui.[A-Za-z0-9]{16}"),
    "naa": re.compile("naa.[A-Za-z0-9]{32}"),
}
_ISCSI_NAME_BYTES_MAX: Final = 64
ISCSI_TOO_LONG_TEXT: Final = (
    f"Total length of <volume name>:<iscsi.targetPortal> must be under {_ISCSI_NAME_BYTES_MAX} characters if "
    "iscsi.initiatorName is specified."
)
_MORE_THAN_ONE: Final = "may not specify more than 1 volume type"


class VolumeOwner(NamedTuple):
    """The pod or the template with some volumes.

    is_pod: whether it is a pod, and not a template. name: the pod's name, if it has one yet.
    any_token_paths: whether to skip checks of paths of projected tokens.
    """

    is_pod: bool
    name: str = ""
    any_token_paths: bool = False


def validate_volumes(path: str, spec: Document, owner: VolumeOwner) -> tuple[dict[str, Document], Errors]:
    """Returns the valid volumes by name, and the errors in all. path: that of the pod spec."""
    errors: Errors = []
    good: dict[str, Document] = {}
    volumes = spec.get("volumes") or ()
    claims = (
        {f"{owner.name}-{v.get('name', '')}" for v in volumes if "ephemeral" in v} if owner.name else set()
    )
    for where, volume in items(spec, "volumes", path):
        name = volume.get("name", "")
        wrong = _source(where, volume, owner)
        if not name or names.dns_label(name):
            wrong += named(f"{where}.name", name, names.dns_label)
        if name in good:
            wrong.append(duplicate(f"{where}.name", name))
        if not wrong:
            good[name] = volume
        errors += wrong
        if claims and (claim := at(volume, "persistentVolumeClaim", "claimName")) in claims:
            text = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(invalid(f"{where}.persistentVolumeClaim.claimName", claim, text))
    return good, errors


def _source(path: str, volume: Document, owner: VolumeOwner) -> Errors:
    errors: Errors = []
    found = 0
    given = [field for field in volume if field in _SOURCES]
    for field in given if len(given) < 2 else filter(given.__contains__, _SOURCES):
        source = volume[field]
        if source is None:
            continue
        found += 1
        if found > 1:
            errors.append(forbidden(f"{path}.{_PATHS_OF_SECOND.get(field, field)}", _MORE_THAN_ONE))
        else:
            errors += _SOURCES[field](f"{path}.{_PATHS.get(field, field)}", source)
            if field == "ephemeral":
                errors += _claim_name(path, volume.get("name", ""), owner.name)
            elif field == "image":
                errors += _image(f"{path}.{field}", source, owner.is_pod)
            elif field == "projected":
                errors += _projected(f"{path}.{field}", source, owner.any_token_paths)
        if field == "iscsi" and has_too_long_portal(volume.get("name", ""), source):
            errors.append(invalid(f"{path}.name", volume.get("name", ""), ISCSI_TOO_LONG_TEXT))
    if not found:
        errors.append(required(path, "must specify a volume type"))
    return errors


# ---- checks that sources share


def required_fields(*fields: str) -> _Check:
    """Returns a check that these texts or lists are not empty."""

    def check(path: str, source: Document) -> Errors:
        errors: Errors = []
        for field in fields:
            if not source.get(field):
                errors.append(required(f"{path}.{field}"))
        return errors

    return check


def all_of(*checks: _Check) -> _Check:
    """Returns a check that combines several checks."""

    def check(path: str, source: Document) -> Errors:
        errors: Errors = []
        for each in checks:
            errors += each(path, source)
        return errors

    return check


def validate_partition(path: str, source: Document) -> Errors:
    number = source.get("partition", 0)
    if 0 <= number <= 255:
        return []
    return [invalid(f"{path}.partition", number, "must be between 1 and 255, inclusive")]


def _secret_name(path: str, source: Document) -> Errors:
    secret = source.get("secretRef")
    return [required(f"{path}.secretRef.name")] if secret is not None and not secret.get("name") else []


def _file_mode(path: str, field: str, source: Document) -> Errors:
    mode = source.get(field)
    if mode is None or 0 <= mode <= 0o777:
        return []
    return [invalid(f"{path}.{field}", mode, "must be a number between 0 and 0777 (octal), both inclusive")]


# ---- paths


def validate_no_backsteps(path: str, value: str) -> Errors:
    return [invalid(path, value, "must not contain '..'")] if ".." in value.split("/") else []


def validate_descending_path(path: str, value: str) -> Errors:
    """Checks a relative path that never leaves its start."""
    errors = [invalid(path, value, "must be a relative path")] if value.startswith("/") else []
    return errors + validate_no_backsteps(path, value)


def validate_local_path(path: str, value: str) -> Errors:
    """Checks a descending path without a prefix that is reserved for kubelets."""
    errors = validate_descending_path(path, value)
    if value.startswith("..") and not value.startswith("../"):
        errors.append(invalid(path, value, "must not start with '..'"))
    return errors


# ---- sources


def _empty_dir(path: str, source: Document) -> Errors:
    if "sizeLimit" in source and quantity_of(source["sizeLimit"]).value < 0:
        return [forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")]
    return []


def validate_host_path(path: str, source: Document) -> Errors:
    if not source.get("path"):
        return [required(f"{path}.path")]
    errors = validate_no_backsteps(f"{path}.path", source["path"])
    if "type" in source:
        errors += one_of(f"{path}.type", source["type"], _HOST_PATH_TYPES)
    return errors


def _git_repo(path: str, source: Document) -> Errors:
    return required_fields("repository")(path, source) + validate_descending_path(
        f"{path}.directory", source.get("directory", "")
    )


def _keys(path: str, source: Document) -> Errors:
    errors = _file_mode(path, "defaultMode", source)
    for where, item in items(source, "items", path):
        errors += _key_to_path(where, item)
    return errors


_needs_key_and_path: Final = required_fields("key", "path")


def _key_to_path(path: str, item: Document) -> Errors:
    errors = _needs_key_and_path(path, item)
    errors += validate_local_path(f"{path}.path", item.get("path", ""))
    return errors + _file_mode(path, "mode", item)


def validate_nfs(path: str, source: Document) -> Errors:
    errors = required_fields("server", "path")(path, source)
    if not source.get("path", "").startswith("/"):
        errors.append(invalid(f"{path}.path", source.get("path", ""), "must be an absolute path"))
    return errors


def validate_iscsi(path: str, source: Document) -> Errors:
    errors = required_fields("targetPortal", "iqn")(path, source)
    if source.get("iqn"):
        errors += _iscsi_name(f"{path}.iqn", source["iqn"])
    errors += in_range(f"{path}.lun", source.get("lun"), 0, 255)
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and "secretRef" not in source:
        errors.append(required(f"{path}.secretRef"))
    if "initiatorName" in source:
        errors += _iscsi_name(f"{path}.initiatorname", source["initiatorName"])
    return errors


def is_iscsi_name(name: str) -> bool:
    shape = _ISCSI_NAMES.get(name[:3])
    return shape is not None and shape.fullmatch(name) is not None


def _iscsi_name(path: str, name: str) -> Errors:
    if is_iscsi_name(name):
        return []
    prefixes = "" if name[:3] in _ISCSI_NAMES else " starting with iqn, eui, or naa"
    return [invalid(path, name, f"must be valid format{prefixes}")]


def has_too_long_portal(name: str, source: Document) -> bool:
    """Returns whether the portal of an iSCSI volume with an initiator's name is too long.

    name: that of the volume, which becomes part of a name on the target.
    """
    name = f"{name}:{source.get('targetPortal', '')}"
    return source.get("initiatorName") is not None and names.byte_length(name) > _ISCSI_NAME_BYTES_MAX


def validate_fc(path: str, source: Document) -> Errors:
    targets, ids = source.get("targetWWNs"), source.get("wwids")
    errors: Errors = []
    if not targets and not ids:
        errors.append(required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both"))
    if targets and ids:
        text = "targetWWNs and wwids can not be specified simultaneously"
        errors.append(invalid(f"{path}.targetWWNs", targets, text))
    if targets and "lun" not in source:
        errors.append(required(f"{path}.lun", "lun is required if targetWWNs is specified"))
    elif targets:
        errors += in_range(f"{path}.lun", source["lun"], 0, 255)
    return errors


def validate_flocker(path: str, source: Document) -> Errors:
    name, uuid = source.get("datasetName", ""), source.get("datasetUUID", "")
    errors: Errors = []
    if not name and not uuid:
        errors.append(required(path, "one of datasetName and datasetUUID is required"))
    if name and uuid:
        errors.append(
            invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously")
        )
    if "/" in name:
        errors.append(invalid(f"{path}.datasetName", name, "must not contain '/'"))
    return errors


_PAIRS_TEXT: Final = "must be a host:port pair or multiple pairs separated by commas"


def validate_quobyte(path: str, source: Document) -> Errors:
    registry = source.get("registry", "")
    errors: Errors = []
    if not registry:
        errors.append(required(f"{path}.registry", _PAIRS_TEXT))
    elif names.byte_length(source.get("tenant", "")) >= 65:
        errors.append(
            required(f"{path}.tenant", "must be a UUID and may not exceed a length of 64 characters")
        )
    elif not all(re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]*):[^:\[\]]*", pair) for pair in registry.split(",")):
        errors.append(invalid(f"{path}.registry", registry, _PAIRS_TEXT))
    return errors + required_fields("volume")(path, source)


def validate_flex_volume(path: str, source: Document) -> Errors:
    errors = required_fields("driver")(path, source)
    for key in source.get("options") or ():
        owner = f".{key.partition('/')[0].lower()}"
        if owner.endswith((".kubernetes.io", ".k8s.io")):
            text = "kubernetes.io and k8s.io namespaces are reserved"
            errors.append(invalid(f"{path}.options[{key}]", key, text))
    return errors


def validate_azure_disk(path: str, source: Document) -> Errors:
    errors = required_fields("diskName", "diskURI")(path, source)
    kind, uri = source.get("kind"), source.get("diskURI", "")
    if "cachingMode" in source:
        errors += one_of(f"{path}.cachingMode", source["cachingMode"], _CACHING_MODES)
    if kind is not None:
        errors += one_of(f"{path}.kind", kind, _DISK_KINDS)
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        errors.append(not_supported(f"{path}.diskURI", uri, (_MANAGED_DISK,)))
    if kind not in (None, "Managed") and not uri.startswith("https://"):
        errors.append(not_supported(f"{path}.diskURI", uri, (_BLOB_DISK,)))
    return errors


def _storage_os(path: str, source: Document) -> Errors:
    errors = named(f"{path}.volumeName", source.get("volumeName"), names.dns_label)
    errors += named(
        f"{path}.volumeNamespace", source.get("volumeNamespace"), names.dns_label, is_required=False
    )
    return errors + _secret_name(path, source)


def validate_csi_driver_name(path: str, name: str) -> Errors:
    if not name:
        return [required(path)]
    errors = [too_long(path, 63)] if names.byte_length(name) > 63 else []
    return errors + [invalid(path, name, problem) for problem in names.dns_subdomain(name.lower())]


def _csi(path: str, source: Document) -> Errors:
    errors = validate_csi_driver_name(f"{path}.driver", source.get("driver", ""))
    secret = source.get("nodePublishSecretRef")
    if secret is not None and not secret.get("name"):
        errors.append(required(f"{path}.nodePublishSecretRef.name"))
    elif secret is not None:
        errors += named(f"{path}.name", secret["name"], names.dns_subdomain)
    return errors


def _image(path: str, source: Document, is_pod: bool) -> Errors:
    errors = [required(f"{path}.reference")] if is_pod and not source.get("reference") else []
    return errors + one_of(f"{path}.pullPolicy", source.get("pullPolicy"), PULL_POLICIES, required_text="")


# ---- the downward API, and several sources in one

_DOWNWARD_FIELDS: Final = (
    *("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"),
)


def _downward_file(path: str, item: Document) -> Errors:
    errors = required_fields("path")(path, item) + validate_local_path(f"{path}.path", item.get("path", ""))
    if "fieldRef" in item:
        errors += validate_field_selector(f"{path}.fieldRef", item["fieldRef"], _DOWNWARD_FIELDS)
        if "resourceFieldRef" in item:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(invalid(path, "resource", text))
    elif "resourceFieldRef" in item:
        where = f"{path}.resourceFieldRef"
        errors += validate_resource_field_selector(where, item["resourceFieldRef"], needs_container=True)
    else:
        errors.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    return errors + _file_mode(path, "mode", item)


def _downward_api(path: str, source: Document) -> Errors:
    return _file_mode(path, "defaultMode", source) + _downward_files(path, source)


def _projected(path: str, source: Document, any_token_paths: bool) -> Errors:
    errors = _file_mode(path, "defaultMode", source)
    files: set[str] = set()
    for where, projection in items(source, "sources", path):
        for field, check in _PROJECTIONS.items():
            if projection.get(field) is not None:
                errors += check(f"{where}.{field}", projection[field])
                errors += _conflicts(path, field, projection[field], files)
        if (token := projection.get("serviceAccountToken")) is not None:
            errors += _account_token(path, f"{where}.serviceAccountToken", token, any_token_paths)
        if len(projection) > 1:
            errors.append(forbidden(where, "may not specify more than 1 volume type per source"))
    return errors


def _conflicts(path: str, field: str, projection: Document, files: set[str]) -> Errors:
    """Checks that files of two sources have different paths. Adds those of the source to `files`."""
    paths = [projection.get(each) for each in _PATHS_OF_PROJECTION.get(field, ())]
    paths += [item.get("path") for item in projection.get("items") or ()]
    errors: Errors = []
    for each in filter(None, paths):
        if each in files:
            shown = projection.get("name", "") if field in ("secret", "configMap") else each
            errors.append(invalid(path, shown, "conflicting duplicate paths"))
        files.add(each)
    return errors


def _named_keys(path: str, projection: Document) -> Errors:
    errors = required_fields("name")(path, projection)
    for place, item in items(projection, "items", path):
        errors += _key_to_path(place, item)
    return errors


def _downward_files(path: str, projection: Document) -> Errors:
    errors: Errors = []
    for item in projection.get("items") or ():  # Kubernetes names no index here.
        errors += _downward_file(path, item)
    return errors


def _account_token(path: str, where: str, token: Document, any_path: bool) -> Errors:
    seconds, file = token.get("expirationSeconds", 0), token.get("path", "")
    errors: Errors = []
    if seconds < 600:
        text = "may not specify a duration less than 10 minutes"
        errors.append(invalid(f"{where}.expirationSeconds", seconds, text))
    if seconds > 1 << 32:
        text = "may not specify a duration larger than 2^32 seconds"
        errors.append(invalid(f"{where}.expirationSeconds", seconds, text))
    if not file:
        return [*errors, required(f"{path}.path")]
    return errors if any_path else errors + validate_local_path(f"{path}.path", file)


def _trust_bundle(path: str, bundle: Document) -> Errors:
    name, signer, selector = bundle.get("name"), bundle.get("signerName"), bundle.get("labelSelector")
    errors: Errors = []
    if name is not None and signer is not None:
        shown = {
            "Name": name,
            "SignerName": signer,
            "LabelSelector": selector,
            "Optional": bundle.get("optional"),
            "Path": bundle.get("path", ""),
        }
        errors.append(invalid(path, shown, "only one of name and signerName may be used"))
    elif name is not None:
        if not name:
            errors.append(required(f"{path}.name", "must be a valid object name"))
        of_signer = name.rpartition(":")[0].replace(":", "/")
        errors += [
            invalid(f"{path}.name", name, f"not a valid clustertrustbundlename: {problem}")
            for problem in bundle_name_problems(name, of_signer)
        ]
        if selector is not None:
            text = "labelSelector must be unset if name is specified"
            errors.append(invalid(f"{path}.labelSelector", selector, text))
    elif signer is not None:
        if not signer:
            errors.append(required(f"{path}.signerName", "must be a valid signer name"))
        errors += validate_signer_name(f"{path}.signerName", signer)
        errors += label_selector(f"{path}.labelSelector", selector)
    else:
        errors.append(required(path, "either name or signerName must be specified"))
    return (
        errors
        + required_fields("path")(path, bundle)
        + validate_local_path(f"{path}.path", bundle.get("path", ""))
    )


_KEY_TYPES: Final = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_CERTIFICATE_PATHS: Final = ("credentialBundlePath", "keyPath", "certificateChainPath")


def _pod_certificate(path: str, projection: Document) -> Errors:
    signer, key_type = projection.get("signerName", ""), projection.get("keyType", "")
    errors = validate_signer_name(f"{path}.signerName", signer)
    errors += validate_user_annotations(f"{path}.userAnnotations", projection.get("userAnnotations") or {})
    if key_type not in _KEY_TYPES:
        errors.append(not_supported(f"{path}.keyType", key_type, _KEY_TYPES))
    seconds, where = projection.get("maxExpirationSeconds"), f"{path}.maxExpirationSeconds"
    longest = pod_certificate_s_max(signer)
    if seconds is not None and seconds < POD_CERTIFICATE_S_MIN:
        text = f"if provided, maxExpirationSeconds must be >= {POD_CERTIFICATE_S_MIN}"
        errors.append(invalid(where, seconds, text))
    if seconds is not None and seconds > longest:
        errors.append(invalid(where, seconds, f"if provided, maxExpirationSeconds must be <= {longest}"))
    given = [field for field in _CERTIFICATE_PATHS if projection.get(field)]
    for field in given:
        errors += validate_local_path(f"{path}.{field}", projection[field])
    if not given:
        text = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"
        errors.append(required(path, text))
    return errors


# The checks of what may be projected, in order, but for tokens.
_PROJECTIONS: Final[Mapping[str, _Check]] = {
    "secret": _named_keys,
    "configMap": _named_keys,
    "downwardAPI": _downward_files,
    "clusterTrustBundle": _trust_bundle,
    "podCertificate": _pod_certificate,
}
# The paths of files, beside those of items.
_PATHS_OF_PROJECTION: Final = {"clusterTrustBundle": ("path",), "podCertificate": _CERTIFICATE_PATHS}


# ---- claims made from a template


def _ephemeral(path: str, source: Document) -> Errors:
    template = source.get("volumeClaimTemplate")
    where = f"{path}.volumeClaimTemplate"
    if template is None:
        return [required(where)]
    errors = validate_claim_metadata(f"{where}.metadata", template.get("metadata") or {})
    return errors + validate_claim_spec(f"{where}.spec", template.get("spec") or {})


def _claim_name(path: str, name: str, pod_name: str) -> Errors:
    """Checks the name of the claim, which consists of the names of the pod and the volume."""
    if not pod_name or not name:
        return []
    claim = f"{pod_name}-{name}"
    return [
        invalid(f"{path}.name", name, f'PVC name "{claim}": {problem}')
        for problem in names.dns_subdomain(claim)
    ]


# In the order in which Kubernetes looks for them: the first is the volume's source, others are too many.
_SOURCES: Final[Mapping[str, _Check]] = {
    "emptyDir": _empty_dir,
    "hostPath": validate_host_path,
    "gitRepo": _git_repo,
    "gcePersistentDisk": all_of(required_fields("pdName"), validate_partition),
    "awsElasticBlockStore": all_of(required_fields("volumeID"), validate_partition),
    "secret": all_of(required_fields("secretName"), _keys),
    "nfs": validate_nfs,
    "iscsi": validate_iscsi,
    "glusterfs": required_fields("endpoints", "path"),
    "flocker": validate_flocker,
    "persistentVolumeClaim": required_fields("claimName"),
    "rbd": required_fields("monitors", "image"),
    "cinder": all_of(required_fields("volumeID"), _secret_name),
    "cephfs": required_fields("monitors"),
    "quobyte": validate_quobyte,
    "downwardAPI": _downward_api,
    "fc": validate_fc,
    "flexVolume": validate_flex_volume,
    "configMap": all_of(required_fields("name"), _keys),
    "azureFile": required_fields("secretName", "shareName"),
    "vsphereVolume": required_fields("volumePath"),
    "photonPersistentDisk": required_fields("pdID"),
    "portworxVolume": required_fields("volumeID"),
    "azureDisk": validate_azure_disk,
    "storageos": _storage_os,
    "projected": lambda path, source: [],  # `_source` checks it, with the owner
    "scaleIO": required_fields("gateway", "system", "volumeName"),
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": lambda path, source: [],  # `_source` checks it: that depends on the owner
}
# Paths that Kubernetes spells in its own way.
_PATHS: Final = {"gcePersistentDisk": "persistentDisk"}
_PATHS_OF_SECOND: Final = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
