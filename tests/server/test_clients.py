"""Unmodified Python client libraries create, read, list, watch, patch and delete."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.clients import kr8s_api
from tests.support.eventually import WITHIN_S, eventually
from tests.support.required import library
from tests.support.server_process import ServerProcess

EVENTS: Final = [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]


def test_kubernetes(server: ServerProcess, namespace: str) -> None:
    kubernetes = library("kubernetes")
    client, watch = kubernetes.client, kubernetes.watch
    with kubernetes.config.new_client_from_config(str(server.kubeconfig)) as api:
        core = client.CoreV1Api(api)
        body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="a", labels={"l": "1"}), data={"k": "v"})
        made = core.create_namespaced_config_map(namespace, body)
        assert core.read_namespaced_config_map("a", namespace).to_dict() == made.to_dict()
        listed = core.list_namespaced_config_map(namespace, label_selector="l=1")
        assert [item.metadata.name for item in listed.items] == ["a"]

        made.data = {"k": "replaced"}
        replaced = core.replace_namespaced_config_map("a", namespace, made)
        assert replaced.data == {"k": "replaced"}
        with pytest.raises(client.ApiException) as caught:
            core.replace_namespaced_config_map("a", namespace, made)  # of the version before
        assert (caught.value.status, caught.value.reason) == (409, "Conflict")
        # Without a content type the library takes a dict for a merge patch here, a list for a JSON patch.
        patched = core.patch_namespaced_config_map(
            "a", namespace, {"data": {"k": None, "n": "1"}}, _content_type="application/merge-patch+json"
        )
        assert patched.data == {"n": "1"}
        patched = core.patch_namespaced_config_map(
            "a",
            namespace,
            [{"op": "add", "path": "/data/m", "value": "2"}],
            _content_type="application/json-patch+json",
        )
        assert patched.data == {"n": "1", "m": "2"}

        core.create_namespaced_config_map(namespace, {"metadata": {"name": "b"}})
        core.delete_namespaced_config_map("a", namespace)
        seen = []
        stream = watch.Watch()
        for event in stream.stream(
            core.list_namespaced_config_map,
            namespace,
            resource_version=replaced.metadata.resource_version,
            timeout_seconds=int(WITHIN_S),
        ):
            seen.append((event["type"], event["object"].metadata.name))
            if len(seen) == 4:
                stream.stop()
        assert seen == [("MODIFIED", "a"), ("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]

        apps = client.AppsV1Api(api)
        deployment = apps.create_namespaced_deployment(namespace, a_deployment())
        assert apps.list_deployment_for_all_namespaces(limit=1).items[0].kind is None
        assert deployment.spec.replicas == 2
        apps.delete_collection_namespaced_deployment(namespace)
        assert apps.list_namespaced_deployment(namespace).items == []
        assert client.VersionApi(api).get_code().major == "1"
        with pytest.raises(client.ApiException) as caught:
            core.read_namespaced_config_map("a", namespace)
        assert caught.value.status == 404


def a_deployment() -> dict[str, Any]:
    labels = {"app": "web"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": "nginx:1"}]},
            },
        },
    }


def test_kubernetes_dynamic_client(server: ServerProcess, namespace: str, tmp_path: Path) -> None:
    """It learns from discovery what there is."""
    kubernetes = library("kubernetes")
    from kubernetes import dynamic

    with kubernetes.config.new_client_from_config(str(server.kubeconfig)) as api:
        client: Any = dynamic.DynamicClient(  # type: ignore[no-untyped-call]
            api, cache_file=str(tmp_path / "discovery")
        )
        deployments = client.resources.get(api_version="apps/v1", kind="Deployment")
        made = deployments.create(body=a_deployment(), namespace=namespace)
        assert deployments.get(name="web", namespace=namespace).metadata.uid == made.metadata.uid
        listed = deployments.get(namespace=namespace)
        assert [item.metadata.name for item in listed.items] == ["web"]
        patched = deployments.patch(
            name="web",
            namespace=namespace,
            body={"spec": {"replicas": 3}},
            content_type="application/merge-patch+json",
        )
        assert (patched.spec.replicas, patched.metadata.generation) == (3, 2)
        events = deployments.watch(
            namespace=namespace, resource_version=made.metadata.resourceVersion, timeout=1
        )
        assert [event["type"] for event in events] == ["MODIFIED"]
        deployments.delete(name="web", namespace=namespace)
        with pytest.raises(dynamic.exceptions.NotFoundError):
            deployments.get(name="web", namespace=namespace)


def test_pykube_ng(server: ServerProcess, namespace: str) -> None:
    pykube = library("pykube")
    api = pykube.HTTPClient(pykube.KubeConfig.from_file(str(server.kubeconfig)))
    with contextlib.closing(api.session):
        assert api.version[0] == "1"

        def named(name: str, **labels: str) -> Any:
            body = {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "data": {"k": "v"}}
            return pykube.ConfigMap(api, {"apiVersion": "v1", "kind": "ConfigMap", **body})

        one, other = named("a", l="1"), named("b")
        one.create()
        other.create()
        start = one.obj["metadata"]["resourceVersion"]
        mine = pykube.ConfigMap.objects(api, namespace=namespace)
        assert [each.name for each in mine.filter(selector={"l": "1"})] == ["a"]
        assert [row["object"]["metadata"]["name"] for row in mine.as_table().rows] == ["a", "b"]
        one.obj["data"]["k"] = "changed"
        one.update()  # a merge patch of what has changed
        assert mine.get_by_name("a").obj["data"] == {"k": "changed"}
        one.patch({"data": {"n": "2"}})
        assert one.obj["data"] == {"k": "changed", "n": "2"}
        one.delete()
        assert mine.get_or_none(name="a") is None
        stream = mine.watch(since=start, params={"timeoutSeconds": 1})
        seen = [(event.type, event.object.name) for event in stream]
        assert seen == [("ADDED", "b"), ("MODIFIED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
        body = {**a_deployment(), "metadata": {"name": "web", "namespace": namespace}}
        deployment = pykube.Deployment(api, body)
        deployment.create()
        deployment.scale(3)
        assert deployment.obj["metadata"]["generation"] == 2


async def test_kubernetes_asyncio(server: ServerProcess, namespace: str) -> None:
    library("kubernetes_asyncio")
    from kubernetes_asyncio import client, config, watch

    async with await config.new_client_from_config(str(server.kubeconfig)) as api:
        core: Any = client.CoreV1Api(api)
        start = (await core.list_namespaced_config_map(namespace)).metadata.resource_version

        async def observe() -> list[tuple[str, str]]:
            seen: list[tuple[str, str]] = []
            async with watch.Watch() as stream:
                async for event in stream.stream(
                    core.list_namespaced_config_map, namespace, resource_version=start
                ):
                    seen.append((event["type"], event["object"].metadata.name))
                    if len(seen) == len(EVENTS):
                        return seen
            return seen

        observer = asyncio.create_task(observe())
        made = await core.create_namespaced_config_map(
            namespace, {"metadata": {"name": "a"}, "data": {"k": "v"}}
        )
        patched = await core.patch_namespaced_config_map(
            "a", namespace, {"data": {"k": "w"}}, _content_type="application/merge-patch+json"
        )
        assert int(patched.metadata.resource_version) > int(made.metadata.resource_version)
        await core.create_namespaced_config_map(namespace, {"metadata": {"name": "b"}})
        await core.delete_namespaced_config_map("a", namespace)
        async with asyncio.timeout(WITHIN_S):
            assert await observer == EVENTS
        left = (await core.list_namespaced_config_map(namespace)).items
        assert [item.metadata.name for item in left] == ["b"]
        with pytest.raises(client.ApiException) as caught:
            await core.read_namespaced_config_map("a", namespace)
        assert caught.value.status == 404


# It says so of every release that is newer than itself.
@pytest.mark.filterwarnings("ignore:Kubernetes version .* is not supported:UserWarning")
async def test_kr8s(server: ServerProcess, namespace: str) -> None:
    library("kr8s")
    from kr8s.asyncio.objects import ConfigMap, Deployment

    async with kr8s_api(server, namespace) as api:
        seen: list[tuple[str, str]] = []

        async def observe() -> None:
            async for type_, item in api.watch("configmaps", namespace=namespace):
                seen.append((type_, item.name))
                if len(seen) == len(EVENTS):
                    return

        first = await ConfigMap(
            {"metadata": {"name": "a", "namespace": namespace}, "data": {"k": "v"}}, api=api
        )
        await first.create()
        observer = asyncio.create_task(observe())
        async with asyncio.timeout(WITHIN_S):
            await eventually(lambda: seen)
            await first.patch({"data": {"k": "w"}})
            assert first.raw["data"] == {"k": "w"}
            second = await ConfigMap({"metadata": {"name": "b", "namespace": namespace}}, api=api)
            await second.create()
            await first.delete()
            await observer
        assert seen == EVENTS
        assert [item.name async for item in api.get("configmaps", namespace=namespace)] == ["b"]
        deployment = await Deployment(
            {**a_deployment(), "metadata": {"name": "web", "namespace": namespace}}, api=api
        )
        await deployment.create()
        assert await deployment.exists()
        await deployment.label({"tier": "web"})
        selected = [
            item async for item in api.get("deployments", namespace=namespace, label_selector={"tier": "web"})
        ]
        assert [item.name for item in selected] == ["web"]
        await deployment.delete()
        assert not await first.exists()


async def test_lightkube(server: ServerProcess, namespace: str) -> None:
    library("lightkube")
    from lightkube import ApiError, AsyncClient, KubeConfig
    from lightkube.models.meta_v1 import ObjectMeta
    from lightkube.resources.apps_v1 import Deployment
    from lightkube.resources.core_v1 import ConfigMap
    from lightkube.types import PatchType

    config = KubeConfig.from_file(server.kubeconfig).get()
    client = AsyncClient(config=config, namespace=namespace)
    try:
        made = await client.create(
            ConfigMap(metadata=ObjectMeta(name="a", labels={"l": "1"}), data={"k": "v"})
        )
        assert made.metadata is not None
        assert await client.get(ConfigMap, "a") == made
        patched = await client.patch(ConfigMap, "a", {"data": {"k": "w"}}, patch_type=PatchType.MERGE)
        assert patched.data == {"k": "w"}
        made.data = {"k": "late"}
        with pytest.raises(ApiError) as conflict:
            await client.replace(made)
        assert conflict.value.status.reason == "Conflict"
        await client.create(ConfigMap(metadata=ObjectMeta(name="b")))
        await client.delete(ConfigMap, "a")
        seen = []
        async with asyncio.timeout(WITHIN_S):
            async for type_, item in client.watch(ConfigMap, resource_version=made.metadata.resourceVersion):
                assert item.metadata is not None
                seen.append((type_, item.metadata.name))
                if len(seen) == 3:
                    break
        assert seen == EVENTS[1:]
        listed = [item async for item in client.list(ConfigMap, chunk_size=1)]
        assert [item.metadata.name for item in listed if item.metadata] == ["b"]
        deployment: Any = Deployment.from_dict(a_deployment())
        await client.create(deployment)
        await client.deletecollection(Deployment)
        assert [item async for item in client.list(Deployment)] == []
    finally:
        await client.close()
