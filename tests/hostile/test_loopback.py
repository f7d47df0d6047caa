"""However users spell it, nothing that they name leads to the server's own machine, if that is denied.

Nodes have any text as an address, Services any name; a pod, an endpoint or a URL has an address in any form
that validation takes.
"""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from ipaddress import ip_address
from typing import Any, Final

import pytest

from tests.support.api import Answer, Api, until_status
from tests.support.api_services import available, register
from tests.support.definitions import define, definition, version
from tests.support.eventually import until
from tests.support.fixtures import api_with
from tests.support.loopback import ADDRESSES, LOOPBACK, SPELLINGS

NETWORKS: Final = ",".join(map(str, LOOPBACK))
CORE: Final = "/api/v1/namespaces/default"
SLICES: Final = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
WEBHOOKS: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
UPGRADE: Final = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
_numbers: Final = itertools.count(1)


class Listener:
    """A port of all addresses of this machine. connected: who has connected to it."""

    def __init__(self) -> None:
        if socket.has_dualstack_ipv6():
            self._socket = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        else:
            self._socket = socket.create_server(("", 0))
        self.port: int = self._socket.getsockname()[1]
        self.connected: list[Any] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, address = self._socket.accept()
            except OSError:
                return
            self.connected.append(address)
            connection.close()

    def close(self) -> None:
        # Only this wakes whoever accepts.
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    with closing(Listener()) as listener:
        yield listener


api = api_with(f"--proxy-deny-cidrs={NETWORKS}", f"--webhook-deny-cidrs={NETWORKS}")


def new_name(prefix: str) -> str:
    return f"{prefix}-{next(_numbers)}"


def refused(answer: Answer) -> bool:
    return answer.status in (400, 403, 500, 503)


def test_nodes(api: Api, listener: Listener) -> None:
    """Their kubelets, and other ports of theirs; by forwarded requests, logs and upgrades."""
    api.post("/api/v1/nodes", {"metadata": {"name": "n"}}).ok()
    containers = [{"name": "c", "image": "i"}]
    pod = {"metadata": {"name": "of-node"}, "spec": {"containers": containers, "nodeName": "n"}}
    api.post(f"{CORE}/pods", pod).ok()
    endpoint = {"kubeletEndpoint": {"Port": listener.port}}
    for kind, host in itertools.product(("Hostname", "InternalIP"), SPELLINGS):
        addresses = [{"type": kind, "address": host}]
        api.patch("/api/v1/nodes/n/status", {"status": {"addresses": addresses, "daemonEndpoints": endpoint}})
        for path in (
            "/api/v1/nodes/n/proxy/x",
            f"/api/v1/nodes/n:{listener.port}/proxy/x",
            f"/api/v1/nodes/http:n:{listener.port}/proxy/x",
            f"{CORE}/pods/of-node/log",
        ):
            assert refused(api.get(path)), (host, path)
        assert refused(api.get("/api/v1/nodes/n/proxy/x", headers=UPGRADE)), host
        assert refused(api.get(f"{CORE}/pods/of-node/exec?command=sh", headers=UPGRADE)), host
    assert not listener.connected


def test_pods_and_endpoints(api: Api, listener: Listener) -> None:
    containers = [{"name": "c", "image": "i"}]
    api.post(f"{CORE}/pods", {"metadata": {"name": "p"}, "spec": {"containers": containers}}).ok()
    ports = [{"name": "", "port": listener.port}]
    api.post(f"{CORE}/services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}).ok()
    of_pods, of_endpoints = [], []
    for host in SPELLINGS:
        status = {"podIP": host, "podIPs": [{"ip": host}]}
        if api.patch(f"{CORE}/pods/p/status", {"status": status}).status == 200:
            of_pods.append(host)
            assert refused(api.get(f"{CORE}/pods/p:{listener.port}/proxy/x")), host
        name = new_name("slice")
        described = {
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "s"}},
            "addressType": "IPv6" if ":" in host else "IPv4",
            "endpoints": [{"addresses": [host]}],
            "ports": ports,
        }
        if api.post(SLICES, described).status == 201:
            of_endpoints.append(host)
            assert refused(api.get(f"{CORE}/services/s/proxy/x")), host
            api.delete(f"{SLICES}/{name}").ok()
    valid = {
        host: address
        for host in ADDRESSES
        if "%" not in host and getattr(address := ip_address(host), "ipv4_mapped", None) is None
    }
    assert set(of_pods) == valid.keys()
    assert set(of_endpoints) == {
        host
        for host, address in valid.items()
        if str(address) == host and not (address.is_loopback or address.is_unspecified)
    }
    assert not listener.connected


def external_services(api: Api) -> list[str]:
    """Creates a Service for each text that may be an external name; returns their names."""
    names = []
    for host in SPELLINGS:
        name = new_name("external")
        spec = {"type": "ExternalName", "externalName": host}
        if api.post(f"{CORE}/services", {"metadata": {"name": name}, "spec": spec}).status == 201:
            names.append(name)
    return names


def test_webhooks_and_extension_servers(api: Api, listener: Listener) -> None:
    services = external_services(api)
    assert len(services) > 20
    configs: list[dict[str, Any]] = [
        {"service": {"namespace": "default", "name": name, "port": listener.port}} for name in services
    ]
    for host in SPELLINGS:
        authority = f"[{host}]" if ":" in host and not host.startswith("[") else host
        configs.append({"url": f"https://{authority}:{listener.port}/x"})
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
    asked = 0
    for config in configs:
        name = new_name("webhook")
        webhook = {
            "name": "a.example.com",
            "clientConfig": config,
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        if api.post(WEBHOOKS, {"metadata": {"name": name}, "webhooks": [webhook]}).status != 201:
            continue
        asked += 1
        answer = until(
            lambda: api.post(f"{CORE}/configmaps?dryRun=All", {"metadata": {"name": "c"}}),
            lambda found: found.status != 201,
        )
        assert answer.status == 500, config
        api.delete(f"{WEBHOOKS}/{name}").ok()
        until_status(201, lambda: api.post(f"{CORE}/configmaps?dryRun=All", {"metadata": {"name": "c"}}))
    assert asked > len(services)
    paths = [register(api, f"{name}.example.com", listener.port, ca=None, service=name) for name in services]
    for path in paths:
        found = until(lambda path=path: available(api, path), lambda found: bool(found))  # type: ignore[misc]
        assert found["status"] == "False", found
    for name in services:
        assert refused(api.get(f"/apis/{name}.example.com/v1/widgets"))
    assert not listener.connected


def test_conversion_webhooks(api: Api, listener: Listener) -> None:
    for name in external_services(api)[:8]:
        config = {"service": {"namespace": "default", "name": name, "port": listener.port}}
        webhook = {"clientConfig": config, "conversionReviewVersions": ["v1"]}
        made = definition(
            f"{name}.example.com",
            version("v1"),
            version("v2", storage=False),
            conversion={"strategy": "Webhook", "webhook": webhook},
        )
        defined = define(api, made)
        assert refused(api.post(defined.objects(version="v2"), defined.body("a", "v2")))
    assert not listener.connected
