"""Makes documents from instances of classes."""

from __future__ import annotations

from typing import Any

from apiserver.types.errors import InvalidObject
from apiserver.types.json_values import is_unset, json_value
from apiserver.types.models.model import Field
from apiserver.types.models.pydantic_models import is_pydantic, root_hint
from apiserver.types.models.reader import ModelReader, unknown_fields


class InstanceEncoder:
    """Makes documents. Fields that are absent by default, and are so, are left out."""

    def __init__(self) -> None:
        self._reader = ModelReader()

    def encode(self, value: Any, path: str = "") -> Any:
        """Returns a value as JSON. Raises InvalidObject and Unrepresentable. path: of the value."""
        return json_value(value, path, self._object)

    def _object(self, value: Any, path: str) -> Any:
        if root_hint(type(value)) is not None:
            return self.encode(value.root, path)
        model = self._reader.read(_with_arguments(type(value)), path)
        if model is None:
            raise InvalidObject(path, f"has a value that has no form in JSON, {value!r:.40}")
        document: dict[str, Any] = dict(unknown_fields(value))
        for field in model.fields:
            given = _attribute(value, field)
            if not _is_absent(given, field):
                inside = f"{path}.{field.name}" if path else field.name
                document[field.name] = self.encode(given, inside)
        return document


def _with_arguments(cls: Any) -> Any:
    """Returns a generic class with arguments: its instances have the same fields with all."""
    parameters = () if is_pydantic(cls) else getattr(cls, "__parameters__", ())
    return cls[tuple(Any for _ in parameters)] if parameters else cls


def _attribute(value: Any, field: Field) -> Any:
    try:
        return getattr(value, field.attribute)
    except AttributeError:  # The tag of a struct.
        return None if field.default is None else field.default()


def _is_absent(value: Any, field: Field) -> bool:
    """Whether a field is absent: None is a value if the field has another default, or none."""
    if is_unset(value):
        return True
    if value is not None or field.default is None:
        return False
    return field.default() is None
