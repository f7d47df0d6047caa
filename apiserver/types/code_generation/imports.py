"""The imports of a generated module."""

from __future__ import annotations

from typing import Final

from apiserver.types.code_generation.expressions import INDENT, LINE_MAX, width

BUILTINS: Final = frozenset({"bool", "dict", "float", "int", "list", "str"})
_MODULES: Final = {
    **dict.fromkeys(("Annotated", "Any", "Literal", "NotRequired", "TypedDict", "Union"), "typing"),
    **dict.fromkeys(("dataclass", "field"), "dataclasses"),
    **dict.fromkeys(("date", "datetime"), "datetime"),
    **dict.fromkeys(("BaseModel", "ConfigDict", "Field"), "pydantic"),
}
_MARKERS: Final = "apiserver.types"
_STANDARD: Final = frozenset({"dataclasses", "datetime", "typing"})


class Imports:
    """Collects the names that a module needs."""

    def __init__(self) -> None:
        self._names: dict[str, set[str]] = {}
        self._modules: set[str] = set()

    def name(self, name: str) -> str:
        """Returns the name, and has it imported unless it is built in."""
        if name not in BUILTINS:
            self._names.setdefault(_MODULES.get(name, _MARKERS), set()).add(name)
        return name

    def module(self, name: str) -> str:
        """Returns the name of a module, and has it imported."""
        self._modules.add(name)
        return name

    def lines(self) -> list[str]:
        """Returns the lines, as isort orders them: the standard library first."""
        standard = [self._from(module) for module in sorted(self._names.keys() & _STANDARD)]
        others = [f"import {module}" for module in sorted(self._modules)]
        others += [self._from(module) for module in sorted(self._names.keys() - _STANDARD)]
        return [*standard, *([""] if standard and others else []), *others]

    def _from(self, module: str) -> str:
        names = sorted(self._names[module], key=lambda name: (not name[:1].isupper(), name))
        line = f"from {module} import {', '.join(names)}"
        if width(line) <= LINE_MAX:
            return line
        return "\n".join([f"from {module} import (", *(f"{INDENT}{name}," for name in names), ")"])
