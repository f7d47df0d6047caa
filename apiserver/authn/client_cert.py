"""The client certificate of the connection: common name is the user, organizations are the groups."""

from __future__ import annotations

from typing import Any

from apiserver.authn.chain import Credentials, authenticated
from apiserver.vocabulary import UserInfo


def authenticate(credentials: Credentials) -> UserInfo | None:
    return credentials.certificate_user()


def user_of(certificate: dict[str, Any] | None) -> UserInfo | None:
    """certificate: as `SSLSocket.getpeercert` gives it, verified already; empty without one."""
    if not certificate:
        return None
    names: dict[str, list[str]] = {}
    for relative_name in certificate.get("subject", ()):
        for attribute, value in relative_name:
            names.setdefault(attribute, []).append(value)
    common_names = names.get("commonName")
    # Of several Go knows the last; an empty one is nobody, whatever its groups.
    if not common_names or not common_names[-1]:
        return None
    return authenticated(common_names[-1], names.get("organizationName", ()))
