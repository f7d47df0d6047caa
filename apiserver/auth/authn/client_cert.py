"""Authenticates by client certificate: the common name is the user, organizations are the groups.

A certificate is verified when a connection is made; each request checks whether it has expired since, or its
CA is no longer trusted. Source: k8s.io/apiserver, pkg/authentication/request/x509.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from apiserver.auth.authn.chain import Credentials, authenticated
from apiserver.meta.errors import Unauthorized
from apiserver.meta.vocabulary import UserInfo


class ClientCertificateAuthenticator:
    """Authenticates by the client certificate of the connection.

    observe: called with the remaining validity of each certificate, in seconds. clock: seconds since 1970.
    """

    def __init__(self, observe: Callable[[float], None], clock: Callable[[], float] = time.time) -> None:
        self._observe, self._clock = observe, clock

    def __call__(self, credentials: Credentials) -> UserInfo | None:
        """Returns the user of the client certificate.

        A certificate is unusable if it has expired, its CA is not trusted, or it is for front proxies only.
        """
        user, front_proxy, is_trusted, expires_at = credentials.certificate
        remaining_s = expires_at - self._clock()
        self._observe(remaining_s)
        if remaining_s >= 0.0:
            if user is not None:
                return user
            if is_trusted and front_proxy is None:
                return None
        if not credentials.authorization:
            raise Unauthorized
        return None


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
    # Go takes the last of several; an empty one names no user, whatever the groups are.
    if not common_names or not common_names[-1]:
        return None
    return authenticated(common_names[-1], names.get("organizationName", ()))
