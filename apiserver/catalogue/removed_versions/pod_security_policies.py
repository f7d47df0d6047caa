"""PodSecurityPolicies, which no version replaced. Rows T11, T30.

The server validates and stores them as releases up to 1.24 did; no admission plugin applies them to pods.
Source: pkg/apis/policy/v1beta1/defaults.go,
pkg/apis/policy/validation and pkg/printers/internalversion (release 1.24).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.pod_specs.pod_annotations import validate_app_armor_profile, validate_seccomp_profile
from apiserver.catalogue.pod_specs.security_contexts import SYSCTL_LENGTH_MAX, SYSCTL_SEGMENT
from apiserver.catalogue.pod_specs.volumes import validate_csi_driver_name
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, duplicate, forbidden, invalid, not_supported, quote, required
from apiserver.meta.table import AGE, Column, columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy
from apiserver.schema.validation.checks import follows, one_of
from apiserver.schema.validation.documents import at, items

_PACKAGE: Final = "io.k8s.api.policy.v1beta1."


def _complete(spec: Document) -> None:
    # It is a pointer: false is not the same as absent.
    spec.setdefault("allowPrivilegeEscalation", True)


_ANY: Final = "*"
_USER_RULES: Final = ("MustRunAs", "MustRunAsNonRoot", "RunAsAny")
_GROUP_RULES: Final = ("MayRunAs", "MustRunAs", "RunAsAny")
_OPTIONAL_GROUP_RULES: Final = ("MustRunAs", "RunAsAny", "MayRunAs")
_SELINUX_RULES: Final = ("MustRunAs", "RunAsAny")
_PROC_MOUNTS: Final = ("Default", "Unmasked")
_VOLUMES: Final = (
    *("*", "awsElasticBlockStore", "azureDisk", "azureFile", "cephFS", "cinder", "configMap", "csi"),
    *("downwardAPI", "emptyDir", "ephemeral", "fc", "flexVolume", "flocker", "gcePersistentDisk", "gitRepo"),
    *("glusterfs", "hostPath", "iscsi", "nfs", "persistentVolumeClaim", "photonPersistentDisk"),
    *("portworxVolume", "projected", "quobyte", "rbd", "scaleIO", "secret", "storageos", "vsphereVolume"),
)


def validate_pod_security_policy(document: Document) -> Errors:
    spec = document.get("spec", {})
    errors = _annotations(at(document, "metadata", "annotations") or {})
    errors += _ranged("spec.runAsUser", spec.get("runAsUser") or {}, _USER_RULES)
    if (group := spec.get("runAsGroup")) is not None:
        errors += _run_as_group("spec.runAsGroup", group)
    rule = at(spec, "seLinux", "rule") or ""
    errors += one_of("spec.seLinux.rule", rule, _SELINUX_RULES)
    errors += _ranged("spec.supplementalGroups", spec.get("supplementalGroups") or {}, _GROUP_RULES)
    errors += _ranged("spec.fsGroup", spec.get("fsGroup") or {}, _GROUP_RULES)
    errors += [
        not_supported("spec.volumes", volume, _VOLUMES)
        for volume in spec.get("volumes") or ()
        if volume not in _VOLUMES
    ]
    errors += _capabilities(spec)
    escalation = "defaultAllowPrivilegeEscalation"
    if spec.get(escalation) and not spec.get("allowPrivilegeEscalation"):
        text = (
            "Cannot set DefaultAllowPrivilegeEscalation to true without also setting "
            "AllowPrivilegeEscalation to true"
        )
        errors.append(invalid(f"spec.{escalation}", True, text))
    errors += [
        not_supported(where, kind, _PROC_MOUNTS)
        for where, kind in items(spec, "allowedProcMountTypes", "spec")
        if kind not in _PROC_MOUNTS
    ]
    errors += _host_paths(spec)
    # These paths have the name twice in Kubernetes, too.
    for where, volume in items(spec, "allowedFlexVolumes", "spec.allowedFlexVolumes"):
        if not volume.get("driver"):
            errors.append(required(f"{where}.driver", "must specify a driver"))
    for index, driver in enumerate(spec.get("allowedCSIDrivers") or ()):
        where = f"spec.allowedCSIDrivers.allowedCSIDriver[{index}].name"
        errors += validate_csi_driver_name(where, driver.get("name", ""))
    errors += _sysctls("allowedUnsafeSysctls", spec) + _sysctls("forbiddenSysctls", spec)
    errors += _overlaps(spec)
    if (classes := spec.get("runtimeClass")) is not None:
        errors += _runtime_classes("spec.runtimeClass", classes)
    return errors


def _annotations(annotations: Mapping[str, str]) -> Errors:
    errors: Errors = []
    for prefix, check in (
        ("apparmor.security.beta.kubernetes.io", validate_app_armor_profile),
        ("seccomp.security.alpha.kubernetes.io", validate_seccomp_profile),
    ):
        key = f"{prefix}/defaultProfileName"
        if profile := annotations.get(key):
            errors += check(f"metadata.annotations[{key}]", profile)
        key = f"{prefix}/allowedProfileNames"
        for profile in (annotations.get(key) or "").split(","):
            if profile and not (profile == _ANY and check is validate_seccomp_profile):
                errors += check(f"metadata.annotations[{key}]", profile)
    return errors


def _ranged(path: str, options: Document, rules: tuple[str, ...]) -> Errors:
    rule = options.get("rule", "")
    errors: Errors = [] if rule in rules else [not_supported(f"{path}.rule", rule, rules)]
    return errors + _ranges(path, options)


def _run_as_group(path: str, options: Document) -> Errors:
    rule, ranges = options.get("rule", ""), options.get("ranges") or []
    where = f"{path}.ranges"
    if rule not in _OPTIONAL_GROUP_RULES:
        return [not_supported(f"{path}.rule", rule, _OPTIONAL_GROUP_RULES)]
    if rule == "RunAsAny":
        return [invalid(where, ranges, "Ranges must be empty")] if ranges else []
    if not ranges:
        return [invalid(where, ranges, "must provide at least one range")]
    return _ranges(path, options)


def _ranges(path: str, options: Document) -> Errors:
    errors: Errors = []
    for where, ids in items(options, "ranges", path):
        low, high = ids.get("min", 0), ids.get("max", 0)
        if low < 0:
            errors.append(invalid(f"{where}.min", low, "min cannot be negative"))
        if high < 0:
            errors.append(invalid(f"{where}.max", high, "max cannot be negative"))
        if low > high:
            errors.append(invalid(f"{where}.min", low, "min cannot be greater than max"))
    return errors


def _capabilities(spec: Document) -> Errors:
    dropped, allowed = spec.get("requiredDropCapabilities") or (), spec.get("allowedCapabilities") or ()
    errors: Errors = []
    # These paths lack the spec in Kubernetes, too.
    if dropped and _ANY in allowed:
        text = "must be empty when all capabilities are allowed by a wildcard"
        errors.append(invalid("requiredDropCapabilities", dropped, text))
    for field in ("defaultAddCapabilities", "allowedCapabilities"):
        text = f"capability is listed in {field} and requiredDropCapabilities"
        errors += [invalid(field, each, text) for each in spec.get(field) or () if each in dropped]
    return errors


def _host_paths(spec: Document) -> Errors:
    errors: Errors = []
    for where, host_path in items(spec, "allowedHostPaths", "spec"):
        prefix = host_path.get("pathPrefix", "")
        if not prefix:
            return [*errors, required(where, "is required")]
        if ".." in prefix.split("/"):
            errors.append(invalid(where, prefix, "must not contain '..'"))
    return errors


_SYSCTL_PATTERN: Final = rf"({SYSCTL_SEGMENT}\.)*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]"
_is_sysctl_pattern = re.compile(_SYSCTL_PATTERN, re.ASCII).fullmatch


def _sysctls(field: str, spec: Document) -> Errors:
    errors: Errors = []
    for where, name in items(spec, field, "spec"):
        if not name:
            errors.append(invalid(where, name, "empty sysctl not allowed"))
        elif len(name) > SYSCTL_LENGTH_MAX or not _is_sysctl_pattern(name):
            text = f"must have at most {SYSCTL_LENGTH_MAX} characters and match regex {_SYSCTL_PATTERN}"
            errors.append(invalid(where, name, text))
    names_of_all = spec.get(field) or ()
    if _ANY in names_of_all and len(names_of_all) > 1:
        text = "if '*' is present, must not specify other sysctls"
        errors.append(forbidden(f"spec.{field}.items", text))
    return errors


def _overlaps(spec: Document) -> Errors:
    """Checks that no sysctl is both allowed and forbidden. A pattern covers all names with its prefix."""
    errors: Errors = []
    for allowed_path, allowed in items(spec, "allowedUnsafeSysctls", "spec"):
        for forbidden_path, refused in items(spec, "forbiddenSysctls", "spec"):
            if _covers(refused, allowed):
                errors.append(invalid(allowed_path, allowed, f"sysctl overlaps with {refused}"))
            elif _covers(allowed, refused):
                errors.append(invalid(forbidden_path, refused, f"sysctl overlaps with {allowed}"))
    return errors


def _covers(pattern: str, other: str) -> bool:
    if not pattern.endswith(_ANY):
        return pattern == other
    return other.removesuffix(_ANY).startswith(pattern.removesuffix(_ANY))


def _runtime_classes(path: str, classes: Document) -> Errors:
    errors: Errors = []
    allowed: set[str] = set()
    where = f"{path}.allowedRuntimeClassNames"
    for item_path, name in items(classes, "allowedRuntimeClassNames", path):
        if name != _ANY:
            errors += follows(item_path, name, names.dns_subdomain)
        if name in allowed:
            errors.append(duplicate(item_path, name))
        allowed.add(name)
    default = classes.get("defaultRuntimeClassName")
    if default is not None:
        default_path = f"{path}.defaultRuntimeClassName"
        errors += follows(default_path, default, names.dns_subdomain)
        if not allowed & {default, _ANY}:
            errors.append(required(where, f"default {quote(default)} must be allowed"))
    if _ANY in allowed and len(classes["allowedRuntimeClassNames"]) > 1:
        text = "if '*' is present, must not specify other RuntimeClass names"
        errors.append(invalid(where, classes["allowedRuntimeClassNames"], text))
    return errors


# ---- columns


def _flag(field: str) -> Callable[[Document, float], str]:
    return lambda document, now: str(bool(at(document, "spec", field))).lower()


def _list(field: str) -> Callable[[Document, float], str]:
    return lambda document, now: ",".join(at(document, "spec", field) or ())


def _rule(field: str) -> Callable[[Document, float], str]:
    return lambda document, now: at(document, "spec", field, "rule") or ""


BUILTIN_TYPE: Final = BuiltinType(
    "policy",
    "v1beta1",
    "podsecuritypolicies",
    "PodSecurityPolicy",
    is_namespaced=False,
    short_names=("psp",),
    defaults={f"{_PACKAGE}PodSecurityPolicySpec": _complete},
    strategy=Strategy(validate=validate_pod_security_policy, returns_deleted=True),
    columns=columns(
        Column("Priv", _flag("privileged"), "Whether pods may be privileged."),
        Column("Caps", _list("allowedCapabilities"), "The capabilities that pods may add."),
        Column("SELinux", _rule("seLinux"), "The rule for SELinux labels."),
        Column("RunAsUser", _rule("runAsUser"), "The rule for users of processes."),
        Column("FSGroup", _rule("fsGroup"), "The rule for groups of volumes."),
        Column("SupGroup", _rule("supplementalGroups"), "The rule for supplemental groups."),
        Column(
            "ReadOnlyRootFS",
            _flag("readOnlyRootFilesystem"),
            "Whether the root file system is read-only.",
        ),
        Column("Volumes", _list("volumes"), "The kinds of volumes that pods may have."),
        AGE,
    ),
)
