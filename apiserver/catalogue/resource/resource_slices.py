"""ResourceSlices: the devices that drivers publish.

Source: pkg/apis/resource/validation, ValidateResourceSlice; pkg/apis/resource/v1/defaults.go (release 1.36).
"""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.pod_specs.scheduling import validate_node_selector
from apiserver.catalogue.pod_specs.volumes import validate_csi_driver_name
from apiserver.catalogue.resource.device_requests import name_of, validate_pool_name, validate_set
from apiserver.catalogue.resource.devices import (
    complete_device,
    has_lists,
    validate_counters,
    validate_device,
)
from apiserver.golang.quoting import go_quote
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, invalid, required
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.field_getters import field_texts
from apiserver.registry.strategy import Strategy, UpdateStrategy, WriteContext
from apiserver.schema.validation.checks import follows, immutable
from apiserver.schema.validation.documents import at


def _date_taints(context: WriteContext, document: Document) -> None:
    """Sets the missing times of taints."""
    for device in at(document, "spec", "devices") or ():
        for taint in device.get("taints") or ():
            taint["timeAdded"] = taint.get("timeAdded") or context.now


_DEVICES_MAX: Final = 128
# Those whose devices have taints, take from shared counters, or have attributes with several values.
_ADVANCED_DEVICES_MAX: Final = 64
_COUNTER_SETS_MAX: Final = 8


def validate_new_slice(document: Document) -> Errors:
    return _slice(document.get("spec", {}), None)


def validate_slice_update(new: Document, old: Document) -> Errors:
    return _slice(new.get("spec", {}), old.get("spec", {}))


def _slice(spec: Document, old: Document | None) -> Errors:
    """Checks a slice. old: the stored one; None if it is new."""
    errors = validate_csi_driver_name("spec.driver", spec.get("driver", ""))
    errors += _pool("spec.pool", spec.get("pool", {}))
    if old is not None:
        for path in (("pool", "name"), ("driver",), ("nodeName",)):
            errors += immutable(f"spec.{'.'.join(path)}", at(spec, *path), at(old, *path))
    errors += _nodes(spec)
    if spec.get("sharedCounters") is not None and spec.get("devices") is not None:
        errors.append(invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed"))
    errors += _devices(spec, old)
    return errors + validate_set(
        "spec",
        spec,
        "sharedCounters",
        _COUNTER_SETS_MAX,
        lambda where, each: validate_counters(where, each, "name"),
        name_of,
    )


def _pool(path: str, pool: Document) -> Errors:
    errors = validate_pool_name(f"{path}.name", pool.get("name", ""))
    if (count := pool.get("resourceSliceCount", 0)) <= 0:
        errors.append(invalid(f"{path}.resourceSliceCount", count, "must be greater than zero"))
    if (generation := pool.get("generation", 0)) < 0:
        text = "must be greater than or equal to zero"
        errors.append(invalid(f"{path}.generation", generation, text))
    return errors


def _devices(spec: Document, old: Document | None) -> Errors:
    # Of several of one name the first counts.
    before = {name_of(each): each for each in reversed(at(old or {}, "devices") or ())}
    has_own_place = bool(spec.get("perDeviceNodeSelection"))
    return validate_set(
        "spec",
        spec,
        "devices",
        _ADVANCED_DEVICES_MAX if any(map(_is_advanced, spec.get("devices") or ())) else _DEVICES_MAX,
        lambda where, each: validate_device(
            where, each, before.get(name_of(each)), has_own_place=has_own_place
        ),
        name_of,
    )


def _is_advanced(device: Document) -> bool:
    if device.get("taints") or device.get("consumesCounters"):
        return True
    return any(map(has_lists, (device.get("attributes") or {}).values()))


# ---- where the devices are

_PLACES: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ONE_PLACE: Final = (
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
)


def _nodes(spec: Document) -> Errors:
    errors: Errors = []
    if (name := spec.get("nodeName")) == "":
        text = "must be either unset or set to a non-empty string"
        errors.append(invalid("spec.nodeName", name, text))
    elif name is not None:
        errors += follows("spec.nodeName", name, names.dns_subdomain)
    if (selector := spec.get("nodeSelector")) is not None:
        errors += validate_node_selector("spec.nodeSelector", selector)
        terms = selector.get("nodeSelectorTerms")
        if len(terms or ()) != 1:
            path = "spec.nodeSelector.nodeSelectorTerms"
            errors.append(invalid(path, terms, "must have exactly one node selector term"))
    errors += [
        invalid(f"spec.{field}", False, "must be either unset or set to true")
        for field in ("allNodes", "perDeviceNodeSelection")
        if spec.get(field) is False
    ]
    chosen = [f"`{place}`" for place in _PLACES if spec.get(place) not in (None, False, "")]
    if not chosen:
        errors.append(required("spec", _ONE_PLACE))
    elif len(chosen) > 1:
        text = f"{_ONE_PLACE}, but multiple fields are set"
        errors.append(invalid("spec", f"{{{', '.join(chosen)}}}", text))
    return errors


def warn_slice(new: Document, old: Document | None) -> list[str]:
    driver = new.get("spec", {}).get("driver", "")
    if driver == driver.lower():
        return []
    text = f"driver names should be lowercase; {go_quote(driver)} contains uppercase characters"
    return [f"spec.driver: {text}"]


BUILTIN_TYPE: Final = BuiltinType(
    "resource.",
    "v1",
    "resourceslices",
    "ResourceSlice",
    is_namespaced=False,
    defaults={"io.k8s.api.resource.v1.Device": complete_device},
    strategy=Strategy(
        returns_deleted=True,
        stamp_create=_date_taints,
        validate_create=validate_new_slice,
        warn=warn_slice,
        update=UpdateStrategy(
            validate=validate_slice_update, stamp=lambda context, new, old: _date_taints(context, new)
        ),
        has_generation=True,
    ),
    columns=columns(
        Column("Node", field_cell("spec", "nodeName", default="<unset>"), "The node of the devices."),
        Column("Driver", field_cell("spec", "driver"), "The driver of the devices."),
        Column("Pool", field_cell("spec", "pool", "name"), "The pool of the devices."),
        AGE,
    ),
    selectable_fields=field_texts("spec.nodeName", "spec.driver"),
    field_refusal="field label not supported for {gvk}: {field}",
)
