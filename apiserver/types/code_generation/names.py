"""Names for Python, from names in JSON and paths of schemas."""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Iterable
from typing import Final

# What generated modules import, and the built-in names that they use. In a class body, a field of this name
# would hide it from the fields after it.
IMPORTED: Final = frozenset(
    {
        *("Annotated", "Any", "ClassVar", "Literal", "NotRequired", "TypedDict", "annotations", "typing"),
        *("BaseModel", "ConfigDict", "Field", "Meta", "Struct", "UUID", "dataclass", "date", "datetime"),
        *("Ge", "Gt", "Le", "Len", "Lt", "MaxLen", "MinLen", "MultipleOf", "Interval", "Pattern", "Format"),
        *("Column", "Default", "Depth", "Doc", "EmbeddedObject", "Immutable", "IntOrString", "Keywords"),
        *("Kubernetes", "Name", "Nullable", "Preserve", "Quantity", "Rule", "Scale", "Selectable"),
        *("atomic", "crd", "definition", "field", "map_by", "msgspec", "pydantic", "rule", "set_list"),
    }
)
_BUILTINS: Final = frozenset({"bool", "bytes", "dict", "float", "int", "list", "set", "str", "tuple"})
# What all classes have: `dataclass` would take it for the default of a field.
_OF_CLASSES: Final = frozenset({"mro"})
RESERVED: Final = IMPORTED | _BUILTINS | _OF_CLASSES | frozenset(keyword.kwlist)
# The plurals of English that CRDs use, with their singulars, from the first that matches.
_SINGULARS: Final = (
    (re.compile(r"(?<=[a-z]{2})ies$"), "y"),
    (re.compile(r"(?<=sse|she|che|xes)s$|(?<=ss|sh|ch)es$|(?<=x)es$"), ""),
    (re.compile(r"(?<=[^siu])s$"), ""),
)


def class_name(text: str) -> str:
    """Returns the part of a class name that a name in JSON gives: `x-y` is `XY`."""
    words = re.findall(r"[A-Za-z0-9]+", text.encode("ascii", "ignore").decode())
    name = "".join(word[0].upper() + word[1:] for word in words)
    return name if name[:1].isalpha() else f"Type{name}"


def singular(text: str) -> str:
    """Returns the name of one element of a list: of `policies`, `policy`; `data` becomes `dataItem`."""
    for plural, ending in _SINGULARS:
        if plural.search(text):
            return plural.sub(ending, text)
    return f"{text}Item"


def identifier(text: str) -> str:
    """Returns an attribute name for a name in JSON: the name itself if Python can have it."""
    if text.isidentifier() and text.isascii() and not text.startswith("_"):
        return text
    name = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")
    return name if name and not name[0].isdigit() else f"field_{name}"


def unique(name: str, taken: Collection[str]) -> str:
    """Returns the name if it is not taken, or else with the first free number: `name_`, `name_2`."""
    if name not in taken:
        return name
    candidates: Iterable[str] = (f"{name}_{number if number > 1 else ''}" for number in range(1, 10**6))
    return next(each for each in candidates if each not in taken)
