"""Kubeconfigs for tests: of clients, and of the server as a client of webhooks."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from tests.support.https_server import HttpsServer


def write_kubeconfig(
    path: Path, url: str, *, ca: Path | None = None, token: str = "", namespace: str | None = None
) -> Path:
    """Write a kubeconfig of one context, and return its path. It has no more than is given."""
    cluster = {"server": url}
    if ca is not None:
        cluster["certificate-authority-data"] = base64.b64encode(ca.read_bytes()).decode()
    context: dict[str, Any] = {"cluster": "c", "user": "u"}
    if namespace is not None:
        context["namespace"] = namespace
    document = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": token} if token else {}}],
        "contexts": [{"name": "x", "context": context}],
        "current-context": "x",
    }
    path.write_text(json.dumps(document))
    return path


def kubeconfig_of_webhook(path: Path, webhook: HttpsServer, *, below: str = "", token: str = "") -> Path:
    """Write a kubeconfig by which the server calls a webhook. below: the path there."""
    url = f"https://127.0.0.1:{webhook.port}/{below}"
    return write_kubeconfig(path, url, ca=webhook.pki.ca_cert, token=token)
