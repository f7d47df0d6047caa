"""Events. Source: pkg/apis/core/validation, events.go, legacyValidateEvent."""

from __future__ import annotations

from functools import partial
from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.meta import names, table
from apiserver.meta.field_errors import Errors, invalid, required
from apiserver.meta.table import Column, Columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.field_getters import FirstNonEmptyText, field_text, field_texts
from apiserver.registry.strategy import Strategy


def builtin_type(*, ttl_s: int) -> BuiltinType:
    """Returns the type. ttl_s: the seconds after the last write for which its objects are kept."""
    return BuiltinType(
        "",
        "v1",
        "events",
        "Event",
        short_names=("ev",),
        strategy=Strategy(
            name_rule=names.path_segment,
            validate=partial(validate_event, reporter="reportingComponent"),
            allows_create_on_update=True,
            ttl_s=ttl_s,
        ),
        columns=COLUMNS,
        selectable_fields={
            **field_texts(
                "involvedObject.kind",
                "involvedObject.namespace",
                "involvedObject.name",
                "involvedObject.uid",
                "involvedObject.apiVersion",
                "involvedObject.resourceVersion",
                "involvedObject.fieldPath",
                "reason",
                "reportingComponent",
                "type",
            ),
            "source": _COMPONENT,
        },
    )


# The reporter of an Event; those of the new form have it in another field.
_COMPONENT: Final = FirstNonEmptyText((field_text("source", "component"), field_text("reportingComponent")))
_SHORT_MAX: Final = 128
_MESSAGE_MAX: Final = 1024


def validate_event(document: Document, *, reporter: str) -> Errors:
    """Checks an Event. One with an `eventTime` is of the new form, and needs more fields.

    reporter: the name of the reporter's field in errors.
    """
    involved = document.get("involvedObject", {}).get("namespace", "")
    namespace = document["metadata"].get("namespace", "")
    is_new = bool(document.get("eventTime"))
    errors: Errors = []
    allowed = {"default", "kube-system"} if is_new else {"", "default"}
    if (involved and not is_new and involved != namespace) or (not involved and namespace not in allowed):
        errors.append(invalid("involvedObject.namespace", involved, "does not match event.namespace"))
    if is_new:
        errors += _new_fields(document, reporter)
    return errors + [invalid("namespace", namespace, problem) for problem in names.dns_subdomain(namespace)]


def _new_fields(document: Document, reporter: str) -> Errors:
    controller = document.get("reportingComponent", "")
    errors = [] if controller else [required(reporter)]
    errors += [invalid(reporter, controller, problem) for problem in names.qualified_name(controller)]
    for field in ("reportingInstance", "action", "reason"):
        text = document.get(field, "")
        if not text:
            errors.append(required(field))
        errors += _not_longer(field, text, _SHORT_MAX)
    return errors + _not_longer("message", document.get("message", ""), _MESSAGE_MAX)


def _not_longer(path: str, text: str, limit: int) -> Errors:
    if names.byte_length(text) <= limit:
        return []
    return [invalid(path, "", f"can have at most {limit} characters")]


# ---- columns


def _last_seen(document: Document, now: float) -> str:
    series = document.get("series") or {}
    moment = (
        series.get("lastObservedTime")
        or document.get("lastTimestamp")
        or document.get("eventTime")
        or document.get("firstTimestamp")
    )
    return table.age_of(moment, now)


def _first_seen(document: Document, now: float) -> str:
    return table.age_of(document.get("firstTimestamp") or document.get("eventTime"), now)


def _event_object(document: Document, now: float) -> str:
    involved = document.get("involvedObject", {})
    kind, name = str(involved.get("kind", "")).lower(), str(involved.get("name", ""))
    return f"{kind}/{name}" if kind else name


def _event_source(document: Document, now: float) -> str:
    source = document.get("source") or {}
    component = _COMPONENT(document)
    host = source.get("host") or document.get("reportingInstance") or ""
    return f"{component}, {host}" if component and host else component or host


def _event_count(document: Document, now: float) -> int:
    series = document.get("series") or {}
    return int(series.get("count") or document.get("count") or 1)


COLUMNS: Final = Columns(
    (
        Column("Last Seen", _last_seen, "The time since the last occurrence."),
        Column("Type", field_cell("type"), "Normal or Warning."),
        Column("Reason", field_cell("reason"), "The reason in one word, for programs."),
        Column("Object", _event_object, "The object that the event is about."),
        Column(
            "Subobject",
            field_cell("involvedObject", "fieldPath"),
            "The part of the object that the event is about.",
            priority=1,
        ),
        Column("Source", _event_source, "The component that reported the event.", priority=1),
        Column("Message", lambda d, now: str(d.get("message", "")).strip(), "The description of the event."),
        Column("First Seen", _first_seen, "The time since the first occurrence.", priority=1),
        Column("Count", _event_count, "The number of occurrences.", priority=1),
        Column("Name", table.name_of, "The name of the event.", format="name", priority=1),
    )
)
