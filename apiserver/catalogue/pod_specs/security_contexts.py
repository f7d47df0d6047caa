"""Validation of security contexts of pods and containers, and of operating systems.

Source: pkg/apis/core/validation, validatePodSpecSecurityContext, ValidateSecurityContext, validateOS.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from apiserver.catalogue.pod_specs.validation_options import PodValidationOptions
from apiserver.catalogue.pod_specs.volumes import validate_descending_path
from apiserver.golang.formatting import go_struct_fields
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
from apiserver.schema.validation.checks import in_range, one_of
from apiserver.schema.validation.documents import at

CONTAINER_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")
_ID_MAX: Final = (1 << 31) - 1


def all_containers(path: str, spec: Document) -> Iterator[tuple[str, Document]]:
    """Yields the containers of a pod spec with their paths, in Kubernetes' order."""
    for field in CONTAINER_LISTS:
        for index, container in enumerate(spec.get(field) or ()):
            yield f"{path}.{field}[{index}]", container


def _id(path: str, value: int | None) -> Errors:
    """Checks the ID of a user or a group."""
    return in_range(path, value, 0, _ID_MAX)


# ---- Pods


def validate_pod_security_context(path: str, spec: Document, options: PodValidationOptions) -> Errors:
    """Checks the security context of the pod. path: that of the pod spec."""
    context = spec.get("securityContext") or {}
    where = f"{path}.securityContext"
    errors: Errors = []
    for field in ("fsGroup", "runAsUser", "runAsGroup"):
        if field in context:
            errors += _id(f"{where}.{field}", context[field])
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        errors += _id(f"{where}.supplementalGroups[{index}]", group)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(f"{where}.shareProcessNamespace", True, text))
    if sysctls := context.get("sysctls"):
        errors += _sysctls(f"{where}.sysctls", sysctls, spec, of_host=options.sysctls_of_host)
    errors += _optional(where, context, "fsGroupChangePolicy", ("Always", "OnRootMismatch"))
    if "seccompProfile" in context:
        errors += _seccomp(f"{where}.seccompProfile", context["seccompProfile"])
    if "windowsOptions" in context:
        errors += _windows_options(f"{where}.windowsOptions", context["windowsOptions"])
    if "appArmorProfile" in context:
        errors += validate_app_armor(f"{where}.appArmorProfile", context["appArmorProfile"])
    errors += _optional(where, context, "supplementalGroupsPolicy", ("Merge", "Strict"))
    policies = ("MountOption", "Recursive") if options.selinux_mount_option else ("Recursive",)
    return errors + _optional(where, context, "seLinuxChangePolicy", policies)


def _optional(path: str, context: Document, field: str, supported: tuple[str, ...]) -> Errors:
    return one_of(f"{path}.{field}", context[field], supported) if field in context else []


SYSCTL_SEGMENT: Final = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL: Final = rf"({SYSCTL_SEGMENT}[\./])*{SYSCTL_SEGMENT}"
SYSCTL_LENGTH_MAX: Final = 253
_is_sysctl = re.compile(_SYSCTL, re.ASCII).fullmatch
_IPC_SYSCTLS: Final = ("kernel.shm", "kernel.msg", "fs.mqueue.")


def _sysctls(path: str, sysctls: Any, spec: Document, *, of_host: bool) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        name, where = sysctl.get("name", ""), f"{path}[{index}].name"
        if not name:
            errors.append(required(where))
        elif len(name) > SYSCTL_LENGTH_MAX or not _is_sysctl(name):
            text = f"must have at most {SYSCTL_LENGTH_MAX} characters and match regex ^{_SYSCTL}$"
            errors.append(invalid(where, name, text))
        elif name in seen:
            errors.append(duplicate(where, name))
        if not of_host and (field := host_field_of_sysctl(name, spec)):
            errors.append(invalid(where, name, f"may not be specified when '{field}' is true"))
        seen.add(name)
    return errors


def host_field_of_sysctl(name: str, spec: Document) -> str:
    """Returns the field that shares a sysctl's namespace with the host; empty if the pod has its own."""
    dotted = _dotted(name)
    if spec.get("hostNetwork") and dotted.startswith("net."):
        return "hostNetwork"
    if spec.get("hostIPC") and (dotted.startswith(_IPC_SYSCTLS) or dotted == "kernel.sem"):
        return "hostIPC"
    return ""


def _dotted(name: str) -> str:
    """Returns the name of a sysctl with dots for slashes, if a slash comes first."""
    separator = re.search(r"[./]", name)
    return name.translate({46: 47, 47: 46}) if separator and separator[0] == "/" else name


def validate_host_users(path: str, spec: Document, options: PodValidationOptions) -> Errors:
    """Checks that a pod in a user namespace shares no other namespace with its host, and has no devices."""
    if spec.get("hostUsers", True):
        return []
    text = "when `hostUsers` is false"
    errors = [
        forbidden(f"{path}.{shown}", text)
        for field, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC"))
        if spec.get(field) and not (field == "hostNetwork" and options.host_network_without_host_users)
    ]
    if options.devices_without_host_users:
        return errors
    return errors + [
        forbidden(f"{where}.volumeDevices", text)
        for where, container in all_containers(path, spec)
        if container.get("volumeDevices")
    ]


# ---- Containers


def validate_security_context(path: str, context: Document | None, *, has_host_users: bool) -> Errors:
    if context is None:
        return []
    errors: Errors = []
    for field in ("runAsUser", "runAsGroup"):
        if field in context:
            errors += _id(f"{path}.{field}", context[field])
    if "procMount" in context:
        errors += one_of(f"{path}.procMount", context["procMount"], ("Default", "Unmasked"))
        if has_host_users and context["procMount"] == "Unmasked":
            text = "`hostUsers` must be false to use `Unmasked`"
            errors.append(invalid(f"{path}.procMount", "Unmasked", text))
    if "seccompProfile" in context:
        errors += _seccomp(f"{path}.seccompProfile", context["seccompProfile"])
    if context.get("allowPrivilegeEscalation") is False:
        text = "cannot set `allowPrivilegeEscalation` to false and "
        if context.get("privileged"):
            errors.append(invalid(path, context, f"{text}`privileged` to true"))
        if "CAP_SYS_ADMIN" in (at(context, "capabilities", "add") or ()):
            errors.append(invalid(path, context, f"{text}`capabilities.Add` CAP_SYS_ADMIN"))
    if "windowsOptions" in context:
        errors += _windows_options(f"{path}.windowsOptions", context["windowsOptions"])
    if "appArmorProfile" in context:
        errors += validate_app_armor(f"{path}.appArmorProfile", context["appArmorProfile"])
    return errors


# ---- Profiles

_PROFILES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_PROFILE_LENGTH_MAX: Final = 4_095


def _seccomp(path: str, profile: Document | None) -> Errors:
    if profile is None:
        return []
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    errors = one_of(
        f"{path}.type", kind, _PROFILES, required_text="type is required when seccompProfile is set"
    )
    if kind != "Localhost":
        if local is not None:
            text = "can only be set when seccomp type is Localhost"
            shown = go_struct_fields({"type": "", **profile})
            errors.append(invalid(f"{path}.localhostProfile", shown, text))
    elif local is None:
        errors.append(required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost"))
    else:
        errors += validate_descending_path(f"{path}.localhostProfile", local)
    return errors


def validate_app_armor(path: str, profile: Document | None) -> Errors:
    if profile is None:
        return []
    kind, local, where = profile.get("type", ""), profile.get("localhostProfile"), f"{path}.localhostProfile"
    errors: Errors = []
    if kind == "Localhost":
        if not local:
            errors.append(required(where, "must be set when AppArmor type is Localhost"))
        elif local != local.strip():
            errors.append(invalid(where, local, "must not be padded with whitespace"))
        if local and names.byte_length(local) > _PROFILE_LENGTH_MAX:
            errors.append(too_long(where, _PROFILE_LENGTH_MAX))
    elif kind in _PROFILES:
        if local is not None:
            errors.append(invalid(where, local, "can only be set when AppArmor type is Localhost"))
    elif kind:
        errors.append(not_supported(f"{path}.type", kind, _PROFILES))
    else:
        errors.append(required(f"{path}.type", "type is required when appArmorProfile is set"))
    return errors


# ---- Windows

_CREDENTIAL_KIB_MAX: Final = 64
_DOMAIN_BYTES_MAX: Final = 256
_USER_BYTES_MAX: Final = 104
_has_control = re.compile(r"[\x00-\x1f\x7f]").search
_is_netbios = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}').fullmatch
_DNS_LABEL: Final = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_is_dns = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*").fullmatch
_has_bad_character = re.compile(r'["/\\:;|=,+*?<>@\[\]]').search
_is_dots = re.compile(r"[. ]+").fullmatch


def _windows_options(path: str, options: Document | None) -> Errors:
    if options is None:
        return []
    errors: Errors = []
    name, spec = options.get("gmsaCredentialSpecName"), options.get("gmsaCredentialSpec")
    where = f"{path}.gmsaCredentialSpec"
    if name is not None:
        errors += [invalid(f"{where}Name", name, problem) for problem in names.dns_subdomain(name)]
    if spec == "":
        errors.append(invalid(where, spec, "gmsaCredentialSpec cannot be an empty string"))
    elif spec is not None and names.byte_length(spec) > _CREDENTIAL_KIB_MAX * 1024:
        text = f"gmsaCredentialSpec size must be under {_CREDENTIAL_KIB_MAX} KiB"
        errors.append(invalid(where, spec, text))
    user = options.get("runAsUserName")
    if user is not None:
        errors += [
            invalid(f"{path}.runAsUserName", user, f"runAsUserName{text}") for text in _user_problems(user)
        ]
    return errors


def _user_problems(name: str) -> list[str]:
    """Returns the errors in a Windows user name: `DOMAIN\\USER`, or a user alone."""
    if not name:
        return [" cannot be an empty string"]
    if _has_control(name):
        return [" cannot contain control characters"]
    if name.count("\\") > 1:
        return [" cannot contain more than one backslash"]
    domain, backslash, user = name.rpartition("\\")
    domain_bytes, user_bytes = names.byte_length(domain), names.byte_length(user)
    checks = {
        f"'s Domain length must be under {_DOMAIN_BYTES_MAX} characters": domain_bytes >= _DOMAIN_BYTES_MAX,
        "'s Domain doesn't match the NetBios nor the DNS format": bool(backslash)
        and not (_is_netbios(domain) or _is_dns(domain)),
        "'s User cannot be empty": not user,
        f"'s User length must not be longer than {_USER_BYTES_MAX} characters": user_bytes > _USER_BYTES_MAX,
        "'s User cannot contain only periods or spaces": bool(_is_dots(user)),
        "'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]": bool(_has_bad_character(user)),
    }
    return [text for text, is_wrong in checks.items() if is_wrong]


def validate_host_process(path: str, spec: Document) -> Errors:
    """Checks, for Windows, that all containers are host processes, or none is."""
    of_pod = at(spec, "securityContext", "windowsOptions", "hostProcess")
    errors: Errors = []
    if not of_pod and not any(
        "windowsOptions" in (container.get("securityContext") or ())
        for field in CONTAINER_LISTS
        for container in spec.get(field) or ()
    ):
        return errors
    kinds = []
    for where, container in all_containers(path, spec):
        own = at(container, "securityContext", "windowsOptions", "hostProcess")
        if of_pod is not None and own is not None and own != of_pod:
            shown = str(of_pod).lower()
            text = f"pod hostProcess value must be identical if both are specified, was {shown}"
            errors.append(invalid(f"{where}.securityContext.windowsOptions.hostProcess", own, text))
        kinds.append(bool(of_pod if own is None else own))
    if any(kinds):
        if not all(kinds):
            text = "If pod contains any hostProcess containers then all containers must be HostProcess"
            errors.append(invalid(path, "", f"{text} containers"))
        if not spec.get("hostNetwork"):
            text = "hostNetwork must be true if pod contains any hostProcess containers"
            errors.append(invalid(f"{path}.hostNetwork", False, text))
    return errors


# ---- Operating systems

_NOT_FOR_WINDOWS: Final = (
    *("securityContext.appArmorProfile", "securityContext.seLinuxOptions", "hostUsers", "hostPID", "hostIPC"),
    *("securityContext.seccompProfile", "securityContext.fsGroup", "securityContext.fsGroupChangePolicy"),
    *("securityContext.sysctls", "shareProcessNamespace", "securityContext.runAsUser"),
    *("securityContext.runAsGroup", "securityContext.supplementalGroups"),
    *("securityContext.supplementalGroupsPolicy", "securityContext.seLinuxChangePolicy"),
)
_NOT_FOR_WINDOWS_CONTAINERS: Final = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem"),
    *("privileged", "allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup"),
)


def validate_operating_system(path: str, spec: Document) -> Errors:
    """Checks that the fields of a pod exist on its operating system."""
    if "os" not in spec:
        return []
    name = spec["os"].get("name", "")
    if not name:
        return [required(f"{path}.os.name")]
    if name not in ("linux", "windows"):
        return [not_supported(f"{path}.os", name, ("linux", "windows"))]
    fields, of_containers, text = (
        (_NOT_FOR_WINDOWS, _NOT_FOR_WINDOWS_CONTAINERS, "cannot be set for a windows pod")
        if name == "windows"
        else (
            ("securityContext.windowsOptions",),
            ("windowsOptions",),
            "windows options cannot be set for a linux pod",
        )
    )
    errors = [
        forbidden(f"{path}.{field}", text) for field in fields if at(spec, *field.split(".")) is not None
    ]
    for where, container in all_containers(path, spec):
        context = container.get("securityContext") or {}
        errors += [
            forbidden(f"{where}.securityContext.{field}", text) for field in of_containers if field in context
        ]
    return errors
