"""Parses the method, path and query of a request into a RequestInfo.

Source: k8s.io/apiserver, pkg/endpoints/request/requestinfo.go; rows A02, I01-I12.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final
from urllib.parse import parse_qs, unquote

from apiserver.meta import names
from apiserver.meta.selectors import SelectorSyntaxError, parse_field_selector
from apiserver.meta.text_caches import text_cache
from apiserver.meta.vocabulary import CONNECTING_SUBRESOURCES, Query, RequestInfo

# Anybody can request any number of paths: only short ones are cached.
CACHED_LENGTH_MAX: Final = 512
QUERY_PARAMETERS_MAX: Final = 200
# The subresources of Namespace; anything else below /namespaces/{name}/ is a resource in it.
_NAMESPACE_SUBRESOURCES: Final = frozenset({"status", "finalize"})
# Enough for a name and a namespace. The user is not authorized yet, so parsing must be cheap.
SELECTOR_LENGTH_MAX: Final = 1_024
# As in Kubernetes not deletecollection: a single object can be deleted by its name.
_SELECTING_VERBS: Final = frozenset({"list", "watch"})
_PROXY: Final = "proxy"
# Of requests that change nothing, unless they are passed on to another server.
READ_VERBS: Final = frozenset({"get", "list", "watch", "head", "options"})
_VERBS: Final = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}


class MalformedRequest(ValueError):
    """The head of the request cannot be parsed."""


def parse_target(method: str, raw_path: str, is_watch: bool) -> RequestInfo:
    """Parses the path of a request, and caches the result, since clients repeat their requests.

    is_watch: whether the query asks for a watch.

    Raises MalformedRequest for bytes that are not UTF-8.
    """
    parse = _parse_target if len(raw_path) <= CACHED_LENGTH_MAX else _parse_target.__wrapped__
    return parse(method, raw_path, is_watch)


@text_cache(4_096)
def _parse_target(method: str, raw_path: str, is_watch: bool) -> RequestInfo:
    try:
        path = unquote(raw_path, errors="strict")
    except UnicodeDecodeError:
        raise MalformedRequest("the path is not UTF-8") from None
    other = RequestInfo(method, path, method.lower())
    parts = path.removeprefix("/").removesuffix("/").split("/")
    if ("" in parts and not _is_proxied(parts)) or "\0" in path:
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
        rest = rest[1:]  # whatever the method: this prefix is for watches only
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
        is_long_running=verb == "watch" or subresource in CONNECTING_SUBRESOURCES,
        has_watch_prefix=has_watch_prefix,
        is_namespace_itself=is_namespace_itself,
    )


def _is_proxied(parts: list[str]) -> bool:
    """Whether a path has empty segments only in the part that another server interprets."""
    begin = 6 if parts[2:3] == ["namespaces"] else 4
    return parts[begin : begin + 1] == [_PROXY] and "" not in parts[:begin]


class _AnyField(frozenset[str]):
    """Contains every field, because supported fields are checked later, per resource."""

    def __contains__(self, field: object) -> bool:
        return True


_ANY_FIELD: Final = _AnyField()


def selected_name(info: RequestInfo, query: Query) -> str:
    """Returns the name that the field selector of a list or a watch requires; empty if there is none.

    In this way users may list or watch an object that is the only one they may read.
    """
    if info.has_watch_prefix:
        return ""
    name = selected_value(info, query, "metadata.name")
    return "" if names.path_segment(name) else name


def selected_value(info: RequestInfo, query: Query, field: str) -> str:
    """Returns the value that the field selector of a list or a watch requires; empty if there is none.

    Invalid and very long selectors require nothing: the error is reported later, to authorized users.
    """
    if "fieldSelector" not in query or info.verb not in _SELECTING_VERBS:
        return ""
    text = query["fieldSelector"][0]
    if len(text) > SELECTOR_LENGTH_MAX:
        return ""
    try:
        return parse_field_selector(text, _ANY_FIELD).required_value(field) or ""
    except SelectorSyntaxError:
        return ""


_EMPTY: Final[Query] = MappingProxyType({})


def parse_query(raw: str) -> Query:
    """Parses a query string; the result is cached and read-only.

    Raises MalformedRequest for too many parameters, or bytes that are not UTF-8.
    """
    if not raw:
        return _EMPTY
    return _parse_query(raw) if len(raw) <= CACHED_LENGTH_MAX else _parse_query.__wrapped__(raw)


@text_cache(1_024)
def _parse_query(raw: str) -> Query:
    try:
        return MappingProxyType(
            parse_qs(raw, keep_blank_values=True, errors="strict", max_num_fields=QUERY_PARAMETERS_MAX)
        )
    except UnicodeDecodeError:
        raise MalformedRequest("the query is not UTF-8") from None
    except ValueError:
        raise MalformedRequest(f"the query has more than {QUERY_PARAMETERS_MAX} parameters") from None
