"""Builds the schemas of kinds for OpenAPI v3.

Source of the rules for defaults: kube-openapi, pkg/generators (Go's zero value is a default).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import Document, GroupVersion
from apiserver.schema.go_fields import GoField, enums_of, fields_of

META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
REFERENCE: Final = "#/components/schemas/"
_EXTENSION: Final = "x-kubernetes-"
_DOMAIN: Final = ".k8s.io"
_CORE: Final = "io.k8s.api.core.v1."

# Kinds that every group has.
_EVERYWHERE: Final = frozenset({f"{META}DeleteOptions", f"{META}WatchEvent"})
# Schemas that the definitions state less exactly than clients need.
_SPECIAL: Final[Mapping[str, Document]] = MappingProxyType(
    {
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
            "format": "int-or-string",
            "oneOf": [{"type": "integer"}, {"type": "string"}],
        },
        "io.k8s.apimachinery.pkg.api.resource.Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    }
)
_ZEROS: Final[Mapping[str, Any]] = MappingProxyType(
    {"string": "", "boolean": False, "integer": 0, "number": 0}
)
_NAMES_OBJECT: Final[Mapping[str, Any]] = MappingProxyType({"name": ""})
# Defaults that API types declare on their fields; clients need them where the fields are keys of a list.
_DECLARED: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        f"{_CORE}AzureDiskVolumeSource": {
            "cachingMode": "ReadWrite",
            "fsType": "ext4",
            "kind": "Shared",
            "readOnly": False,
        },
        f"{_CORE}ConfigMapEnvSource": _NAMES_OBJECT,
        f"{_CORE}ConfigMapKeySelector": _NAMES_OBJECT,
        f"{_CORE}ConfigMapProjection": _NAMES_OBJECT,
        f"{_CORE}ConfigMapVolumeSource": _NAMES_OBJECT,
        f"{_CORE}ContainerPort": {"protocol": "TCP"},
        f"{_CORE}FileKeySelector": {"optional": False},
        f"{_CORE}GRPCAction": {"service": ""},
        f"{_CORE}ISCSIPersistentVolumeSource": {"iscsiInterface": "default"},
        f"{_CORE}ISCSIVolumeSource": {"iscsiInterface": "default"},
        f"{_CORE}LocalObjectReference": _NAMES_OBJECT,
        f"{_CORE}RBDPersistentVolumeSource": {"keyring": "/etc/ceph/keyring", "pool": "rbd", "user": "admin"},
        f"{_CORE}RBDVolumeSource": {"keyring": "/etc/ceph/keyring", "pool": "rbd", "user": "admin"},
        f"{_CORE}ReplicationControllerSpec": {"minReadySeconds": 0, "replicas": 1},
        f"{_CORE}ScaleIOPersistentVolumeSource": {"fsType": "xfs", "storageMode": "ThinProvisioned"},
        f"{_CORE}ScaleIOVolumeSource": {"fsType": "xfs", "storageMode": "ThinProvisioned"},
        f"{_CORE}SecretEnvSource": _NAMES_OBJECT,
        f"{_CORE}SecretKeySelector": _NAMES_OBJECT,
        f"{_CORE}SecretProjection": _NAMES_OBJECT,
        f"{_CORE}ServicePort": {"protocol": "TCP"},
        "io.k8s.api.autoscaling.v1.ScaleSpec": {"replicas": 0},
        "io.k8s.api.resource.v1.DeviceToleration": {"operator": "Equal"},
        "io.k8s.api.resource.v1beta1.DeviceToleration": {"operator": "Equal"},
        "io.k8s.api.resource.v1beta2.DeviceToleration": {"operator": "Equal"},
    }
)


def reference(name: str) -> Document:
    return {"$ref": f"{REFERENCE}{name}"}


class Components:
    """Builds the schemas of a document.

    definitions: in JSON Schema, by name. shows_enums: whether fields have their enumerations.
    """

    def __init__(self, definitions: Mapping[str, Any], brand: Brand, *, shows_enums: bool = True) -> None:
        self._definitions = definitions
        self._brand = brand
        self._shows_enums = shows_enums

    def closure(self, names: Iterable[str]) -> list[str]:
        """Returns the given names that are defined, and all names that they refer to, sorted."""
        found: set[str] = set()
        pending = [name for name in names if name in self._definitions]
        while pending:
            name = pending.pop()
            if name not in found:
                found.add(name)
                pending += _references(self._definitions[name])
        return sorted(found)

    def schemas(self, names: Iterable[str], served: frozenset[GroupVersion]) -> dict[str, Document]:
        """Returns the schemas of the closure of `names`. served: the versions of kinds like DeleteOptions."""
        return {name: self._component(name, served) for name in self.closure(names)}

    def _component(self, name: str, served: frozenset[GroupVersion]) -> Document:
        definition = self._definitions[name]
        if name in _SPECIAL:
            about = {key: value for key, value in definition.items() if key == "description"}
            return {**about, **_SPECIAL[name]}
        rest = {key: value for key, value in definition.items() if key != "properties"}
        schema: Document = self._schema(rest)
        if properties := definition.get("properties"):
            fields, declared = fields_of(name, self._brand.vendor), _DECLARED.get(name, {})
            schema["properties"] = {
                key: self._property(key, value, fields.get(key), declared)
                for key, value in properties.items()
            }
            for path, values in enums_of(name).items() if self._shows_enums else ():
                _add_enum(schema["properties"], path, values)
        key = self._brand.extension("group-version-kind")
        if key in schema and name in _EVERYWHERE:
            known = [kind for kind in schema[key] if (kind["group"], kind["version"]) in served]
            # Groups of custom resources have them, too.
            others = sorted(served - {(kind["group"], kind["version"]) for kind in known})
            name_of_kind = name.rpartition(".")[2]
            schema[key] = known + [
                {"group": group, "kind": name_of_kind, "version": version} for group, version in others
            ]
        return schema

    def _property(
        self, name: str, node: Document, field: GoField | None, declared: Mapping[str, Any]
    ) -> Document:
        schema: Document = self._schema(node)
        if name in ("apiVersion", "kind"):
            schema.pop("enum", None)  # added by the package that the definitions are from
        if name in declared:
            schema["default"] = declared[name]
        elif field is not None and not field.is_pointer:
            if "$ref" in node:
                self._add_zero(schema, node)
            elif field.encodes_zero and schema.get("type") in _ZEROS and schema.get("format") != "byte":
                schema["default"] = _ZEROS[schema["type"]]
        if "$ref" in schema and len(schema) > 1:
            # In OpenAPI 3.0 keywords beside a reference are ignored.
            return {"allOf": [{"$ref": schema.pop("$ref")}], **schema}
        return schema

    def _add_zero(self, schema: Document, node: Document) -> None:
        """Add the default {} to a reference to a struct.

        Kubernetes does so also for structs with required fields, of which {} is not valid.
        """
        target = self._definitions.get(_target(node), {})
        if "properties" in target and not target.get("required"):
            schema["default"] = {}

    def _schema(self, node: Document) -> Document:
        schema: Document = {}
        for key, value in node.items():
            if key == "$ref":
                schema[key] = f"{REFERENCE}{_target(node)}"
            elif key == "type" and isinstance(value, list):
                # The definitions allow null everywhere; the server treats it as absent.
                schema[key] = next(each for each in value if each != "null")
            elif key in ("items", "additionalProperties"):
                schema[key] = self._schema(value) if isinstance(value, dict) else value
            elif key == "oneOf":
                schema[key] = [self._schema(each) for each in value]
            elif key == f"{_EXTENSION}group-version-kind":
                schema[self._extension(key)] = [self._branded(kind) for kind in value]
            elif key.startswith(_EXTENSION):
                schema[self._extension(key)] = value
            else:
                schema[key] = value
        return schema

    def _extension(self, key: str) -> str:
        return self._brand.extension(key.removeprefix(_EXTENSION))

    def _branded(self, kind: Document) -> Document:
        group = kind["group"]
        if not group.endswith(_DOMAIN):
            return kind
        return {**kind, "group": self._brand.group(group.removesuffix(_DOMAIN))}


def _add_enum(properties: Document, path: str, values: list[str]) -> None:
    """Adds the allowed values of a field, unless the definition is from a release without the field."""
    node: Any = properties
    for name in path.split("."):
        node = node.get(name)
        if node is None:
            return
    node["enum"] = values
    if node.get("default", values[0]) not in values:
        # Kubernetes leaves it, with which the document is not valid.
        del node["default"]


def _target(node: Document) -> str:
    name: str = node["$ref"]
    return name.rpartition("/")[2]


def _references(node: Any) -> Iterable[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str):
                yield value.rpartition("/")[2]
            elif isinstance(value, (dict, list)):
                yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)
