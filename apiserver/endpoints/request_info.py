"""Parses the method, path and query of a request into a RequestInfo, and how its response is to look.

Source: k8s.io/apiserver, pkg/endpoints/request/requestinfo.go; rows A02, I01-I12.
"""

from __future__ import annotations

import re
from dataclasses import replace
from types import MappingProxyType
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from apiserver.endpoints import console_paths
from apiserver.meta import names
from apiserver.meta.options import is_true
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
_PAST: Final = "/at/"
# The subresource of objects that has their versions, in paths and in authorization; no discovery names it.
HISTORY: Final = "history"
PROFILES_PREFIX: Final = "/debug/pprof/"
# They take as long as their clients want; the CPU profile as in kube-apiserver.
_LONG_RUNNING: Final = frozenset({f"{PROFILES_PREFIX}profile", console_paths.WATCHES})
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


def parse_request(
    method: str, target: str, *, follows_item_watch: bool, serves_past: bool = False
) -> tuple[RequestInfo, Query]:
    """Parses the target of a request, and caches the results, since clients repeat their requests.

    target: the path and the query, or a URL.
    follows_item_watch: whether `?watch` on the path of a single object starts a watch.
    serves_past: whether paths that begin with `/at/MOMENT/` are of the past.
    Raises MalformedRequest.
    """
    raw_path, _, raw_query = target.partition("?")
    if not raw_path.startswith("/"):
        raw_path = _path_of(raw_path)
    moment = ""
    if serves_past and raw_path.startswith(_PAST):
        moment, raw_path = _moment_of(raw_path)
    query: Query = NO_QUERY
    if raw_query:
        query = (parse_query if len(raw_query) <= CACHED_LENGTH_MAX else parse_query.__wrapped__)(raw_query)
    is_watch = "watch" in query and is_true(query, "watch")
    parse = parse_target if len(raw_path) <= CACHED_LENGTH_MAX else parse_target.__wrapped__
    info = parse(method, raw_path, is_watch)
    if is_watch and info.name and not follows_item_watch:
        info = parse(method, raw_path, False)  # the verb that is authorized
    if serves_past and info.resource == HISTORY and info.namespace and not (info.group or info.name):
        info = _history_of_namespace(info)
    return (replace(info, moment=moment) if moment else info), query


def _history_of_namespace(info: RequestInfo) -> RequestInfo:
    """Returns the request for a subresource of a Namespace. info: as for a resource in it."""
    verb = {"list": "get", "deletecollection": "delete"}.get(info.verb, info.verb)
    return replace(
        info,
        verb=verb,
        resource="namespaces",
        name=info.namespace,
        subresource=HISTORY,
        is_namespace_itself=True,
    )


def _moment_of(raw_path: str) -> tuple[str, str]:
    """Returns the moment of a path, and the path that follows; no moment if none follows, or another moment.

    Raises MalformedRequest.
    """
    moment, slash, rest = raw_path.removeprefix(_PAST).partition("/")
    if not moment or not rest or f"/{rest}".startswith(_PAST):
        return "", raw_path
    try:
        return unquote(moment, errors="strict"), slash + rest
    except UnicodeDecodeError:
        raise MalformedRequest("the path is not UTF-8") from None


def _path_of(url: str) -> str:
    """Returns the path of a URL. Raises MalformedRequest.

    Servers must accept `GET https://host/version`, as sent to a proxy (RFC 9112, 3.2.2), and `*` (3.2.4).
    """
    try:
        path = urlsplit(url).path or "/"
    except ValueError:
        raise MalformedRequest("the target is not a URL") from None
    if not path.startswith("/") and path != "*":
        raise MalformedRequest("the target has no path that begins with a slash")
    return path


@text_cache(4_096)
def parse_target(method: str, raw_path: str, is_watch: bool) -> RequestInfo:
    """Parses the path of a request. is_watch: whether the query asks for a watch.

    Raises MalformedRequest for bytes that are not UTF-8.
    """
    try:
        path = unquote(raw_path, errors="strict")
    except UnicodeDecodeError:
        raise MalformedRequest("the path is not UTF-8") from None
    other = RequestInfo(method, path, method.lower(), is_long_running=path in _LONG_RUNNING)
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
    return "" if not name or names.path_segment(name) else name


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


_BROWSER: Final = re.compile(r"(Mozilla|curl|Wget)/")


def is_pretty(query: Query, user_agent: str) -> bool:
    """Whether the response is indented: on request, or for people at a terminal or browser.

    Source: k8s.io/apiserver, pkg/endpoints/handlers/negotiation, isPrettyPrint.
    """
    if "pretty" in query:
        return is_true(query, "pretty")
    return _BROWSER.match(user_agent) is not None


def accepted_types(query: Query, header: str) -> str:
    """Returns the media types that the client accepts; empty if it accepts all. header: the Accept header.

    The `accept` parameter, which may be repeated as the header may, takes the place of the header: JavaScript
    in a web page cannot set the headers of a WebSocket (https://github.com/kubernetes/kubernetes/issues/83961).
    kube-apiserver ignores the parameter.
    """
    return ", ".join(query["accept"]) if "accept" in query else header


NO_QUERY: Final[Query] = MappingProxyType({})


@text_cache(1_024)
def parse_query(raw: str) -> Query:
    """Parses a query string; the result is read-only.

    Raises MalformedRequest for too many parameters, or bytes that are not UTF-8.
    """
    try:
        return MappingProxyType(
            parse_qs(raw, keep_blank_values=True, errors="strict", max_num_fields=QUERY_PARAMETERS_MAX)
        )
    except UnicodeDecodeError:
        raise MalformedRequest("the query is not UTF-8") from None
    except ValueError:
        raise MalformedRequest(f"the query has more than {QUERY_PARAMETERS_MAX} parameters") from None
