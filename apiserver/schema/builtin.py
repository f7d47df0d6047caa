"""Schemas of the built-in types, from the definitions in the kubernetes-validate package."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import orjson

from apiserver.brand import extension_key
from apiserver.schema.extensions import KUBERNETES_VENDOR, with_vendor
from apiserver.schema.structural import Kind, Schema

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
# Types whose JSON the definitions do not describe, or not in terms of a schema's kinds.
_SPECIAL: Final = {
    _META + "Time": Schema(Kind.TIME, "v1.Time"),
    _META + "MicroTime": Schema(Kind.MICRO_TIME, "v1.MicroTime"),
    _META + "FieldsV1": Schema(Kind.ANY_OBJECT, "v1.FieldsV1"),
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": Schema(Kind.INT_OR_STRING, "intstr.IntOrString"),
    "io.k8s.apimachinery.pkg.api.resource.Quantity": Schema(Kind.QUANTITY, "resource.Quantity"),
    "io.k8s.apimachinery.pkg.runtime.RawExtension": Schema(Kind.ANY_OBJECT, "runtime.RawExtension"),
}
_JSON_SCHEMA: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
# The alternatives, as JSON Schema, of the definitions that are a JSON schema or another value: they lack it.
_OTHER_THAN_SCHEMA: Final[Mapping[str, dict[str, Any]]] = MappingProxyType(
    {
        f"{_JSON_SCHEMA}OrBool": {"type": "boolean"},
        f"{_JSON_SCHEMA}OrArray": {"type": "array", "items": {"$ref": f"#/$defs/{_JSON_SCHEMA}"}},
        f"{_JSON_SCHEMA}OrStringArray": {"type": "array", "items": {"type": "string"}},
    }
)
# Definitions that later releases have in v1: they are the same here in v1beta1.
_REGISTRATION: Final = "io.k8s.api.admissionregistration."
_LATER_V1: Final = tuple(
    f"{_REGISTRATION}v1beta1.{kind}"
    for kind in (
        *("ApplyConfiguration", "JSONPatch", "Mutation"),
        *("MutatingAdmissionPolicy", "MutatingAdmissionPolicyList", "MutatingAdmissionPolicySpec"),
        *("MutatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBindingList"),
        "MutatingAdmissionPolicyBindingSpec",
    )
)
_PATCH_STRATEGY: Final = extension_key(KUBERNETES_VENDOR, "patch-strategy")
_PATCH_MERGE_KEY: Final = extension_key(KUBERNETES_VENDOR, "patch-merge-key")
_LIST_TYPE: Final = extension_key(KUBERNETES_VENDOR, "list-type")
_LIST_MAP_KEYS: Final = extension_key(KUBERNETES_VENDOR, "list-map-keys")
_MAP_TYPE: Final = extension_key(KUBERNETES_VENDOR, "map-type")
_SCALARS: Final = {
    ("string", "byte"): (Kind.BYTES, "[]uint8"),
    ("string", ""): (Kind.STRING, "string"),
    ("boolean", ""): (Kind.BOOLEAN, "bool"),
    ("integer", "int32"): (Kind.INTEGER, "int32"),
    ("integer", ""): (Kind.INTEGER, "int64"),
    ("number", ""): (Kind.NUMBER, "float64"),
}


class BuiltinSchemas:
    """The schemas of one release's definitions, which are read when the first one is used.

    vendor: as in the extension key `x-kubernetes-list-type`.
    """

    def __init__(self, release: tuple[int, int], vendor: str = KUBERNETES_VENDOR) -> None:
        self._release = release
        self._vendor = vendor
        self._definitions: dict[str, Any] | None = None
        self._schemas: dict[str, Schema] = dict(_SPECIAL)

    def definitions(self) -> dict[str, Any]:
        """All definitions by name, as `io.k8s.api.core.v1.ConfigMap`, in JSON Schema.

        Raises LookupError when the package does not have the release.
        """
        if self._definitions is None:
            path = _definitions_file(self._release)
            self._definitions = _with_later_v1(orjson.loads(path.read_bytes())["$defs"])
            fields = self._definitions[_JSON_SCHEMA]["properties"]
            self._definitions[_JSON_SCHEMA]["properties"] = {
                with_vendor(name, self._vendor): field for name, field in fields.items()
            }
        return self._definitions

    def get(self, name: str) -> Schema:
        """The schema of a definition. Raises KeyError."""
        schema = self._schemas.get(name)
        if schema is None:
            definition = self.definitions()[name]
            package, _, kind = name.rpartition(".")
            # Registered before it is complete: definitions refer to themselves.
            go_type = f"{package.rpartition('.')[2]}.{kind}"
            schema = Schema(
                Kind.STRUCT, go_type, definition=name, vendor=self._vendor, **_merging(definition)
            )
            self._schemas[name] = schema
            self._complete(schema, definition)
        return schema

    def _complete(self, schema: Schema, definition: dict[str, Any]) -> None:
        if "properties" in definition:
            schema.required = frozenset(definition.get("required", ()))
            # Filled, not replaced: a field with merge extensions of its own shares the fields of its
            # definition.
            for key, value in definition["properties"].items():
                schema.fields[key] = self._schema(value)
            return
        if schema.definition in _OTHER_THAN_SCHEMA:
            schema.kind, schema.element = Kind.EITHER, self.get(_JSON_SCHEMA)
            schema.other = self._schema(_OTHER_THAN_SCHEMA[schema.definition])
            return
        other = self._schema(definition)
        schema.kind, schema.element, schema.bits = other.kind, other.element, other.bits

    def _schema(self, definition: dict[str, Any]) -> Schema:
        merging = _merging(definition)
        if "$ref" in definition:
            schema = self.get(definition["$ref"].rpartition("/")[2])
            return replace(schema, **merging) if merging else schema
        kind = _type_of(definition)
        if kind == "array":
            element = self._schema(definition.get("items", {}))
            return Schema(Kind.LIST, f"[]{element.go_type}", element=element, **merging)
        if kind == "object":
            values = definition.get("additionalProperties")
            if not isinstance(values, dict):
                return Schema(Kind.ANY_OBJECT, "map[string]interface {}")
            element = self._schema(values)
            return Schema(Kind.MAP, f"map[string]{element.go_type}", element=element, **merging)
        if not kind:
            return Schema(Kind.ANY, "interface {}")
        text_format = definition.get("format", "")
        scalar = _SCALARS.get((kind, text_format)) or _SCALARS[(kind, "")]
        return Schema(*scalar, bits=32 if text_format == "int32" else 64)


def _with_later_v1(definitions: dict[str, Any]) -> dict[str, Any]:
    beta, stable = b"v1beta1", b"v1"
    later = {
        name.replace(beta.decode(), stable.decode()): orjson.loads(
            orjson.dumps(definitions[name]).replace(beta, stable)
        )
        for name in _LATER_V1
        if name in definitions
    }
    return {**later, **definitions}


def _merging(definition: dict[str, Any]) -> dict[str, Any]:
    """The extensions of a field or a definition about merging, as attributes of a schema.

    The patch strategy `retainKeys` is left out: only clients that make patches use it.
    """
    extensions = {
        "patch_strategy": definition.get(_PATCH_STRATEGY, "").partition(",")[0],
        "patch_merge_key": definition.get(_PATCH_MERGE_KEY, ""),
        "list_type": definition.get(_LIST_TYPE, ""),
        "list_map_keys": tuple(definition.get(_LIST_MAP_KEYS, ())),
        "map_type": definition.get(_MAP_TYPE, ""),
    }
    if extensions["patch_strategy"] == "retainKeys":
        extensions["patch_strategy"] = ""
    return {name: value for name, value in extensions.items() if value}


def _type_of(definition: dict[str, Any]) -> str:
    """The type without null; the package has `["string", "null"]`, since any field may be null."""
    kind = definition.get("type", "")
    if isinstance(kind, list):
        return next((each for each in kind if each != "null"), "")
    assert isinstance(kind, str)
    return kind


def _definitions_file(release: tuple[int, int]) -> Path:
    spec = importlib.util.find_spec("kubernetes_validate")  # not imported, since it would import jsonschema
    if spec is None or not spec.submodule_search_locations:
        raise LookupError("the package kubernetes-validate is not installed")
    version = f"v{release[0]}.{release[1]}.0-local"
    path = Path(spec.submodule_search_locations[0], "kubernetes-json-schema", version, "_definitions.json")
    if not path.exists():
        raise LookupError(f"the package kubernetes-validate has no definitions of release {version}")
    return path
