"""Validation of containers: regular, init and ephemeral containers.

Source: pkg/apis/core/validation, validateContainers, validateInitContainers, validateEphemeralContainers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from apiserver.catalogue.pod_specs import resource_requirements
from apiserver.catalogue.pod_specs.field_references import (
    validate_field_selector,
    validate_resource_field_selector,
)
from apiserver.catalogue.pod_specs.probes import LifecycleContext, validate_lifecycle, validate_probes
from apiserver.catalogue.pod_specs.restart_policies import (
    validate_init_restart_policy,
    validate_restart_policy,
)
from apiserver.catalogue.pod_specs.security_contexts import validate_security_context
from apiserver.catalogue.pod_specs.validation_options import PodValidationOptions
from apiserver.catalogue.pod_specs.volumes import (
    PULL_POLICIES,
    validate_descending_path,
    validate_no_backsteps,
)
from apiserver.meta import names
from apiserver.meta.field_errors import (
    Errors,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.checks import PORT_MAX, named, one_of, port_name, port_number
from apiserver.schema.validation.documents import at, items

PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")


class PodContext(NamedTuple):
    """The facts about a pod that the rules of its containers use.

    volumes: the valid ones by name; all_volumes: all by name. claims: the names of its resource claims.
    system: its operating system, if it names one.
    has_containers: False for a PodPreset: privileges are checked in the pods that it is merged into.
    """

    options: PodValidationOptions
    volumes: Mapping[str, Document]
    claims: Collection[str]
    grace_s: int | None
    restart_policy: str
    has_host_users: bool
    all_volumes: Mapping[str, Document] = MappingProxyType({})
    system: str | None = None
    has_containers: bool = True


# ---- the three lists


def validate_containers(path: str, spec: Document, pod: PodContext) -> Errors:
    """Checks the regular containers. path: that of the pod spec."""
    if not spec.get("containers"):
        return [required(f"{path}.containers")]
    errors: Errors = []
    seen: set[str] = set()
    for where, container in items(spec, "containers", path):
        errors += _container(where, container, pod)
        errors += _unique_name(where, container, seen)
        errors += _lifecycle_and_probes(where, container, pod)
        if "restartPolicy" in container or "restartPolicyRules" in container:
            errors += validate_restart_policy(where, container, pod.options)
    return errors + _host_ports(f"{path}.containers", spec["containers"])


def validate_init_containers(path: str, spec: Document, pod: PodContext) -> Errors:
    errors: Errors = []
    if not spec.get("initContainers"):
        return errors
    seen = {container.get("name", "") for container in spec.get("containers") or ()}
    for where, container in items(spec, "initContainers", path):
        errors += _container(where, container, pod)
        policy = container.get("restartPolicy")
        if policy is not None or "restartPolicyRules" in container:
            errors += validate_init_restart_policy(where, container, pod.options)
        if container.get("name"):
            errors += _unique_name(where, container, seen)
        # They run one after the other, so only the ports of the same container can conflict.
        if "ports" in container:
            errors += _host_ports(f"{path}.initContainers", [container])
        if policy == "Always":
            errors += _lifecycle_and_probes(where, container, pod)
        else:
            text = "may not be set for init containers without restartPolicy=Always"
            for field in _LIFECYCLE_AND_PROBES:
                if field in container:
                    errors.append(forbidden(f"{where}.{field}", text))
        if "resizePolicy" in container:
            errors += _init_resize_policy(where, container, pod.options)
    return errors


def _init_resize_policy(path: str, container: Document, options: PodValidationOptions) -> Errors:
    errors: Errors = []
    policies = container["resizePolicy"] or []
    if policies and not options.sidecar_resize_policy:
        errors.append(invalid(f"{path}.resizePolicy", policies, "must not be set for init containers"))
    if container.get("restartPolicy") == "Always" or options.restart_for_resize_of_init_containers:
        return errors
    text = "must not be set to 'RestartContainer' for non-sidecar initContainers"
    return errors + [
        invalid(f"{where}.restartPolicy", "RestartContainer", text)
        for where, policy in items(container, "resizePolicy", path)
        if policy.get("restartPolicy") == "RestartContainer"
    ]


_LIFECYCLE_AND_PROBES: Final = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_NOT_EPHEMERAL: Final = (
    *("ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules", "livenessProbe"),
    *("readinessProbe", "startupProbe", "lifecycle"),
)


def validate_ephemeral_containers(path: str, spec: Document, pod: PodContext) -> Errors:
    errors: Errors = []
    if not spec.get("ephemeralContainers"):
        return errors
    targets = {
        container.get("name", "")
        for field in ("containers", "initContainers")
        for container in spec.get(field) or ()
    }
    seen = set(targets)
    text = "cannot be set for an Ephemeral Container"
    for where, container in items(spec, "ephemeralContainers", path):
        errors += _container(where, container, pod)
        errors += validate_pod_image(where, container)
        errors += _unique_name(where, container, seen)
        target = container.get("targetContainerName")
        if target and target not in targets:
            errors.append(not_found(f"{where}.targetContainerName", target))
        errors += [
            forbidden(f"{where}.{field}", text)
            for field in _NOT_EPHEMERAL
            if field in container and (field != "resources" or container[field])
        ]
        for place, mount in items(container, "volumeMounts", where):
            errors += [
                forbidden(f"{place}.{field}", text)
                for field in ("subPath", "subPathExpr")
                if mount.get(field)
            ]
    return errors


def validate_pod_image(path: str, container: Document) -> Errors:
    """Checks the image of a container of a pod; it may be absent in a template."""
    image = container.get("image", "")
    if image == image.strip():
        return []
    return [invalid(f"{path}.image", image, "must not have leading or trailing whitespace")]


def _unique_name(path: str, container: Document, seen: set[str]) -> Errors:
    name = container.get("name", "")
    if name in seen:
        return [duplicate(f"{path}.name", name)]
    seen.add(name)
    return []


def _lifecycle_and_probes(path: str, container: Document, pod: PodContext) -> Errors:
    errors: Errors = []
    if "lifecycle" in container:
        context = LifecycleContext(pod.grace_s, pod.options.sleep_of_zero, pod.system)
        errors += validate_lifecycle(f"{path}.lifecycle", container["lifecycle"], context)
    return errors + validate_probes(path, container)


def validate_container_preset(
    path: str, spec: Document, volumes: Mapping[str, Document], options: PodValidationOptions
) -> Errors:
    """Checks the variables and mounts that a PodPreset adds to containers.

    path: that of its spec. volumes: its valid volumes by name. Source: pkg/apis/settings/validation.
    """
    pod = PodContext(
        options,
        volumes,
        claims=(),
        grace_s=None,
        restart_policy="",
        has_host_users=True,
        has_containers=False,
    )
    errors: Errors = []
    if "env" in spec:
        errors += _env(path, spec, pod)
    if "envFrom" in spec:
        errors += _env_from(path, spec, pod)
    if "volumeMounts" in spec:
        errors += _mounts(path, spec, pod)
    return errors


# ---- what all containers have in common


def _container(path: str, container: Document, pod: PodContext) -> Errors:
    errors: Errors = []
    if not (name := container.get("name")) or names.dns_label(name):
        errors += named(f"{path}.name", name, names.dns_label)
    if not container.get("image"):
        errors.append(required(f"{path}.image"))
    if (policy := container.get("terminationMessagePolicy")) not in _MESSAGE_POLICIES:
        errors += one_of(f"{path}.terminationMessagePolicy", policy, _MESSAGE_POLICIES, required_text="")
    for field, check in _LISTS.items():
        if field in container:
            errors += check(path, container, pod)
    if (policy := container.get("imagePullPolicy")) not in PULL_POLICIES:
        errors += one_of(f"{path}.imagePullPolicy", policy, PULL_POLICIES, required_text="")
    if resources := container["resources"]:
        errors += resource_requirements.validate_requirements(
            f"{path}.resources", resources, pod.claims, any_huge_pages=pod.options.indivisible_huge_pages
        )
    if "resizePolicy" in container:
        errors += _resize_policy(path, container, pod)
    if "securityContext" in container:
        errors += validate_security_context(
            f"{path}.securityContext", container["securityContext"], has_host_users=pod.has_host_users
        )
    return errors


def _ports(path: str, container: Document, pod: PodContext) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, port in enumerate(container["ports"] or ()):
        if name := port.get("name"):
            if problems := port_name(name):
                errors += [invalid(f"{path}.ports[{index}].name", name, problem) for problem in problems]
            elif name in seen:
                errors.append(duplicate(f"{path}.ports[{index}].name", name))
            else:
                seen.add(name)
        if not (number := port.get("containerPort")):
            errors.append(required(f"{path}.ports[{index}].containerPort"))
        elif not 0 < number <= PORT_MAX:
            errors += port_number(f"{path}.ports[{index}].containerPort", number)
        if number := port.get("hostPort"):
            errors += port_number(f"{path}.ports[{index}].hostPort", number)
        if (protocol := port.get("protocol")) not in PROTOCOLS:
            where = f"{path}.ports[{index}].protocol"
            errors += one_of(where, protocol, PROTOCOLS, required_text="")
    return errors


def _host_ports(path: str, containers: Iterable[Document]) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for port_index, port in enumerate(container.get("ports") or ()):
            if number := port.get("hostPort"):
                where = f"{path}[{index}].ports[{port_index}]"
                place = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{number}"
                if place in seen:
                    errors.append(duplicate(f"{where}.hostPort", place))
                seen.add(place)
    return errors


def _resize_policy(path: str, container: Document, pod: PodContext) -> Errors:
    where = f"{path}.resizePolicy"
    errors: Errors = []
    seen: set[str] = set()
    for place, policy in items(container, "resizePolicy", path):
        resource, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if resource in seen:
            errors.append(duplicate(place, resource))
        seen.add(resource)
        errors += one_of(where, resource, ("cpu", "memory"), required_text="")
        errors += one_of(where, restart, ("NotRequired", "RestartContainer"), required_text="")
        if pod.restart_policy == "Never" and restart != "NotRequired":
            text = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            errors.append(invalid(where, restart, text))
    return errors


# ---- environment

_is_relaxed_env_name = re.compile(r"[ -<>-~]+").fullmatch
_RELAXED_ENV_TEXT: Final = (
    "a valid environment variable name must consist only of printable ASCII characters other than '='"
)
_STRICT_ENV: Final = "[-._a-zA-Z][-._a-zA-Z0-9]*"
_is_strict_env_name = re.compile(_STRICT_ENV).fullmatch
_STRICT_ENV_TEXT: Final = (
    "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and "
    "must not start with a digit (e.g. 'my.env-name',  or 'MY_ENV.NAME',  or 'MyEnvName1', regex used for "
    f"validation is '{_STRICT_ENV}')"
)
_ENV_FIELDS: Final = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"),
    *("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
)


def relaxed_env_name(name: str) -> list[str]:
    """Returns the errors in the name of a variable by the relaxed rule of 1.32."""
    if not name:
        return ["environment variable name must be non-empty"]
    return [] if _is_relaxed_env_name(name) else [_RELAXED_ENV_TEXT]


def strict_env_name(name: str) -> list[str]:
    """Returns the errors in the name of a variable by the rule of shells."""
    problems = [] if _is_strict_env_name(name) else [_STRICT_ENV_TEXT]
    if name in (".", ".."):
        problems.append(f"must not be '{name}'")
    elif name.startswith(".."):
        problems.append("must not start with '..'")
    return problems


def _env(path: str, container: Document, pod: PodContext) -> Errors:
    rule = relaxed_env_name if pod.options.relaxed_env_names else strict_env_name
    errors: Errors = []
    for index, variable in enumerate(container["env"] or ()):
        if not (name := variable.get("name")):
            errors.append(required(f"{path}.env[{index}].name"))
        elif problems := rule(name):
            errors += [invalid(f"{path}.env[{index}].name", name, problem) for problem in problems]
        if "valueFrom" in variable:
            where = f"{path}.env[{index}].valueFrom"
            errors += _value_from(where, variable["valueFrom"], variable.get("value", ""), pod)
    return errors


def _value_from(path: str, source: Document, value: str, pod: PodContext) -> Errors:
    errors: Errors = []
    if "fieldRef" in source:
        errors += validate_field_selector(f"{path}.fieldRef", source["fieldRef"], _ENV_FIELDS)
    if "resourceFieldRef" in source:
        where = f"{path}.resourceFieldRef"
        errors += validate_resource_field_selector(where, source["resourceFieldRef"], needs_container=False)
    for field in ("configMapKeyRef", "secretKeyRef"):
        if (reference := source.get(field)) is not None:
            name, key = reference.get("name", ""), reference.get("key", "")
            if problems := names.dns_subdomain(name):
                errors += [invalid(f"{path}.{field}.name", name, text) for text in problems]
            if names.config_map_key(key):
                errors += named(f"{path}.{field}.key", key, names.config_map_key)
    if "fileKeyRef" in source:
        errors += _file_key(f"{path}.fileKeyRef", source["fileKeyRef"], pod.all_volumes)
    if not source:
        sources = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`"
        more = ", `secretKeyRef` or `fileKeyRef`" if pod.options.env_files else " or `secretKeyRef`"
        errors.append(invalid(path, "", f"must specify one of: {sources}{more}"))
    elif value:
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(source) > 1:
        errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def _file_key(path: str, reference: Document, volumes: Mapping[str, Document]) -> Errors:
    """Checks a reference to a variable in a file, in an emptyDir volume of the pod."""
    errors = named(f"{path}.key", reference.get("key"), relaxed_env_name)
    name = reference.get("volumeName", "")
    errors += named(f"{path}.volumeName", name, names.dns_label)
    file = reference.get("path")
    errors += validate_no_backsteps(f"{path}.path", file) if file else [required(f"{path}.path")]
    if (volume := volumes.get(name)) is None:
        errors.append(not_found(f"{path}.volumeName", name))
    elif volume.get("emptyDir") is None:
        errors.append(invalid(f"{path}.volumeName", name, "referenced volume must be of type emptyDir"))
    return errors


def _env_from(path: str, container: Document, pod: PodContext) -> Errors:
    rule = relaxed_env_name if pod.options.relaxed_env_names else strict_env_name
    errors: Errors = []
    for index, source in enumerate(container["envFrom"] or ()):
        if prefix := source.get("prefix"):
            errors += [invalid(f"{path}.envFrom[{index}].prefix", prefix, text) for text in rule(prefix)]
        given = 0
        for field in ("configMapRef", "secretRef"):
            if field in source:
                given += 1
                where = f"{path}.envFrom[{index}].{field}.name"
                errors += named(where, source[field].get("name"), _prefix)
        if not given:
            text = "must specify one of: `configMapRef` or `secretRef`"
            errors.append(invalid(f"{path}.envFrom", "", text))
        elif given > 1:
            text = "may not have more than one field specified at a time"
            errors.append(invalid(f"{path}.envFrom", "", text))
    return errors


def _prefix(name: str) -> list[str]:
    """Returns the errors in a name, or in the prefix of one, which may end with a dash."""
    return names.dns_subdomain(name[:-1] + "a" if len(name) > 1 and name.endswith("-") else name)


# ---- mounts and devices

_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE: Final = ("Disabled", "Enabled", "IfPossible")


def _mounts(path: str, container: Document, pod: PodContext) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    devices = {
        each.get("name", ""): each.get("devicePath", "") for each in container.get("volumeDevices") or ()
    }
    device_paths = set(devices.values())
    list_path = f"{path}.volumeMounts"
    for index, mount in enumerate(container["volumeMounts"] or ()):
        name, mount_path = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.append(required(f"{list_path}[{index}].name"))
        if name not in pod.volumes:
            errors.append(not_found(f"{list_path}[{index}].name", name))
        if not mount_path:
            errors.append(required(f"{list_path}[{index}].mountPath"))
        if mount_path in seen:
            errors.append(invalid(f"{list_path}[{index}].mountPath", mount_path, "must be unique"))
        seen.add(mount_path)
        if name in devices:
            text = "must not already exist in volumeDevices"
            errors.append(invalid(f"{list_path}[{index}].name", name, text))
        if mount_path in device_paths:
            text = "must not already exist as a path in volumeDevices"
            errors.append(invalid(f"{list_path}[{index}].mountPath", mount_path, text))
        if "subPath" in mount or "subPathExpr" in mount:
            errors += _sub_path(list_path, f"{list_path}[{index}]", mount)
        if "mountPropagation" in mount:
            errors += _propagation(f"{list_path}.mountPropagation", mount, container, pod)
        if "recursiveReadOnly" in mount:
            errors += _recursive_read_only(f"{list_path}.recursiveReadOnly", mount)
    return errors


def _sub_path(list_path: str, path: str, mount: Document) -> Errors:
    sub_path, expression = mount.get("subPath", ""), mount.get("subPathExpr", "")
    errors = validate_descending_path(f"{list_path}.subPath", sub_path) if sub_path else []
    if expression:
        if sub_path:
            text = "subPathExpr and subPath are mutually exclusive"
            errors.append(invalid(f"{path}.subPathExpr", expression, text))
        errors += validate_descending_path(f"{list_path}.subPathExpr", expression)
    return errors


def _propagation(path: str, mount: Document, container: Document, pod: PodContext) -> Errors:
    mode = mount.get("mountPropagation")
    if mode is None:
        return []
    errors = one_of(path, mode, _PROPAGATIONS)
    needs_privileges = mode == "Bidirectional" and pod.has_containers
    if needs_privileges and not at(container, "securityContext", "privileged"):
        text = "Bidirectional mount propagation is available only to privileged containers"
        errors.append(forbidden(path, text))
    return errors


def _recursive_read_only(path: str, mount: Document) -> Errors:
    mode = mount.get("recursiveReadOnly", "Disabled")
    if mode not in _RECURSIVE:
        return [not_supported(path, mode, _RECURSIVE)]
    errors: Errors = []
    if mode != "Disabled":
        if not mount.get("readOnly"):
            errors.append(forbidden(path, "may only be specified when readOnly is true"))
        if mount.get("mountPropagation", "None") != "None":
            text = "may only be specified when mountPropagation is None or not specified"
            errors.append(forbidden(path, text))
    return errors


def _devices(path: str, container: Document, pod: PodContext) -> Errors:
    errors: Errors = []
    seen_names: set[str] = set()
    seen_paths: set[str] = set()
    mounts = {each.get("name", ""): each.get("mountPath", "") for each in container.get("volumeMounts") or ()}
    mount_paths = set(mounts.values())
    for where, device in items(container, "volumeDevices", path):
        name, device_path = device.get("name", ""), device.get("devicePath", "")
        volume = pod.volumes.get(name)
        if not name:
            errors.append(required(f"{where}.name"))
        if name in seen_names:
            errors.append(invalid(f"{where}.name", name, "must be unique"))
        if volume is None:
            errors.append(not_found(f"{where}.name", name))
        elif "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(invalid(f"{where}.name", name, text))
        if not device_path:
            errors.append(required(f"{where}.devicePath"))
        if device_path in seen_paths:
            errors.append(invalid(f"{where}.devicePath", device_path, "must be unique"))
        if validate_no_backsteps("", device_path):
            errors.append(invalid(f"{where}.devicePath", device_path, "can not contain backsteps ('..')"))
        else:
            seen_paths.add(device_path)
        if name in mounts:
            errors.append(invalid(f"{where}.name", name, "must not already exist in volumeMounts"))
        if device_path in mount_paths:
            text = "must not already exist as a path in volumeMounts"
            errors.append(invalid(f"{where}.devicePath", device_path, text))
        if name:
            seen_names.add(name)
    return errors


# The checks of fields that a container may have, in order.
_LISTS: Final[Mapping[str, Callable[[str, Document, PodContext], Errors]]] = {
    "ports": _ports,
    "env": _env,
    "envFrom": _env_from,
    "volumeMounts": _mounts,
    "volumeDevices": _devices,
}
