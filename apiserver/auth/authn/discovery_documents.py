"""Reads the discovery documents of OpenID providers.

Source: OpenID Connect Discovery 1.0, 3; coreos/go-oidc.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import orjson


class ProviderFailed(Exception):
    """A provider cannot be reached, or its response was invalid; the message is for the log."""


class Discovery(NamedTuple):
    """What is used of a discovery document. The endpoints have https, or are empty.

    keys_url: where its keys are. authorization_endpoint, token_endpoint: for logins of people.
    scopes, client_authentications: those that the provider says it supports.
    Source: OpenID Connect Discovery 1.0, 3.
    """

    keys_url: str = ""
    authorization_endpoint: str = ""
    token_endpoint: str = ""
    scopes: frozenset[str] = frozenset()
    client_authentications: frozenset[str] = frozenset()


# Takes a URL with https and PEM of its authorities. Raises ProviderFailed.
Fetch = Callable[[str, str], Awaitable[bytes]]


def read_discovery(content: bytes, issuer: str) -> Discovery:
    """Returns what is used of a discovery document. Raises ProviderFailed."""
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise ProviderFailed(f"the discovery document is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ProviderFailed("the discovery document is not an object")
    found, keys_url = document.get("issuer"), _https_url(document.get("jwks_uri"))
    if found != issuer:
        shown = found[:256] if isinstance(found, str) else ""
        raise ProviderFailed(
            f"oidc: issuer did not match the issuer returned by provider, expected {issuer!r} got {shown!r}"
        )
    if not keys_url:
        raise ProviderFailed("the discovery document has no https jwks_uri")
    return Discovery(
        keys_url,
        _https_url(document.get("authorization_endpoint")),
        _https_url(document.get("token_endpoint")),
        _texts(document.get("scopes_supported")),
        _texts(document.get("token_endpoint_auth_methods_supported")),
    )


def _texts(value: Any) -> frozenset[str]:
    return (
        frozenset(each for each in value if isinstance(each, str)) if isinstance(value, list) else frozenset()
    )


def _https_url(url: Any) -> str:
    """Returns a URL; empty if it is not one with https."""
    if not isinstance(url, str):
        return ""
    try:
        parts = urlsplit(url)
        return url if parts.scheme == "https" and parts.hostname else ""
    except ValueError:
        return ""
