"""The library of URLs: `url('https://example.com:80/a?b=c')`.

Source: k8s.io/apiserver pkg/cel/library/urls.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar, Final

from apiserver.cel import types
from apiserver.cel.declarations import Library, named_types
from apiserver.cel.functions import Overload, method
from apiserver.cel.library.shared_costs import estimate_text, of_large_text, of_text
from apiserver.cel.types import BOOL, STRING, Type
from apiserver.cel.values import EvaluationError
from apiserver.golang import urls

URL: Final = types.opaque("kubernetes.URL")


class CelUrl:
    """A URL. Its parts are made once, since getting them has a fixed cost."""

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
    """Parse a URL that has a scheme, or is an absolute path."""
    try:
        url = urls.parse_request_uri(text)
        # The parser takes a fragment for a part of the path, and a host only after a scheme.
        return CelUrl(url if "#" not in text and url.scheme else urls.parse(text))
    except urls.InvalidUrl as invalid:
        raise EvaluationError(f"URL parse error during conversion from string: {invalid}") from None


URLS: Final = Library(
    "kubernetes.urls",
    {
        "url": (
            Overload("string_to_url", (STRING,), URL, _url, call_cost=of_text(), estimate=estimate_text),
        ),
        "isURL": (Overload("is_url_string", (STRING,), BOOL, urls.is_request_uri, call_cost=of_large_text),),
        "getScheme": method("url_get_scheme", (URL,), STRING, lambda value: value.url.scheme),
        "getHost": method("url_get_host", (URL,), STRING, lambda value: value.url.host),
        "getHostname": method("url_get_hostname", (URL,), STRING, lambda value: value.url.hostname),
        "getPort": method("url_get_port", (URL,), STRING, lambda value: value.url.port),
        "getEscapedPath": method("url_get_escaped_path", (URL,), STRING, lambda value: value.escaped_path),
        "getQuery": method(
            "url_get_query", (URL,), types.map_of(STRING, types.list_of(STRING)), lambda value: value.queries
        ),
    },
    constants=named_types(URL),
)
