"""The structural schemas of built-in Kubernetes types, for classes that embed them.

The schemas come from Kubernetes' own definitions (`apiserver.schema`), which are read at the first use:
this is the only part of the package that needs the rest of the server.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Annotated, Any, Final, TypeAlias

from apiserver.types.errors import Unrepresentable
from apiserver.types.markers import QUANTITY, Kubernetes

Schema = dict[str, Any]
Definitions = dict[str, Any]

_CORE: Final = "io.k8s.api.core.v1."
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_APIMACHINERY: Final = "io.k8s.apimachinery.pkg."
_OPEN: Final[Schema] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

# Embedded in classes as the types of fields: `template: PodTemplateSpec`.
Affinity: TypeAlias = Annotated[dict[str, Any], Kubernetes(f"{_CORE}Affinity")]
Condition: TypeAlias = Annotated[dict[str, Any], Kubernetes(f"{_META}Condition")]
Container: TypeAlias = Annotated[dict[str, Any], Kubernetes(f"{_CORE}Container")]
EnvVar: TypeAlias = Annotated[dict[str, Any], Kubernetes(f"{_CORE}EnvVar")]
LabelSelector: TypeAlias = Annotated[dict[str, Any], Kubernetes(f"{_META}LabelSelector")]
LocalObjectReference: TypeAlias = Annotated[dict[str, Any], Kubernetes(f"{_CORE}LocalObjectReference")]
ObjectReference: TypeAlias = Annotated[dict[str, Any], Kubernetes(f"{_CORE}ObjectReference")]
PersistentVolumeClaimSpec: TypeAlias = Annotated[
    dict[str, Any], Kubernetes(f"{_CORE}PersistentVolumeClaimSpec")
]
PodSpec: TypeAlias = Annotated[dict[str, Any], Kubernetes(f"{_CORE}PodSpec")]
PodTemplateSpec: TypeAlias = Annotated[dict[str, Any], Kubernetes(f"{_CORE}PodTemplateSpec")]
ResourceRequirements: TypeAlias = Annotated[dict[str, Any], Kubernetes(f"{_CORE}ResourceRequirements")]
SecretKeySelector: TypeAlias = Annotated[dict[str, Any], Kubernetes(f"{_CORE}SecretKeySelector")]
ServiceSpec: TypeAlias = Annotated[dict[str, Any], Kubernetes(f"{_CORE}ServiceSpec")]
Toleration: TypeAlias = Annotated[dict[str, Any], Kubernetes(f"{_CORE}Toleration")]
Volume: TypeAlias = Annotated[dict[str, Any], Kubernetes(f"{_CORE}Volume")]
VolumeMount: TypeAlias = Annotated[dict[str, Any], Kubernetes(f"{_CORE}VolumeMount")]

# Types whose JSON the definitions do not describe, or describe as a choice.
_SPECIAL: Final[dict[str, Schema]] = {
    f"{_APIMACHINERY}api.resource.Quantity": QUANTITY.schema,
    f"{_APIMACHINERY}util.intstr.IntOrString": {"x-kubernetes-int-or-string": True},
    f"{_APIMACHINERY}runtime.RawExtension": _OPEN,
    f"{_META}FieldsV1": _OPEN,
}
_KEPT: Final = ("description", "type", "format", "enum", "required", "x-kubernetes-map-type")
# The keys of lists are required or have defaults. The definitions leave out the default of the protocol.
# Source: Kubernetes' API reference, ContainerPort and ServicePort.
_PROTOCOLS: Final = frozenset({f"{_CORE}ContainerPort", f"{_CORE}ServicePort"})

# Go programs write `creationTimestamp: null` in templates.
_OBJECT_META: Final = f"{_META}ObjectMeta"


def kubernetes_schema(name: str, path: str) -> Schema:
    """Returns the structural schema of a built-in type of the server's default release.

    name: in OpenAPI, as `io.k8s.api.core.v1.PodTemplateSpec`. path: in the class, for errors.
    Raises Unrepresentable: the type is not known, or contains itself.
    """
    try:
        schema: Schema = _copied(_schema_of(name))
    except LookupError:
        raise Unrepresentable(path, f"Kubernetes has no type {name}") from None
    except RecursionError as error:
        raise Unrepresentable(path, f"the type {error} contains itself", "use EmbeddedObject") from None
    return schema


def _copied(value: Any) -> Any:
    """Returns a copy, which the caller may change."""
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list) else value


@cache
def _schema_of(name: str) -> Schema:
    """Returns the schema of a definition. Raises LookupError, and RecursionError with the name of a type.

    Only the result is kept: all definitions need some 20 MB.
    """
    return _Inlining(_definitions()).definition(name, ())


def _definitions() -> Definitions:
    from apiserver.meta.releases.emulation import DEFAULT_RELEASE
    from apiserver.schema.definitions_table import read_definitions

    definitions: Definitions = json.loads(read_definitions(DEFAULT_RELEASE.version, described=True))
    return definitions


class _Inlining:
    """Puts definitions in the places that refer to them."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._done: dict[str, Schema] = {}

    def definition(self, name: str, around: tuple[str, ...]) -> Schema:
        """Returns the schema of a definition. around: the definitions that refer to it."""
        if name in self._done:
            return self._done[name]
        if name in around:
            raise RecursionError(name)
        special = _SPECIAL.get(name)
        schema = special if special is not None else self._schema(self._definitions[name], (*around, name))
        if name in _PROTOCOLS:
            schema["properties"]["protocol"]["default"] = "TCP"
        if name == _OBJECT_META:
            schema["properties"]["creationTimestamp"]["nullable"] = True
        self._done[name] = schema
        return schema

    def _schema(self, definition: Definitions, around: tuple[str, ...]) -> Schema:
        if "$ref" in definition:
            schema = {**self.definition(definition["$ref"].rpartition("/")[2], around)}
            return {**schema, **_described(definition)}
        schema = {key: definition[key] for key in _KEPT if key in definition}
        schema["type"] = _type_of(definition)
        if "properties" in definition:
            schema["properties"] = {
                name: self._schema(field, around) for name, field in definition["properties"].items()
            }
        for key in ("items", "additionalProperties"):
            if isinstance(definition.get(key), dict):
                schema[key] = self._schema(definition[key], around)
        _add_list_type(schema, definition)
        if not schema["type"]:
            del schema["type"]
            schema["x-kubernetes-preserve-unknown-fields"] = True
        elif schema["type"] == "object" and not schema.keys() & {"properties", "additionalProperties"}:
            schema["x-kubernetes-preserve-unknown-fields"] = True
        return schema


def _described(definition: Definitions) -> Schema:
    return {"description": definition["description"]} if "description" in definition else {}


def _type_of(definition: Definitions) -> str:
    """Returns the type without null. Any field may be null, so the definitions have `["string", "null"]`."""
    kinds = definition.get("type", "")
    if isinstance(kinds, str):
        return kinds
    return next((str(kind) for kind in kinds if kind != "null"), "")


def _add_list_type(schema: Schema, definition: Definitions) -> None:
    """Say how apply merges a list, if its keys are always there; otherwise the list is atomic."""
    kind = definition.get("x-kubernetes-list-type")
    keys = definition.get("x-kubernetes-list-map-keys", ())
    items = schema.get("items", {})
    if kind is None or any(
        key not in items.get("required", ()) and "default" not in items["properties"][key] for key in keys
    ):
        return
    schema["x-kubernetes-list-type"] = kind
    if keys:
        schema["x-kubernetes-list-map-keys"] = list(keys)
