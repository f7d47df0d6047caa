"""The columns that `kubectl get` prints for a type."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from apiserver.types.errors import DefinitionError

_STEP: Final = re.compile(r"\.([A-Za-z_][\w-]*)")
_METADATA: Final = {".metadata.creationTimestamp": "date", ".metadata.deletionTimestamp": "date"}
_COLUMN_TYPES: Final = frozenset({"boolean", "integer", "number", "string"})


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`.

    json_path: of the value, as `.status.state`.
    type: string, integer, number, boolean or date; by default that of the field.
    priority: columns with a priority above 0 appear only with `kubectl get --output=wide`.
    format: of the value, as `int32` or `date-time`; clients may ignore it.
    """

    name: str
    json_path: str
    type: str = ""
    description: str = ""
    priority: int = 0
    format: str = ""

    def document(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Returns the column as an item of additionalPrinterColumns. Raises DefinitionError.

        schema: of whole objects; it has the type of the field.
        """
        fields = {
            "name": self.name,
            "type": self.type or self._type_in(schema),
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
            "jsonPath": self.json_path,
        }
        return {name: value for name, value in fields.items() if value}

    def _type_in(self, schema: dict[str, Any]) -> str:
        if self.json_path.startswith(".metadata."):
            return _METADATA.get(self.json_path, "string")
        names = _STEP.findall(self.json_path)
        if "".join(f".{name}" for name in names) != self.json_path:
            return "string"  # Of filters and list items, such as `.status.conditions[0].type`.
        for name in names:
            fields, values = schema.get("properties", {}), schema.get("additionalProperties")
            schema = fields.get(name, values)
            if schema is None:
                if not fields:
                    return "string"  # Below an object whose fields the schema does not have.
                raise DefinitionError(f"the column {self.name}: there is no field {self.json_path}")
        kind = "date" if schema.get("format") == "date-time" else schema.get("type", "string")
        return kind if kind in _COLUMN_TYPES or kind == "date" else "string"
