"""Method, path and query as the record that everything after works with.

Source: k8s.io/apiserver, pkg/endpoints/request/requestinfo.go; rows A02, I01-I12.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final
from urllib.parse import parse_qs, unquote

from apiserver.vocabulary import Query

QUERY_PARAMETERS_MAX: Final = 200
# The subresources of Namespace; anything else behind /namespaces/{name}/ is a resource inside it.
_NAMESPACE_SUBRESOURCES: Final = frozenset({"status", "finalize"})
_VERBS: Final = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}


class MalformedPath(ValueError):
    """The path or the query cannot be understood at all."""


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """What a request is about.

    For paths that lead to no resource only `method`, `verb` (the method in lower case) and `path` mean
    anything.
    """

    method: str
    path: str  # decoded, without the query
    verb: str  # get, list, watch, create, update, patch, delete or deletecollection
    is_resource: bool = False
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""
    rest: tuple[str, ...] = ()  # what follows the subresource
    has_watch_prefix: bool = False  # /api/v1/watch/..., an old way to say ?watch=true


@lru_cache(maxsize=4096)
def parse_target(method: str, raw_path: str, is_watch: bool) -> RequestInfo:
    """Understand a path; is_watch: the query asks for a watch.

    Cached, because clients ask for the same things; what a stranger makes up only pushes out others.
    Raises MalformedPath for bytes that are no UTF-8.
    """
    try:
        path = unquote(raw_path, errors="strict")
    except UnicodeDecodeError:
        raise MalformedPath("the path is not UTF-8") from None
    other = RequestInfo(method, path, method.lower())
    parts = path.removeprefix("/").removesuffix("/").split("/")
    if "" in parts or "\0" in path:
        return other
    match parts:
        case ["api", version, *rest] if rest:
            group = ""
        case ["apis", group, version, *rest] if rest:
            pass
        case _:
            return other
    has_watch_prefix = rest[0] == "watch" and len(rest) > 1
    if has_watch_prefix:
        rest = rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    verb = _VERBS.get(method, method.lower())
    if verb == "get" and (is_watch or has_watch_prefix) and not subresource:
        verb = "watch"
    elif not name:
        verb = {"get": "list", "delete": "deletecollection"}.get(verb, verb)
    return RequestInfo(
        method,
        path,
        verb,
        is_resource=True,
        group=group,
        version=version,
        namespace=namespace,
        resource=resource,
        name=name,
        subresource=subresource,
        rest=tuple(rest[3:]),
        has_watch_prefix=has_watch_prefix,
    )


_EMPTY: Final[Query] = MappingProxyType({})


@lru_cache(maxsize=1024)
def parse_query(raw: str) -> Query:
    """The parameters of a query string. Cached like paths are; not to be changed.

    Raises MalformedPath for too many parameters, or bytes that are no UTF-8.
    """
    if not raw:
        return _EMPTY
    try:
        return MappingProxyType(
            parse_qs(raw, keep_blank_values=True, errors="strict", max_num_fields=QUERY_PARAMETERS_MAX)
        )
    except UnicodeDecodeError:
        raise MalformedPath("the query is not UTF-8") from None
    except ValueError:
        raise MalformedPath(f"the query has more than {QUERY_PARAMETERS_MAX} parameters") from None
