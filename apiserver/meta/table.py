"""The columns of resources, for responses as Tables.

Rows D07-D11. Source: k8s.io/kubernetes, pkg/printers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from apiserver.meta import timestamps
from apiserver.meta.vocabulary import Document

_NAME_TEXT: Final = (
    "The object's name. It is unique among objects of this kind, within a namespace where they have one, and "
    "never changes."
)
_CREATED_TEXT: Final = (
    "When the server created the object, as RFC 3339 in UTC (or how long ago). Set by the server; it says "
    "nothing about the order in which objects that are close in time came into being."
)


class Column(NamedTuple):
    """One column of a Table.

    cell: returns the cell of an object, given the object and the time in seconds since 1970.
    priority: columns of 0 are always displayed, others only in wide output.
    """

    name: str
    cell: Callable[[Document, float], Any]
    description: str = ""
    type: str = "string"
    format: str = ""
    priority: int = 0

    def definition(self) -> Document:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a resource."""

    columns: tuple[Column, ...]
    definitions: list[Document] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "definitions", [column.definition() for column in self.columns])

    def cells(self, document: Document, now: float) -> list[Any]:
        return [column.cell(document, now) for column in self.columns]


def columns(*more: Column) -> Columns:
    """Returns the name column, followed by others."""
    return Columns((NAME, *more))


def name_of(document: Document, now: float) -> str:
    name: str = document["metadata"].get("name", "")
    return name


def age(document: Document, now: float) -> str:
    """Returns the time since an object was created: `5m`, or `<unknown>`."""
    return age_of(document["metadata"].get("creationTimestamp"), now)


def age_of(time: str | None, now: float) -> str:
    """Returns the time since `time`, a text in RFC 3339: `5m`, or `<unknown>`."""
    then = timestamps.from_text(time) if time else None
    return duration(now - then) if then is not None else "<unknown>"


# The longest duration of Go, which spans that are longer become.
_DURATION_MAX_S: Final = ((1 << 63) - 1) / 1e9


def duration(seconds: float) -> str:
    """Returns a time span in one or two units, as kubectl prints it. Source: apimachinery,
    pkg/util/duration.
    """
    s = int(min(seconds, _DURATION_MAX_S))
    if s < -1:
        return "<invalid>"
    if s < 0:
        return "0s"
    if s < 120:
        return f"{s}s"
    minutes, hours, days = s // 60, s // 3600, s // 86400
    if minutes < 10:
        return _two(minutes, "m", s % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    if days < 2920:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def field_cell(*steps: str, default: Any = "") -> Callable[[Document, float], Any]:
    """Returns the cell function of the field at a path."""

    def cell(document: Document, now: float) -> Any:
        value: Any = document
        for step in steps:
            value = value.get(step) if isinstance(value, dict) else None
        return default if value is None else value

    return cell


def count(*steps: str) -> Callable[[Document, float], int]:
    """Returns the cell function of the total number of entries in some top-level fields."""
    return lambda document, now: sum(len(document.get(step) or ()) for step in steps)


NAME: Final = Column("Name", name_of, _NAME_TEXT, format="name")
AGE: Final = Column("Age", age, _CREATED_TEXT)
CREATED: Final = Column("Created At", field_cell("metadata", "creationTimestamp"), _CREATED_TEXT, type="date")
# Row D08: the columns of a type that defines none.
DEFAULT: Final = columns(CREATED)


def selector_text(selector: Document | None) -> str:
    """Returns the text of a label selector in an object."""
    if selector is None:
        return "<none>"
    terms = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for requirement in selector.get("matchExpressions") or ():
        key, operator = requirement.get("key", ""), requirement.get("operator", "")
        values = ",".join(sorted(requirement.get("values") or ()))
        text = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }.get(operator, key)
        terms.append((key, text))
    return ",".join(text for _, text in sorted(terms)) or "<none>"


def joined(items: Sequence[Document], field_name: str) -> str:
    """Returns the values of a field of some objects, with commas between them."""
    return ",".join(str(item.get(field_name, "")) for item in items)
