"""Method, path and query as the record that everything after works with.

Source: k8s.io/apiserver, pkg/endpoints/request/requestinfo.go; rows A02, I01-I12.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final
from urllib.parse import parse_qs, unquote

from apiserver.meta import names
from apiserver.meta.selectors import SelectorSyntaxError, parse_field_selector
from apiserver.vocabulary import Query

# Strangers can make up any number of paths: what is kept of each has a bound, too.
CACHED_LENGTH_MAX: Final = 512
QUERY_PARAMETERS_MAX: Final = 200
# The subresources of Namespace; anything else behind /namespaces/{name}/ is a resource inside it.
_NAMESPACE_SUBRESOURCES: Final = frozenset({"status", "finalize"})
# A name, a namespace and some more fit in; whoever asks is not known to be allowed to cost more.
SELECTOR_LENGTH_MAX: Final = 1_024
# As in Kubernetes not deletecollection: who may delete one object does so by its name.
_SELECTING_VERBS: Final = frozenset({"list", "watch"})
_VERBS: Final = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}


class MalformedRequest(ValueError):
    """The head of the request cannot be understood at all."""


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
    is_namespace_itself: bool = False  # the path ends with the namespace, or a subresource of it


def parse_target(method: str, raw_path: str, is_watch: bool) -> RequestInfo:
    """Understand a path; is_watch: the query asks for a watch.

    Cached, because clients ask for the same things. Raises MalformedRequest for bytes that are no UTF-8.
    """
    parse = _parse_target if len(raw_path) <= CACHED_LENGTH_MAX else _parse_target.__wrapped__
    return parse(method, raw_path, is_watch)


@lru_cache(maxsize=4096)
def _parse_target(method: str, raw_path: str, is_watch: bool) -> RequestInfo:
    try:
        path = unquote(raw_path, errors="strict")
    except UnicodeDecodeError:
        raise MalformedRequest("the path is not UTF-8") from None
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
        rest = rest[1:]  # whatever the method: nothing but watching is done there
    namespace, is_namespace_itself = "", False
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        is_namespace_itself = len(rest) == 2 or rest[2] in _NAMESPACE_SUBRESOURCES
        if not is_namespace_itself:
            rest = rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    verb = _VERBS.get(method, method.lower())
    if has_watch_prefix or (verb == "get" and is_watch and not subresource):
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
        is_namespace_itself=is_namespace_itself,
    )


class _AnyField(frozenset[str]):
    """Which fields a resource has is not known yet, and matters only later."""

    def __contains__(self, field: object) -> bool:
        return True


_ANY_FIELD: Final = _AnyField()


def selected_name(info: RequestInfo, query: Query) -> str:
    """The one name that a list or a watch is about because its field selector says so; empty otherwise.

    Who may only see one object may ask for it in this way, too. Selectors that cannot be understood select
    no name: what is wrong with them is told later, to those who may ask. Nor do very long ones.
    """
    if "fieldSelector" not in query or info.verb not in _SELECTING_VERBS or info.has_watch_prefix:
        return ""
    text = query["fieldSelector"][0]
    if len(text) > SELECTOR_LENGTH_MAX:
        return ""
    try:
        selector = parse_field_selector(text, _ANY_FIELD)
    except SelectorSyntaxError:
        return ""
    name = selector.required_value("metadata.name") or ""
    return "" if names.path_segment(name) else name


_EMPTY: Final[Query] = MappingProxyType({})


def parse_query(raw: str) -> Query:
    """The parameters of a query string. Cached like paths are; not to be changed.

    Raises MalformedRequest for too many parameters, or bytes that are no UTF-8.
    """
    if not raw:
        return _EMPTY
    return _parse_query(raw) if len(raw) <= CACHED_LENGTH_MAX else _parse_query.__wrapped__(raw)


@lru_cache(maxsize=1024)
def _parse_query(raw: str) -> Query:
    try:
        return MappingProxyType(
            parse_qs(raw, keep_blank_values=True, errors="strict", max_num_fields=QUERY_PARAMETERS_MAX)
        )
    except UnicodeDecodeError:
        raise MalformedRequest("the query is not UTF-8") from None
    except ValueError:
        raise MalformedRequest(f"the query has more than {QUERY_PARAMETERS_MAX} parameters") from None
