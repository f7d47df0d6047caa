"""Applies a PodSecurityPolicy to a pod: fills in what the pod leaves open, and finds what it does not allow.

Both are pure: who may use which policy, and which of several is taken, is the plugin's business
(`pod_security_policy`). The texts are those of release 1.24, also their slips: a path that begins with `pod`
where others begin with `spec`, lists as Go prints them.

Source: kubernetes, pkg/security/podsecuritypolicy (provider.go and the strategies below it) and
pkg/securitycontext/accessors.go, release 1.24.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from apiserver.field_errors import INVALID, Errors, FieldError, forbidden, invalid, quote, required, truncated
from apiserver.golang.quoting import go_quote
from apiserver.validation.documents import at
from apiserver.vocabulary import Document

_ANY: Final = "*"
_NULL: Final = "null"  # as Go's errors show a pointer to nothing
_SECCOMP: Final = "seccomp.security.alpha.kubernetes.io"
_APP_ARMOR: Final = "apparmor.security.beta.kubernetes.io"
_SECCOMP_POD: Final = f"{_SECCOMP}/pod"
_SECCOMP_CONTAINER: Final = f"container.{_SECCOMP}/"
_APP_ARMOR_CONTAINER: Final = f"container.{_APP_ARMOR}/"
# Two names of one profile: https://kubernetes.io/docs/tutorials/security/seccomp/
_RUNTIME_DEFAULT: Final = ("docker/default", "runtime/default")
# The fields of a pod that hold containers, in the order in which policies look at them.
_CONTAINER_FIELDS: Final = ("initContainers", "containers", "ephemeralContainers")
# The types of volumes, in the order in which the first one that a volume has is its type.
_VOLUME_TYPES: Final = (
    *("hostPath", "emptyDir", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "secret", "nfs"),
    *("iscsi", "glusterfs", "persistentVolumeClaim", "rbd", "flexVolume", "cinder", "cephfs", "flocker"),
    *("downwardAPI", "fc", "azureFile", "configMap", "vsphereVolume", "quobyte", "azureDisk"),
    *("photonPersistentDisk", "storageos", "projected", "portworxVolume", "scaleIO", "csi", "ephemeral"),
)
# Policies write one of them otherwise.
_POLICY_NAMES: Final = {"cephfs": "cephFS"}
# The sysctls that every pod may set, and the release since which.
_SAFE_SYSCTLS: Final = {
    "kernel.shm_rmid_forced": 4,
    "net.ipv4.ip_local_port_range": 4,
    "net.ipv4.tcp_syncookies": 4,
    "net.ipv4.ping_group_range": 18,
    "net.ipv4.ip_unprivileged_port_start": 22,
}
# The release since which seccomp profiles have fields, too, which count as the annotations that they were.
_SECCOMP_FIELDS_SINCE: Final = 19


class UnusablePolicy(ValueError):
    """No pod can be checked by a policy, as one of its rules lacks what it needs."""


class _IdRange(NamedTuple):
    low: int
    high: int

    def __str__(self) -> str:
        return f"{{{self.low} {self.high}}}"


class _Ids(NamedTuple):
    """A rule for users or groups, with its ranges."""

    rule: str
    ranges: tuple[_IdRange, ...]

    @property
    def default(self) -> int | None:
        return self.ranges[0].low if self.rule == "MustRunAs" else None

    @property
    def shown(self) -> str:
        """Returns the ranges as Go prints them."""
        return f"[{' '.join(map(str, self.ranges))}]"

    def allows(self, number: int) -> bool:
        return any(each.low <= number <= each.high for each in self.ranges)


def _ids(options: Document | None, *rules: str) -> _Ids:
    """Raises UnusablePolicy."""
    if options is None:
        return _Ids("RunAsAny", ())
    rule = options.get("rule", "")
    ranges = tuple(_IdRange(each.get("min", 0), each.get("max", 0)) for each in options.get("ranges") or ())
    if rule not in rules or (rule in ("MustRunAs", "MayRunAs") and not ranges):
        raise UnusablePolicy(f"rule {rule!r}, {len(ranges)} ranges")
    return _Ids(rule, ranges)


class Outcome(NamedTuple):
    """What a policy makes of a pod. pod: with all that was filled in; the very one if nothing was.

    errors: what the policy does not allow.
    """

    pod: Document
    errors: Errors


class PodSecurityPolicy:
    """One policy. Raises UnusablePolicy.

    minor: of the release 1.`minor` that is served.
    """

    def __init__(self, document: Document, minor: int) -> None:
        meta, spec = document["metadata"], document.get("spec") or {}
        self.name: str = meta["name"]
        self._spec, self._minor = spec, minor
        self._annotations: Mapping[str, str] = meta.get("annotations") or {}
        groups = ("MustRunAs", "MayRunAs", "RunAsAny")
        self._user = _ids(spec.get("runAsUser") or {}, "MustRunAs", "MustRunAsNonRoot", "RunAsAny")
        self._group = _ids(spec.get("runAsGroup"), *groups)
        self._fs_group = _ids(spec.get("fsGroup") or {}, *groups)
        self._further_groups = _ids(spec.get("supplementalGroups") or {}, *groups)
        se_linux = spec.get("seLinux") or {}
        self._se_linux: Document | None = None
        if se_linux.get("rule") == "MustRunAs":
            self._se_linux = se_linux.get("seLinuxOptions")
        if self._se_linux is None and se_linux.get("rule") != "RunAsAny":
            raise UnusablePolicy("seLinux")
        self._allows_escalation = spec.get("allowPrivilegeEscalation", True) is not False
        self._volumes = frozenset(spec.get("volumes") or ())

    def applied_to(self, pod: Document) -> Outcome:
        """Returns what the policy makes of a pod, which is not changed."""
        filled_in = self._filled_in(pod)
        return Outcome(filled_in, self._problems(filled_in))

    # ---- what is filled in

    def _filled_in(self, pod: Document) -> Document:
        spec = dict(pod.get("spec") or {})
        annotations = dict(pod["metadata"].get("annotations") or {})
        context = dict(spec.get("securityContext") or {})
        _fill(context, "supplementalGroups", _listed(self._further_groups.default))
        _fill(context, "fsGroup", self._fs_group.default)
        _fill(context, "seLinuxOptions", self._se_linux_default())
        if profile := self._default_seccomp_profile(annotations, context):
            annotations[_SECCOMP_POD] = profile
        classes = self._spec.get("runtimeClass")
        if classes is not None:
            _fill(spec, "runtimeClassName", classes.get("defaultRuntimeClassName"))
        if context and context != spec.get("securityContext"):
            spec["securityContext"] = context
        for field in _CONTAINER_FIELDS:
            if found := spec.get(field):
                spec[field] = [self._filled_container(each, context, annotations) for each in found]
        new = {**pod, "spec": spec}
        if annotations:
            new["metadata"] = {**pod["metadata"], "annotations": annotations}
        return pod if new == pod else new

    def _se_linux_default(self) -> Document | None:
        """Returns a label of the pod's own: plugins after this one may change it."""
        return None if self._se_linux is None else dict(self._se_linux)

    def _filled_container(
        self, container: Document, of_pod: Document, annotations: dict[str, str]
    ) -> Document:
        """Returns a container with what it leaves open. annotations: of the pod; the profile is added."""
        profile, key = self._app_armor("default"), f"{_APP_ARMOR_CONTAINER}{container.get('name', '')}"
        if profile and not annotations.get(key):
            annotations[key] = profile
        context = dict(container.get("securityContext") or {})
        effective = _effective(context, of_pod)
        for field, value in (("runAsUser", self._user.default), ("runAsGroup", self._group.default)):
            if effective.get(field) is None:
                _fill(context, field, value)
        if effective.get("seLinuxOptions") is None:
            _fill(context, "seLinuxOptions", self._se_linux_default())
        if (
            self._user.rule == "MustRunAsNonRoot"
            and effective.get("runAsNonRoot") is None
            and effective.get("runAsUser") is None
        ):
            context["runAsNonRoot"] = True
        capabilities = self._capabilities(context.get("capabilities"))
        if capabilities is not None:
            context["capabilities"] = capabilities
        if self._spec.get("readOnlyRootFilesystem"):
            _fill(context, "readOnlyRootFilesystem", True)
        _fill(context, "allowPrivilegeEscalation", self._spec.get("defaultAllowPrivilegeEscalation"))
        if not self._allows_escalation:
            _fill(context, "allowPrivilegeEscalation", False)
        return {**container, "securityContext": context} if context else container

    def _capabilities(self, own: Document | None) -> Document | None:
        """Returns a container's capabilities with those that the policy adds and drops.

        They are sorted if there are any more, and as they were if not.
        """
        added, dropped = (set((own or {}).get(field) or ()) for field in ("add", "drop"))
        all_added = added | (set(self._spec.get("defaultAddCapabilities") or ()) - dropped)
        all_dropped = dropped | set(self._spec.get("requiredDropCapabilities") or ())
        if len(all_added) == len(added) and len(all_dropped) == len(dropped):
            return own
        found = {"add": sorted(all_added), "drop": sorted(all_dropped)}
        return {field: each for field, each in found.items() if each}

    # ---- what is not allowed

    def _problems(self, pod: Document) -> Errors:
        spec = pod.get("spec") or {}
        annotations = pod["metadata"].get("annotations") or {}
        context = spec.get("securityContext") or {}
        path = "spec.securityContext"
        errors = _group_problems(f"{path}.fsGroup", self._fs_group, _listed(context.get("fsGroup")))
        errors += _group_problems(
            f"{path}.supplementalGroups", self._further_groups, context.get("supplementalGroups")
        )
        profile = annotations.get(_SECCOMP_POD) or self._seccomp_field(context)
        errors += self._seccomp_problems(_SECCOMP_POD, profile)
        errors += self._se_linux_problems(f"{path}.seLinuxOptions", context.get("seLinuxOptions"))
        for field, what in (("hostNetwork", "network"), ("hostPID", "PID"), ("hostIPC", "IPC")):
            if spec.get(field) and not self._spec.get(field):
                errors.append(invalid(f"{path}.{field}", True, f"Host {what} is not allowed to be used"))
        errors += self._sysctl_problems(f"{path}.sysctls", context.get("sysctls") or ())
        for index, volume in enumerate(spec.get("volumes") or ()):
            errors += self._volume_problems(f"spec.volumes[{index}]", volume, spec)
        errors += self._runtime_class_problems(spec.get("runtimeClassName"))
        for where, container in _containers(spec):
            errors += self._container_problems(where, container, context, annotations)
        return errors

    def _container_problems(
        self, path: str, container: Document, of_pod: Document, annotations: Mapping[str, str]
    ) -> Errors:
        own = container.get("securityContext") or {}
        effective, where = _effective(own, of_pod), f"{path}.securityContext"
        errors = self._user_problems(where, effective)
        errors += _group_problems(where, self._group, _listed(effective.get("runAsGroup")))
        errors += self._se_linux_problems(f"{where}.seLinuxOptions", effective.get("seLinuxOptions"))
        name = container.get("name", "")
        errors += self._app_armor_problems(f"{_APP_ARMOR_CONTAINER}{name}", annotations)
        errors += self._seccomp_problems(
            f"{_SECCOMP_CONTAINER}{name}", self._seccomp_of_container(name, own, of_pod, annotations)
        )
        if own.get("privileged") and not self._spec.get("privileged"):
            errors.append(invalid(f"{where}.privileged", True, "Privileged containers are not allowed"))
        proc_mount = own.get("procMount") or "Default"
        if proc_mount not in (self._spec.get("allowedProcMountTypes") or ("Default",)):
            errors.append(invalid(f"{where}.procMount", proc_mount, "ProcMountType is not allowed"))
        errors += self._capability_problems(f"{where}.capabilities", own.get("capabilities"))
        errors += self._port_problems(f"{path}.hostPort", container.get("ports") or ())
        if self._spec.get("readOnlyRootFilesystem"):
            field, read_only = f"{where}.readOnlyRootFilesystem", own.get("readOnlyRootFilesystem")
            if read_only is None:
                text = "ReadOnlyRootFilesystem may not be nil and must be set to true"
                errors.append(invalid(field, _NULL, text))
            elif not read_only:
                errors.append(invalid(field, False, "ReadOnlyRootFilesystem must be set to true"))
        escalation = own.get("allowPrivilegeEscalation")
        if not self._allows_escalation and escalation is not False:
            text = "Allowing privilege escalation for containers is not allowed"
            value = _NULL if escalation is None else escalation
            errors.append(invalid(f"{where}.allowPrivilegeEscalation", value, text))
        return errors

    def _user_problems(self, path: str, context: Document) -> Errors:
        user, is_non_root = context.get("runAsUser"), context.get("runAsNonRoot")
        if self._user.rule == "MustRunAs":
            if user is None:
                return [required(f"{path}.runAsUser")]
            if not self._user.allows(user):
                text = f"must be in the ranges: {self._user.shown}"
                return [invalid(f"{path}.runAsUser", user, text)]
        elif self._user.rule == "MustRunAsNonRoot":
            if is_non_root is None and user is None:
                return [required(f"{path}.runAsNonRoot", "must be true")]
            if is_non_root is False:
                return [invalid(f"{path}.runAsNonRoot", False, "must be true")]
            if user == 0:
                return [invalid(f"{path}.runAsUser", 0, "running with the root UID is forbidden")]
        return []

    def _se_linux_problems(self, path: str, options: Document | None) -> Errors:
        wanted = self._se_linux
        if wanted is None:
            return []
        if options is None:
            return [required(path)]
        errors: Errors = []
        for field in ("level", "role", "type", "user"):
            found, expected = options.get(field) or "", wanted.get(field) or ""
            is_same = _same_levels(expected, found) if field == "level" else found == expected
            if not is_same:
                errors.append(invalid(f"{path}.{field}", found, f"must be {expected}"))
        return errors

    def _sysctl_problems(self, path: str, sysctls: Iterable[Document]) -> Errors:
        errors: Errors = []
        for index, sysctl in enumerate(sysctls):
            name = sysctl.get("name", "")
            if _matches(name, self._spec.get("forbiddenSysctls")):
                errors.append(forbidden(f"{path}[{index}]", f"sysctl {quote(name)} is not allowed"))
            elif _SAFE_SYSCTLS.get(name, self._minor + 1) > self._minor and not _matches(
                name, self._spec.get("allowedUnsafeSysctls")
            ):
                errors.append(forbidden(f"{path}[{index}]", f"unsafe sysctl {quote(name)} is not allowed"))
        return errors

    def _volume_problems(self, path: str, volume: Document, spec: Document) -> Errors:
        kind = next((each for each in _VOLUME_TYPES if volume.get(each) is not None), None)
        if kind is None:
            return [invalid(path, "", f"unknown volume type for volume: {volume.get('name', '')}")]
        told = _POLICY_NAMES.get(kind, kind)
        if not self._volumes & {_ANY, told}:
            return [invalid(path, told, f"{told} volumes are not allowed to be used")]
        if kind == "hostPath":
            return self._host_path_problems(f"{path}.hostPath.pathPrefix", volume, spec)
        driver = at(volume, kind, "driver") or ""
        if kind == "flexVolume" and not _is_listed(driver, self._spec.get("allowedFlexVolumes"), "driver"):
            return [invalid(f"{path}.driver", driver, "Flexvolume driver is not allowed to be used")]
        if kind == "csi" and not _is_listed(driver, self._spec.get("allowedCSIDrivers"), "name"):
            return [invalid(f"{path}.csi.driver", driver, "Inline CSI driver is not allowed to be used")]
        return []

    def _host_path_problems(self, path: str, volume: Document, spec: Document) -> Errors:
        allowed, host_path = self._spec.get("allowedHostPaths") or (), volume["hostPath"].get("path", "")
        if not allowed:
            return []
        matching = [each for each in allowed if _is_below(host_path, each.get("pathPrefix", ""))]
        if not matching:
            return [invalid(path, host_path, "is not allowed to be used")]
        if not all(each.get("readOnly") for each in matching):
            return []
        return [
            invalid(f"{where}.volumeMounts[{index}].readOnly", False, "must be read-only")
            for where, container in _containers(spec)
            for index, mount in enumerate(container.get("volumeMounts") or ())
            if mount.get("name") == volume.get("name") and not mount.get("readOnly")
        ]

    def _runtime_class_problems(self, name: str | None) -> Errors:
        classes = self._spec.get("runtimeClass")
        if classes is None or name is None:
            return []
        allowed = classes.get("allowedRuntimeClassNames") or ()
        is_allowed = _ANY in allowed or name in allowed
        return [] if is_allowed else [invalid("spec.runtimeClassName", name, "")]

    def _capability_problems(self, path: str, capabilities: Document | None) -> Errors:
        by_default = self._spec.get("defaultAddCapabilities") or ()
        must_drop = self._spec.get("requiredDropCapabilities") or ()
        allowed = self._spec.get("allowedCapabilities") or ()
        if capabilities is None:
            text = "required capabilities are not set on the securityContext"
            return [invalid(path, _NULL, text)] if by_default or must_drop else []
        if _ANY in allowed:
            return []
        added, dropped = capabilities.get("add") or (), capabilities.get("drop")
        errors = [
            invalid(f"{path}.add", each, "capability may not be added")
            for each in added
            if each not in by_default and each not in allowed
        ]
        shown = _go_slice("core.Capability", dropped, go_quote)
        return errors + [
            _invalid_as_shown(f"{path}.drop", shown, f"{each} is required to be dropped but was not found")
            for each in must_drop
            if each not in (dropped or ())
        ]

    def _port_problems(self, path: str, ports: Iterable[Document]) -> Errors:
        allowed = [(each.get("min", 0), each.get("max", 0)) for each in self._spec.get("hostPorts") or ()]
        shown = ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in allowed)
        used = (port.get("hostPort") or 0 for port in ports)
        return [
            invalid(path, port, f"Host port {port} is not allowed to be used. Allowed ports: [{shown}]")
            for port in used
            if port > 0 and not any(low <= port <= high for low, high in allowed)
        ]

    # ---- profiles, which are annotations of pods and of policies

    def _default_seccomp_profile(self, annotations: Mapping[str, str], context: Document) -> str:
        return (
            annotations.get(_SECCOMP_POD)
            or self._seccomp_field(context)
            or ("" if self._has_seccomp_field(context) else self._seccomp("default"))
        )

    def _seccomp(self, which: str) -> str:
        return self._annotations.get(f"{_SECCOMP}/{which}ProfileName", "")

    def _has_seccomp_field(self, context: Document) -> bool:
        return self._minor >= _SECCOMP_FIELDS_SINCE and context.get("seccompProfile") is not None

    def _seccomp_field(self, context: Document) -> str:
        """Returns the profile in the field of a security context as the annotation would name it."""
        if not self._has_seccomp_field(context):
            return ""
        profile = context["seccompProfile"]
        match profile.get("type"):
            case "Unconfined":
                return "unconfined"
            case "RuntimeDefault":
                return "runtime/default"
            case "Localhost" if profile.get("localhostProfile") is not None:
                return f"localhost/{profile['localhostProfile']}"
        return ""

    def _seccomp_of_container(
        self, name: str, own: Document, of_pod: Document, annotations: Mapping[str, str]
    ) -> str:
        if self._has_seccomp_field(own):
            return self._seccomp_field(own)
        key = f"{_SECCOMP_CONTAINER}{name}"
        if key in annotations:
            return annotations[key]
        if self._has_seccomp_field(of_pod):
            return self._seccomp_field(of_pod)
        return annotations.get(_SECCOMP_POD, "")

    def _seccomp_problems(self, key: str, profile: str) -> Errors:
        path = f"pod.metadata.annotations[{key}]"
        told = self._annotations.get(f"{_SECCOMP}/allowedProfileNames")
        names = told.split(",") if told is not None else []
        allowed = [each for each in names if each != _ANY]
        if _ANY in names or (not allowed and not profile):
            return []
        if not allowed:
            return [forbidden(path, "seccomp may not be set")]
        if profile in allowed or (
            self._minor >= _SECCOMP_FIELDS_SINCE
            and profile in _RUNTIME_DEFAULT
            and any(each in allowed for each in _RUNTIME_DEFAULT)
        ):
            return []
        text = f"{profile} is not an allowed seccomp profile. Valid values are {told}"
        return [forbidden(path, truncated(text))]

    def _app_armor(self, which: str) -> str:
        return self._annotations.get(f"{_APP_ARMOR}/{which}ProfileName", "")

    def _app_armor_problems(self, key: str, annotations: Mapping[str, str]) -> Errors:
        told = self._annotations.get(f"{_APP_ARMOR}/allowedProfileNames")
        if told is None:
            return []
        path, profile = f"pod.metadata.annotations[{key}]", annotations.get(key, "")
        if not profile:
            return [forbidden(path, "AppArmor profile must be set")]
        if profile in told.split(","):
            return []
        text = f"{profile} is not an allowed profile. Allowed values: {quote(told)}"
        return [forbidden(path, truncated(text))]


def _fill(values: dict[str, Any], field: str, value: object) -> None:
    """Sets a field that is not set, unless there is nothing to set."""
    if value is not None and values.get(field) is None:
        values[field] = value


def _listed(number: int | None) -> list[int] | None:
    return None if number is None else [number]


def _effective(context: Document, of_pod: Document) -> Document:
    """Returns a container's security context with what it has of its pod's."""
    inherited = {
        field: of_pod.get(field) for field in ("runAsUser", "runAsGroup", "runAsNonRoot", "seLinuxOptions")
    }
    return inherited | {field: each for field, each in context.items() if each is not None}


def _containers(spec: Document) -> Iterator[tuple[str, Document]]:
    for field in _CONTAINER_FIELDS:
        for index, container in enumerate(spec.get(field) or ()):
            yield f"spec.{field}[{index}]", container


def _group_problems(path: str, ids: _Ids, groups: Sequence[int] | None) -> Errors:
    if ids.rule == "RunAsAny":
        return []
    shown = _go_slice("int64", groups, str)
    if ids.rule == "MustRunAs" and not groups:
        text = "unable to validate empty groups against required ranges"
        return [_invalid_as_shown(path, shown, text)]
    return [
        _invalid_as_shown(path, shown, f"group {group} must be in the ranges: {ids.shown}")
        for group in groups or ()
        if not ids.allows(group)
    ]


def _go_slice(of: str, values: Sequence[Any] | None, shown: Any) -> str:
    """Returns a list as Go prints it in errors: `[]int64{1, 2}`."""
    return f"[]{of}(nil)" if values is None else f"[]{of}{{{', '.join(map(shown, values))}}}"


def _invalid_as_shown(path: str, value: str, detail: str) -> FieldError:
    """value: as it is to be shown."""
    return FieldError(path, INVALID, f"Invalid value: {truncated(value)}: {detail}")


def _same_levels(one: str, other: str) -> bool:
    """Whether two SELinux levels are the same. The order of categories does not matter."""
    if one == other:
        return True
    (sensitivity, colon, categories), (other_sensitivity, other_colon, other_categories) = (
        each.partition(":") for each in (one, other)
    )
    return (
        bool(colon and other_colon)
        and sensitivity == other_sensitivity
        and sorted(categories.split(",")) == sorted(other_categories.split(","))
    )


def _matches(name: str, patterns: Iterable[str] | None) -> bool:
    return any(
        name.startswith(each.removesuffix(_ANY)) if each.endswith(_ANY) else name == each
        for each in patterns or ()
    )


def _is_listed(value: str, listed: Sequence[Document] | None, field: str) -> bool:
    """Whether a list allows a value, as an empty one does."""
    return not listed or any(each.get(field, "") == value for each in listed)


def _is_below(path: str, prefix: str) -> bool:
    path, prefix = path.removesuffix("/"), prefix.removesuffix("/")
    return path == prefix or path.startswith(f"{prefix}/")
