"""The group `events.k8s.io`: the core group's events in another form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from apiserver.catalogue.builtin_type import BuiltinType, StoredAs, field
from apiserver.catalogue.common import columns
from apiserver.catalogue.core import events as core_events
from apiserver.catalogue.events.events import (
    from_core,
    to_core,
    validate_new_event_create,
    validate_new_event_update,
)
from apiserver.meta.table import Columns
from apiserver.registry.served_resource import FieldGetter
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.vocabulary import Document


def types(*, event_ttl_s: int) -> tuple[BuiltinType, ...]:
    return (
        BuiltinType(
            "events.",
            "v1",
            "events",
            "Event",
            "io.k8s.api.events.v1.Event",
            short_names=("ev",),
            strategy=Strategy(
                validate=core_events.validate_event,
                validate_create=validate_new_event_create,
                update=UpdateStrategy(validate=validate_new_event_update),
                allows_create_on_update=True,
                ttl_s=event_ttl_s,
            ),
            columns=_COLUMNS,
            selectable_fields=_FIELDS,
            stored_as=StoredAs("", "v1", "events", "Event", to_core, from_core),
        ),
    )


# What an event is about, by its name here; of stored events.
_FIELDS: Final[Mapping[str, FieldGetter]] = {
    **{
        f"regarding.{name}": field("involvedObject", name)
        for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    },
    "reason": field("reason"),
    "reportingController": field("reportingComponent"),
    "type": field("type"),
}


def _of_core(cell: Callable[[Document, float], Any]) -> Callable[[Document, float], Any]:
    def show(document: Document, now: float) -> Any:
        as_core = dict(document)
        to_core(as_core)
        return cell(as_core, now)

    return show


_COLUMNS: Final = Columns(
    tuple(replace(column, cell=_of_core(column.cell)) for column in columns.EVENTS.columns)
)
