"""Schemas of the built-in types, from Kubernetes' own definitions (`definitions_table`).

The table has the definitions of releases from 1.25 on; older ones are served with those of 1.25. Definitions
that only older releases have are in `removed_definitions.json`: fields and their types, without descriptions;
these are taken from the definitions that replaced them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import orjson

from apiserver.meta.brand import extension_key
from apiserver.meta.releases.emulation import DEFAULT_RELEASE
from apiserver.meta.releases.lifecycles import known_lifecycles
from apiserver.schema import definitions_table
from apiserver.schema.definitions_table import Release
from apiserver.schema.extensions import KUBERNETES_VENDOR, with_vendor
from apiserver.schema.go_fields import undecoded
from apiserver.schema.structural import Schema, ValueKind

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
# Types whose JSON the definitions do not describe, or not in terms of a schema's kinds.
_SPECIAL: Final = {
    _META + "Time": Schema(ValueKind.TIME, "v1.Time"),
    _META + "MicroTime": Schema(ValueKind.MICRO_TIME, "v1.MicroTime"),
    _META + "FieldsV1": Schema(ValueKind.ANY_OBJECT, "v1.FieldsV1"),
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": Schema(ValueKind.INT_OR_STRING, "intstr.IntOrString"),
    "io.k8s.apimachinery.pkg.api.resource.Quantity": Schema(ValueKind.QUANTITY, "resource.Quantity"),
    "io.k8s.apimachinery.pkg.runtime.RawExtension": Schema(ValueKind.ANY_OBJECT, "runtime.RawExtension"),
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
_MERGE_EXTENSIONS: Final = frozenset(
    {_PATCH_STRATEGY, _PATCH_MERGE_KEY, _LIST_TYPE, _LIST_MAP_KEYS, _MAP_TYPE}
)
_GROUP_VERSION_KIND: Final = extension_key(KUBERNETES_VENDOR, "group-version-kind")
_OBJECT_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})
_SCALARS: Final = {
    ("string", "byte"): (ValueKind.BYTES, "[]uint8"),
    ("string", ""): (ValueKind.STRING, "string"),
    ("boolean", ""): (ValueKind.BOOLEAN, "bool"),
    ("integer", "int32"): (ValueKind.INTEGER, "int32"),
    ("integer", ""): (ValueKind.INTEGER, "int64"),
    ("number", ""): (ValueKind.NUMBER, "float64"),
}


class BuiltinSchemas:
    """The schemas of one release's definitions, which are read at the first use.

    Types that were removed before the release, or added later, have the schema of the last release with them,
    or of the newest known one: the server itself uses versions that it does not serve.
    vendor: as in the extension key `x-kubernetes-list-type`.
    It is thread-safe.
    """

    def __init__(self, release: Release, vendor: str = KUBERNETES_VENDOR) -> None:
        self._release = release
        self._vendor = vendor
        self._definitions: dict[str, Any] | None = None
        self._undescribed: Mapping[str, bytes] | None = None  # as JSON: few are used, and each once
        self._schemas: dict[str, Schema] = dict(_SPECIAL)
        self._incomplete: dict[str, Schema] = {}
        self._lock = threading.RLock()  # of all but complete schemas

    def definitions(self) -> dict[str, Any]:
        """Returns all definitions by name, as `io.k8s.api.core.v1.ConfigMap`, in JSON Schema.

        Raises LookupError when neither this release nor a later one is known.
        """
        with self._lock:
            if self._definitions is None:
                self._definitions = _described_definitions(self._release)
                self._set_vendor(self._definitions[_JSON_SCHEMA])
            return self._definitions

    def _set_vendor(self, json_schema: dict[str, Any]) -> None:
        """Name the extensions among the fields of a JSON schema after the vendor."""
        fields = json_schema["properties"]
        json_schema["properties"] = {with_vendor(name, self._vendor): field for name, field in fields.items()}

    def get(self, name: str) -> Schema:
        """Returns the schema of a definition. Raises KeyError."""
        schema = self._schemas.get(name)
        if schema is not None:
            return schema
        with self._lock:
            try:
                schema = self._find(name)
                # Other threads see schemas once all that they refer to is complete.
                self._schemas.update(self._incomplete)
                return schema
            finally:
                self._incomplete.clear()

    def _find(self, name: str) -> Schema:
        """Returns the schema of a definition, which may be incomplete. Raises KeyError."""
        schema = self._schemas.get(name) or self._incomplete.get(name)
        if schema is None:
            definition = self._undescribed_definition(name)
            package, _, kind = name.rpartition(".")
            # Registered before it is complete: definitions refer to themselves.
            go_type = f"{package.rpartition('.')[2]}.{kind}"
            schema = Schema(
                ValueKind.STRUCT, go_type, definition=name, vendor=self._vendor, **_merging(definition)
            )
            self._incomplete[name] = schema
            self._complete(schema, definition)
        return schema

    def _undescribed_definition(self, name: str) -> dict[str, Any]:
        if self._undescribed is None:
            self._undescribed = _undescribed_definitions(self._release)
        text = self._undescribed.get(name) or _removed_definitions()[name]
        definition: dict[str, Any] = orjson.loads(text)
        if name == _JSON_SCHEMA:
            self._set_vendor(definition)
        return definition

    def _complete(self, schema: Schema, definition: dict[str, Any]) -> None:
        is_empty_struct = _type_of(definition) == "object" and "additionalProperties" not in definition
        if "properties" in definition or is_empty_struct:
            schema.required = frozenset(definition.get("required", ()))
            # Filled, not replaced: a field with separate merge extensions shares the fields of its
            # definition.
            for key, value in definition.get("properties", {}).items():
                schema.fields[key] = self._schema(value)
            return
        if schema.definition in _OTHER_THAN_SCHEMA:
            schema.kind, schema.element = ValueKind.EITHER, self._find(_JSON_SCHEMA)
            schema.other = self._schema(_OTHER_THAN_SCHEMA[schema.definition])
            return
        other = self._schema(definition)
        schema.kind, schema.element, schema.bits = other.kind, other.element, other.bits

    def _schema(self, definition: dict[str, Any]) -> Schema:
        merging = _merging(definition)
        if "$ref" in definition:
            schema = self._find(definition["$ref"].rpartition("/")[2])
            return replace(schema, **merging) if merging else schema
        kind = _type_of(definition)
        if kind == "array":
            element = self._schema(definition.get("items", {}))
            return Schema(ValueKind.LIST, f"[]{element.go_type}", element=element, **merging)
        if kind == "object":
            values = definition.get("additionalProperties")
            if not isinstance(values, dict):
                return Schema(ValueKind.ANY_OBJECT, "map[string]interface {}")
            element = self._schema(values)
            return Schema(ValueKind.MAP, f"map[string]{element.go_type}", element=element, **merging)
        if not kind:
            return Schema(ValueKind.ANY, "interface {}")
        text_format = definition.get("format", "")
        scalar = _SCALARS.get((kind, text_format)) or _SCALARS[(kind, "")]
        return Schema(*scalar, bits=32 if text_format == "int32" else 64)


def _with_later_v1(definitions: dict[str, bytes]) -> dict[str, bytes]:
    beta, stable = b"v1beta1", b"v1"
    later = {
        name.replace(beta.decode(), stable.decode()): definitions[name].replace(beta, stable)
        for name in _LATER_V1
        if name in definitions
    }
    return {**later, **definitions}


def _merging(definition: dict[str, Any]) -> dict[str, Any]:
    """Returns a field's or definition's extensions for merging, as attributes of a schema.

    The patch strategy `retainKeys` is left out: only clients that make patches use it.
    """
    if _MERGE_EXTENSIONS.isdisjoint(definition):
        return {}
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
    """Returns the type without null; the package has `["string", "null"]`, since any field may be null."""
    kind = definition.get("type", "")
    if isinstance(kind, list):
        return next((each for each in kind if each != "null"), "")
    assert isinstance(kind, str)
    return kind


def _undescribed_definitions(release: Release) -> dict[str, bytes]:
    """Returns the definitions that a server of this release needs, without descriptions.

    Raises LookupError.
    """
    own = _read(_nearest(release), described=False)
    if release == DEFAULT_RELEASE.version:
        return own
    return {**_removed_definitions(), **_read(definitions_table.releases()[-1], described=False), **own}


def _described_definitions(release: Release) -> dict[str, Any]:
    """Returns the definitions that a server of this release needs, with descriptions. Raises LookupError."""
    own = _decoded(_read(_nearest(release), described=True))
    if release == DEFAULT_RELEASE.version:
        return own
    newest = _decoded(_read(definitions_table.releases()[-1], described=True))
    return {**_described(_decoded(_removed_definitions()), newest), **newest, **own}


def _nearest(release: Release) -> Release:
    """Returns the first release in the table that is not older. Raises LookupError."""
    nearest = min((each for each in definitions_table.releases() if each >= release), default=None)
    if nearest is None:
        raise LookupError(f"there are no definitions for release {release}")
    return nearest


def _read(release: Release, *, described: bool) -> dict[str, bytes]:
    return _with_later_v1(undecoded(definitions_table.read_definitions(release, described=described)))


def _decoded(definitions: Mapping[str, bytes]) -> dict[str, Any]:
    return {name: orjson.loads(text) for name, text in definitions.items()}


@cache
def _removed_definitions() -> Mapping[str, bytes]:
    text = Path(__file__).with_name("removed_definitions.json").read_bytes()
    return MappingProxyType(undecoded(text))


def _described(removed: Mapping[str, Any], newest: Mapping[str, Any]) -> dict[str, Any]:
    """Returns definitions with descriptions from the definitions that replaced them, field by field.

    Definitions of objects and lists have their group, version and kind, by which clients find them.
    """
    groups = _groups(newest)
    by_kind: dict[str, dict[str, Any]] = {}
    for name, definition in newest.items():
        if ".v1." in name:
            by_kind.setdefault(name.rpartition(".")[2], definition)
    described = {}
    for name, definition in removed.items():
        like = by_kind.get(name.rpartition(".")[2], {})
        texts = {field: each.get("description") for field, each in like.get("properties", {}).items()}
        properties = {
            field: {"description": texts[field], **each} if texts.get(field) else each
            for field, each in definition.get("properties", {}).items()
        }
        text = {"description": like["description"]} if "description" in like else {}
        described[name] = {**text, **definition, **({"properties": properties} if properties else {})}
        if properties.keys() >= _OBJECT_FIELDS:
            package, _, kind = name.rpartition(".")
            prefix, _, version = package.rpartition(".")
            group = groups[prefix]
            described[name][_GROUP_VERSION_KIND] = [{"group": group, "kind": kind, "version": version}]
    return described


def _groups(definitions: Mapping[str, Any]) -> dict[str, str]:
    """Returns the groups of packages without their versions, as `io.k8s.api.rbac`.

    Packages without a current release are named like their groups: `io.k8s.api.settings`.
    """
    removed = {life.group for life in known_lifecycles().values()}
    return {f"io.k8s.api.{group.partition('.')[0]}": group for group in removed} | {
        name.rsplit(".", 2)[0]: kinds[0]["group"]
        for name, definition in definitions.items()
        if len(kinds := definition.get(_GROUP_VERSION_KIND) or []) == 1
    }
