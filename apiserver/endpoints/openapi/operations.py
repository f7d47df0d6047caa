"""Builds the paths of a resource, and the operations on each, for OpenAPI v3.

Client generators derive method names from operation ids, so these are built as Kubernetes builds them:
`createCoreV1NamespacedPod`. Source: k8s.io/apiserver, pkg/endpoints/installer.go and pkg/endpoints/openapi.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from apiserver.endpoints.openapi.schemas import META, reference
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import Document, GroupVersion
from apiserver.registry.served_resource import ServedResource, Subresource


class _Verb(NamedTuple):
    """An operation on a path, as the table of verbs has it.

    method: the HTTP method. prefix: of operation ids. action: the verb in extensions. about: the description.
    """

    method: str
    prefix: str
    action: str
    about: str


_LIST: Final = _Verb("get", "list", "list", "{list} objects of kind {kind}")
_CREATE: Final = _Verb("post", "create", "post", "create {a} {kind}")
_DELETE_COLLECTION: Final = _Verb("delete", "delete", "deletecollection", "delete collection of {kind}")
_COLLECTION: Final = {"list": _LIST, "create": _CREATE, "deletecollection": _DELETE_COLLECTION}
_ITEM: Final = {
    "get": _Verb("get", "read", "get", "read {below}the specified {kind}"),
    "update": _Verb("put", "replace", "put", "replace {below}the specified {kind}"),
    "patch": _Verb("patch", "patch", "patch", "partially update {below}the specified {kind}"),
    "delete": _Verb("delete", "delete", "delete", "delete {a} {kind}"),
}
_SUBRESOURCE: Final = {
    **_ITEM,
    "create": _Verb("post", "create", "post", "create {below}the specified {kind}"),
}
_METHODS: Final = {
    verb: operation.method for verbs in (_COLLECTION, _SUBRESOURCE) for verb, operation in verbs.items()
}


class _Page(NamedTuple):
    """A path of the server itself that answers a GET.

    operation_id, tag: of its operation. media_type: of its response, if not of all kinds.
    definition: of its response, which is text without one.
    """

    about: str
    operation_id: str
    tag: str
    definition: str = ""
    media_type: str = ""


# By paths without the slash in front.
_PAGES: Final[Mapping[str, _Page]] = {
    ".well-known/openid-configuration": _Page(
        "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
        "getServiceAccountIssuerOpenIDConfiguration",
        "WellKnown",
        media_type="application/json",
    ),
    "api": _Page("get available API versions", "getCoreAPIVersions", "core", f"{META}APIVersions"),
    "apis": _Page("get available API versions", "getAPIVersions", "apis", f"{META}APIGroupList"),
    "openid/v1/jwks": _Page(
        "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
        "getServiceAccountIssuerOpenIDKeyset",
        "openid",
        media_type="application/jwk-set+json",
    ),
    "version": _Page(
        "get the version information for this server",
        "getCodeVersion",
        "version",
        "io.k8s.apimachinery.pkg.version.Info",
        "application/json",
    ),
}


class Operations:
    """Builds the paths of resources.

    media_types: of requests and responses. patch_types: of patches.
    """

    def __init__(self, brand: Brand, media_types: Sequence[str], patch_types: Sequence[str]) -> None:
        self._brand = brand
        # Custom resources do not support protobuf.
        self._media_types = {
            False: tuple(media_types),
            True: tuple(each for each in media_types if "protobuf" not in each),
        }
        self._patch_types = tuple(patch_types)
        self._gvk = brand.extension("group-version-kind")
        self._action = brand.extension("action")

    def of_version(self, group_version: GroupVersion) -> tuple[str, Document]:
        """Returns the path that lists the resources of a group version."""
        operation = {
            "description": "get available resources",
            "operationId": f"get{self._words(group_version)}APIResources",
            "tags": self._tags(group_version),
            "responses": self._responses({"200": "OK"}, f"{META}APIResourceList"),
        }
        return f"{root(group_version)}/", {"get": operation}

    def of_pages(self, groups: Iterable[str]) -> Iterator[tuple[str, Document, str]]:
        """Yields the paths of the server itself and of groups, each with its item and its definition.

        groups: the built-in ones. A path that responds with text has an empty definition.
        """
        pages = dict(_PAGES)
        for group in groups:
            if group:
                words = _camel(self._short_group(group))
                operation_id, tag = f"get{words}APIGroup", f"{words[:1].lower()}{words[1:]}"
                pages[f"apis/{group}"] = _Page(
                    "get information of a group", operation_id, tag, f"{META}APIGroup"
                )
        for path, page in sorted(pages.items()):
            schema = reference(page.definition) if page.definition else {"type": "string"}
            responses = self._responses({"200": "OK"}, page.definition)
            if page.media_type:
                responses["200"]["content"] = {page.media_type: {"schema": schema}}
            operation = {
                "description": page.about,
                "operationId": page.operation_id,
                "tags": [page.tag],
                "responses": responses,
            }
            yield path, {"get": operation}, page.definition

    def of_resource(self, resource: ServedResource) -> Iterator[tuple[str, Document]]:
        """Yields the paths of a resource, with the operations on each."""
        for path, item in self._paths(resource):
            if item.keys() > {"parameters"}:
                yield path, item

    def _paths(self, resource: ServedResource) -> Iterator[tuple[str, Document]]:
        base = root(resource.group_version)
        scope = "namespaces/{namespace}/" if resource.is_namespaced else ""
        where = (_NAMESPACE,) if resource.is_namespaced else ()
        collection = f"{base}/{scope}{resource.resource}"
        item = f"{collection}/{{name}}"
        named = (_name_of(resource), *where)
        yield collection, self._item(resource, _COLLECTION, resource.verbs, (*where, _PRETTY))
        yield item, self._item(resource, _ITEM, resource.verbs, (*named, _PRETTY))
        for sub in resource.subresources.values():
            below = f"{item}/{sub.name}"
            if sub.update is None and not sub.definition:
                yield from self._streams(below, resource, sub, named)
            else:
                verbs = {verb: _SUBRESOURCE[verb] for verb in sub.verbs}
                yield below, self._item(resource, verbs, sub.verbs, (*named, _PRETTY), sub)
        if resource.is_namespaced and "list" in resource.verbs:
            operation = self._operation(resource, "list", _LIST, scope="")
            operation["operationId"] += "ForAllNamespaces"
            yield f"{base}/{resource.resource}", {"get": operation, "parameters": [_PRETTY]}
        # As in Kubernetes, not for custom resources.
        if "watch" in resource.verbs and not resource.is_custom:
            yield from self._watches(resource, base, scope, where, named)

    def _item(
        self,
        resource: ServedResource,
        known: Mapping[str, _Verb],
        verbs: Iterable[str],
        parameters: Sequence[Document],
        sub: Subresource | None = None,
    ) -> Document:
        item: Document = {
            known[verb].method: self._operation(resource, verb, known[verb], sub=sub)
            for verb in verbs
            if verb in known
        }
        item["parameters"] = list(parameters)
        return item

    def _operation(
        self,
        resource: ServedResource,
        name: str,
        verb: _Verb,
        *,
        scope: str | None = None,
        sub: Subresource | None = None,
    ) -> Document:
        if scope is None:
            scope = "Namespaced" if resource.is_namespaced else ""
        collection = "Collection" if name == "deletecollection" else ""
        below = f"{sub.name} of " if sub else ""
        definition = definition_name(resource)
        is_custom = resource.is_custom
        if sub and sub.definition:
            definition = sub.definition
        operation: Document = {
            "description": verb.about.format(
                kind=resource.kind,
                a=_article(resource.kind),
                below=below,
                list="list or watch" if "watch" in resource.verbs else "list",
            ),
            "operationId": "".join(
                (
                    verb.prefix,
                    self._words(resource.group_version),
                    collection,
                    scope,
                    resource.kind,
                    _title(sub.name) if sub else "",
                )
            ),
            "tags": self._tags(resource.group_version),
            self._action: verb.action,
            self._gvk: _kind(resource, sub),
            "parameters": list(_PARAMETERS.get(name, ())),
            "responses": self._responses(
                _CODES.get(name, _CODES["get"]),
                _response_definition(name, definition, returns_deleted=resource.strategy.returns_deleted),
                is_custom=is_custom,
            ),
        }
        if not operation["parameters"]:
            del operation["parameters"]
        if body := self._request_body(name, definition, resource):
            operation["requestBody"] = body
        return operation

    def _streams(
        self, path: str, resource: ServedResource, sub: Subresource, named: Sequence[Document]
    ) -> Iterator[tuple[str, Document]]:
        """Yields the paths that a node serves: logs and connections."""
        options = list(_STREAM_PARAMETERS.get(sub.kind or sub.name, ()))
        yield path, {**self._connections(resource, sub, ""), "parameters": [*named, *options]}
        if sub.has_paths:
            rest = _parameter(*_REST, where="path")
            below = self._connections(resource, sub, "WithPath")
            yield f"{path}/{{path}}", {**below, "parameters": [*named, rest, *options]}

    def _connections(self, resource: ServedResource, sub: Subresource, suffix: str) -> Document:
        words = self._words(resource.group_version)
        scope = "Namespaced" if resource.is_namespaced else ""
        below = f"{scope}{resource.kind}{_title(sub.name)}{suffix}"
        item: Document = {}
        for verb in sub.verbs:
            method = _METHODS[verb]
            is_connection = bool(sub.kind)
            about = f"connect {method.upper()} requests to" if is_connection else "read"
            prefix = f"connect{words}{_title(method)}" if is_connection else f"read{words}"
            item[method] = {
                "description": f"{about} {sub.name} of {resource.kind}",
                "operationId": f"{prefix}{below}",
                "tags": self._tags(resource.group_version),
                self._action: "connect" if is_connection else "get",
                self._gvk: _kind(resource, sub),
                "responses": {
                    "200": {
                        "description": "OK",
                        "content": {"*/*" if is_connection else "text/plain": {"schema": {"type": "string"}}},
                    },
                    "401": _UNAUTHORIZED,
                },
            }
        return item

    def _watches(
        self,
        resource: ServedResource,
        base: str,
        scope: str,
        where: Sequence[Document],
        named: Sequence[Document],
    ) -> Iterator[tuple[str, Document]]:
        """Yields the deprecated paths of watches."""
        words, kind = self._words(resource.group_version), resource.kind
        spaced = "Namespaced" if resource.is_namespaced else ""
        plural = f"{base}/watch/{scope}{resource.resource}"
        paths = [
            (plural, f"{spaced}{kind}List", "watchlist", where),
            (f"{plural}/{{name}}", f"{spaced}{kind}", "watch", named),
        ]
        if resource.is_namespaced:
            paths.append(
                (f"{base}/watch/{resource.resource}", f"{kind}ListForAllNamespaces", "watchlist", ())
            )
        for path, below, action, parameters in paths:
            what = "changes to an object" if action == "watch" else "individual changes to a list"
            operation = {
                "description": f"watch {what} of kind {kind}. deprecated: watch a list instead.",
                "operationId": f"watch{words}{below}",
                "tags": self._tags(resource.group_version),
                self._action: action,
                self._gvk: _kind(resource, None),
                "responses": self._responses({"200": "OK"}, f"{META}WatchEvent", is_stream=True),
            }
            yield path, {"get": operation, "parameters": [*parameters, *_PARAMETERS["list"], _PRETTY]}

    def _responses(
        self, codes: Mapping[str, str], definition: str, *, is_stream: bool = False, is_custom: bool = False
    ) -> Document:
        types = list(self._media_types[is_custom])
        if is_stream:
            types += [f"{each};stream=watch" for each in types if each != "application/yaml"]
        content = {each: {"schema": reference(definition)} for each in types}
        responses: Document = {
            code: {"description": text, "content": content} for code, text in codes.items()
        }
        responses["401"] = _UNAUTHORIZED
        return responses

    def _request_body(self, verb: str, definition: str, resource: ServedResource) -> Document | None:
        if verb in ("create", "update"):
            return {"required": True, "content": {"*/*": {"schema": reference(definition)}}}
        if verb == "patch":
            schema = {"schema": reference(f"{META}Patch")}
            types = [each for each in self._patch_types if _accepts_patch(resource, each)]
            return {"required": True, "content": dict.fromkeys(types, schema)}
        if verb in ("delete", "deletecollection"):
            return {"content": {"*/*": {"schema": reference(f"{META}DeleteOptions")}}}
        return None

    def _words(self, group_version: GroupVersion) -> str:
        """Returns a group version as it appears in operation ids, like `RbacAuthorizationV1`."""
        return _camel(self._short_group(group_version.group)) + _camel(group_version.version)

    def _tags(self, group_version: GroupVersion) -> list[str]:
        """Returns the tags of operations, like `rbacAuthorization_v1`."""
        group = _camel(self._short_group(group_version.group))
        return [f"{group[:1].lower()}{group[1:]}_{group_version.version}"]

    def _short_group(self, group: str) -> str:
        return group.removesuffix(f".{self._brand.group_domain}") or "core"


def _accepts_patch(resource: ServedResource, media_type: str) -> bool:
    if "apply" in media_type:
        return not resource.is_virtual
    return "strategic" not in media_type or not resource.is_custom


def root(group_version: GroupVersion) -> str:
    """Returns the path of a group version, like `/apis/apps/v1`."""
    return f"/apis/{group_version}" if group_version.group else f"/api/{group_version.version}"


def definition_name(resource: ServedResource) -> str:
    """Returns the name of a resource's schema; that of a custom resource is like `com.example.v1.Widget`."""
    group, version = resource.group_version
    return resource.definition or ".".join((*reversed(group.split(".")), version, resource.kind))


def _response_definition(verb: str, definition: str, *, returns_deleted: bool) -> str:
    if verb == "list":
        return f"{definition}List"
    if verb == "deletecollection" or (verb == "delete" and not returns_deleted):
        return f"{META}Status"
    return definition


def _kind(resource: ServedResource, sub: Subresource | None) -> Document:
    group, version = resource.group_version
    if sub is None or not sub.kind:
        return {"group": group, "kind": resource.kind, "version": version}
    group, version = sub.group_version or resource.group_version
    return {"group": group, "kind": sub.kind, "version": version}


def _camel(text: str) -> str:
    return "".join(_title(part) for part in text.replace("-", ".").split("."))


def _title(text: str) -> str:
    return text[:1].upper() + text[1:]


def _article(kind: str) -> str:
    return "an" if kind[:1] in "AEIOU" else "a"


# ---- parameters and responses


def _parameter(name: str, kind: str, description: str, *, where: str = "query") -> Document:
    parameter: Document = {"name": name, "in": where, "description": description}
    if where == "path":
        parameter["required"] = True
    parameter["schema"] = {"type": kind, "uniqueItems": True}
    return parameter


def _parameters(*named: tuple[str, str, str]) -> tuple[Document, ...]:
    """Returns query parameters from their names, types and descriptions."""
    return tuple(_parameter(*each) for each in named)


def _name_of(resource: ServedResource) -> Document:
    return _parameter("name", "string", f"name of the {resource.kind}", where="path")


_NAMESPACE: Final = _parameter("namespace", "string", "The namespace of the object.", where="path")
_PRETTY_TEXT: Final = ("pretty", "string", "If 'true', then the output is pretty printed.")
_PRETTY: Final = _parameter(*_PRETTY_TEXT)
_REST: Final = ("path", "string", "The path of the request to the proxied server.")
_UNAUTHORIZED: Final = {"description": "Unauthorized"}

_SELECTION: Final = _parameters(
    ("continue", "string", "The token to continue a list that was limited."),
    ("fieldSelector", "string", "A selector to restrict the list of returned objects by their fields."),
    ("labelSelector", "string", "A selector to restrict the list of returned objects by their labels."),
    ("limit", "integer", "The maximum number of objects to return; if there are more, continue is set."),
    ("resourceVersion", "string", "The resource version that a list is served at, or a watch starts after."),
    ("resourceVersionMatch", "string", "How resourceVersion is applied to a list: Exact or NotOlderThan."),
    ("sendInitialEvents", "boolean", "Whether a watch begins with events for the current state."),
    ("timeoutSeconds", "integer", "Timeout for the list or watch call."),
)
_WATCHING: Final = _parameters(
    ("allowWatchBookmarks", "boolean", "Requests watch events with type BOOKMARK."),
    ("watch", "boolean", "Watch for changes to the described resources."),
)
_DRY_RUN: Final = ("dryRun", "string", "If 'All', all stages are processed, but nothing is persisted.")
_WRITES: Final = _parameters(
    _DRY_RUN,
    ("fieldManager", "string", "The name of the actor that makes these changes."),
    ("fieldValidation", "string", "How unknown and duplicate fields are handled: Ignore, Warn or Strict."),
)
_GRACE_PERIOD: Final = "The duration in seconds before the object is deleted; 0 means immediately."
_PROPAGATION: Final = "How dependents are garbage collected: Orphan, Background or Foreground."
_DELETION: Final = _parameters(
    _DRY_RUN,
    ("gracePeriodSeconds", "integer", _GRACE_PERIOD),
    ("orphanDependents", "boolean", "Deprecated: use propagationPolicy."),
    ("propagationPolicy", "string", _PROPAGATION),
)
_FORCE: Final = ("force", "boolean", "Acquire conflicting fields that others own (apply only).")
_PARAMETERS: Final[Mapping[str, Sequence[Document]]] = MappingProxyType(
    {
        "list": (*_SELECTION, *_WATCHING),
        "create": _WRITES,
        "update": _WRITES,
        "patch": (*_WRITES, *_parameters(_FORCE)),
        "delete": _DELETION,
        "deletecollection": (*_SELECTION, *_DELETION),
    }
)
_CODES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "get": {"200": "OK"},
        "create": {"200": "OK", "201": "Created", "202": "Accepted"},
        "update": {"200": "OK", "201": "Created"},
        "patch": {"200": "OK", "201": "Created"},
        "delete": {"200": "OK", "202": "Accepted"},
        "deletecollection": {"200": "OK"},
    }
)
_CONTAINER: Final = ("container", "string", "The container; defaults to the only one of the pod.")
_STDIO: Final = (
    _CONTAINER,
    ("stderr", "boolean", "Redirect the standard error."),
    ("stdin", "boolean", "Redirect the standard input."),
    ("stdout", "boolean", "Redirect the standard output."),
    ("tty", "boolean", "Redirect a terminal."),
)
_COMMAND: Final = ("command", "string", "The command and its arguments; not executed within a shell.")
_INSECURE: Final = "Skip the verification of the kubelet's serving certificate."
_PROXY: Final = _parameters(_REST)
_STREAM_PARAMETERS: Final[Mapping[str, Sequence[Document]]] = MappingProxyType(
    {
        "PodAttachOptions": _parameters(*_STDIO),
        "PodExecOptions": _parameters(_COMMAND, *_STDIO),
        "PodPortForwardOptions": _parameters(("ports", "integer", "The ports to forward.")),
        "PodProxyOptions": _PROXY,
        "ServiceProxyOptions": _PROXY,
        "NodeProxyOptions": _PROXY,
        "log": _parameters(
            _CONTAINER,
            ("follow", "boolean", "Follow the log stream."),
            ("insecureSkipTLSVerifyBackend", "boolean", _INSECURE),
            ("limitBytes", "integer", "The number of bytes to read before terminating the log output."),
            _PRETTY_TEXT,
            ("previous", "boolean", "Return the logs of previously terminated containers."),
            ("sinceSeconds", "integer", "A relative time in seconds before now from which to show logs."),
            ("stream", "string", "The container log stream to return: All, Stdout or Stderr."),
            ("tailLines", "integer", "The number of lines from the end of the logs to show."),
            ("timestamps", "boolean", "Add an RFC 3339 timestamp at the beginning of every line."),
        ),
    }
)
