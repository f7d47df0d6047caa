"""What an object owned goes with it, as clients see it. Rows B15, G08.

Source: kubernetes, test/integration/garbagecollector, and kubectl's --cascade.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.api import Api
from tests.support.definitions import define, definition, new_group
from tests.support.etcd_process import wheel_etcd
from tests.support.eventually import WITHIN_S, eventually
from tests.support.kubectl import Kubectl, each_version, program
from tests.support.metrics import metrics_of
from tests.support.objects import config_maps
from tests.support.server_process import ServerProcess

CONTROLLERS: Final = "--controllers=garbage-collector-controller,namespace-controller"
_numbers: Final = itertools.count(1)


@pytest.fixture(scope="module")
def collecting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with a garbage collector. Tests must not stop it."""
    with ServerProcess(tmp_path_factory.mktemp("collecting") / "data", CONTROLLERS) as server:
        yield server


@pytest.fixture
def api(collecting: ServerProcess) -> Iterator[Api]:
    with Api(collecting) as api:
        yield api


@pytest.fixture
def namespace(api: Api) -> str:
    name = f"gc-{next(_numbers)}"
    api.post("/api/v1/namespaces", {"metadata": {"name": name}}).ok()
    return name


def create(api: Api, path: str, name: str, *owners: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Returns the object as an owner reference names it."""
    meta = {"name": name, **({"ownerReferences": [*owners]} if owners else {}), **more.pop("meta", {})}
    return named(api.post(path, {"metadata": meta, **more}).ok())


def named(found: dict[str, Any]) -> dict[str, Any]:
    """Returns an object as an owner reference names it."""
    return {
        "apiVersion": found["apiVersion"],
        "kind": found["kind"],
        "name": found["metadata"]["name"],
        "uid": found["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }


async def gone(api: Api, *paths: str) -> None:
    for path in paths:
        await eventually(lambda path=path: api.get(path).status == 404)  # type: ignore[misc]


async def test_owners_and_dependents_of_custom_resources(api: Api, namespace: str) -> None:
    """Their types come while the collector runs, and owners and dependents are of other groups."""
    defined = define(api, definition(new_group()))
    widgets = defined.objects(namespace)

    def widget(name: str, *owners: dict[str, Any]) -> dict[str, Any]:
        meta = {"name": name, "ownerReferences": [*owners]}
        return named(api.post(widgets, {**defined.body(name), "metadata": meta}).ok())

    widget("dependent", create(api, config_maps(namespace), "owner"))
    create(api, config_maps(namespace), "dependent", widget("owner"))
    api.delete(f"{config_maps(namespace)}/owner").ok()
    api.delete(f"{widgets}/owner").ok()
    await gone(api, f"{widgets}/dependent", f"{config_maps(namespace)}/dependent")
    # With the type its objects go, and with these what they own.
    create(api, config_maps(namespace), "last", widget("more"))
    api.delete(defined.path).ok()
    await gone(api, f"{config_maps(namespace)}/last")


async def test_an_owner_of_a_type_that_is_served_later(api: Api, namespace: str) -> None:
    """Until then nobody can tell whether it exists, and its dependent stays."""
    group = new_group()
    absent = {"apiVersion": f"{group}/v1", "kind": "Widget", "name": "w", "uid": "1"}
    create(api, config_maps(namespace), "a", absent)
    # Whatever is done after this one is done after that one, too.
    create(api, config_maps(namespace), "b", {**absent, "apiVersion": "v1", "kind": "Secret"})
    await gone(api, f"{config_maps(namespace)}/b")
    assert api.get(f"{config_maps(namespace)}/a").status == 200
    define(api, definition(group))
    await gone(api, f"{config_maps(namespace)}/a")


async def test_an_owner_where_it_cannot_be_is_told_of(api: Api, namespace: str) -> None:
    other = f"{namespace}-other"
    api.post("/api/v1/namespaces", {"metadata": {"name": other}}).ok()
    owner = create(api, config_maps(other), "o")
    create(api, config_maps(namespace), "x", owner)
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    create(api, roles, f"{namespace}-x", owner, rules=[])
    await gone(api, f"{config_maps(namespace)}/x")
    expected = {(namespace, "x"): namespace, ("default", f"{namespace}-x"): ""}
    for (where, name), named in expected.items():

        def told(where: str = where, name: str = name) -> Any:
            query = f"fieldSelector=reason=OwnerRefInvalidNamespace,involvedObject.name={name}"
            return api.get(f"/api/v1/namespaces/{where}/events?{query}").ok()["items"]

        (event,) = await eventually(told)
        assert event["type"] == "Warning"
        assert event["source"] == {"component": "garbage-collector-controller"}
        what = f"[v1/ConfigMap, namespace: {named}, name: o, uid: {owner['uid']}]"
        assert event["message"] == f'ownerRef {what} does not exist in namespace "{named}"'
    assert api.get(f"{roles}/{namespace}-x").status == 200


def test_it_has_metrics_under_their_names(api: Api) -> None:
    text = metrics_of(api)
    for queue in ("attempt_to_delete", "attempt_to_orphan", "graph_changes"):
        assert f'workqueue_adds_total{{name="garbage_collector_{queue}"}}' in text
    assert "\ngarbagecollector_controller_resources_sync_error_total 0" in text


async def test_a_restart_in_the_middle(tmp_path: Path) -> None:
    """The server is killed while owners wait for their dependents, and dependents for their collection."""
    path, count = config_maps("default"), 12
    with ServerProcess(tmp_path / "data", CONTROLLERS) as server, Api(server) as api:
        for policy in ("Background", "Foreground", "Orphan"):
            owner = create(api, path, policy.lower())
            for number in range(count):
                create(api, path, f"{policy.lower()}-{number}", owner)
            api.delete(f"{path}/{policy.lower()}?propagationPolicy={policy}").ok()
        server.kill()
        server.start()
        with Api(server) as again:

            def left() -> list[dict[str, Any]]:
                return [each["metadata"] for each in again.get(path).ok()["items"]]

            await eventually(lambda: len(left()) == count)
            assert {each["name"] for each in left()} == {f"orphan-{number}" for number in range(count)}
            assert not any("ownerReferences" in each for each in left())


@pytest.mark.etcd
@pytest.mark.slow
@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
async def test_servers_are_killed_while_they_collect(tmp_path: Path, policy: str) -> None:
    """Whichever of two is the leader: first the one is killed, then, when that is back, the other."""
    path, count = config_maps("default"), 300
    etcd = wheel_etcd(tmp_path).start()
    flags = (
        f"--etcd-servers={etcd.url}",
        CONTROLLERS,
        "--leader-elect-lease-duration=3s",
        "--leader-elect-renew-deadline=2s",
        "--leader-elect-retry-period=500ms",
    )
    with ExitStack() as stack:
        stack.callback(etcd.stop)
        servers = [stack.enter_context(ServerProcess(tmp_path / name, *flags)) for name in ("one", "two")]
        with Api(servers[1]) as api:
            owner = create(api, path, "owner")
            for number in range(count):
                create(api, path, f"d-{number}", owner)

            def waiting() -> int:
                """How many are still to be collected, or released."""
                items = api.get(path).ok()["items"]
                return sum("ownerReferences" in each["metadata"] for each in items)

            api.delete(f"{path}/owner?propagationPolicy={policy}").ok()
            await eventually(lambda: waiting() < count)
            servers[0].kill()
            await eventually(lambda: waiting() < count * 2 // 3)
        servers[0].start()
        servers[1].kill()
        with Api(servers[0]) as api:
            await eventually(lambda: waiting() == 0)
            await gone(api, f"{path}/owner")
            left = [each["metadata"]["name"] for each in api.get(path).ok()["items"]]
            assert len(left) == (count if policy == "Orphan" else 0)


def test_it_leaves_all_to_others_if_it_is_switched_off(tmp_path: Path) -> None:
    """As beside a kube-controller-manager."""
    path = config_maps("default")
    flags = "--controllers=*,-garbage-collector-controller"
    with ServerProcess(tmp_path / "data", flags) as server, Api(server) as api:
        create(api, path, "dependent", create(api, path, "owner"))
        found = api.delete(f"{path}/owner?propagationPolicy=Foreground").ok()
        assert found["metadata"]["finalizers"] == ["foregroundDeletion"]
        assert 'name="garbage_collector' not in metrics_of(api)
        assert api.get(f"{path}/dependent").status == 200


# ---- kubectl


@pytest.fixture(params=each_version(0, -1))
def kubectl(
    request: pytest.FixtureRequest, collecting: ServerProcess, namespace: str, tmp_path: Path
) -> Kubectl:
    return Kubectl(program(request.param), collecting.kubeconfig, namespace, tmp_path)


CASCADES: Final = {"background": [], "foreground": [], "orphan": ["configmap/dependent"]}


@pytest.mark.parametrize(("cascade", "left"), CASCADES.items())
async def test_cascades(kubectl: Kubectl, api: Api, namespace: str, cascade: str, left: list[str]) -> None:
    path = config_maps(namespace)
    create(api, path, "dependent", create(api, path, "owner"))
    waiting = kubectl.start("wait", "configmap/owner", "--for=delete", f"--timeout={WITHIN_S}s")
    kubectl("delete", "configmap", "owner", f"--cascade={cascade}", f"--timeout={WITHIN_S}s")
    said, errors = waiting.communicate(timeout=WITHIN_S)
    assert (waiting.returncode, errors) == (0, ""), said
    await eventually(lambda: kubectl("get", "configmaps", "-o", "name").split() == left)
