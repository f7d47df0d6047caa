"""Kubeconfigs: of users, with client certificates, and of service accounts, with tokens."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

# Clients refer to the parts of a kubeconfig by name; it has one of each.
_NAME = "apiserver"


@dataclass(frozen=True, slots=True)
class User:
    """Describes the user of a static token.

    name: the user name.
    groups: the user's groups.
    uid: the user's UID.
    Raises TypeError if `groups` is a string.
    """

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.groups, str):  # whose letters would be groups
            raise TypeError(f"the groups of {self.name} must be a tuple, not {self.groups!r}")


def token_file(tokens: Mapping[str, User]) -> str:
    """Returns the content of a file for `--token-auth-file`."""
    text = io.StringIO()
    rows = csv.writer(text)
    for token, user in tokens.items():
        rows.writerow((token, user.name, user.uid, ",".join(user.groups)))
    return text.getvalue()


def certificate_kubeconfig(url: str, ca: bytes, certificate: bytes, key: bytes) -> bytes:
    """Returns a kubeconfig with a client certificate. All but the URL are PEM."""
    credentials = {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }
    return _kubeconfig(url, ca, credentials, "")


def token_kubeconfig(url: str, ca: bytes, token: str, namespace: str) -> bytes:
    """Returns a kubeconfig with a bearer token. namespace: the one that clients use by default."""
    return _kubeconfig(url, ca, {"token": token}, namespace)


def _kubeconfig(url: str, ca: bytes, credentials: Mapping[str, str], namespace: str) -> bytes:
    context: dict[str, str] = {"cluster": _NAME, "user": _NAME}
    if namespace:
        context["namespace"] = namespace
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": _NAME,
                "cluster": {"server": url, "certificate-authority-data": base64.b64encode(ca).decode()},
            }
        ],
        "users": [{"name": _NAME, "user": dict(credentials)}],
        "contexts": [{"name": _NAME, "context": context}],
        "current-context": _NAME,
    }
    return yaml.safe_dump(document, sort_keys=False).encode()
