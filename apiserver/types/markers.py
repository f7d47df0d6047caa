"""Markers for `Annotated`: what Kubernetes says about a field and Python's types do not.

The bounds of numbers and lengths are those of the package annotated_types: `Ge`, `MaxLen` and so on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Final, TypeAlias


@dataclass(frozen=True, slots=True)
class Doc:
    """The description of a field, which `kubectl explain` shows."""

    documentation: str


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a field in JSON, if it differs from the name in Python."""

    name: str


# `typing` returns the same object for equal hints: Default(1) must not equal Default(1.0) and Default(True).
@dataclass(frozen=True, slots=True, eq=False)
class Default:
    """The default of a field, as JSON. Only TypedDicts need it: other classes can declare defaults.

    If a class also declares a default, the definition has that of the marker. An object is then the default
    as it is, with all its fields.
    """

    value: Any


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression in RE2 syntax that matches anywhere in the text, unless it has ^ and $."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Format:
    """The format of a string, such as `hostname`, or of a number, such as `int32`."""

    name: str


@dataclass(frozen=True, slots=True)
class Depth:
    """How many levels deep a field of a recursive class may be nested.

    A structural schema cannot refer to itself. The schema leaves the field out at the last level, so the
    server drops deeper values, with a warning.
    """

    levels: int

    def __post_init__(self) -> None:
        if self.levels < 1:
            raise ValueError(f"Depth needs at least 1 level, not {self.levels}")


@dataclass(frozen=True, slots=True)
class Rule:
    """A validation rule in CEL, with `self` as the value and `oldSelf` as the stored one.

    message_expression: a CEL expression that returns the message.
    reason: FieldValueInvalid (the default), FieldValueForbidden, FieldValueRequired or FieldValueDuplicate.
    field_path: the field that the error names, relative to the value, as `.least`.
    optional_old_self: whether the rule also runs when there is no old value; `oldSelf` is then optional.
    Source: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/
        custom-resource-definitions/#validation-rules
    """

    expression: str
    message: str = ""
    message_expression: str = ""
    reason: str = ""
    field_path: str = ""
    optional_old_self: bool = False

    def document(self) -> dict[str, Any]:
        """Returns the rule as an item of x-kubernetes-validations."""
        fields = {
            "rule": self.expression,
            "message": self.message,
            "messageExpression": self.message_expression,
            "reason": self.reason,
            "fieldPath": self.field_path,
            "optionalOldSelf": self.optional_old_self,
        }
        return {name: value for name, value in fields.items() if value}


# A field with a value keeps this value. A field without one can still get one: this rule has no old value.
Immutable: Final = Rule("self == oldSelf", message="field is immutable")


@dataclass(frozen=True, slots=True)
class ListType:
    """How server-side apply merges a list, or the fields of an object: `map`, `set` or `atomic`."""

    kind: str
    keys: tuple[str, ...] = ()


set_list: Final = ListType("set")
atomic: Final = ListType("atomic")


def map_by(*keys: str) -> ListType:
    """Returns the marker of a list whose items are identified by some of their fields."""
    if not keys:
        raise ValueError("map_by needs at least one key")
    if len(set(keys)) < len(keys):
        raise ValueError(f"map_by needs different keys, not {', '.join(keys)}")
    return ListType("map", keys)


class Marker(Enum):
    """The markers that have no arguments."""

    NULLABLE = "nullable"
    PRESERVE = "preserve"
    SELECTABLE = "selectable"


# null is a value of the field that the server keeps, and not the same as an absent field.
Nullable: Final = Marker.NULLABLE
# The server keeps fields of the object that the schema does not have.
Preserve: Final = Marker.PRESERVE
# Clients can select objects by the field: `kubectl get --field-selector`.
Selectable: Final = Marker.SELECTABLE


@dataclass(frozen=True, slots=True)
class Structural:
    """The structural schema of a type, in place of the one that follows from the Python type."""

    schema: dict[str, Any] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Keywords:
    """Keywords of the schema that no type and no other marker says, such as `anyOf` or `minProperties`.

    They are added to the schema of the type, and win over its own.
    """

    keywords: Mapping[str, Any] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Kubernetes:
    """A built-in Kubernetes type by its name in OpenAPI, as `io.k8s.api.core.v1.PodTemplateSpec`."""

    definition: str


# Source: k8s.io/apimachinery pkg/api/resource, the syntax of Quantity, as controller-gen writes it.
QUANTITY: Final = Structural(
    {
        "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
        r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
        "x-kubernetes-int-or-string": True,
    }
)
EMBEDDED_OBJECT: Final = Structural(
    {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }
)

IntOrString: TypeAlias = int | str
# A number with a unit, such as 500m or 2Gi.
Quantity: TypeAlias = Annotated[int | str, QUANTITY]
# A whole object of any type, with apiVersion, kind and metadata.
EmbeddedObject: TypeAlias = Annotated[dict[str, Any], EMBEDDED_OBJECT]
