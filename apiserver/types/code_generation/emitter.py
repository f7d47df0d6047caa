"""Writes the tree of types as Python source. What depends on the kind of the classes is in subclasses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from apiserver.types.code_generation.expressions import (
    INDENT,
    Bracketed,
    Element,
    Expression,
    Text,
    Union,
    call,
    literal,
    quoted,
    subscript,
)
from apiserver.types.code_generation.fields import field_lines, fits
from apiserver.types.code_generation.imports import Imports
from apiserver.types.code_generation.tree import (
    ABSENT,
    AnyOf,
    Choice,
    Field,
    ListOf,
    MapOf,
    Marker,
    Model,
    Named,
    TypeUse,
    ordered,
)


class UnsupportedName(Exception):
    """Classes of a kind cannot have a field of this name."""


class Emitter(ABC):
    """Writes one module."""

    # Attributes of the base class, which fields must not hide.
    reserved: ClassVar[frozenset[str]] = frozenset()

    def __init__(self) -> None:
        self.imports = Imports()
        self._written: set[str] = set()

    def source(self, roots: Sequence[Model], title: str) -> str:
        """Returns the source of a module with the models and all that they need. title: its docstring."""
        blocks = []
        for model in ordered(roots):
            blocks.append("\n".join([*self.before(model), *self._class(model)]))
            self._written.add(model.name)
        head = [f'"""{title}"""', "", "from __future__ import annotations", "", *self.imports.lines()]
        return "\n\n\n".join(["\n".join(head), *blocks]) + "\n"

    # ---- what the kinds differ in

    def before(self, model: Model) -> list[str]:
        """Returns lines before the class and its decorators."""
        return []

    def decorators(self) -> list[str]:
        return []

    def bases(self, model: Model) -> list[str]:
        """Returns what is in the parentheses after the name of the class."""
        return []

    def options(self, model: Model) -> list[str]:
        """Returns lines of the body before the fields."""
        return []

    def fields(self, model: Model) -> list[Field]:
        """Returns the fields that are in the body."""
        return model.fields

    @abstractmethod
    def field_type(self, model: Model, field: Field) -> Expression: ...

    def field_value(self, model: Model, field: Field) -> Expression | None:
        """Returns what the field is assigned in the body."""
        return None

    def bounds(self, use: TypeUse) -> list[Expression]:
        """Returns the markers of a type, without Nullable."""
        return [self.marker(each) for each in use.markers]

    # ---- classes

    def _class(self, model: Model) -> list[str]:
        bases = ", ".join(self.bases(model))
        opening = f"class {model.name}{f'({bases})' if bases else ''}:"
        head = [opening] if fits(opening) or not bases else [f"class {model.name}(", f"{INDENT}{bases}", "):"]
        fields = [
            line
            for field in self.fields(model)
            for line in field_lines(field.name, self.field_type(model, field), self.field_value(model, field))
        ]
        parts = [part for part in (_docstring(model.description), self.options(model), fields) if part]
        body = "\n\n".join("\n".join(part) for part in parts) or f"{INDENT}pass"
        return [*self._api_decorators(model), *self.decorators(), *head, body]

    def _api_decorators(self, model: Model) -> list[str]:
        version = [model.version] if model.version is not None else []
        rules = [rule._replace(name="rule") for rule in model.rules]
        return [line for each in (*version, *rules) for line in self.marker(each).lines(prefix="@")]

    # ---- types

    def type_of(
        self, use: TypeUse, markers: Sequence[Expression] = (), others: Sequence[str] = ()
    ) -> Expression:
        """Returns a type with its markers. markers, others: further markers, and further types."""
        nullable = [self.marker(Marker("Nullable", None))] if use.is_nullable else []
        found = self.annotated(self._bare(use), [*self.bounds(use), *nullable, *markers])
        names = dict.fromkeys(["None", *others] if use.is_nullable else others)
        return self.union((found, *map(Text, names))) if names else found

    def union(self, members: tuple[Expression, ...]) -> Expression:
        return Union(members)

    def annotated(self, found: Expression, markers: Sequence[Expression]) -> Expression:
        if markers and isinstance(found, Bracketed) and found.opening == "Annotated[":
            return Bracketed(found.opening, (*found.elements, *map(Element, markers)), found.closing)
        return subscript(self.imports.name("Annotated"), found, *markers) if markers else found

    def _bare(self, use: TypeUse) -> Expression:
        match use.type:
            case Named(name):
                return Text(self.imports.name(name))
            case Choice(values):
                return subscript(self.imports.name("Literal"), *map(literal, values))
            case ListOf(element):
                return subscript("list", self.type_of(element))
            case MapOf(value):
                return subscript("dict", Text("str"), self.type_of(value))
            case AnyOf(members):
                return self.union(tuple(self.type_of(each) for each in members))
            case Model(name):
                return self.reference(name)

    def reference(self, name: str) -> Expression:
        """Returns the name of a class, which may come later in the module."""
        return Text(name)

    def quoted_reference(self, name: str) -> Expression:
        """Returns the name of a class where it is evaluated: in quotes if the class comes later."""
        return Text(name if name in self._written else quoted(name))

    # ---- markers

    def marker(self, marker: Marker) -> Expression:
        name = self.imports.name(marker.name)
        if marker.arguments is None:
            return Text(name)
        named = {key: self._argument(value) for key, value in marker.named.items()}
        return call(name, *map(self._argument, marker.arguments), **named)

    def name_marker(self, field: Field) -> list[Expression]:
        """Returns the marker of a name that differs from the one in JSON."""
        return [] if field.name == field.json_name else [self.marker(Marker("Name", (field.json_name,)))]

    def _argument(self, value: Any) -> Expression:
        """Returns the literal of an argument. Markers in it are calls, as in `columns=(Column(...),)`."""
        match value:
            case Marker():
                return self.marker(value)
            case tuple():
                return Bracketed("(", tuple(Element(self._argument(each)) for each in value), ")")
        return literal(value)


def _docstring(text: str) -> list[str]:
    if not text:
        return []
    first, *others = text.replace("\\", "\\\\").split("\n")
    if not others:
        return [f'{INDENT}"""{first}"""']
    return [f'{INDENT}"""{first}', *(f"{INDENT}{line}".rstrip() for line in others), f'{INDENT}"""']


def is_optional(field: Field) -> bool:
    """Whether documents may lack a field that has no default."""
    return not field.is_required and field.default is ABSENT
