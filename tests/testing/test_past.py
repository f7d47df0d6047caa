"""`ApiServer.at()`: what was, for tests and for client libraries."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.testing import ApiServer, PastServer
from tests.support.clients import kr8s_api
from tests.support.kubectl import Kubectl, oldest_and_newest, program
from tests.support.required import library

CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
SETTINGS: Final = f"{CONFIG_MAPS}/settings"


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with ApiServer(flags=["--history"]) as server:
        yield server


@pytest.fixture(scope="module")
def past(server: ApiServer) -> PastServer:
    """When there were settings."""
    body = {"metadata": {"name": "settings", "labels": {"l": "1"}}, "data": {"mode": "fast"}}
    _, created = server.request("POST", CONFIG_MAPS, body)
    server.request("DELETE", SETTINGS)
    return server.at(int(created["metadata"]["resourceVersion"]))


def test_objects_are_as_they_were(server: ApiServer, past: PastServer) -> None:
    assert server.request("GET", SETTINGS)[0] == 404
    assert past.get(SETTINGS)[1]["data"] == {"mode": "fast"}
    _, listed = past.get(CONFIG_MAPS, query={"labelSelector": "l=1"})
    assert [each["metadata"]["name"] for each in listed["items"]] == ["settings"]
    assert past.url.startswith(server.url)


def test_times_are_those_of_the_clock_of_the_server(server: ApiServer) -> None:
    server.request("POST", CONFIG_MAPS, {"metadata": {"name": "timed"}, "data": {"n": "1"}})
    server.clock.advance(seconds=10)
    noon = server.clock.now()
    server.clock.advance(seconds=10)
    server.request("PUT", f"{CONFIG_MAPS}/timed", {"metadata": {"name": "timed"}, "data": {"n": "2"}})
    moments: dict[str | datetime, str] = {
        noon: "1",
        noon.isoformat(): "1",
        noon + timedelta(seconds=9): "1",
        server.clock.now(): "2",
    }
    for moment, expected in moments.items():
        assert server.at(moment).get(f"{CONFIG_MAPS}/timed")[1]["data"] == {"n": expected}
    with pytest.raises(ValueError, match="has no time zone"):
        server.at(noon.replace(tzinfo=None))
    assert server.at(noon + timedelta(days=1)).get(SETTINGS)[0] == 400


@pytest.mark.parametrize("release", oldest_and_newest())
def test_kubectl_reads_it(past: PastServer, release: str, tmp_path: Path) -> None:
    kubectl = Kubectl(program(release), past.kubeconfig, "default", tmp_path)
    assert kubectl("get", "configmap", "settings", "-o", "jsonpath={.data.mode}") == "fast"


def _kubernetes(past: PastServer) -> Any:
    kubernetes = library("kubernetes")
    with kubernetes.config.new_client_from_config(str(past.kubeconfig)) as api:
        return kubernetes.client.CoreV1Api(api).read_namespaced_config_map("settings", "default").data


def _dynamic(past: PastServer) -> Any:
    kubernetes = library("kubernetes")
    with kubernetes.config.new_client_from_config(str(past.kubeconfig)) as api:
        client = library("kubernetes.dynamic").DynamicClient(api)
        found = client.resources.get(api_version="v1", kind="ConfigMap")
        return dict(found.get(name="settings", namespace="default").data)


def _pykube_ng(past: PastServer) -> Any:
    pykube = library("pykube")
    api = pykube.HTTPClient(pykube.KubeConfig.from_file(str(past.kubeconfig)))
    with contextlib.closing(api.session):
        return pykube.ConfigMap.objects(api, namespace="default").get_by_name("settings").obj["data"]


def _lightkube(past: PastServer) -> Any:
    lightkube, core = library("lightkube"), library("lightkube.resources.core_v1")
    client = lightkube.Client(config=lightkube.KubeConfig.from_file(past.kubeconfig).get())
    with contextlib.closing(client._client._client):
        return client.get(core.ConfigMap, "settings", namespace="default").data


LIBRARIES: Final[dict[str, Callable[[PastServer], Any]]] = {
    "kubernetes": _kubernetes,
    "kubernetes.dynamic": _dynamic,
    "pykube-ng": _pykube_ng,
    "lightkube": _lightkube,
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_client_libraries_read_it(past: PastServer, name: str) -> None:
    assert LIBRARIES[name](past) == {"mode": "fast"}


# It says so of every release that is newer than itself.
@pytest.mark.filterwarnings("ignore:Kubernetes version .* is not supported:UserWarning")
async def test_kr8s_reads_it(past: PastServer) -> None:
    library("kr8s")
    async with kr8s_api(past, "default") as api:
        assert [item.raw["data"] async for item in api.get("configmaps", "settings")] == [{"mode": "fast"}]
