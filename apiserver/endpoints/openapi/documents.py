"""Documents: OpenAPI v3 of one group version, and parts of the one of v2, made from those."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from apiserver import EMULATED_VERSION, __version__
from apiserver.brand import Brand
from apiserver.endpoints.openapi.operations import Operations, definition_name, root
from apiserver.endpoints.openapi.schemas import META, REFERENCE, Components, reference
from apiserver.registry.served_resource import ServedResource
from apiserver.vocabulary import Document, GroupVersion

log = logging.getLogger(__name__)

# What clients are told of in every group.
_ALWAYS: Final = tuple(f"{META}{name}" for name in ("APIResourceList", "DeleteOptions", "Patch", "Status"))
_META_V1: Final = GroupVersion("", "v1")
# Clients use it to tell how they can say who they are.
_SECURITY: Final = {
    "BearerToken": {"description": "Bearer token", "in": "header", "name": "authorization", "type": "apiKey"}
}


class V2Part(NamedTuple):
    paths: Document
    definitions: Document


def v2_frame() -> tuple[Document, Document]:
    """What stands before and after the parts in a document of v2."""
    return {"swagger": "2.0", "info": _info()}, {
        "securityDefinitions": _SECURITY,
        "security": [{"BearerToken": []}],
    }


def version_key(group_version: GroupVersion) -> str:
    """`apis/apps/v1`: what the document of a version is called."""
    return root(group_version)[1:]


class Documents:
    """Makes documents of OpenAPI, and parts of them, from resources and definitions."""

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
                schemas |= self._own(resource, is_v2=False)
        return {
            "openapi": "3.0.0",
            "info": _info(),
            "paths": dict(self._paths(group_version, resources)),
            "components": {"schemas": schemas, "securitySchemes": _SECURITY},
        }

    def v2_part(self, versions: Mapping[GroupVersion, Iterable[ServedResource]]) -> V2Part:
        """What some versions are in a document of v2, with all that their schemas refer to."""
        paths: Document = {}
        definitions: Document = {}
        for group_version, each in versions.items():
            resources = tuple(each)
            document = self.v3(group_version, resources, versions)
            paths |= {path: _path_v2(item) for path, item in document["paths"].items()}
            schemas = document["components"]["schemas"]
            for resource in resources:
                if definition_name(resource) not in self._definitions:
                    schemas |= self._own(resource, is_v2=True)
            definitions |= {
                name: _schema_v2(schema) for name, schema in schemas.items() if name not in definitions
            }
        return V2Part(paths, definitions)

    def v2_custom_part(self, group_version: GroupVersion, resources: Iterable[ServedResource]) -> V2Part:
        """What a version of custom resources is; all that its schemas refer to others have, too."""
        resources = tuple(resources)
        paths = dict(self._paths(group_version, resources))
        own = [each for resource in resources for each in self._own(resource, is_v2=True).items()]
        return V2Part(
            {path: _path_v2(item) for path, item in paths.items()},
            {name: _schema_v2(schema) for name, schema in own},
        )

    def _paths(
        self, group_version: GroupVersion, resources: Iterable[ServedResource]
    ) -> Iterable[tuple[str, Document]]:
        yield self._operations.of_version(group_version)
        for resource in resources:
            yield from self._operations.of_resource(resource)

    def _own(self, resource: ServedResource, *, is_v2: bool) -> dict[str, Document]:
        """An object that is not among the definitions, and a list of them.

        Where it brings no schema that can be told, no more is known of it than what all have.
        """
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
        schema: Document = {
            **kind(resource.kind),
            "properties": whole,
            extension("preserve-unknown-fields"): True,
        }
        if resource.openapi is not None:
            try:
                schema = resource.openapi(is_v2)
            except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
                # Somebody wrote it past all checks; the others' schemas are told all the same.
                log.exception("the schema of %s cannot be told", resource.group_resource)
        return {
            name: schema,
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
    converted["responses"] = {code: _response_v2(each) for code, each in operation["responses"].items()}
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


def _response_v2(answer: Document) -> Document:
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
