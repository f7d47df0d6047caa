"""Redirects and links that lead back through the proxy. Source: pkg/util/proxy/transport_test.go."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.endpoints.reverse_proxy.links import ProxiedLinks, escaped, joined

PREFIX: Final = "/api/v1/namespaces/ns/services/s/proxy"
LINKS: Final = {
    "from the root": ("/x", f"{PREFIX}/x"),
    "with a slash at the end, and a query": ("/x/?a=%20b#c", f"{PREFIX}/x/?a=%20b#c"),
    "the root": ("/", f"{PREFIX}/"),
    "to the backend": ("http://10.0.0.1:80/x", f"{PREFIX}/x"),
    "to the host that was asked": ("https://api:6443/x", f"https://api:6443{PREFIX}/x"),
    "through the proxy already": (f"{PREFIX}/x", f"{PREFIX}/x"),
    "above the root": ("/../../x", f"{PREFIX}/x"),
    "relative": ("x/y", "x/y"),
    "elsewhere": ("http://example.com/x", "http://example.com/x"),
    "elsewhere, without a scheme": ("//example.com/x", "//example.com/x"),
    "no path": ("http://10.0.0.1:80", "http://10.0.0.1:80"),
    "no URL": ("http://[/x", "http://[/x"),
    "empty": ("", ""),
}


@pytest.mark.parametrize(("link", "followed"), LINKS.values(), ids=LINKS)
def test_where_a_link_leads(link: str, followed: str) -> None:
    assert ProxiedLinks(PREFIX, "10.0.0.1:80", "api:6443").rewrite(link) == followed


PATHS: Final = {
    "a path": ("/a/b", "/a/b"),
    "a slash at the end": ("/a/b/", "/a/b/"),
    "double slashes": ("//a///b", "/a/b"),
    "dots": ("/a/./b/../c", "/a/c"),
    "above the root": ("/../../etc", "/etc"),
    "only a slash": ("/", "/"),
}


@pytest.mark.parametrize(("path", "cleaned"), PATHS.values(), ids=PATHS)
def test_paths_are_cleaned(path: str, cleaned: str) -> None:
    assert joined("", path) == cleaned


def test_paths_are_escaped_as_in_go() -> None:
    assert escaped("/a b?c%d;e=f&g@h:i+j,k$ä") == "/a%20b%3Fc%25d;e=f&g@h:i+j,k$%C3%A4"
