"""Reads markers: bounds, patterns, descriptions and what Kubernetes adds.

Bounds and descriptions are found by their attributes and not by their classes: `Ge(0)` of annotated_types,
`Field(ge=0)` of pydantic and `Meta(ge=0)` of msgspec all have an attribute `ge`. Other markers are ignored:
validators are Python code, which a schema cannot contain.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from apiserver.types.errors import Unrepresentable
from apiserver.types.markers import (
    Default,
    Depth,
    Format,
    Keywords,
    Kubernetes,
    ListType,
    Marker,
    Name,
    Rule,
    Structural,
)

# What bounds are called in a schema of a type; the types without a bound do not have it.
_LENGTHS: Final = {"string": "Length", "array": "Items", "object": "Properties"}
_NUMBERS: Final = frozenset({"integer", "number"})


class Constraints(NamedTuple):
    """What the markers of a field or type say.

    bounds: by their names in annotated_types, such as `ge`; the strictest if there are several.
    """

    bounds: dict[str, Any]
    patterns: list[str]
    rules: list[Rule]
    flags: set[Marker]
    description: str = ""
    format: str = ""
    list_type: ListType | None = None
    depth: int = 0
    name: str = ""
    default: Default | None = None
    given: Structural | Kubernetes | None = None
    keywords: Mapping[str, Any] = MappingProxyType({})


def constraints_of(markers: Iterable[Any], path: str) -> Constraints:
    """Returns what markers say, the innermost first; a later description, format or name wins.

    Raises Unrepresentable: two bounds cannot be combined.
    """
    found = Constraints({}, [], [], set())
    for marker in _flattened(markers):
        match marker:
            case Rule():
                found.rules.append(marker)
            case Marker():
                found.flags.add(marker)
            case Format(name=name):
                found = found._replace(format=name)
            case ListType():
                found = found._replace(list_type=marker)
            case Depth(levels=levels):
                found = found._replace(depth=levels)
            case Name(name=name):
                found = found._replace(name=name)
            case Default():
                found = found._replace(default=marker)
            case Keywords(keywords=keywords):
                found = found._replace(keywords={**found.keywords, **keywords})
            case Structural() | Kubernetes():
                found = found._replace(given=marker)
            case _:
                _add_bounds(marker, found, path)
                found = found._replace(description=_description(marker) or found.description)
    return found


def _flattened(markers: Iterable[Any]) -> Iterator[Any]:
    """Yields the markers; `Field(ge=0)` of pydantic holds its bounds in a list."""
    for marker in markers:
        yield marker
        if isinstance(inner := getattr(marker, "metadata", None), list):
            yield from inner


def _description(marker: Any) -> str:
    for name in ("documentation", "description"):
        if isinstance(text := getattr(marker, name, None), str):
            return text
    return ""


def _add_bounds(marker: Any, found: Constraints, path: str) -> None:
    if isinstance(marker, type):
        return  # Its attributes are not those of its objects.
    for name, stricter in _STRICTER.items():
        value = getattr(marker, name, None)
        if value is not None and not callable(value) and (name, value) != ("min_length", 0):
            known = found.bounds.get(name, value)
            try:
                found.bounds[name] = stricter(known, value)
            except (TypeError, ValueError):
                reason = f"the bounds {name} {known!r} and {value!r} cannot be combined"
                raise Unrepresentable(path, reason, "use one of them") from None
    pattern = getattr(marker, "pattern", None)
    if isinstance(pattern, re.Pattern):
        pattern = pattern.pattern
    if isinstance(pattern, str) and pattern not in found.patterns:
        found.patterns.append(pattern)


def _common_multiple(one: Any, other: Any) -> Any:
    if one != other and not (isinstance(one, int) and isinstance(other, int)):
        raise ValueError(f"{one} and {other} are not integers")
    return one if one == other else math.lcm(one, other)


_STRICTER: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "ge": max,
    "gt": max,
    "le": min,
    "lt": min,
    "multiple_of": _common_multiple,
    "min_length": max,
    "max_length": min,
}


def add_constraints(schema: dict[str, Any], found: Constraints, path: str) -> None:
    """Add bounds and a pattern to a schema. Raises Unrepresentable if they do not apply to its type."""
    if not found.bounds and not found.patterns:
        return
    kind = "integer" if schema.get("x-kubernetes-int-or-string") else schema.get("type", "")
    has_text = schema.get("x-kubernetes-int-or-string") or kind == "string"
    if kind == "string" and "format" in schema:
        raise Unrepresentable(
            path, f"bounds do not apply to the text of a {schema['format']}", "use a Rule in CEL"
        )
    if "pattern" in schema:
        raise Unrepresentable(path, "bounds do not apply to the text of a quantity", "use a Rule in CEL")
    for name, value in found.bounds.items():
        if name in ("min_length", "max_length"):
            _add_length(schema, name, int(value), "string" if has_text else kind, path)
        elif kind in _NUMBERS:
            if not _is_json_number(value):
                raise Unrepresentable(path, f"the bound {name} is {value!r}", "use an int or a float")
            _add_number(schema, name, value)
        else:
            raise Unrepresentable(path, f"the bound {name} applies to numbers only", "use a Rule in CEL")
    if len(found.patterns) > 1:
        raise Unrepresentable(path, "a schema can have one pattern only", "combine the patterns")
    for pattern in found.patterns:
        if not has_text:
            raise Unrepresentable(path, "a pattern applies to strings only", "use a Rule in CEL")
        schema["pattern"] = pattern


def _is_json_number(value: Any) -> bool:
    """Returns whether JSON has a number; it has no infinity and no NaN."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -math.inf < value < math.inf


def _add_length(schema: dict[str, Any], name: str, value: int, kind: str, path: str) -> None:
    if kind not in _LENGTHS or "properties" in schema:
        raise Unrepresentable(path, f"the bound {name} applies to strings, lists and dicts only")
    schema[f"{name.removesuffix('_length')}{_LENGTHS[kind]}"] = value


def _add_number(schema: dict[str, Any], name: str, value: Any) -> None:
    """Add a bound of a number; of `ge` and `gt`, or `le` and `lt`, the stricter one."""
    if name == "multiple_of":
        schema["multipleOf"] = value
        return
    field = "minimum" if name in ("ge", "gt") else "maximum"
    known = schema.get(field)
    is_exclusive = name in ("gt", "lt")
    if known is not None:
        is_stricter = value > known if field == "minimum" else value < known
        if not (is_stricter or (value == known and is_exclusive)):
            return
    schema[field] = value
    schema.pop(f"exclusive{field.title()}", None)
    if is_exclusive:
        schema[f"exclusive{field.title()}"] = True
