"""Nodes.

Source: pkg/apis/core/v1/defaults.go, pkg/apis/core/validation (ValidateNode), pkg/registry/core/node, and
plugin/pkg/admission/nodetaint for the taint of new nodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from apiserver.catalogue.builtin_type import CORE, DEFAULT_GATES, BuiltinType, status_subresource
from apiserver.catalogue.common.annotation_values import UnreadableAnnotation, list_of, object_of, read, text
from apiserver.catalogue.pod_specs.resource_requirements import validate_amount
from apiserver.catalogue.pod_specs.scheduling import TAINT_EFFECTS
from apiserver.golang.quoting import go_quote
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, FieldError, duplicate, forbidden, invalid, required
from apiserver.meta.names import byte_length
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.table import AGE, Column, columns
from apiserver.meta.vocabulary import Document
from apiserver.registry import subresources
from apiserver.registry.field_getters import field_text
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status
from apiserver.schema.validation.addresses import STRICT_ADDRESSES, AddressChecks, cidr_warnings, parse_cidr
from apiserver.schema.validation.checks import one_of, positive
from apiserver.schema.validation.defaults import in_turn, rounding
from apiserver.schema.validation.documents import at, items


def builtin_type(gates: FeatureGates = DEFAULT_GATES) -> BuiltinType:
    addresses = AddressChecks(gates.is_on(STRICT_ADDRESSES))
    return BuiltinType(
        "",
        "v1",
        "nodes",
        "Node",
        is_namespaced=False,
        short_names=("no",),
        subresources=(subresources.proxy("NodeProxyOptions"), status_subresource(validate_node_change)),
        defaults={
            f"{CORE}NodeSpec": _default_spec,
            f"{CORE}NodeStatus": in_turn(_default_status, rounding("capacity", "allocatable")),
        },
        strategy=Strategy(
            prepare_create=prepare_node_create,
            validate_ratcheting=partial(validate_node, addresses=addresses),
            warn=warn_node,
            update=UpdateStrategy(keep_status),
        ),
        columns=columns(
            Column("Status", _status, "Whether the node is ready, and whether it is schedulable."),
            Column("Roles", _roles, "The roles of the node, from its labels."),
            AGE,
            Column("Version", _info("kubeletVersion", ""), "The version of the node's kubelet."),
            Column(
                "Internal-IP",
                _address("InternalIP"),
                "The internal IP address of the node.",
                priority=1,
            ),
            Column(
                "External-IP",
                _address("ExternalIP"),
                "The external IP address of the node, if any.",
                priority=1,
            ),
            Column("OS-Image", _info("osImage"), "The operating system image of the node.", priority=1),
            Column("Kernel-Version", _info("kernelVersion"), "The version of the node's kernel.", priority=1),
            Column(
                "Container-Runtime",
                _info("containerRuntimeVersion"),
                "The container runtime of the node, and its version.",
                priority=1,
            ),
        ),
        selectable_fields={"spec.unschedulable": field_text("spec", "unschedulable", default="false")},
    )


_NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_TAINTS: Final = "scheduler.alpha.kubernetes.io/taints"
_TAINT_FIELDS: Final = ("key", "value", "effect", "timeAdded")
_AVOIDED_PODS: Final = "scheduler.alpha.kubernetes.io/preferAvoidPods"
_POD_CIDRS_KEPT: Final = 'node updates may not change podCIDR except from "" to valid'
_PROVIDER_KEPT: Final = 'node updates may not change providerID except from "" to valid'


def _default_spec(spec: Document) -> None:
    """Makes `podCIDR` the first of `podCIDRs`; if they differ, `podCIDR` wins."""
    cidr, cidrs = spec.get("podCIDR"), spec.get("podCIDRs")
    if cidr and (not cidrs or cidrs[0] != cidr):
        spec["podCIDRs"] = [cidr]
    elif cidrs:
        spec["podCIDR"] = cidrs[0]


def _default_status(status: Document) -> None:
    """Makes all capacity allocatable if nothing is reserved."""
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])


def prepare_node_create(document: Document) -> None:
    """Taints a new node, so that nothing is scheduled to it before it is ready."""
    taints = document.setdefault("spec", {}).get("taints") or []
    if not any(_identity(taint) == _identity(_NOT_READY) for taint in taints):
        document["spec"]["taints"] = [*taints, dict(_NOT_READY)]


def validate_node(document: Document, old: Document | None, *, addresses: AddressChecks) -> Errors:
    """Checks a node. As in Kubernetes, errors that the check of a change also finds are repeated."""
    spec = document.get("spec") or {}
    errors = _annotations(document) + _taints("metadata.taints", spec.get("taints") or ())
    errors += _resources(document)
    swap_bytes = at(document, "status", "nodeInfo", "swap", "capacity")
    errors += positive("metadata.nodeSwapStatus.capacity", swap_bytes)
    errors += _declared_features(document)
    cidrs = spec.get("podCIDRs") or []
    for path, each in items(spec, "podCIDRs", "spec"):
        errors += addresses.cidr(path, each)
    if len(cidrs) > 1:
        found = [parse_cidr(each) for each in cidrs]
        if None in found:
            index = found.index(None)
            wrong = f"invalid CIDR[{index}]: <nil> (invalid CIDR address: {cidrs[index]})"
            text = f"Internal error: invalid PodCIDRs. failed to check with dual stack with error:{wrong}"
            errors.append(FieldError("spec.podCIDRs", "InternalError", text))
        if len(cidrs) > 2 or len({each.ip.family for each in found if each is not None}) < 2:
            text = "may specify no more than one CIDR for each IP family"
            errors.append(invalid("spec.podCIDRs", cidrs, text))
    return errors if old is None else errors + validate_node_change(document, old)


def _annotations(document: Document) -> Errors:
    """Checks annotations of nodes that were replaced by fields."""
    annotations, path = at(document, "metadata", "annotations") or {}, "metadata.annotations"
    errors: Errors = []
    if annotation := annotations.get(_TAINTS):
        try:
            taints = [_taint(each) for each in read(annotation, list_of)]
        except UnreadableAnnotation:
            return [invalid(path, _TAINTS, "must be the JSON of a list of taints")]
        errors += _taints(f"{path}.{_TAINTS}", taints)
    if annotation := annotations.get(_AVOIDED_PODS):
        try:
            avoided = read(annotation, object_of).get("preferAvoidPods") or []
            for index, each in enumerate(map(object_of, list_of(avoided))):
                errors += _avoided_pods(f"{path}.{_AVOIDED_PODS}[{index}]", each)
        except UnreadableAnnotation:
            errors.append(invalid(f"{path}.AvoidPods", _AVOIDED_PODS, "must be the JSON of AvoidPods"))
    return errors


def _taint(value: Any) -> Document:
    """Returns a taint with its set fields, all of which are texts. Raises UnreadableAnnotation."""
    found = object_of(value)
    return {field: text(found[field]) for field in _TAINT_FIELDS if found.get(field) is not None}


def _avoided_pods(path: str, entry: Document) -> Errors:
    controller = object_of(entry.get("podSignature") or {}).get("podController")
    if controller is None:
        return [required(f"{path}.PodSignature")]
    if object_of(controller).get("controller"):
        return []
    text = "must point to a controller"
    return [invalid(f"{path}.PodSignature.PodController.Controller", False, text)]


_is_feature = re.compile(r"[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*").fullmatch


def _declared_features(document: Document) -> Errors:
    path = "status.declaredFeatures"
    features = at(document, "status", "declaredFeatures") or ()
    errors: Errors = []
    for index, feature in enumerate(features):
        problem = ""
        if byte_length(feature) > names.SUBDOMAIN_MAX:
            problem = f"must be no more than {names.SUBDOMAIN_MAX} characters"
        elif not _is_feature(feature):
            problem = (
                "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., "
                "MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
            )
        if problem:
            text = f"invalid feature name {go_quote(feature)}: {problem}"
            errors.append(invalid(f"{path}[{index}]", feature, text))
        following = features[index + 1 : index + 2]
        if following == [feature]:
            errors.append(duplicate(f"{path}[{index + 1}]", feature))
        elif following and feature > following[0]:
            text = "list must be sorted alphabetically"
            errors.append(invalid(f"{path}[{index + 1}]", following[0], text))
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


def validate_node_change(new: Document, old: Document) -> Errors:
    """Checks an update of a node, or of its status."""
    spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    errors = _annotations(new) + _resources(new) + _declared_features(new)
    seen: set[tuple[str, str]] = set()
    for path, address in items(new.get("status") or {}, "addresses", "status"):
        typed = (address.get("type", ""), address.get("address", ""))
        if typed in seen:
            errors.append(duplicate(path, {"Type": typed[0], "Address": typed[1]}))
        seen.add(typed)
    cidrs, old_cidrs = spec.get("podCIDRs") or [], old_spec.get("podCIDRs") or []
    if old_cidrs and len(cidrs) != len(old_cidrs):
        errors.append(forbidden("spec.podCIDRs", _POD_CIDRS_KEPT))
    elif old_cidrs:
        changed = sum(a != b for a, b in zip(cidrs, old_cidrs, strict=True))
        errors += [forbidden("spec.podCIDRs", _POD_CIDRS_KEPT)] * changed
    if old_spec.get("providerID") and spec.get("providerID") != old_spec["providerID"]:
        errors.append(forbidden("spec.providerID", _PROVIDER_KEPT))
    if (source := spec.get("configSource")) is not None:
        errors += _config_source("spec.configSource", source, is_status=False)
    for path, source in (at(new, "status", "config") or {}).items():
        if path in ("assigned", "active", "lastKnownGood"):
            errors += _config_source(f"status.config.{path}", source, is_status=True)
    errors += _taints("metadata.taints", spec.get("taints") or ())
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
            errors.append(required(f"{path}.{field}"))
        if not is_status and found.get(field):
            errors.append(forbidden(f"{path}.{field}", f"{field} must not be set in spec"))
    for field, rule in (
        ("namespace", names.dns_label),
        ("name", names.dns_subdomain),
        ("kubeletConfigKey", names.config_map_key),
    ):
        if not (text := found.get(field, "")):
            errors.append(required(f"{path}.{field}"))
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
    for path, each in items(spec, "podCIDRs", "spec"):
        warnings += cidr_warnings(path, each)
    return warnings


# ---- columns

_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE: Final = "kubernetes.io/role"


def _status(document: Document, now: float) -> str:
    conditions = document.get("status", {}).get("conditions") or ()
    ready = {each.get("type"): each.get("status") for each in conditions}.get("Ready")
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
