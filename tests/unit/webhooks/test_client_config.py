"""Which URL of a webhook is asked for: what Go's client makes of the one that is configured."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.webhooks.client_config import ClientConfig, cleaned_url

# As kube-apiserver 1.36 asks for them.
PATHS: Final = {
    "none": ("", "/"),
    "the root": ("/", "/"),
    "a slash at the end": ("/x/", "/x"),
    "two slashes first": ("//failing", "/failing"),
    "slashes between": ("/x//y/./z/", "/x/y/z"),
    "dots": ("/a/../b", "/b"),
    "above the root": ("/../../c", "/c"),
    "escaped dots": ("/%2e%2e/c", "/c"),
    "an escaped slash": ("/a%2Fb", "/a/b"),
    "a blank": ("/a b", "/a%20b"),
    "an escaped blank": ("/a%20b", "/a%20b"),
    "an escaped percent sign": ("/a%25b", "/a%25b"),
    "characters that need no escape": ("/a+b;c=d,e:f@g&h$", "/a+b;c=d,e:f@g&h$"),
    "others": ("/a!b(c)*", "/a%21b%28c%29%2A"),
    "letters of others": ("/\u00e4", "/%C3%A4"),
    "a query": ("/x/?a=b//c", "/x?a=b//c"),
    "a fragment": ("/x#y", "/x"),
}


@pytest.mark.parametrize(("path", "asked"), PATHS.values(), ids=PATHS)
def test_urls(path: str, asked: str) -> None:
    config = ClientConfig.of({"url": f"https://host.example:8443{path}", "caBundle": "ca"})
    assert config == ClientConfig(f"https://host.example:8443{asked}", "ca")
    assert config.target == "host.example:8443"


AUTHORITIES: Final = ("host", "host:443", "[::1]:8443", "[::1]", "127.0.0.1:1", "user:word@host:1", "HOST")


@pytest.mark.parametrize("authority", AUTHORITIES)
def test_the_rest_of_a_url_stays(authority: str) -> None:
    assert cleaned_url(f"https://{authority}//x/") == f"https://{authority}/x"


def test_what_is_no_url_stays() -> None:
    assert cleaned_url("https://[::1") == "https://[::1"


# The path of a Service is not escaped.
SERVICES: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "no path": ({}, ":443/"),
    "a path": ({"path": "/x"}, ":443/x"),
    "a path without a slash": ({"path": "x/"}, ":443/x"),
    "slashes and dots": ({"path": "//x/./y/../z/"}, ":443/x/z"),
    "a percent sign": ({"path": "/a%20b"}, ":443/a%2520b"),
    "a question mark": ({"path": "/a?b"}, ":443/a%3Fb"),
    "a port": ({"path": "/x", "port": 8443}, ":8443/x"),
}


@pytest.mark.parametrize(("service", "asked"), SERVICES.values(), ids=SERVICES)
def test_services(service: dict[str, Any], asked: str) -> None:
    config = ClientConfig.of({"service": {"namespace": "default", "name": "a", **service}})
    assert config.url == f"https://a.default.svc{asked}"
