"""URLs: `url('https://example.com:80/a?b=c')`. Source: k8s.io/apiserver pkg/cel/library/urls.go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Final

from apiserver.cel import types
from apiserver.cel.functions import ONE, CallEstimate, Library, Overload
from apiserver.cel.library.shared_costs import estimate_text, of_large_text, of_text
from apiserver.cel.types import BOOL, STRING, Type
from apiserver.cel.values import EvaluationError
from apiserver.golang import urls

URL: Final = types.opaque("kubernetes.URL")


class CelUrl:
    """A URL. Its parts are made once, since getting them costs the same whatever their size."""

    cel_type: ClassVar[Type] = URL

    def __init__(self, url: urls.Url) -> None:
        self.url = url

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CelUrl) and self.url == other.url

    def __hash__(self) -> int:
        return hash(self.url)

    @cached_property
    def escaped_path(self) -> str:
        return self.url.escaped_path

    @cached_property
    def queries(self) -> Mapping[str, list[str]]:
        return self.url.queries


def _url(text: str) -> CelUrl:
    """Parses a URL that has a scheme, or is an absolute path."""
    try:
        url = urls.parse_request_uri(text)
        # The parser takes a fragment for a part of the path, and a host only after a scheme.
        return CelUrl(url if "#" not in text and url.scheme else urls.parse(text))
    except urls.InvalidUrl as invalid:
        raise EvaluationError(f"URL parse error during conversion from string: {invalid.message}") from None


def _part(id_: str, result: Type, call: Callable[[CelUrl], Any]) -> tuple[Overload, ...]:
    return (Overload(id_, (URL,), result, call, is_method=True, estimate=lambda _: CallEstimate(ONE)),)


URLS: Final = Library(
    "kubernetes.urls",
    MappingProxyType(
        {
            "url": (
                Overload(
                    "string_to_url",
                    (STRING,),
                    URL,
                    _url,
                    call_cost=of_text(),
                    estimate=estimate_text,
                ),
            ),
            "isURL": (
                Overload("is_url_string", (STRING,), BOOL, urls.is_request_uri, call_cost=of_large_text),
            ),
            "getScheme": _part("url_get_scheme", STRING, lambda value: value.url.scheme),
            "getHost": _part("url_get_host", STRING, lambda value: value.url.host),
            "getHostname": _part("url_get_hostname", STRING, lambda value: value.url.hostname),
            "getPort": _part("url_get_port", STRING, lambda value: value.url.port),
            "getEscapedPath": _part("url_get_escaped_path", STRING, lambda value: value.escaped_path),
            "getQuery": _part(
                "url_get_query", types.map_of(STRING, types.list_of(STRING)), lambda value: value.queries
            ),
        }
    ),
    constants=MappingProxyType({URL.name: (types.type_of_type(URL), URL)}),
)
