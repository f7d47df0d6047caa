"""Writes modules: of definitions, and of schemas of an OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from apiserver.types.code_generation.class_emitters import DataclassEmitter, MsgspecEmitter, PydanticEmitter
from apiserver.types.code_generation.definition_reader import definition_models
from apiserver.types.code_generation.emitter import Emitter
from apiserver.types.code_generation.openapi_reader import OpenApiReader, resource_names
from apiserver.types.code_generation.schema_reader import SchemaReader
from apiserver.types.code_generation.typed_dicts import TypedDictEmitter

EMITTERS: Final[Mapping[str, type[Emitter]]] = MappingProxyType(
    {
        "dataclass": DataclassEmitter,
        "pydantic": PydanticEmitter,
        "msgspec": MsgspecEmitter,
        "typeddict": TypedDictEmitter,
    }
)


def definitions_source(definitions: Sequence[Mapping[str, Any]], kind: str) -> str:
    """Returns the source of a module with classes for all versions of CustomResourceDefinitions.

    kind: of the classes, one of `EMITTERS`.
    Raises UnsupportedName, and LookupError, TypeError, AttributeError or ValueError if a server would refuse
    a definition.
    """
    emitter = EMITTERS[kind]()
    reader = SchemaReader(emitter.reserved, definitions)
    models = [model for each in definitions for model in definition_models(each, reader)]
    # Valid names have none of other characters.
    names = ", ".join(re.sub(r"[^A-Za-z0-9.-]", "", each["metadata"]["name"]) for each in definitions)
    return emitter.source(models, f"Types of {names}.")


def openapi_source(schemas: Mapping[str, Any], kind: str, group_version: str = "") -> str:
    """Returns the source of a module with classes for whole objects and all that they consist of.

    schemas: by their names, as the document has them. group_version: of the objects, as `apps/v1`; all if it
    is empty. If no schema is of whole objects, there are classes for all schemas.
    Raises UnsupportedName, and LookupError, TypeError, AttributeError or ValueError if the schemas are not
    valid.
    """
    emitter = EMITTERS[kind]()
    reader = OpenApiReader(emitter.reserved, schemas)
    models = reader.models(resource_names(schemas, group_version))
    return emitter.source(models, f"Types of {group_version or 'an OpenAPI document'}.")
