"""Reads pydantic models and pydantic's dataclasses, by their attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from apiserver.types.errors import Unrepresentable
from apiserver.types.markers import Doc
from apiserver.types.models.model import Field, Model, constant, description_of, new_field, rules_of
from apiserver.types.type_hints import undefined_type


def is_pydantic(cls: type) -> bool:
    return hasattr(cls, "__pydantic_fields__")


def read_pydantic(cls: Any, arguments: tuple[Any, ...], path: str) -> Model:
    """Returns the model of a pydantic class. Raises Unrepresentable.

    arguments: are empty for models, whose generics with arguments, such as `Box[int]`, are separate classes.
    """
    _require_complete(cls, path)
    generic = getattr(cls, "__pydantic_generic_metadata__", {}).get("origin") or cls
    fields = [_field(name, info, path) for name, info in cls.__pydantic_fields__.items() if _is_stored(info)]
    return Model(
        generic.__name__, description_of(generic), fields, rules_of(cls), keeps_unknown=_allows_extra(cls)
    )


def root_hint(cls: Any) -> Any:
    """Returns the type of a RootModel's value; None for other models."""
    if not getattr(cls, "__pydantic_root_model__", False):
        return None
    return _hint(cls.__pydantic_fields__["root"])


def _require_complete(cls: Any, path: str) -> None:
    if getattr(cls, "__pydantic_complete__", True):
        return
    try:
        cls.model_rebuild()
    except NameError as error:  # pydantic.errors.PydanticUndefinedAnnotation is one.
        raise undefined_type(cls, error.name, path) from None


def _allows_extra(cls: Any) -> bool:
    config = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", {})
    return bool(config.get("extra") == "allow")


def _field(attribute: str, info: Any, path: str) -> Field:
    inside = f"{path}.{attribute}"
    return new_field(path, attribute, _hint(info), _default(info, inside), name=_alias(info, inside))


def _is_stored(info: Any) -> bool:
    """Returns whether a field of a dataclass is an argument of its constructor and an attribute, too."""
    return info.init is not False and not info.init_var


def _alias(info: Any, path: str) -> str:
    """Returns the name that pydantic reads, the first of several; empty if it is the attribute's."""
    alias = info.validation_alias or info.alias or ""
    first = next(iter(getattr(alias, "choices", ())), alias)
    if not isinstance(first, str):
        raise Unrepresentable(
            path, "the alias is a path", "use a class with the field at the end of the path"
        )
    return first


def _hint(info: Any) -> Any:
    """Returns the type of a field with its markers, which pydantic keeps apart."""
    hint = info.annotation
    for marker in info.metadata:
        hint = Annotated[hint, marker]
    return Annotated[hint, Doc(info.description)] if info.description else hint


def _default(info: Any, path: str) -> Callable[[], Any] | None:
    if info.is_required():
        return None
    if info.default_factory is None:
        return constant(info.default)
    factory: Callable[..., Any] = info.default_factory
    if getattr(info, "default_factory_takes_validated_data", False):
        raise Unrepresentable(
            path, "the default depends on other fields", "make the field optional, or use a constant default"
        )
    return factory


def pydantic_arguments(cls: Any, values: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Returns the arguments of the constructor, which has aliases. values: by attribute."""
    fields = cls.__pydantic_fields__
    return {_alias(fields[name], f"{path}.{name}") or name: value for name, value in values.items()}
