"""ComponentStatuses, which are deprecated and never exist."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.meta.table import Column, columns
from apiserver.meta.vocabulary import Document


def _health(field: str) -> Callable[[Document, float], str]:
    """Returns a cell with an attribute of the condition Healthy."""

    def cell(document: Document, now: float) -> str:
        for condition in document.get("conditions") or ():
            if condition.get("type") == "Healthy":
                return _HEALTH.get(value := str(condition.get(field, "")), value)
        return _HEALTH["Unknown"] if field == "status" else ""

    return cell


_HEALTH: Final = {"True": "Healthy", "False": "Unhealthy", "Unknown": "Unknown"}


BUILTIN_TYPE: Final = BuiltinType(
    "",
    "v1",
    "componentstatuses",
    "ComponentStatus",
    is_namespaced=False,
    short_names=("cs",),
    verbs=("get", "list"),
    columns=columns(
        Column("Status", _health("status"), "Whether the component is healthy."),
        Column("Message", _health("message"), "The message of the component."),
        Column("Error", _health("error"), "The error of the health check, if any."),
    ),
)
