"""Server-side apply from the client libraries of Python, unmodified. Rows F04-F17, F25.

Each does the same: creates by applying, applies again, meets a conflict, forces it, and gives a field up.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.support.api import APPLY, Api
from tests.support.clients import kr8s_api
from tests.support.objects import config_map, deployment, template
from tests.support.required import library
from tests.support.server_process import ServerProcess

CONFLICT: Final = 'Apply failed with 1 conflict: conflict with "one": .data.x'


def nginx(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return deployment("web", template=template(containers=list(containers)), **spec)


STATUS: Final = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
WEB: Final = {"name": "web", "image": "nginx:1"}
SIDE: Final = {"name": "side", "image": "busybox:1"}


class Seen:
    """The objects of a namespace, read without the library that is tested."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api, self.namespace = api, namespace

    def live(self, what: str = "configmaps/a", group: str = "/api/v1") -> Any:
        return self.api.get(f"{group}/namespaces/{self.namespace}/{what}").ok()

    def deployment(self) -> Any:
        return self.live("deployments/web", "/apis/apps/v1")

    @property
    def data(self) -> Any:
        return self.live()["data"]

    def owners(self, live: Any = None) -> dict[str, Any]:
        """The fields that each manager owns, by manager, operation and subresource."""
        return {
            " ".join(filter(None, (e["manager"], e["operation"], e.get("subresource")))): e["fieldsV1"]
            for e in (live or self.live())["metadata"]["managedFields"]
        }

    def require_end(self) -> None:
        """`one` applied x and w; `two` conflicted, forced x; then `one` gave w up."""
        assert self.data == {"x": "2"}
        assert self.owners() == {"two Apply": {"f:data": {"f:x": {}}}}


@pytest.fixture
def seen(api: Api, namespace: str) -> Seen:
    return Seen(api, namespace)


ONE: Final = config_map(x="1", w="1")
TWO: Final = config_map(x="2")
NONE: Final[dict[str, Any]] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


def test_kubernetes(server: ServerProcess, namespace: str, seen: Seen) -> None:
    kubernetes = library("kubernetes")
    client = kubernetes.client
    with kubernetes.config.new_client_from_config(str(server.kubeconfig)) as api:
        core = client.CoreV1Api(api)

        def apply(body: Any, manager: str, **options: Any) -> Any:
            return core.patch_namespaced_config_map(
                "a", namespace, body, field_manager=manager, _content_type=APPLY, **options
            )

        made = apply(ONE, "one")
        assert (made.data, seen.data) == (ONE["data"], ONE["data"])
        assert apply(ONE, "one").metadata.resource_version == made.metadata.resource_version
        with pytest.raises(client.ApiException) as caught:
            apply(TWO, "two")
        assert (caught.value.status, json.loads(caught.value.body or "")["message"]) == (409, CONFLICT)
        with pytest.raises(client.ApiException) as caught:
            core.patch_namespaced_config_map("a", namespace, TWO, _content_type=APPLY)
        assert caught.value.status == 422  # row F04: who applies says who it is
        assert apply(TWO, "two", dry_run="All", force=True).data == {"x": "2", "w": "1"}
        assert seen.data == ONE["data"]
        assert apply(TWO, "two", force=True).data == {"x": "2", "w": "1"}
        apply(NONE, "one")
        seen.require_end()

        # Typed objects leave out what is not set.
        apps = client.AppsV1Api(api)
        body = client.V1Deployment(
            api_version="apps/v1",
            kind="Deployment",
            metadata=client.V1ObjectMeta(name="web"),
            spec=nginx(WEB, SIDE, replicas=2)["spec"],
        )
        arguments = {"field_manager": "one", "_content_type": APPLY}
        apps.patch_namespaced_deployment("web", namespace, body, **arguments)
        apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 5}})
        shown = apps.patch_namespaced_deployment("web", namespace, nginx(WEB), **arguments)
        assert shown.spec.replicas == 5
        assert [each.image for each in shown.spec.template.spec.containers] == ["nginx:1"]
        status = STATUS | {"status": {"replicas": 5}}
        shown = apps.patch_namespaced_deployment_status("web", namespace, status, **arguments)
        assert shown.status.replicas == 5
        owners = seen.owners(seen.deployment())
        assert owners.keys() == {"one Apply", "one Apply status", "OpenAPI-Generator Update scale"}


def test_kubernetes_dynamic_client(server: ServerProcess, namespace: str, seen: Seen, tmp_path: Any) -> None:
    kubernetes = library("kubernetes")
    from kubernetes import dynamic, utils

    with kubernetes.config.new_client_from_config(str(server.kubeconfig)) as api:
        client: Any = dynamic.DynamicClient(  # type: ignore[no-untyped-call]
            api, cache_file=str(tmp_path / "discovery")
        )
        maps = client.resources.get(api_version="v1", kind="ConfigMap")

        def apply(body: Any, manager: str, **options: Any) -> Any:
            return maps.server_side_apply(
                body=body, name="a", namespace=namespace, field_manager=manager, **options
            )

        made = apply(ONE, "one")
        assert apply(ONE, "one").metadata.resourceVersion == made.metadata.resourceVersion
        with pytest.raises(dynamic.exceptions.ConflictError) as caught:
            apply(TWO, "two")
        assert json.loads(caught.value.body or "")["message"] == CONFLICT
        assert apply(TWO, "two", force_conflicts=True).data.to_dict() == {"x": "2", "w": "1"}
        apply(NONE, "one")
        seen.require_end()

        # Files, as `kubectl apply --server-side -f` takes them.
        for replicas in (2, 3):
            body = nginx(WEB, replicas=replicas)
            create: Any = utils.create_from_dict
            create(api, body, namespace=namespace, apply=True)
        assert seen.deployment()["spec"]["replicas"] == 3


async def test_kubernetes_asyncio(server: ServerProcess, namespace: str, seen: Seen) -> None:
    library("kubernetes_asyncio")
    from kubernetes_asyncio import client, config, dynamic

    async with await config.new_client_from_config(str(server.kubeconfig)) as api:
        core: Any = client.CoreV1Api(api)

        async def apply(body: Any, manager: str, **options: Any) -> Any:
            return await core.patch_namespaced_config_map(
                "a", namespace, body, field_manager=manager, _content_type=APPLY, **options
            )

        made = await apply(ONE, "one")
        assert (await apply(ONE, "one")).metadata.resource_version == made.metadata.resource_version
        with pytest.raises(client.ApiException) as caught:
            await apply(TWO, "two")
        assert (caught.value.status, json.loads(caught.value.body or "")["message"]) == (409, CONFLICT)
        assert (await apply(TWO, "two", force=True)).data == {"x": "2", "w": "1"}
        await apply(NONE, "one")
        seen.require_end()

        dynamic_client: Any = await dynamic.DynamicClient(api)
        deployments = await dynamic_client.resources.get(api_version="apps/v1", kind="Deployment")
        for containers in ((WEB, SIDE), (WEB,)):
            body = nginx(*containers, replicas=2)
            await deployments.server_side_apply(body=body, namespace=namespace, field_manager="dynamic")
        spec = seen.deployment()["spec"]["template"]["spec"]
        assert [each["name"] for each in spec["containers"]] == ["web"]


# It says so of every release that is newer than itself.
@pytest.mark.filterwarnings("ignore:Kubernetes version .* is not supported:UserWarning")
async def test_kr8s(server: ServerProcess, namespace: str, seen: Seen) -> None:
    """It has no apply of its own, but hands on any request; its updates are its own (row F05)."""
    library("kr8s")
    import kr8s
    from kr8s.asyncio.objects import ConfigMap, Deployment

    async with kr8s_api(server, namespace) as api:

        async def apply(body: Any, manager: str, **options: Any) -> Any:
            async with api.call_api(
                "PATCH",
                version="v1",
                url="configmaps/a",
                namespace=namespace,
                params={"fieldManager": manager, **options},
                headers={"Content-Type": APPLY},
                content=json.dumps(body),
            ) as answer:
                return answer.json()

        made = await apply(ONE, "one")
        assert await apply(ONE, "one") == made
        with pytest.raises(kr8s.ServerError) as caught:
            await apply(TWO, "two")
        assert caught.value.response is not None
        assert (caught.value.response.status_code, caught.value.response.json()["message"]) == (409, CONFLICT)
        await apply(TWO, "two", force="true")
        await apply(NONE, "one")
        seen.require_end()

        stored = await ConfigMap.get("a", namespace=namespace, api=api)
        await stored.patch({"data": {"x": "3"}})
        await stored.label({"tier": "web"})
        [(manager, fields)] = seen.owners().items()
        assert manager.endswith(" Update")
        assert fields == {"f:data": {"f:x": {}}, "f:metadata": {"f:labels": {".": {}, "f:tier": {}}}}
        body = nginx(WEB) | {"metadata": {"name": "web", "namespace": namespace}}
        scaled = await Deployment(body, api=api)
        await scaled.create()
        await scaled.patch({"spec": {"replicas": 4}}, subresource="scale")
        assert seen.deployment()["spec"]["replicas"] == 4


async def test_lightkube(server: ServerProcess, namespace: str, seen: Seen) -> None:
    library("lightkube")
    from lightkube import ApiError, AsyncClient, KubeConfig
    from lightkube.models.meta_v1 import ObjectMeta
    from lightkube.resources.apps_v1 import Deployment
    from lightkube.resources.apps_v1 import DeploymentStatus as StatusOf
    from lightkube.resources.core_v1 import ConfigMap

    config = KubeConfig.from_file(server.kubeconfig).get()
    client = AsyncClient(config=config, namespace=namespace, field_manager="one")

    def body(**data: str) -> ConfigMap:
        # One without a namespace goes to that of the client.
        return ConfigMap(apiVersion="v1", kind="ConfigMap", metadata=ObjectMeta(name="a"), data=data or None)

    try:
        made = await client.apply(body(x="1", w="1"))
        assert await client.apply(body(x="1", w="1")) == made
        with pytest.raises(ApiError) as caught:
            await client.apply(body(x="2"), field_manager="two")
        assert (caught.value.status.code, caught.value.status.message) == (409, CONFLICT)
        await client.apply(body(x="2"), field_manager="two", force=True)
        await client.apply(body())
        seen.require_end()

        web: Any = Deployment.from_dict(nginx(WEB, SIDE, replicas=2))
        await client.apply(web)
        web = Deployment.from_dict(nginx(WEB))
        shown: Any = await client.apply(web)
        assert shown.spec.replicas == 1
        assert [each.name for each in shown.spec.template.spec.containers] == ["web"]
        # The library has no status without a spec, which the path of the status does not write.
        body_of_status = nginx(WEB, replicas=9) | {"status": {"readyReplicas": 1, "replicas": 1}}
        status: Any = StatusOf.from_dict(body_of_status)
        await client.apply(status, "web", field_manager="controller")
        stored = seen.deployment()
        assert (stored["status"]["readyReplicas"], stored["spec"]["replicas"]) == (1, 1)
        assert seen.owners(stored).keys() == {"one Apply", "controller Apply status"}
    finally:
        await client.close()
