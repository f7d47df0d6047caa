"""Controllers: quotas, protection of claims and volumes in use, and the objects that always exist.

Source: kubernetes, pkg/controller/{resourcequota,volume/pvcprotection,volume/pvprotection} and
pkg/registry/{scheduling,flowcontrol}/rest.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.api import Api
from tests.support.etcd_process import EtcdProcess
from tests.support.eventually import eventually
from tests.support.fixtures import api_with
from tests.support.server_process import ServerProcess

ALL: Final = "--controllers=*"
NAMESPACES: Final = "/api/v1/namespaces"
VOLUMES: Final = "/api/v1/persistentvolumes"
_numbers: Final = itertools.count(1)


api = api_with(ALL)


@pytest.fixture
def path(api: Api) -> str:
    return new_namespace(api)


def new_namespace(api: Api) -> str:
    name = f"c-{next(_numbers)}"
    api.post(NAMESPACES, {"metadata": {"name": name}}).ok()
    return f"{NAMESPACES}/{name}"


# ---- quotas


def add_quota(api: Api, path: str, hard: dict[str, str], name: str = "q", **spec: Any) -> str:
    body = {"metadata": {"name": name}, "spec": {"hard": hard, **spec}}
    api.post(f"{path}/resourcequotas", body).ok()
    return f"{path}/resourcequotas/{name}"


async def measured(api: Api, quota: str, used: dict[str, str]) -> None:
    def status() -> bool:
        found = api.get(quota).ok()
        hard: dict[str, str] = found["spec"]["hard"]
        return bool(found["status"] == {"hard": hard, "used": used})

    try:
        await eventually(status)
    except AssertionError:
        raise AssertionError(api.get(quota).json) from None


def pod(name: str, cpu: str = "", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", **({"resources": {"requests": {"cpu": cpu}}} if cpu else {})}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def claim(name: str, storage: str = "1Gi", **spec: Any) -> dict[str, Any]:
    resources = {"requests": {"storage": storage}}
    return {
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources, **spec},
    }


# https://kubernetes.io/docs/concepts/policy/resource-quotas/
COUNTED: Final[dict[str, tuple[dict[str, list[dict[str, Any]]], dict[str, str], dict[str, Any]]]] = {
    "objects of any type": (
        {"secrets": [{"metadata": {"name": name}} for name in "abc"]},
        {"count/secrets": "3", "secrets": "3", "count/deployments.apps": "0"},
        {},
    ),
    "what pods ask for": (
        {"pods": [pod("a", "100m"), pod("b", "1900m")]},
        {"pods": "2", "requests.cpu": "2", "cpu": "2", "limits.memory": "0"},
        {},
    ),
    "ports of services": (
        {
            "services": [
                {
                    "metadata": {"name": "s"},
                    "spec": {
                        "type": "NodePort",
                        "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}],
                    },
                }
            ]
        },
        {"services": "1", "services.nodeports": "2", "services.loadbalancers": "0"},
        {},
    ),
    "the size of claims": (
        {"persistentvolumeclaims": [claim("a"), claim("b", "512Mi", storageClassName="fast")]},
        {
            "persistentvolumeclaims": "2",
            "requests.storage": "1536Mi",
            "fast.storageclass.storage.k8s.io/requests.storage": "512Mi",
        },
        {},
    ),
    "pods in its scope": (
        {"pods": [pod("a"), pod("b", "1"), pod("c", "1", activeDeadlineSeconds=9)]},
        {"pods": "1"},
        {"scopes": ["NotTerminating", "NotBestEffort"]},
    ),
    "nothing that has no such scope": (
        {"configmaps": [{"metadata": {"name": "a"}}]},
        {"count/configmaps": "0", "count/pods": "0"},
        {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}},
    ),
}


@pytest.mark.parametrize(("objects", "used", "spec"), COUNTED.values(), ids=COUNTED)
async def test_a_new_quota_counts_what_is_there(
    api: Api, path: str, objects: dict[str, list[dict[str, Any]]], used: dict[str, str], spec: dict[str, Any]
) -> None:
    for resource, documents in objects.items():
        for document in documents:
            api.post(f"{path}/{resource}", document).ok()
    limits = dict.fromkeys(used, "7")
    await measured(api, add_quota(api, path, limits, **spec), used)


async def test_types_that_nobody_has_are_not_counted(api: Api, path: str) -> None:
    quota = add_quota(api, path, {"count/widgets.example.com": "1", "count/secrets": "1"})
    await measured(api, quota, {"count/secrets": "0"})


async def test_what_is_gone_is_not_used_any_more(api: Api, path: str) -> None:
    """With admission: a quota that is used up lets new objects in once others have gone."""
    quota = add_quota(api, path, {"count/secrets": "1"})
    await measured(api, quota, {"count/secrets": "0"})
    api.post(f"{path}/secrets", {"metadata": {"name": "a"}}).ok()
    await measured(api, quota, {"count/secrets": "1"})
    assert api.post(f"{path}/secrets", {"metadata": {"name": "b"}}).status == 403
    api.delete(f"{path}/secrets/a").ok()
    await measured(api, quota, {"count/secrets": "0"})
    api.post(f"{path}/secrets", {"metadata": {"name": "b"}}).ok()


async def test_pods_that_have_ended_use_nothing_but_their_place(api: Api, path: str) -> None:
    quota = add_quota(api, path, {"requests.cpu": "4", "count/pods": "4"})
    await measured(api, quota, {"requests.cpu": "0", "count/pods": "0"})
    api.post(f"{path}/pods", pod("a", "1")).ok()
    await measured(api, quota, {"requests.cpu": "1", "count/pods": "1"})
    api.patch(f"{path}/pods/a/status", {"status": {"phase": "Succeeded"}}).ok()
    await measured(api, quota, {"requests.cpu": "0", "count/pods": "1"})


async def test_a_wrong_quota_status_is_corrected(api: Api, path: str) -> None:
    """Limits that changed, and usage that was charged for nothing."""
    quota = add_quota(api, path, {"count/secrets": "1", "count/pods": "1"})
    await measured(api, quota, {"count/secrets": "0", "count/pods": "0"})
    api.patch(f"{quota}/status", {"status": {"used": {"count/secrets": "1"}}}).ok()
    await measured(api, quota, {"count/secrets": "0", "count/pods": "0"})
    api.patch(
        quota, {"spec": {"hard": {"count/secrets": "5", "count/pods": None, "count/configmaps": "9"}}}
    ).ok()
    await measured(api, quota, {"count/secrets": "0", "count/configmaps": "1"})  # the root CA


async def test_each_namespace_has_its_own(api: Api, path: str) -> None:
    other = new_namespace(api)
    quotas = [add_quota(api, where, {"count/secrets": "9"}) for where in (path, other)]
    for name in "ab":
        api.post(f"{other}/secrets", {"metadata": {"name": name}}).ok()
    await measured(api, quotas[1], {"count/secrets": "2"})
    await measured(api, quotas[0], {"count/secrets": "0"})


async def test_recalculation_never_frees_admitted_usage(api: Api, path: str) -> None:
    """It gives back what is gone, and never what has been admitted and is about to be written."""
    limit, enough, secrets = 10, 30, f"{path}/secrets"
    quota = add_quota(api, path, {"count/secrets": str(limit)})
    await measured(api, quota, {"count/secrets": "0"})
    made, counts = threading.Semaphore(enough), list[int]()

    def churn(number: int) -> None:
        names: list[str] = []
        with Api(api.server) as own:
            for turn in itertools.count():
                name = f"{number}-{turn}"
                if own.post(secrets, {"metadata": {"name": name}}).status == 201:
                    names.append(name)
                    counts.append(len(own.get(secrets).ok()["items"]))
                    if not made.acquire(blocking=False):
                        return
                elif names:
                    own.delete(f"{secrets}/{names.pop()}")

    workers = [threading.Thread(target=churn, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        await asyncio.to_thread(worker.join)
    assert max(counts) <= limit
    left = len(api.get(secrets).ok()["items"])
    await measured(api, quota, {"count/secrets": str(left)})
    for number in range(left, limit):
        api.post(secrets, {"metadata": {"name": f"last-{number}"}}).ok()
    assert api.post(secrets, {"metadata": {"name": "one-more"}}).status == 403


# ---- storage


async def gone(api: Api, path: str) -> None:
    await eventually(lambda: api.get(path).status == 404)


async def looked_at(api: Api, path: str) -> None:
    """Wait until the controller has processed the claims that were deleted before."""
    name = f"other-{next(_numbers)}"
    api.post(f"{path}/persistentvolumeclaims", claim(name)).ok()
    api.delete(f"{path}/persistentvolumeclaims/{name}").ok()
    await gone(api, f"{path}/persistentvolumeclaims/{name}")


def using(name: str, **spec: Any) -> dict[str, Any]:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    return pod(name, volumes=[volume], **spec)


async def test_a_claim_that_nobody_uses_goes(api: Api, path: str) -> None:
    """A pod without a node does not use it: no node starts pods whose claims are being deleted."""
    api.post(f"{path}/persistentvolumeclaims", claim("c")).ok()
    api.post(f"{path}/pods", using("p")).ok()
    api.delete(f"{path}/persistentvolumeclaims/c").ok()
    await gone(api, f"{path}/persistentvolumeclaims/c")


@pytest.mark.parametrize("phase", ["Running", "Succeeded"])
async def test_a_claim_stays_as_long_as_the_pod_that_uses_it(api: Api, path: str, phase: str) -> None:
    """Whether that has ended or not: https://kubernetes.io/docs/concepts/storage/persistent-volumes/."""
    where = f"{path}/persistentvolumeclaims/c"
    api.post(f"{path}/persistentvolumeclaims", claim("c")).ok()
    for name in "pq":
        api.post(f"{path}/pods", using(name, nodeName="n")).ok()
        api.patch(f"{path}/pods/{name}/status", {"status": {"phase": phase}}).ok()
    api.delete(where).ok()
    for name in "pq":
        await looked_at(api, path)
        assert api.get(where).ok()["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
        api.delete(f"{path}/pods/{name}?gracePeriodSeconds=0").ok()
    await gone(api, where)


async def test_a_claim_that_a_pod_has_made_for_itself(api: Api, path: str) -> None:
    """One that only has the name of such a claim is not in use."""
    template = {"volumeClaimTemplate": {"spec": claim("")["spec"]}}
    spec: dict[str, Any] = {"nodeName": "n", "volumes": [{"name": "v", "ephemeral": template}]}
    uid = api.post(f"{path}/pods", pod("p", **spec)).ok()["metadata"]["uid"]
    api.post(f"{path}/pods", pod("q", **spec)).ok()
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
    own = claim("p-v")
    own["metadata"]["ownerReferences"] = [owner]
    for each in (own, claim("q-v")):
        api.post(f"{path}/persistentvolumeclaims", each).ok()
        api.delete(f"{path}/persistentvolumeclaims/{each['metadata']['name']}").ok()
    await gone(api, f"{path}/persistentvolumeclaims/q-v")
    await looked_at(api, path)
    assert api.get(f"{path}/persistentvolumeclaims/p-v").status == 200
    api.delete(f"{path}/pods/p?gracePeriodSeconds=0").ok()
    await gone(api, f"{path}/persistentvolumeclaims/p-v")


async def test_finalizers_of_others_stay(api: Api, path: str) -> None:
    document = claim("c")
    document["metadata"]["finalizers"] = ["example.com/hold"]
    where = f"{path}/persistentvolumeclaims/c"
    api.post(f"{path}/persistentvolumeclaims", document).ok()
    api.delete(where).ok()
    await eventually(lambda: api.get(where).ok()["metadata"]["finalizers"] == ["example.com/hold"])
    api.patch(where, {"metadata": {"finalizers": None}}).ok()
    await gone(api, where)


def volume(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/data"},
        },
    }


async def volume_looked_at(api: Api) -> None:
    name = f"other-{next(_numbers)}"
    api.post(VOLUMES, volume(name)).ok()
    api.delete(f"{VOLUMES}/{name}").ok()
    await gone(api, f"{VOLUMES}/{name}")


CLASSES: Final = "/apis/storage.k8s.io/v1/volumeattributesclasses"
VAC: Final = "kubernetes.io/vac-protection"


def attributes_class(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "driverName": "d.example.com", "parameters": {"iops": "1"}}


async def class_looked_at(api: Api) -> None:
    name = f"other-{next(_numbers)}"
    api.post(CLASSES, attributes_class(name)).ok()
    api.delete(f"{CLASSES}/{name}").ok()
    await gone(api, f"{CLASSES}/{name}")


def csi_volume(name: str, attributes: str) -> dict[str, Any]:
    source = {"csi": {"driver": "d.example.com", "volumeHandle": name}, "hostPath": None}
    made = volume(name)
    return {**made, "spec": {**made["spec"], **source, "volumeAttributesClassName": attributes}}


# Who uses a class: the path of what does, below a namespace or without one, what it is, and its status.
USERS_OF_CLASSES: Final[dict[str, tuple[bool, Any, dict[str, Any] | None]]] = {
    "a claim that wants it": (True, lambda name: claim("c", volumeAttributesClassName=name), None),
    "a claim that has it": (
        True,
        lambda name: claim("c"),
        {"phase": "Bound", "currentVolumeAttributesClassName": "NAME"},
    ),
    "a claim that is on the way to it": (
        True,
        lambda name: claim("c"),
        {"modifyVolumeStatus": {"status": "Pending", "targetVolumeAttributesClassName": "NAME"}},
    ),
    "a volume": (False, lambda name: csi_volume(name, name), None),
}


@pytest.mark.parametrize(("of_claims", "user", "status"), USERS_OF_CLASSES.values(), ids=USERS_OF_CLASSES)
async def test_a_class_of_attributes_stays_as_long_as_somebody_uses_it(
    api: Api, path: str, of_claims: bool, user: Any, status: dict[str, Any] | None
) -> None:
    """A claim that wants it, has it, or is on the way to it; and a volume that has it."""
    name = f"vac-{next(_numbers)}"
    where = f"{CLASSES}/{name}"
    assert api.post(CLASSES, attributes_class(name)).ok()["metadata"]["finalizers"] == [VAC]
    collection = f"{path}/persistentvolumeclaims" if of_claims else VOLUMES
    used_by = f"{collection}/{api.post(collection, user(name)).ok()['metadata']['name']}"
    if status is not None:
        told = json.loads(json.dumps(status).replace("NAME", name))
        api.patch(f"{used_by}/status", {"status": told}).ok()
    api.delete(where).ok()
    await class_looked_at(api)
    assert api.get(where).ok()["metadata"]["finalizers"] == [VAC]
    api.delete(used_by).ok()
    await gone(api, where)


# Collections, and objects that are created without the finalizers that they are to have.
UNPROTECTED: Final[dict[str, tuple[str, Any, str]]] = {
    "claims": ("persistentvolumeclaims", claim, "kubernetes.io/pvc-protection"),
    "volumes": (VOLUMES, volume, "kubernetes.io/pv-protection"),
    "classes of attributes": (CLASSES, attributes_class, VAC),
}


@pytest.mark.parametrize(("collection", "made", "finalizer"), UNPROTECTED.values(), ids=UNPROTECTED)
async def test_what_lacks_its_protection_gets_it(
    api: Api, path: str, collection: str, made: Any, finalizer: str
) -> None:
    """As what was created before the plugin was enabled."""
    where = collection if collection.startswith("/") else f"{path}/{collection}"
    name = f"bare-{next(_numbers)}"
    api.post(where, made(name)).ok()
    api.patch(f"{where}/{name}", {"metadata": {"finalizers": ["example.com/hold"]}}).ok()
    wanted = ["example.com/hold", finalizer]
    await eventually(lambda: api.get(f"{where}/{name}").ok()["metadata"]["finalizers"] == wanted)
    api.patch(f"{where}/{name}", {"metadata": {"finalizers": [finalizer]}}).ok()
    api.delete(f"{where}/{name}").ok()
    await gone(api, f"{where}/{name}")


async def test_a_volume_stays_while_it_is_bound(api: Api, path: str) -> None:
    name = path.rpartition("/")[2]
    where = f"{VOLUMES}/{name}"
    api.post(VOLUMES, volume(name)).ok()
    api.post(f"{path}/persistentvolumeclaims", claim("c", volumeName=name)).ok()
    api.patch(f"{where}/status", {"status": {"phase": "Bound"}}).ok()
    api.delete(where).ok()
    await volume_looked_at(api)
    assert api.get(where).status == 200
    api.patch(f"{where}/status", {"status": {"phase": "Released"}}).ok()
    await volume_looked_at(api)
    assert api.get(where).status == 200, "a claim still names it"
    api.delete(f"{path}/persistentvolumeclaims/c").ok()
    await gone(api, where)


async def test_a_namespace_with_all_of_it_goes(api: Api, path: str) -> None:
    api.post(f"{path}/persistentvolumeclaims", claim("c")).ok()
    api.post(f"{path}/pods", using("p")).ok()
    add_quota(api, path, {"count/secrets": "1"})
    api.delete(path).ok()
    await gone(api, path)


# ---- what is always there

FLOW_CONTROL: Final = "/apis/flowcontrol.apiserver.k8s.io/v1"
PRIORITY_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
ALWAYS: Final = {
    f"{PRIORITY_CLASSES}/system-node-critical": ("value", 2_000_001_000),
    f"{PRIORITY_CLASSES}/system-cluster-critical": ("value", 2_000_000_000),
    f"{FLOW_CONTROL}/flowschemas/exempt": ("spec.matchingPrecedence", 1),
    f"{FLOW_CONTROL}/flowschemas/catch-all": ("spec.matchingPrecedence", 10_000),
    f"{FLOW_CONTROL}/prioritylevelconfigurations/exempt": ("spec.type", "Exempt"),
    f"{FLOW_CONTROL}/prioritylevelconfigurations/catch-all": ("spec.type", "Limited"),
}


@pytest.mark.parametrize("path", ALWAYS)
def test_objects_that_always_exist_exist(api: Api, path: str) -> None:
    """It is just what a client would have made of it: to put it there again changes nothing."""
    found = api.get(path).ok()
    field, expected = ALWAYS[path]
    value = found
    for step in field.split("."):
        value = value[step]
    assert value == expected
    assert api.put(path, found).ok() == found


async def test_objects_that_always_exist_are_created_again_when_missing(tmp_path: Path) -> None:
    """No controller has to run for that."""
    process = ServerProcess(tmp_path / "data", "--controllers=-*")
    missed = f"{FLOW_CONTROL}/flowschemas/exempt"
    with process as server, Api(server) as api:
        first = {path: api.get(path).ok() for path in ALWAYS}
        api.delete(missed).ok()
        server.stop()
        server.start()
        again = {path: api.get(path).ok() for path in ALWAYS}
    assert again.pop(missed)["metadata"]["uid"] != first.pop(missed)["metadata"]["uid"]
    assert again == first


# ---- several servers


@pytest.mark.etcd
async def test_controllers_of_several_servers_cooperate(tmp_path: Path, etcd: EtcdProcess) -> None:
    with ExitStack() as stack:
        processes = [ServerProcess(tmp_path / name, ALL, f"--etcd-servers={etcd.url}") for name in ("a", "b")]
        for each in processes:
            stack.enter_context(each.start(awaits_ready=False))
        for each in processes:
            each.await_ready()
        one, two = (stack.enter_context(Api(each)) for each in processes)

        def always(api: Api) -> dict[str, Any]:
            return {path: api.get(path).ok() for path in ALWAYS}

        # The status of some comes when a server is ready already.
        await eventually(lambda: always(one) == always(two))
        path = new_namespace(one)
        quota = add_quota(two, path, {"count/secrets": "9"})
        for name in "abc":
            one.post(f"{path}/secrets", {"metadata": {"name": name}}).ok()
        one.delete(f"{path}/secrets/a").ok()
        await measured(two, quota, {"count/secrets": "2"})
        one.post(f"{path}/persistentvolumeclaims", claim("c")).ok()
        two.delete(f"{path}/persistentvolumeclaims/c").ok()
        await gone(one, f"{path}/persistentvolumeclaims/c")
        one.delete(path).ok()
        await gone(two, path)
