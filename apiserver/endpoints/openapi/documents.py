"""Whole documents: OpenAPI v3 of one group version, and v2 of all, made from those."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from apiserver import EMULATED_VERSION, __version__
from apiserver.brand import Brand
from apiserver.endpoints.openapi.operations import Operations, definition_name, root
from apiserver.endpoints.openapi.schemas import META, REFERENCE, Components, reference
from apiserver.registry.served_resource import ServedResource
from apiserver.vocabulary import Document, GroupVersion

# What clients are told of in every group.
_ALWAYS: Final = tuple(f"{META}{name}" for name in ("APIResourceList", "DeleteOptions", "Patch", "Status"))
_META_V1: Final = GroupVersion("", "v1")
# Clients use it to tell how they can say who they are.
_SECURITY: Final = {
    "BearerToken": {"description": "Bearer token", "in": "header", "name": "authorization", "type": "apiKey"}
}


def version_key(group_version: GroupVersion) -> str:
    """`apis/apps/v1`: what the document of a version is called."""
    return root(group_version)[1:]


class Documents:
    """Makes documents of OpenAPI from resources and definitions."""

    def __init__(self, definitions: Mapping[str, Any], brand: Brand, operations: Operations) -> None:
        self._definitions = definitions
        self._brand = brand
        self._operations = operations

    def v3(
        self,
        group_version: GroupVersion,
        resources: Iterable[ServedResource],
        others: Iterable[GroupVersion] = (),
    ) -> Document:
        """The document of one version. others: further versions that kinds like DeleteOptions have."""
        resources = tuple(resources)
        served = frozenset({_META_V1, group_version, *others})
        schemas = Components(self._definitions, self._brand).schemas(_wanted(resources), served)
        for resource in resources:
            if definition_name(resource) not in self._definitions:
                schemas |= self._unknown(resource)
        return {
            "openapi": "3.0.0",
            "info": _info(),
            "paths": dict(self._paths(group_version, resources)),
            "components": {"schemas": schemas, "securitySchemes": _SECURITY},
        }

    def v2(self, versions: Mapping[GroupVersion, Iterable[ServedResource]]) -> Document:
        """All versions in one document."""
        paths: Document = {}
        definitions: Document = {}
        for group_version, resources in versions.items():
            document = self.v3(group_version, resources, versions)
            paths |= {path: _path_v2(item) for path, item in document["paths"].items()}
            schemas = document["components"]["schemas"]
            definitions |= {
                name: _schema_v2(schema) for name, schema in schemas.items() if name not in definitions
            }
        return {
            "swagger": "2.0",
            "info": _info(),
            "paths": paths,
            "definitions": definitions,
            "securityDefinitions": _SECURITY,
            "security": [{"BearerToken": []}],
        }

    def _paths(
        self, group_version: GroupVersion, resources: Iterable[ServedResource]
    ) -> Iterable[tuple[str, Document]]:
        yield self._operations.of_version(group_version)
        for resource in resources:
            yield from self._operations.of_resource(resource)

    def _unknown(self, resource: ServedResource) -> dict[str, Document]:
        """An object of which no more is known than what all have, and a list of them."""
        name = definition_name(resource)
        extension = self._brand.extension

        def kind(text: str) -> Document:
            group, version = resource.group_version
            return {
                extension("group-version-kind"): [{"group": group, "kind": text, "version": version}],
                "type": "object",
            }

        texts = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
        whole = {**texts, "metadata": reference(f"{META}ObjectMeta")}
        items = {"type": "array", "items": reference(name)}
        listed = {**texts, "metadata": reference(f"{META}ListMeta"), "items": items}
        return {
            name: {
                **kind(resource.kind),
                "properties": whole,
                extension("preserve-unknown-fields"): True,
            },
            f"{name}List": {**kind(resource.list_kind), "properties": listed, "required": ["items"]},
        }


def _info() -> Document:
    major, minor = EMULATED_VERSION
    return {"title": "Resource API", "version": f"v{major}.{minor}.0+python.{__version__}"}


def _wanted(resources: Iterable[ServedResource]) -> Iterable[str]:
    yield from _ALWAYS
    for resource in resources:
        name = definition_name(resource)
        yield name
        if "list" in resource.verbs:
            yield f"{name}List"
        if "watch" in resource.verbs:
            yield f"{META}WatchEvent"
        yield f"{META}ObjectMeta"
        yield f"{META}ListMeta"
        yield from (sub.definition for sub in resource.subresources.values() if sub.definition)


# ---- v2


def _path_v2(item: Document) -> Document:
    path: Document = {
        method: _operation_v2(operation) for method, operation in item.items() if method != "parameters"
    }
    if "parameters" in item:
        path["parameters"] = [_parameter_v2(each) for each in item["parameters"]]
    return path


def _operation_v2(operation: Document) -> Document:
    converted = {key: value for key, value in operation.items() if key not in ("requestBody", "parameters")}
    body = operation.get("requestBody", {})
    converted["schemes"] = ["https"]
    converted["consumes"] = list(body.get("content", {"*/*": None}))
    converted["produces"] = list(operation["responses"]["200"]["content"])
    converted["responses"] = {code: _answer_v2(each) for code, each in operation["responses"].items()}
    parameters = [_parameter_v2(each) for each in operation.get("parameters", ())]
    if body:
        parameter = {"name": "body", "in": "body", "schema": _schema_of(body["content"])}
        parameters.insert(0, {**parameter, "required": True} if body.get("required") else parameter)
    if parameters:
        converted["parameters"] = parameters
    return converted


def _parameter_v2(parameter: Document) -> Document:
    rest = {key: value for key, value in parameter.items() if key != "schema"}
    return {**rest, **parameter["schema"]}


def _answer_v2(answer: Document) -> Document:
    converted = {"description": answer["description"]}
    if content := answer.get("content"):
        converted["schema"] = _schema_of(content)
    return converted


def _schema_of(content: Document) -> Document:
    """One of a body that has several media types, and the same schema in each."""
    return _schema_v2(next(iter(content.values()))["schema"])


# What v2 has no words for.
_NOT_IN_V2: Final = frozenset({"default", "oneOf", "anyOf", "not", "nullable"})


def _schema_v2(schema: Document) -> Document:
    converted: Document = {}
    for key, value in schema.items():
        if key in _NOT_IN_V2:
            continue
        if key == "$ref":
            converted[key] = value.replace(REFERENCE, "#/definitions/")
        elif key == "allOf" and len(value) == 1 and "$ref" in value[0]:
            # In v2 other words may stand beside a reference.
            converted |= _schema_v2(value[0])
        elif key == "properties":
            converted[key] = {name: _schema_v2(each) for name, each in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            converted[key] = _schema_v2(value)
        elif key == "allOf":
            converted[key] = [_schema_v2(each) for each in value]
        else:
            converted[key] = value
    if (
        "oneOf" in schema
        and "type" not in schema
        and any(each.get("type") == "string" for each in schema["oneOf"])
    ):
        # A number or a text, which clients of v2 know as a text.
        converted["type"] = "string"
    return converted
