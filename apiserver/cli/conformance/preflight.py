"""Checks an endpoint before conversations are replayed: is there a server, and who is asking?"""

from __future__ import annotations

import http.client
import json
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from apiserver.cli.conformance.endpoint import ADMIN
from apiserver.cli.limited_connection import NoAnswer, reason_of

VERSION_LENGTH_MAX: Final = 100
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
# A controller puts it into each namespace.
_PUBLISHED: Final = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt"
_ALL_ALLOWED: Final = {
    "apiVersion": "authorization.k8s.io/v1",
    "kind": "SelfSubjectAccessReview",
    "spec": {"resourceAttributes": {"group": "*", "resource": "*", "verb": "*"}},
}


class Preflight(NamedTuple):
    """What an endpoint says about itself. version: may be empty."""

    version: str = ""
    has_controllers: bool = False


class UnusableEndpoint(Exception):
    """Nothing can be replayed against an endpoint. The message is for the user."""


def check_endpoint(client: Any, url: str, source: str) -> Preflight:
    """Asks an endpoint who it is, and whether it accepts the credentials.

    An endpoint may answer anything: conversations show what that is worth. But where nobody can connect, or
    the credentials are refused, each of them would fail for the same reason.
    client: the replayer's. source: where the credentials come from. Raises UnusableEndpoint.
    """
    try:
        connection = client.connect()
        connection.connect()
    except (OSError, http.client.HTTPException) as error:
        raise UnusableEndpoint(f"cannot connect to {url}: {reason_of(error)}") from None
    try:
        version = _asked(client, "GET", "/version")
        if version.status == HTTPStatus.UNAUTHORIZED:
            raise UnusableEndpoint(f"{url} does not accept the credentials of {source}: Unauthorized")
        review = _asked(client, "POST", _REVIEWS, json.dumps(_ALL_ALLOWED).encode())
        published = _asked(client, "GET", _PUBLISHED)
    except NoAnswer:
        return Preflight()
    except ValueError as error:
        raise UnusableEndpoint(f"the credentials of {source} cannot be sent: {error}") from None
    if _field(review, "status", "allowed") is False:
        raise UnusableEndpoint(
            f"the user of {source} does not have all permissions on {url}:"
            " use a member of system:masters or a cluster-admin"
        )
    name = str(_field(version, "gitVersion") or "")[:VERSION_LENGTH_MAX]
    return Preflight(name, _field(published, "kind") == "ConfigMap")


def _asked(client: Any, method: str, path: str, body: bytes | None = None) -> Any:
    """Returns the reply to a request. Raises NoAnswer, ValueError."""
    headers = client.headers(ADMIN, {} if body is None else {"Content-Type": "application/json"})
    return client.request(method, path, headers, body)


def _field(reply: Any, *path: str) -> Any:
    """Returns a field of a reply; None if there is none."""
    value = reply.body
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
