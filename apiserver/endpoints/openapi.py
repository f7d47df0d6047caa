"""OpenAPI v3: an index with a hash for each group version, and a document for each. Row I20.

kubectl reads them to learn what the server can validate, and what fields mean. A document is made when it
is first asked for, in a thread, from the table of resources and the definitions of their kinds; it is
kept as bytes until the table changes.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

import orjson

from apiserver import EMULATED_VERSION, __version__
from apiserver.brand import Brand
from apiserver.endpoints.call import Call
from apiserver.endpoints.negotiation import JSON
from apiserver.endpoints.responses import TEXT, send
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.vocabulary import Document, GroupVersion

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."


class OpenApi:
    """Answers /openapi/v3 from the table of the moment."""

    def __init__(self, brand: Brand, schemas: BuiltinSchemas, table: Callable[[], ResourceTable]) -> None:
        self._brand = brand
        self._schemas = schemas
        self._table = table
        self._document = lru_cache(maxsize=256)(self._make)
        self._making = asyncio.Lock()

    async def index(self, call: Call) -> None:
        """/openapi/v3"""
        table = self._table()
        paths = {
            _key(gv): {"serverRelativeURL": f"/openapi/v3/{_key(gv)}?hash={_hash_of(table, gv)}"}
            for gv in table.group_versions
        }
        # kube-apiserver leaves the type to guessing, and it is guessed as text.
        await send(call, 200, orjson.dumps({"paths": paths}), TEXT)

    async def group_version(self, call: Call, key: str) -> bool:
        """/openapi/v3/{api/v1 or apis/group/version}; False if no such version is served."""
        table = self._table()
        for group_version in table.group_versions:
            if _key(group_version) == key:
                etag = f'"{_hash_of(table, group_version)}"'
                headers = {"ETag": etag, "Vary": "Accept"}
                if call.request.headers.get("If-None-Match") == etag:
                    await send(call, 304, b"", JSON, headers)
                else:
                    # The first time it takes some 100 ms of CPU, which is no time for the loop to wait.
                    # Whoever comes meanwhile waits for the same.
                    async with self._making:
                        body = await asyncio.to_thread(self._document, table, group_version)
                    await send(call, 200, body, JSON, headers)
                return True
        return False

    def _make(self, table: ResourceTable, group_version: GroupVersion) -> bytes:
        resources = table.group_versions[group_version]
        definitions = self._schemas.definitions()
        wanted = [name for r in resources for name in (r.definition, f"{r.definition}List")]
        wanted += [f"{_META}{name}" for name in ("DeleteOptions", "Status", "Patch", "APIResourceList")]
        document = {
            "openapi": "3.0.0",
            "info": {
                "title": f"Resource API ({group_version})",
                "version": f"v{EMULATED_VERSION[0]}.{EMULATED_VERSION[1]}.0+python.{__version__}",
            },
            "paths": {path: item for r in resources for path, item in _paths(r)},
            "components": {
                "schemas": {
                    name: _schema(definitions[name]) for name in sorted(_closure(wanted, definitions))
                }
            },
        }
        return orjson.dumps(document)


def _key(group_version: GroupVersion) -> str:
    return f"apis/{group_version}" if group_version.group else f"api/{group_version.version}"


@lru_cache(maxsize=256)
def _hash_of(table: ResourceTable, group_version: GroupVersion) -> str:
    """Changes with what the document is made of, and can be told without making it."""
    parts = [f"{__version__}/{EMULATED_VERSION}"]
    parts += [
        f"{r.resource}/{r.kind}/{r.definition}/{r.verbs}/{sorted(r.subresources)}"
        for r in table.group_versions[group_version]
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest().upper()


# ---- paths


def _paths(resource: ServedResource) -> Iterable[tuple[str, Document]]:
    """Every path of a resource with the operations on it."""
    group_version = resource.group_version
    root = f"/{_key(group_version)}"
    scopes = ["namespaces/{namespace}/"] if resource.is_namespaced else [""]
    for scope in scopes:
        collection = f"{root}/{scope}{resource.resource}"
        yield (
            collection,
            _item(
                resource,
                {"get": "list", "post": "create", "delete": "deletecollection"},
                resource.verbs,
                is_namespaced=bool(scope),
            ),
        )
        yield (
            f"{collection}/{{name}}",
            _item(
                resource,
                {"get": "get", "put": "update", "patch": "patch", "delete": "delete"},
                resource.verbs,
                is_namespaced=bool(scope),
                has_name=True,
            ),
        )
        for subresource in resource.subresources.values():
            yield (
                f"{collection}/{{name}}/{subresource.name}",
                _item(
                    resource,
                    {"get": "get", "put": "update", "patch": "patch", "post": "create"},
                    subresource.verbs,
                    is_namespaced=bool(scope),
                    has_name=True,
                    subresource=subresource.name,
                ),
            )
    if resource.is_namespaced:
        yield (
            f"{root}/{resource.resource}",
            _item(resource, {"get": "list"}, resource.verbs, is_namespaced=False),
        )


def _item(
    resource: ServedResource,
    methods: dict[str, str],
    verbs: Iterable[str],
    *,
    is_namespaced: bool,
    has_name: bool = False,
    subresource: str = "",
) -> Document:
    item: Document = {
        method: _operation(resource, verb, is_namespaced=is_namespaced, subresource=subresource)
        for method, verb in methods.items()
        if verb in verbs
    }
    parameters = [_parameter("pretty", "string", "Indent the answer if 'true'.")]
    if has_name:
        parameters.append(_path_parameter("name", f"The name of the {resource.kind}."))
    if is_namespaced:
        parameters.append(_path_parameter("namespace", "The namespace that the request is about."))
    item["parameters"] = parameters
    return item


def _operation(resource: ServedResource, verb: str, *, is_namespaced: bool, subresource: str) -> Document:
    group, version = resource.group_version
    scope = "Namespaced" if is_namespaced else "ForAllNamespaces" if resource.is_namespaced else ""
    operation: Document = {
        "operationId": "".join(
            (verb, _camel(group or "core"), _camel(version), scope, resource.kind, _camel(subresource))
        ),
        "tags": [f"{group or 'core'}_{version}"],
        "x-kubernetes-action": {"create": "post", "update": "put"}.get(verb, verb),
        "x-kubernetes-group-version-kind": {"group": group, "kind": resource.kind, "version": version},
        "parameters": [_parameter(*parameter) for parameter in _PARAMETERS.get(verb, ())],
        "responses": _responses(resource, verb),
    }
    if body := _request_body(resource, verb):
        operation["requestBody"] = body
    return operation


def _camel(text: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in text.replace("-", ".").split("."))


def _responses(resource: ServedResource, verb: str) -> Document:
    name = {
        "list": f"{resource.definition}List",
        "delete": f"{_META}Status",
        "deletecollection": f"{_META}Status",
    }.get(verb, resource.definition)
    answer = {"description": "OK", "content": {JSON: {"schema": _reference(name)}}}
    responses: Document = {"200": answer, "401": {"description": "Unauthorized"}}
    if verb in ("create", "update", "patch"):
        responses["201"] = {**answer, "description": "Created"}
    return responses


def _request_body(resource: ServedResource, verb: str) -> Document | None:
    if verb in ("create", "update"):
        return {"required": True, "content": {"*/*": {"schema": _reference(resource.definition)}}}
    if verb == "patch":
        media_types = ("application/json-patch+json", "application/merge-patch+json")
        schema = {"schema": _reference(f"{_META}Patch")}
        return {"required": True, "content": dict.fromkeys(media_types, schema)}
    if verb in ("delete", "deletecollection"):
        return {"content": {"*/*": {"schema": _reference(f"{_META}DeleteOptions")}}}
    return None


def _parameter(name: str, kind: str, description: str) -> Document:
    schema = {"type": kind, "uniqueItems": True}
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _path_parameter(name: str, description: str) -> Document:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": {"type": "string", "uniqueItems": True},
    }


_SELECTORS: Final = (
    ("fieldSelector", "string", "Select objects by the values of some fields."),
    ("labelSelector", "string", "Select objects by their labels."),
    ("limit", "integer", "The most objects to answer with; a token to go on comes with them."),
    ("continue", "string", "The token with which to go on after a limited list."),
    ("resourceVersion", "string", "The version that is to be read, or to begin after."),
    ("resourceVersionMatch", "string", "How resourceVersion is meant: Exact or NotOlderThan."),
    ("timeoutSeconds", "integer", "How long the request may take, or the watch last."),
)
_WRITES: Final = (
    ("dryRun", "string", "With 'All' nothing is stored, and everything else is done."),
    ("fieldManager", "string", "The name under which the changed fields are owned."),
    ("fieldValidation", "string", "What to do about unknown fields: Ignore, Warn or Strict."),
)
_DELETION: Final = (
    ("dryRun", "string", "With 'All' nothing is deleted, and everything else is done."),
    ("gracePeriodSeconds", "integer", "How long the object may take to end; 0 means at once."),
    ("orphanDependents", "boolean", "Deprecated: use propagationPolicy."),
    ("propagationPolicy", "string", "What becomes of dependents: Orphan, Background or Foreground."),
)
_PARAMETERS: Final[dict[str, tuple[tuple[str, str, str], ...]]] = {
    "list": (
        *_SELECTORS,
        ("watch", "boolean", "Send changes as they happen instead of a list."),
        ("allowWatchBookmarks", "boolean", "Let a watch send bookmarks."),
        ("sendInitialEvents", "boolean", "Begin a watch with the state there is."),
    ),
    "create": _WRITES,
    "update": _WRITES,
    "patch": (*_WRITES, ("force", "boolean", "Take over fields that others own (apply only).")),
    "delete": _DELETION,
    "deletecollection": (*_SELECTORS, *_DELETION),
}


# ---- schemas


def _reference(name: str) -> Document:
    return {"$ref": f"#/components/schemas/{name}"}


def _closure(names: Iterable[str], definitions: dict[str, Any]) -> set[str]:
    """The definitions by these names, and all that they refer to."""
    found: set[str] = set()
    pending = [name for name in names if name in definitions]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += _references(definitions[name])
    return found


def _references(node: Any) -> Iterable[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref":
                yield value.rpartition("/")[2]
            else:
                yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


def _schema(node: Any) -> Any:
    """A definition in JSON Schema as OpenAPI 3.0 has it."""
    if isinstance(node, list):
        return [_schema(each) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        # Beside a reference nothing counts in OpenAPI 3.0.
        reference = _reference(node["$ref"].rpartition("/")[2])
        rest = {key: value for key, value in node.items() if key != "$ref"}
        return {"allOf": [reference], **rest} if rest else reference
    schema = {}
    for key, value in node.items():
        if key == "type" and isinstance(value, list):
            # The package lets every field be null; the server takes that as absent.
            schema[key] = next(each for each in value if each != "null")
        elif key == "properties":
            schema[key] = {name: _property(name, each) for name, each in value.items()}
        else:
            schema[key] = _schema(value)
    return schema


def _property(name: str, node: Any) -> Any:
    schema = _schema(node)
    if name in ("apiVersion", "kind") and isinstance(schema, dict):
        schema.pop("enum", None)  # the package's own addition
    return schema
