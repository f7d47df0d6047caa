"""What two definitions must agree on to say the same.

These differences have no meaning for a server:
- the order of versions, fields, required fields and selectable fields;
- names that the server adds: the singular and the kind of lists; `priority: 0`;
- the schemas of apiVersion, kind and metadata, unless metadata has fields: every object has them;
- `format: int64` of integers and `format: double` of numbers, which are those without a format;
- `required` of a field with a default: the server sets defaults first;
- lengths of at least 0, keywords that are false, and empty texts and lists;
- `anyOf` of integer and string beside x-kubernetes-int-or-string;
- values of maps of which nothing is known, for objects of which nothing is known;
- `x-kubernetes-map-type: granular`, the default;
- `preserveUnknownFields: false`, the only value of v1;
- `conversion` with the strategy None, the default.
"""

from __future__ import annotations

import copy
from typing import Any, Final

Document = dict[str, Any]

_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"


def normalised(definition: Document) -> Document:
    """Returns a definition without what has no meaning."""
    definition = copy.deepcopy(definition)
    spec, metadata = definition["spec"], definition["metadata"]
    names = spec["names"]
    return {
        "metadata": {key: metadata[key] for key in ("name", "labels", "annotations") if metadata.get(key)},
        "group": spec["group"],
        "scope": spec["scope"],
        "names": {
            "singular": names["kind"].lower(),
            "listKind": f"{names['kind']}List",
            **{key: value for key, value in names.items() if value},
        },
        "versions": {version["name"]: _version(version) for version in spec["versions"]},
        "conversion": spec.get("conversion", {"strategy": "None"}),
    }


def _version(version: Document) -> Document:
    schema = version.pop("schema")["openAPIV3Schema"]
    properties = schema.get("properties", {})
    for name in ("apiVersion", "kind"):
        properties.pop(name, None)
    if "properties" not in properties.get("metadata", {}):
        properties.pop("metadata", None)
    schema["required"] = [name for name in schema.get("required", ()) if name in properties]
    columns = version.pop("additionalPrinterColumns", [])
    selectable = version.pop("selectableFields", [])
    return {
        **{key: value for key, value in version.items() if value},
        "schema": normalised_schema(schema),
        "columns": [{key: each for key, each in column.items() if each} for column in columns],
        "selectable": sorted(field["jsonPath"] for field in selectable),
    }


def normalised_schema(schema: Document) -> Document:
    found = {key: value for key, value in schema.items() if key == "default" or _says_something(key, value)}
    kind = found.get("type")
    if (kind, found.get("format")) in (("integer", "int64"), ("number", "double")):
        del found["format"]
    is_either = found.get("anyOf") == [{"type": "integer"}, {"type": "string"}]
    if found.get("x-kubernetes-int-or-string") and is_either:
        del found["anyOf"]
    if found.get("x-kubernetes-map-type") == "granular":
        del found["x-kubernetes-map-type"]
    if found.get("additionalProperties") == {_PRESERVE: True}:
        found[_PRESERVE] = found.pop("additionalProperties")[_PRESERVE]
    if "properties" in found:
        properties = found["properties"]
        found["required"] = sorted(
            name for name in found.get("required", ()) if "default" not in properties.get(name, {})
        )
        if not found["required"]:
            del found["required"]
        found["properties"] = {name: normalised_schema(each) for name, each in properties.items()}
    for name in ("items", "additionalProperties"):
        if isinstance(found.get(name), dict):
            found[name] = normalised_schema(found[name])
    return found


def _says_something(keyword: str, value: Any) -> bool:
    is_shortest = keyword in ("minLength", "minItems", "minProperties")
    return value is not False and value not in ("", [], {}) and not (is_shortest and value == 0)
