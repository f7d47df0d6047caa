"""Chooses the reader of a class, and remembers what it has read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args, get_origin

from apiserver.types.errors import InvalidObject, Unrepresentable
from apiserver.types.models.dataclass_models import is_dataclass, read_dataclass
from apiserver.types.models.model import Model
from apiserver.types.models.msgspec_models import is_struct, read_struct, struct_arguments
from apiserver.types.models.pydantic_models import is_pydantic, pydantic_arguments, read_pydantic
from apiserver.types.models.typed_dicts import is_typed_dict, read_typed_dict

# The first that recognizes a class reads it: pydantic's dataclasses are also dataclasses.
_READERS = (
    (is_pydantic, read_pydantic),
    (is_struct, read_struct),
    (is_typed_dict, read_typed_dict),
    (is_dataclass, read_dataclass),
)


class ModelReader:
    """Reads classes once each."""

    def __init__(self) -> None:
        self._models: dict[Any, Model] = {}

    def read(self, hint: Any, path: str) -> Model | None:
        """Returns the model of a class or of a generic with arguments; None for other types.

        path: of the class, for errors. Raises Unrepresentable.
        """
        cls = get_origin(hint) or hint
        if not isinstance(cls, type):
            return None
        if (model := self._models.get(hint)) is not None:
            return model
        for recognizes, read in _READERS:
            if recognizes(cls):
                model = self._models[hint] = read(cls, get_args(hint), path)
                _require_distinct_names(model, path)
                return model
        return None


def _require_distinct_names(model: Model, path: str) -> None:
    by_name: dict[str, str] = {}
    for field in model.fields:
        other = by_name.setdefault(field.name, field.attribute)
        if other != field.attribute:
            raise Unrepresentable(
                f"{path}.{field.attribute}",
                f"the field {other} is also named {field.name}",
                "rename one of them",
            )


# ---- instances


def is_document(hint: Any) -> bool:
    """Whether the instances of a class are documents, as those of a TypedDict are."""
    return is_typed_dict(get_origin(hint) or hint)


def new_instance(hint: Any, values: Mapping[str, Any], unknown: Mapping[str, Any], path: str) -> Any:
    """Returns an instance of a class, or of a generic with arguments. Raises InvalidObject.

    values: by attribute; fields without a value get their defaults. unknown: fields that the class does not
        have, if it keeps them.
    """
    cls = get_origin(hint) or hint
    if is_pydantic(cls):
        values = pydantic_arguments(cls, values, path)
    elif is_struct(cls):
        values = struct_arguments(cls, values)
    try:
        return hint(**unknown, **values)
    except Exception as error:  # The constructor is any code.
        raise _invalid(error, path) from error


def _invalid(error: Exception, path: str) -> InvalidObject:
    details = getattr(error, "errors", None)
    if not callable(details):
        return InvalidObject(path, f"is invalid: {error}")
    # Those of pydantic.
    first = details()[0]
    inside = ".".join(str(each) for each in (path, *first["loc"]) if each != "")
    return InvalidObject(inside, f"is invalid: {first['msg']}")


def unknown_fields(instance: Any) -> Mapping[str, Any]:
    """Returns the fields of an instance that its class does not have, but keeps."""
    return getattr(instance, "__pydantic_extra__", None) or {}
