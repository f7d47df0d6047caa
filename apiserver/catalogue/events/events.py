"""Events of the group `events.k8s.io`, which are stored as the core group's Events.

Source: pkg/apis/events/v1/conversion.go, pkg/apis/core/validation/events.go. Errors name fields as the core
group does. Row T08.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from apiserver.catalogue.builtin_type import BuiltinType, HubConversion
from apiserver.catalogue.core import events as core_events
from apiserver.catalogue.core.events import validate_event
from apiserver.catalogue.events import events
from apiserver.meta.field_errors import Errors, invalid, required
from apiserver.meta.table import Columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.field_getters import FieldGetter, field_text
from apiserver.registry.strategy import Strategy
from apiserver.schema.validation.checks import IMMUTABLE, UNCHANGED, immutable


def builtin_type(*, ttl_s: int) -> BuiltinType:
    """Returns the type. ttl_s: the seconds after the last write for which its objects are kept."""
    return BuiltinType(
        "events.",
        "v1",
        "events",
        "Event",
        short_names=("ev",),
        strategy=Strategy(validate_ratcheting=validate_new_event, allows_create_on_update=True, ttl_s=ttl_s),
        columns=Columns(
            tuple(column._replace(cell=_cell_of_core(column.cell)) for column in core_events.COLUMNS.columns)
        ),
        selectable_fields=_FIELDS,
        hub=HubConversion("", "v1", "events", "Event", to_core, from_core),
    )


# The names of fields in the core group by their names here, where they differ.
_NAMES: Final[Mapping[str, str]] = {
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedCount": "count",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
}
# Fields that the core group shows even if they are empty.
_SHOWN_THERE: Final[Mapping[str, Any]] = {"reportingComponent": "", "reportingInstance": ""}


def to_core(document: Document) -> None:
    for here, there in _NAMES.items():
        if here in document:
            document[there] = document.pop(here)
    for field, empty in _SHOWN_THERE.items():
        document.setdefault(field, empty)
    if (series := document.get("series")) is not None and not series.get("count"):
        series.pop("count", None)


def from_core(document: Document) -> None:
    for field in _SHOWN_THERE:
        if not document.get(field):
            document.pop(field, None)
    for here, there in _NAMES.items():
        if there in document:
            document[here] = document.pop(there)
    if (series := document.get("series")) is not None:
        series.setdefault("count", 0)


# ---- checks of stored events, beyond those of the core group

_TYPES: Final = ("Normal", "Warning")


def validate_new_event(document: Document, old: Document | None) -> Errors:
    errors = validate_event(document, reporter="reportingController")
    return errors + (_of_new_kind(document) if old is None else _unchanged(document, old))


def _of_new_kind(document: Document) -> Errors:
    """Checks events that are created through this group: they must not have fields of the old form."""
    errors = _series(document)
    if not document.get("eventTime"):
        errors.append(required("eventTime"))
    if (kind := document.get("type", "")) not in _TYPES:
        errors.append(invalid("type", "", f"has invalid value: {kind}"))
    errors += [
        invalid(field, "", "needs to be unset")
        for field in ("firstTimestamp", "lastTimestamp", "count", "source")
        if document.get(field)
    ]
    return errors


_REFERENCE: Final[Mapping[str, str]] = {
    "Kind": "kind",
    "Namespace": "namespace",
    "Name": "name",
    "UID": "uid",
    "APIVersion": "apiVersion",
    "ResourceVersion": "resourceVersion",
    "FieldPath": "fieldPath",
}


class _Fixed(NamedTuple):
    """A field that never changes.

    name: that in the core group. zero: the value of an absent field in Go. in_go: the fields of a struct, by
    their names in Go. shown: the name in errors, if it differs.
    """

    name: str
    zero: Any = ""
    in_go: Mapping[str, str] | None = None
    shown: str = ""


# In Kubernetes' order.
_FIXED: Final = (
    _Fixed("involvedObject", {}, _REFERENCE),
    _Fixed("reason"),
    _Fixed("message"),
    _Fixed("source", {}, {"Component": "component", "Host": "host"}),
    _Fixed("firstTimestamp", None),
    _Fixed("lastTimestamp", None),
    _Fixed("count", 0),
    _Fixed("reason"),
    _Fixed("type"),
    _Fixed("eventTime", None),
    _Fixed("action"),
    _Fixed("related", None, _REFERENCE),
    _Fixed("reportingComponent", shown="reportingController"),
    _Fixed("reportingInstance"),
)


def _unchanged(new: Document, old: Document) -> Errors:
    """Checks that only the series changes."""
    errors = _series(new) if new.get("series") != old.get("series") else []
    for fixed in _FIXED:
        value, before = (each.get(fixed.name) or fixed.zero for each in (new, old))
        if not immutable(fixed.name, value, before):
            continue
        if fixed.in_go is not None and value is not None:
            value = {name: value.get(field, "") for name, field in fixed.in_go.items()}
        errors.append(invalid(fixed.shown or fixed.name, value, IMMUTABLE, origin=UNCHANGED))
    return errors


def _series(document: Document) -> Errors:
    series = document.get("series")
    if series is None:
        return []
    errors: Errors = []
    if (series.get("count") or 0) < 2:
        errors.append(invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        errors.append(required("series.lastObservedTime"))
    return errors


# ---- fields and columns

# Selectable fields: their names here, and getters for the stored form.
_FIELDS: Final[Mapping[str, FieldGetter]] = {
    **{
        f"regarding.{name}": field_text("involvedObject", name)
        for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    },
    "reason": field_text("reason"),
    "reportingController": field_text("reportingComponent"),
    "type": field_text("type"),
}


def _cell_of_core(cell: Callable[[Document, float], Any]) -> Callable[[Document, float], Any]:
    def show(document: Document, now: float) -> Any:
        as_core = dict(document)
        events.to_core(as_core)
        return cell(as_core, now)

    return show
