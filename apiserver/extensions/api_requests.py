"""The requests of the client that functions of extensions use, without I/O.

Each operation is a generator: it yields requests, gets their responses, and returns its result. So the same
code serves functions that are async and those that are not. All operations raise ApiError.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote, urlencode

import orjson

from apiserver.extensions.errors import ApiError
from apiserver.extensions.resource_names import ResourceName

_T = TypeVar("_T")

Object: TypeAlias = dict[str, Any]
Objects: TypeAlias = list[Object]
# Of labels or fields: `app=shop,tier!=web`, or the values that they must have.
Selector: TypeAlias = str | Mapping[str, str]

PAGE_OBJECTS: Final = 500
JSON: Final = "application/json"
_DISCOVERY: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_PATCH_TYPES: Final = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
_APPLY: Final = "application/apply-patch+yaml"
_NOT_FOUND: Final = 404
_GONE: Final = 410
# Source: k8s.io/apimachinery, pkg/api/validation/path/name.go, IsValidPathSegmentName.
_NOT_IN_NAMES: Final = frozenset("/%")
_NOTHING: Final[Mapping[str, str]] = {}


class ApiRequest(NamedTuple):
    """A request to the server. path: with its query."""

    method: str
    path: str
    body: bytes | None = None
    content_type: str = JSON
    accept: str = JSON


class ApiResponse(NamedTuple):
    """A response of the server."""

    code: int
    body: bytes

    @property
    def status(self) -> Object | None:
        """The Status in the body; None if there is none."""
        try:
            found = orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return None
        return found if isinstance(found, dict) and found.get("kind") == "Status" else None

    @property
    def is_of_unknown_path(self) -> bool:
        """Whether the path is not served. The Status of an object that does not exist names it."""
        if self.code != _NOT_FOUND:
            return False
        status = self.status
        return status is None or "name" not in (status.get("details") or {})


Steps: TypeAlias = Generator[ApiRequest, ApiResponse, _T]


class ServedVersion(NamedTuple):
    """A resource of one version, as discovery describes it."""

    group: str
    version: str
    resource: str
    kind: str
    is_namespaced: bool

    @property
    def head(self) -> Object:
        """The first fields of its objects."""
        version = f"{self.group}/{self.version}" if self.group else self.version
        return {"apiVersion": version, "kind": self.kind}


# By group, version and name.
_Index: TypeAlias = Mapping[tuple[str, str, str], ServedVersion]


class _Served(NamedTuple):
    """All served resources. groups: with their versions, in order of preference."""

    groups: Sequence[tuple[str, Sequence[str]]]
    by_name: _Index
    by_short_name: _Index

    def find(self, name: ResourceName) -> ServedVersion | None:
        for index in (self.by_name, self.by_short_name):
            if (found := name.find(self.groups, partial(_find, index))) is not None:
                return found
        return None


def _find(index: _Index, group: str, version: str, name: str) -> ServedVersion | None:
    return index.get((group, version, name))


class Discovery:
    """The resources that the server serves, read when they are first needed, and again for an unknown one.

    Threads may share it.
    """

    def __init__(self) -> None:
        self._served = _Served((), {}, {})

    def resource(self, name: ResourceName) -> Steps[ServedVersion]:
        """Returns the resource that a name means. Raises NotFound."""
        found = self._served.find(name)
        if found is None:
            yield from self.read()
            found = self._served.find(name)
        if found is None:
            raise ApiError.of(
                _NOT_FOUND, {"reason": "NotFound", "message": f"the server does not serve {name}"}
            )
        return found

    def read(self) -> Steps[None]:
        """Replace what is known by what the server says now."""
        groups: list[tuple[str, Sequence[str]]] = []
        by_name: dict[tuple[str, str, str], ServedVersion] = {}
        by_short_name: dict[tuple[str, str, str], ServedVersion] = {}
        for path in ("/api", "/apis"):
            found = _document((yield ApiRequest("GET", path, accept=_DISCOVERY)))
            for document in found.get("items", ()):
                group, versions = document["metadata"].get("name", ""), document.get("versions", ())
                groups.append((group, [each["version"] for each in versions]))
                for version in versions:
                    for each in version.get("resources", ()):
                        served = _served_version(group, version["version"], each)
                        for name in (served.resource, each.get("singularResource", "")):
                            by_name.setdefault((group, served.version, name), served)
                        for name in each.get("shortNames", ()):
                            by_short_name.setdefault((group, served.version, name), served)
        self._served = _Served(groups, by_name, by_short_name)


def _served_version(group: str, version: str, document: Object) -> ServedVersion:
    kind = (document.get("responseKind") or {}).get("kind", "")
    return ServedVersion(group, version, document["resource"], kind, document["scope"] == "Namespaced")


class ObjectName(NamedTuple):
    """What a request is for. name: empty for a collection. namespace: empty for none, or for all in lists."""

    resource: str
    name: str = ""
    namespace: str = ""

    def require_name(self) -> ObjectName:
        if not self.name:
            raise ValueError(f"the name of an object of {self.resource} is required")
        return self

    def path(self, served: ServedVersion, *, spans_namespaces: bool) -> str:
        """Returns the path of the request.

        Raises ValueError for a namespace that is missing, or that the resource does not have, and for names
        that would change the path.
        """
        subresource = ResourceName.of(self.resource).subresource
        for what, part in (
            ("name", self.name),
            ("namespace", self.namespace),
            ("subresource", subresource),
        ):
            if part in (".", "..") or not _NOT_IN_NAMES.isdisjoint(part):
                raise ValueError(f"the {what} {part!r} must not be . or .. and must not contain / or %")
        if subresource:
            self.require_name()
        if self.namespace and not served.is_namespaced:
            raise ValueError(f"{served.resource} have no namespace, but it is {self.namespace!r}")
        if served.is_namespaced and not self.namespace and not spans_namespaces:
            raise ValueError(f"{served.resource} have a namespace, which is required")
        parts = ["apis", served.group, served.version] if served.group else ["api", served.version]
        if self.namespace:
            parts += ["namespaces", self.namespace]
        parts += [served.resource, *filter(None, (self.name, subresource))]
        return "/" + "/".join(quote(part, safe="") for part in parts)


class Operations:
    """The operations of one client. manager: that of the fields that it writes."""

    def __init__(self, discovery: Discovery, manager: str) -> None:
        self._discovery, self._manager = discovery, manager

    def get(self, target: ObjectName) -> Steps[Object]:
        found = yield from self._send("GET", target.require_name())
        return found

    def list(self, target: ObjectName, labels: Selector, fields: Selector) -> Steps[Objects]:
        """Read a list in pages, all at one revision; or at once, if that revision is compacted meanwhile."""
        selected = {"labelSelector": _selector(labels), "fieldSelector": _selector(fields)}
        items: Objects = []
        paging = {"limit": str(PAGE_OBJECTS)}
        while True:
            try:
                page = yield from self._send(
                    "GET", target, query={**selected, **paging}, spans_namespaces=True
                )
            except ApiError as error:
                if error.code != _GONE or "continue" not in paging:
                    raise
                items, paging = [], {}
                continue
            served = yield from self._discovery.resource(ResourceName.of(target.resource))
            # Items of built-in types do not have these fields.
            head = {"apiVersion": page["apiVersion"], "kind": served.kind}
            items += [{**head, **each} for each in page.get("items") or ()]
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return items
            paging = {"limit": str(PAGE_OBJECTS), "continue": token}

    def create(
        self, resource: str, document: Mapping[str, Any], namespace: str, *, dry_run: bool
    ) -> Steps[Object]:
        target = _target(resource, document, namespace)
        if not ResourceName.of(resource).subresource:
            target = target._replace(name="")
        found = yield from self._send("POST", target, document, query=self._written(dry_run))
        return found

    def update(
        self, resource: str, document: Mapping[str, Any], namespace: str, *, dry_run: bool
    ) -> Steps[Object]:
        target = _target(resource, document, namespace).require_name()
        found = yield from self._send("PUT", target, document, query=self._written(dry_run))
        return found

    def apply(
        self, resource: str, document: Mapping[str, Any], namespace: str, *, dry_run: bool
    ) -> Steps[Object]:
        target = _target(resource, document, namespace).require_name()
        query = {**self._written(dry_run), "force": "true"}
        found = yield from self._send("PATCH", target, document, query=query, content_type=_APPLY)
        return found

    def patch(self, target: ObjectName, patch: Any, patch_type: str, *, dry_run: bool) -> Steps[Object]:
        if patch_type not in _PATCH_TYPES:
            raise ValueError(f"patch_type={patch_type!r} must be one of {', '.join(_PATCH_TYPES)}")
        found = yield from self._send(
            "PATCH",
            target.require_name(),
            patch,
            query=self._written(dry_run),
            content_type=_PATCH_TYPES[patch_type],
        )
        return found

    def delete(self, target: ObjectName, options: Object) -> Steps[Object]:
        found = yield from self._send("DELETE", target.require_name(), options)
        return found

    def _written(self, dry_run: bool) -> dict[str, str]:
        """Returns the query of a write."""
        return {"fieldManager": self._manager, **({"dryRun": "All"} if dry_run else {})}

    def _send(
        self,
        method: str,
        target: ObjectName,
        content: Any = None,
        *,
        query: Mapping[str, str] = _NOTHING,
        content_type: str = JSON,
        spans_namespaces: bool = False,
    ) -> Steps[Object]:
        """Send a request for a resource, and once more if its version is not served any more."""
        name = ResourceName.of(target.resource)
        # Objects of a subresource have their own kind.
        has_kind = method in ("POST", "PUT") or content_type == _APPLY
        selected = {key: value for key, value in query.items() if value}
        is_repeated = False
        while True:
            served = yield from self._discovery.resource(name)
            path = target.path(served, spans_namespaces=spans_namespaces)
            if selected:
                path = f"{path}?{urlencode(selected)}"
            body = None
            if content is not None:
                is_named = has_kind and name.subresource in ("", "status")
                body = orjson.dumps({**served.head, **content} if is_named else content)
            response = yield ApiRequest(method, path, body, content_type)
            if is_repeated or not response.is_of_unknown_path:
                return _document(response)
            yield from self._discovery.read()
            is_repeated = True


def _target(resource: str, document: Mapping[str, Any], namespace: str) -> ObjectName:
    """Returns what the write of an object is for."""
    metadata = document.get("metadata") or {}
    return ObjectName(resource, metadata.get("name") or "", namespace or metadata.get("namespace") or "")


def _selector(selector: Selector) -> str:
    if isinstance(selector, str):
        return selector
    return ",".join(f"{key}={value}" for key, value in selector.items())


def _document(response: ApiResponse) -> Object:
    """Returns the document of a response. Raises ApiError."""
    if response.code < 400:
        document: Object = orjson.loads(response.body)
        return document
    text = response.body.decode("utf-8", "replace").strip()
    raise ApiError.of(response.code, response.status or {"message": text})
