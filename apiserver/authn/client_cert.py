"""Authenticates by client certificate: the common name is the user, organizations are the groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apiserver.authn.chain import Credentials, authenticated
from apiserver.errors import Unauthorized
from apiserver.vocabulary import UserInfo


def authenticate(credentials: Credentials) -> UserInfo | None:
    """Raises Unauthorized for a certificate that is good for a front proxy only, and comes alone."""
    user, front_proxy = credentials.certificate
    if user is None and front_proxy is not None and not credentials.authorization:
        raise Unauthorized
    return user


def user_of(certificate: Mapping[str, Any] | None) -> UserInfo | None:
    """Returns the user that a verified certificate names.

    certificate: as `SSLSocket.getpeercert` returns it; empty if the client sent none.
    """
    if not certificate:
        return None
    names: dict[str, list[str]] = {}
    for relative_name in certificate.get("subject", ()):
        for attribute, value in relative_name:
            names.setdefault(attribute, []).append(value)
    common_names = names.get("commonName")
    # Go takes the last of several; an empty one names nobody, whatever the groups are.
    if not common_names or not common_names[-1]:
        return None
    return authenticated(common_names[-1], names.get("organizationName", ()))
