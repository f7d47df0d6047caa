"""Nodes.

Source: pkg/apis/core/v1/defaults.go, pkg/apis/core/validation (ValidateNode), pkg/registry/core/node, and
plugin/pkg/admission/nodetaint for the taint of new nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from apiserver.catalogue import subresources
from apiserver.catalogue.builtin_type import CORE, BuiltinType, field_text, status_subresource
from apiserver.catalogue.core.services.addresses import family_of
from apiserver.catalogue.pod_specs.resource_requirements import validate_amount
from apiserver.catalogue.pod_specs.scheduling import TAINT_EFFECTS
from apiserver.field_errors import Errors, FieldError, duplicate, forbidden, invalid, required
from apiserver.meta import names
from apiserver.meta.table import AGE, Column, columns
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status
from apiserver.schema.compile import Default
from apiserver.validation.checks import cidr, one_of
from apiserver.validation.documents import at, items
from apiserver.vocabulary import Document


def builtin_type() -> BuiltinType:
    return BuiltinType(
        "",
        "v1",
        "nodes",
        "Node",
        f"{CORE}Node",
        is_namespaced=False,
        short_names=("no",),
        subresources=(subresources.proxy("NodeProxyOptions"), status_subresource(validate_node_update)),
        defaults=DEFAULTS,
        strategy=Strategy(
            prepare_create=prepare_node_create,
            validate=validate_node,
            warn=warn_node,
            update=UpdateStrategy(keep_status, validate_node_update),
        ),
        columns=_COLUMNS,
        selectable_fields={"spec.unschedulable": field_text("spec", "unschedulable", default="false")},
    )


_NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_POD_CIDRS_KEPT: Final = 'node updates may not change podCIDR except from "" to valid'
_PROVIDER_KEPT: Final = 'node updates may not change providerID except from "" to valid'


def _default_spec(spec: Document) -> None:
    """Makes `podCIDR` the first of `podCIDRs`; where they disagree, `podCIDR` wins."""
    cidr, cidrs = spec.get("podCIDR"), spec.get("podCIDRs")
    if cidr and (not cidrs or cidrs[0] != cidr):
        spec["podCIDRs"] = [cidr]
    elif cidrs:
        spec["podCIDR"] = cidrs[0]


def _default_status(status: Document) -> None:
    """Makes all capacity allocatable if nothing is reserved."""
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])


DEFAULTS: Final[Mapping[str, Default]] = MappingProxyType(
    {f"{CORE}NodeSpec": _default_spec, f"{CORE}NodeStatus": _default_status}
)


def prepare_node_create(document: Document) -> None:
    """Taints a new node, so that nothing is scheduled to it before it is ready."""
    taints = document.setdefault("spec", {}).get("taints") or []
    if not any(_identity(taint) == _identity(_NOT_READY) for taint in taints):
        document["spec"]["taints"] = [*taints, dict(_NOT_READY)]


def validate_node(document: Document) -> Errors:
    spec = document.get("spec") or {}
    errors = _taints("metadata.taints", spec.get("taints") or ()) + _resources(document)
    cidrs = spec.get("podCIDRs") or []
    for path, each in items(spec, "podCIDRs", "spec"):
        errors += cidr(path, each)
    if len(cidrs) > 1:
        families = {family_of(each.partition("/")[0]) for each in cidrs}
        if len(cidrs) > 2 or len(families) < 2:
            text = "may specify no more than one CIDR for each IP family"
            errors.append(invalid("spec.podCIDRs", cidrs, text))
        seen: set[str] = set()
        for index, each in enumerate(cidrs):
            if each in seen:
                errors.append(duplicate(f"spec.podCIDRs[{index}]", each))
            seen.add(each)
    return errors


def _resources(document: Document) -> Errors:
    errors: Errors = []
    for field in ("capacity", "allocatable"):
        for name, value in (at(document, "status", field) or {}).items():
            errors += validate_amount(f"status.{field}.{name}", name, value)
    return errors


def _identity(taint: Mapping[str, str]) -> tuple[str, str]:
    return taint.get("key", ""), taint.get("effect", "")


def _taints(path: str, taints: Sequence[Document]) -> Errors:
    errors: Errors = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        where, name, value = f"{path}[{index}]", taint.get("key", ""), taint.get("value", "")
        errors += [invalid(f"{where}.key", name, problem) for problem in names.qualified_name(name)]
        if problems := names.label_value(value):
            errors.append(invalid(f"{where}.value", value, ";".join(problems)))
        errors += one_of(f"{where}.effect", taint.get("effect"), TAINT_EFFECTS, required_text="")
        if _identity(taint) in seen:
            shown = {
                "Key": name,
                "Value": value,
                "Effect": taint.get("effect", ""),
                "TimeAdded": taint.get("timeAdded"),
            }
            error = duplicate(where, shown)
            text = f"{error.message}: taints must be unique by key and effect pair"
            errors.append(FieldError(where, error.reason, text))
        seen.add(_identity(taint))
    return errors


def validate_node_update(new: Document, old: Document) -> Errors:
    """Checks an update of a node, or of its status."""
    spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    errors: Errors = []
    seen: set[tuple[str, str]] = set()
    for path, address in items(new.get("status") or {}, "addresses", "status"):
        identity = (address.get("type", ""), address.get("address", ""))
        if identity in seen:
            errors.append(duplicate(path, {"Type": identity[0], "Address": identity[1]}))
        seen.add(identity)
    cidrs, old_cidrs = spec.get("podCIDRs") or [], old_spec.get("podCIDRs") or []
    if old_cidrs and cidrs != old_cidrs:
        errors.append(forbidden("spec.podCIDRs", _POD_CIDRS_KEPT))
    if old_spec.get("providerID") and spec.get("providerID") != old_spec["providerID"]:
        errors.append(forbidden("spec.providerID", _PROVIDER_KEPT))
    if (source := spec.get("configSource")) is not None:
        errors += _config_source("spec.configSource", source, is_status=False)
    for path, source in (at(new, "status", "config") or {}).items():
        if path in ("assigned", "active", "lastKnownGood"):
            errors += _config_source(f"status.config.{path}", source, is_status=True)
    if spec.get("externalID", "") != old_spec.get("externalID", ""):
        errors.append(forbidden("spec.externalID", "may not be updated"))
    return errors


def _config_source(path: str, source: Document, *, is_status: bool) -> Errors:
    """Checks a field that no longer has an effect."""
    found = source.get("configMap")
    if found is None:
        return [invalid(path, source, "exactly one reference subfield must be non-nil")]
    path = f"{path}.configMap"
    errors: Errors = []
    for field in ("uid", "resourceVersion"):
        if is_status and not found.get(field):
            errors.append(required(f"{path}.{field}", f"{field} must be set in status"))
        if not is_status and found.get(field):
            errors.append(forbidden(f"{path}.{field}", f"{field} must not be set in spec"))
    for field, rule in (
        ("namespace", names.dns_label),
        ("name", names.dns_subdomain),
        ("kubeletConfigKey", names.config_map_key),
    ):
        if not (text := found.get(field, "")):
            errors.append(required(f"{path}.{field}", f"{field} must be set"))
        else:
            errors += [invalid(f"{path}.{field}", text, problem) for problem in rule(text)]
    return errors


def warn_node(new: Document, old: Document | None) -> list[str]:
    spec = new.get("spec") or {}
    warnings = []
    if spec.get("configSource") is not None:
        warnings.append("spec.configSource: the feature is removed")
    if spec.get("externalID"):
        warnings.append("spec.externalID: this field is deprecated, and is unused by Kubernetes")
    return warnings


# ---- columns

_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE: Final = "kubernetes.io/role"


def _status(document: Document, now: float) -> str:
    ready = {
        condition.get("type"): condition.get("status")
        for condition in document.get("status", {}).get("conditions") or ()
    }.get("Ready")
    status = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    return f"{status},SchedulingDisabled" if document.get("spec", {}).get("unschedulable") else status


def _roles(document: Document, now: float) -> str:
    labels: Mapping[str, str] = document["metadata"].get("labels") or {}
    roles = {label.removeprefix(_ROLE_PREFIX) for label in labels if label.startswith(_ROLE_PREFIX)}
    roles.add(labels.get(_ROLE, ""))
    return ",".join(sorted(filter(None, roles))) or "<none>"


def _address(kind: str) -> Callable[[Document, float], str]:
    def cell(document: Document, now: float) -> str:
        for address in document.get("status", {}).get("addresses") or ():
            if address.get("type") == kind:
                return str(address.get("address", ""))
        return "<none>"

    return cell


def _info(field: str, default: str = "<unknown>") -> Callable[[Document, float], str]:
    return lambda document, now: at(document, "status", "nodeInfo", field) or default


_COLUMNS: Final = columns(
    Column("Status", _status, description="Whether the node is ready for pods, and takes new ones."),
    Column("Roles", _roles, description="What the node is for, as its labels say."),
    AGE,
    Column("Version", _info("kubeletVersion", ""), description="The version of the node's kubelet."),
    Column(
        "Internal-IP",
        _address("InternalIP"),
        priority=1,
        description="The address under which the cluster knows the node.",
    ),
    Column(
        "External-IP",
        _address("ExternalIP"),
        priority=1,
        description="The address under which the node can be reached from outside, if it can.",
    ),
    Column(
        "OS-Image",
        _info("osImage"),
        priority=1,
        description="The operating system, as the node names it.",
    ),
    Column(
        "Kernel-Version",
        _info("kernelVersion"),
        priority=1,
        description="The version of the node's kernel.",
    ),
    Column(
        "Container-Runtime",
        _info("containerRuntimeVersion"),
        priority=1,
        description="What runs the containers, and in which version.",
    ),
)
