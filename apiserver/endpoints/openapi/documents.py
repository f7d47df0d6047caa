"""Builds OpenAPI documents: v3 of one group version, and the parts of v2, which are derived from v3."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from apiserver.endpoints.openapi.operations import Operations, definition_name, root
from apiserver.endpoints.openapi.schemas import META, REFERENCE, Components, reference
from apiserver.meta.brand import Brand
from apiserver.meta.releases.emulation import EmulatedRelease
from apiserver.meta.vocabulary import Document, GroupVersion
from apiserver.registry.served_resource import ServedResource

log = logging.getLogger(__name__)

# Definitions that the document of every group version has.
_ALWAYS: Final = tuple(f"{META}{name}" for name in ("APIResourceList", "DeleteOptions", "Patch", "Status"))
_CORE: Final = "io.k8s.api.core.v1."
_CONVENTIONS: Final = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
_META_V1: Final = GroupVersion("", "v1")
# How clients can authenticate.
_SECURITY: Final = {
    "BearerToken": {"description": "Bearer token", "in": "header", "name": "authorization", "type": "apiKey"}
}


class DocumentPart(NamedTuple):
    """The members of `paths` and of the schemas, which are `components.schemas` in v3 and `definitions` in
    v2.
    """

    paths: Document
    schemas: Document


def v3_document(part: DocumentPart, release: EmulatedRelease) -> Document:
    """Returns a v3 document with all the given members."""
    return {
        "openapi": "3.0.0",
        "info": _info(release),
        "paths": part.paths,
        "components": {"schemas": part.schemas, "securitySchemes": _SECURITY},
    }


def v2_document(part: DocumentPart, release: EmulatedRelease) -> Document:
    """Returns a v2 document with all the given members."""
    return {
        "swagger": "2.0",
        "info": _info(release),
        "paths": part.paths,
        "definitions": part.schemas,
        "securityDefinitions": _SECURITY,
        "security": [{"BearerToken": []}],
    }


def version_key(group_version: GroupVersion) -> str:
    """Returns the name of a group version's document, like `apis/apps/v1`."""
    return root(group_version)[1:]


class Documents:
    """Builds documents, and parts of them, from resources and definitions."""

    def __init__(
        self,
        definitions: Mapping[str, Any],
        brand: Brand,
        operations: Operations,
        release: EmulatedRelease,
        *,
        shows_enums: bool = True,
    ) -> None:
        """shows_enums: whether the fields of built-in types have their enumerations."""
        self._shows_enums = shows_enums
        self._definitions = definitions
        self._brand = brand
        self._operations = operations
        self._release = release
        self._type_meta = _texts(definitions, f"{META}Status", "apiVersion", "kind")
        self._metadata = {
            f"{META}ObjectMeta": _texts(definitions, f"{_CORE}Pod", "metadata"),
            f"{META}ListMeta": _texts(definitions, f"{_CORE}PodList", "metadata"),
        }
        options = definitions.get(f"{META}DeleteOptions", {}).get("properties", {})
        self._options = _texts(definitions, f"{META}DeleteOptions", *options)

    def v3(
        self,
        group_version: GroupVersion,
        resources: Iterable[ServedResource],
        others: Iterable[GroupVersion] = (),
    ) -> Document:
        """Returns the document of a group version. others: further versions of kinds like DeleteOptions."""
        resources = tuple(resources)
        paths, schemas = self.v3_shared_part(group_version, self.shared_definitions(resources), others)
        for resource in resources:
            part = self.v3_part(resource)
            paths |= part.paths
            schemas |= part.schemas
        return v3_document(DocumentPart(paths, schemas), self._release)

    def v3_pages(self, groups: Iterable[str]) -> dict[str, Document]:
        """Returns the documents of the server's own paths and of built-in groups, by these paths."""
        return {
            path: v3_document(self._page_part(path, item, definition), self._release)
            for path, item, definition in self._operations.of_pages(groups)
        }

    def _page_part(self, path: str, item: Document, definition: str) -> DocumentPart:
        schemas = self._components().schemas([definition], frozenset({_META_V1}))
        return DocumentPart({f"/{path}/": item}, schemas)

    def _components(self) -> Components:
        return Components(self._definitions, self._brand, shows_enums=self._shows_enums)

    def shared_definitions(self, resources: Iterable[ServedResource]) -> frozenset[str]:
        """Returns the names of the definitions that some resources need, beside those in their parts."""
        return frozenset(name for name in _definition_names(resources) if name in self._definitions)

    def v3_shared_part(
        self, group_version: GroupVersion, names: Iterable[str], others: Iterable[GroupVersion] = ()
    ) -> DocumentPart:
        """Returns the part of a group version's document that its resources share.

        names: of definitions, see `shared_definitions`. others: further versions of kinds like DeleteOptions.
        """
        served = frozenset({_META_V1, group_version, *others})
        schemas = self._components().schemas(names, served)
        return DocumentPart(dict([self._operations.of_version(group_version)]), schemas)

    def v3_part(self, resource: ServedResource) -> DocumentPart:
        """Returns the part of a resource: its paths, and its schemas if they are not definitions."""
        return DocumentPart(self._paths(resource), self._own_schemas(resource, is_v2=False))

    def v2_all(self, versions: Mapping[GroupVersion, Iterable[ServedResource]]) -> DocumentPart:
        """Returns the part of all built-in group versions in v2, with everything that their schemas refer to.

        It includes the paths of the server itself and of groups.
        """
        paths: Document = {}
        definitions: Document = {}
        for page in self._operations.of_pages(sorted({each.group for each in versions})):
            part = self._page_part(*page)
            paths |= _paths_v2(part.paths)
            definitions |= {name: _schema_v2(schema) for name, schema in part.schemas.items()}
        for group_version, each in versions.items():
            resources = tuple(each)
            names = self.shared_definitions(resources)
            shared = self.v3_shared_part(group_version, names, versions)
            paths |= _paths_v2(shared.paths)
            definitions |= {
                name: _schema_v2(schema) for name, schema in shared.schemas.items() if name not in definitions
            }
            for resource in resources:
                part = self.v2_part(resource)
                paths |= part.paths
                definitions |= part.schemas
        return DocumentPart(paths, definitions)

    def v2_version_part(self, group_version: GroupVersion) -> DocumentPart:
        """Returns the part of a group version in v2 that its resources share."""
        return DocumentPart(_paths_v2(dict([self._operations.of_version(group_version)])), {})

    def v2_part(self, resource: ServedResource) -> DocumentPart:
        """Returns the part of a resource in v2. The definitions that its schemas refer to are in other
        parts.
        """
        schemas = self._own_schemas(resource, is_v2=True)
        return DocumentPart(
            _paths_v2(self._paths(resource)), {name: _schema_v2(each) for name, each in schemas.items()}
        )

    def _paths(self, resource: ServedResource) -> Document:
        return {
            path: {key: self._with_texts(value) for key, value in item.items()}
            for path, item in self._operations.of_resource(resource)
        }

    def _own_schemas(self, resource: ServedResource, *, is_v2: bool) -> dict[str, Document]:
        if definition_name(resource) in self._definitions:
            return {}
        return self._undefined_kind(resource, is_v2=is_v2)

    def _with_texts(self, operation: Any) -> Any:
        """Returns an operation whose DeleteOptions parameters have the descriptions of the definitions."""
        if not isinstance(operation, dict) or "parameters" not in operation:
            return operation
        parameters = [
            {**each, "description": self._options.get(each["name"], each["description"])}
            for each in operation["parameters"]
        ]
        return {**operation, "parameters": parameters}

    def _undefined_kind(self, resource: ServedResource, *, is_v2: bool) -> dict[str, Document]:
        """Returns the schemas of a kind that is not among the definitions, and of its list.

        If the resource has no schema, or one that cannot be published, they hold only what all
        kinds have.
        """
        name = definition_name(resource)
        extension = self._brand.extension

        def kind(text: str) -> Document:
            group, version = resource.group_version
            return {
                extension("group-version-kind"): [{"group": group, "kind": text, "version": version}],
                "type": "object",
            }

        texts = {field: {"type": "string", "description": text} for field, text in self._type_meta.items()}
        whole = {**texts, "metadata": self._metadata_of(f"{META}ObjectMeta")}
        items = {
            "type": "array",
            "items": reference(name),
            "description": f"List of {resource.resource}. More info: {_CONVENTIONS}",
        }
        listed = {**texts, "metadata": self._metadata_of(f"{META}ListMeta"), "items": items}
        schema: Document = {
            **kind(resource.kind),
            "properties": whole,
            extension("preserve-unknown-fields"): True,
        }
        if resource.openapi is not None:
            try:
                schema = resource.openapi(is_v2, self._type_meta | self._metadata[f"{META}ObjectMeta"])
            except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
                # A definition that was stored without validation. Others are published all the same.
                log.exception("cannot publish the schema of %s", resource.group_resource)
        return {
            name: schema,
            f"{name}List": {
                "description": f"{resource.list_kind} is a list of {resource.kind}",
                **kind(resource.list_kind),
                "properties": listed,
                "required": ["items"],
            },
        }

    def _metadata_of(self, name: str) -> Document:
        """Returns the schema of the metadata of objects or lists, with its description."""
        texts = self._metadata[name]
        return {"allOf": [reference(name)], "description": texts["metadata"]} if texts else reference(name)


def _texts(definitions: Mapping[str, Any], name: str, *fields: str) -> dict[str, str]:
    """Returns the descriptions of some fields of a definition, if there are any."""
    properties = definitions.get(name, {}).get("properties", {})
    return {
        field: properties[field]["description"]
        for field in fields
        if "description" in properties.get(field, {})
    }


def _info(release: EmulatedRelease) -> Document:
    return {"title": "Resource API", "version": release.git_version}


def _definition_names(resources: Iterable[ServedResource]) -> Iterable[str]:
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


def _paths_v2(paths: Document) -> Document:
    return {path: _path_v2(item) for path, item in paths.items()}


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
    """Returns the schema of a body, which is the same for all its media types."""
    return _schema_v2(next(iter(content.values()))["schema"])


# Keywords that v2 does not have.
_NOT_IN_V2: Final = frozenset({"default", "oneOf", "anyOf", "not", "nullable"})


def _schema_v2(schema: Document) -> Document:
    converted: Document = {}
    for key, value in schema.items():
        if key in _NOT_IN_V2:
            continue
        if key == "$ref":
            converted[key] = value.replace(REFERENCE, "#/definitions/")
        elif key == "allOf" and len(value) == 1 and "$ref" in value[0]:
            # In v2 other keywords may accompany a reference.
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
        # A number or a string, which v2 can only describe as a string.
        converted["type"] = "string"
    return converted
