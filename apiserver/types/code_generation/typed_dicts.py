"""Writes TypedDicts. Their values are documents: what JSON has no type for is text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from apiserver.types.code_generation.emitter import Emitter
from apiserver.types.code_generation.expressions import Expression, call, dictionary, literal, subscript
from apiserver.types.code_generation.tree import ABSENT, Field, Marker, Model, Named, TypeUse

_FORMATS: Final = {"date": "date", "datetime": "date-time"}


class TypedDictEmitter(Emitter):
    """Writes TypedDicts.

    Names that attributes cannot have are in a base, which is written as a call of TypedDict.
    """

    def __init__(self) -> None:
        super().__init__()
        # Types in a call are evaluated.
        self._is_in_call = False

    def before(self, model: Model) -> list[str]:
        fields = [field for field in model.fields if field.name != field.json_name]
        if not fields:
            return []
        self._is_in_call = True
        types = [(field.json_name, self.field_type(model, field)) for field in fields]
        self._is_in_call = False
        name = _base_name(model)
        declared = call(self.imports.name("TypedDict"), literal(name), dictionary(types))
        return [*declared.lines(prefix=f"{name} = "), "", ""]

    def bases(self, model: Model) -> list[str]:
        has_base = len(self.fields(model)) < len(model.fields)
        return [_base_name(model) if has_base else self.imports.name("TypedDict")]

    def fields(self, model: Model) -> list[Field]:
        return [field for field in model.fields if field.name == field.json_name]

    def field_type(self, model: Model, field: Field) -> Expression:
        has_default = field.default is not ABSENT and not field.is_required
        default = [self.marker(Marker("Default", (field.default,)))] if has_default else []
        found = self.type_of(field.type, default)
        return found if field.is_required else subscript(self.imports.name("NotRequired"), found)

    def type_of(
        self, use: TypeUse, markers: Sequence[Expression] = (), others: Sequence[str] = ()
    ) -> Expression:
        match use.type:
            case Named("date" | "datetime" as name):
                written = Marker("Format", (_FORMATS[name],))
                use = use._replace(type=Named("str"), markers=(*use.markers, written))
        return super().type_of(use, markers, others)

    def union(self, members: tuple[Expression, ...]) -> Expression:
        """Returns a union; in a call without `|`, which the name of a class in quotes does not have."""
        if not self._is_in_call:
            return super().union(members)
        return subscript(self.imports.name("Union"), *members)

    def reference(self, name: str) -> Expression:
        return self.quoted_reference(name) if self._is_in_call else super().reference(name)


def _base_name(model: Model) -> str:
    return f"_{model.name}Names"
