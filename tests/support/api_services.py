"""APIServices for tests, and the services that they name."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, Final

from tests.support.api import Api
from tests.support.definitions import condition
from tests.support.eventually import until
from tests.support.server_process import ServerProcess

API_SERVICES: Final = "/apis/apiregistration.k8s.io/v1/apiservices"
SERVICES: Final = "/api/v1/namespaces/default/services"
SERVICE: Final = "ext"


def extension_flags(front: ServerProcess, name: str = SERVICE) -> tuple[str, ...]:
    """What makes a server believe another one who asks, and have the name of a service in its certificate."""
    return (
        f"--requestheader-client-ca-file={front.ca_path.parent / 'front-proxy-ca.crt'}",
        "--requestheader-allowed-names=front-proxy-client",
        f"--external-hostname={name}.default.svc",
    )


def register(
    front: Api, group: str, port: int, *, ca: Path | None, service: str = SERVICE, **spec: Any
) -> str:
    """Create the APIService of a group that is behind a service; returns its path. ca: None: not verified."""
    if ca is not None:
        spec["caBundle"] = base64.b64encode(ca.read_bytes()).decode()
    elif "caBundle" not in spec:
        spec["insecureSkipTLSVerify"] = True
    name = f"v1.{group}"
    document = {
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "version": "v1",
            "groupPriorityMinimum": 2000,
            "versionPriority": 10,
            "service": {"namespace": "default", "name": service, "port": port},
            **spec,
        },
    }
    front.post(API_SERVICES, document).ok()
    return f"{API_SERVICES}/{name}"


def external_name(front: Api, name: str = SERVICE) -> None:
    spec = {"type": "ExternalName", "externalName": "127.0.0.1"}
    front.post(SERVICES, {"metadata": {"name": name}, "spec": spec}).ok()


def port_of(api: Api) -> int:
    return int(api.server.url.rpartition(":")[2])


def available(api: Api, path: str) -> dict[str, Any]:
    return condition(api.get(path).json, "Available")


def until_available(api: Api, path: str, status: str = "True") -> dict[str, Any]:
    return until(lambda: available(api, path), lambda found: found.get("status") == status, status)
