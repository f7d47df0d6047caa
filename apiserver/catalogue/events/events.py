"""Events as the group `events.k8s.io` has them: another form of the core group's, and stricter.

Source: pkg/apis/events/v1/conversion.go, pkg/apis/core/validation/events.go. Errors name fields as the core
group does. Row T08.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from apiserver.field_errors import invalid, required
from apiserver.validation.checks import Errors, immutable
from apiserver.vocabulary import Document

# Fields by their names here and in the core group, where they differ.
_NAMES: Final[Mapping[str, str]] = {
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedCount": "count",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
}
# What the core group shows even if it is empty.
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


def validate_new_event_create(document: Document) -> Errors:
    """What holds for events that are created through this group: no fields of old ones."""
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


# In Kubernetes' order; by the names of the core group, and as errors name them.
_LASTING: Final = (
    ("involvedObject", "involvedObject"),
    ("reason", "reason"),
    ("message", "message"),
    ("source", "source"),
    ("firstTimestamp", "firstTimestamp"),
    ("lastTimestamp", "lastTimestamp"),
    ("count", "count"),
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("action", "action"),
    ("related", "related"),
    ("reportingComponent", "reportingController"),
    ("reportingInstance", "reportingInstance"),
)


def validate_new_event_update(new: Document, old: Document) -> Errors:
    """What happened has happened: only the series goes on."""
    errors = _series(new) if new.get("series") != old.get("series") else []
    for field, shown in _LASTING:
        errors += immutable(shown, new.get(field) or None, old.get(field) or None)
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
