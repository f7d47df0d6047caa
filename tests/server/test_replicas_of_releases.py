"""Servers of two releases on one etcd store, and serve, what the older one knows. Rows S04, S12."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from tests.support.api import Api, until_status
from tests.support.etcd_process import EtcdProcess, wheel_etcd
from tests.support.metrics import metric
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.etcd

CLAIMS: Final = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
CLAIM: Final[dict[str, Any]] = {
    "spec": {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "gpu"}}]}}
}
CAPACITIES: Final = "/apis/storage.k8s.io/{}/namespaces/default/csistoragecapacities"
# 1.34 does not have it.
MIGRATIONS: Final = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations"

MIGRATION: Final[dict[str, Any]] = {"spec": {"resource": {"group": "", "resource": "configmaps"}}}


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[EtcdProcess]:
    """Each test has its own: what servers of other releases have left there counts."""
    with wheel_etcd(tmp_path) as etcd:
        yield etcd


def server(directory: Path, etcd: EtcdProcess, minor: int) -> ServerProcess:
    flags = (f"--etcd-servers={etcd.url}", "--runtime-config=api/beta=true")
    return ServerProcess(directory / f"1.{minor}", f"--emulated-version=1.{minor}", *flags)


def stored_version(etcd: EtcdProcess, resource: str, name: str) -> Any:
    found = etcd.ctl("get", "--print-value-only", f"/registry/{resource}/default/{name}")
    return orjson.loads(found)["apiVersion"]


def claim(api: Api, name: str) -> Any:
    return api.post(CLAIMS, {**CLAIM, "metadata": {"name": name}}).ok()


def rewrite(api: Api, etcd: EtcdProcess, name: str) -> Any:
    """Returns the version in which a claim is stored after a write that changes nothing, as migrations do."""
    api.patch(f"{CLAIMS}/{name}", {}).ok()
    return stored_version(etcd, "resource.k8s.io/resourceclaims", name)


def is_served(api: Api, path: str) -> bool:
    """Whether lists and discovery agree on it, too."""
    group_version, resource = path.removeprefix("/apis/").rpartition("/")[::2]
    shown = api.get(f"/apis/{group_version}")
    in_discovery = shown.status == 200 and resource in [each["name"] for each in shown.json["resources"]]
    assert in_discovery is (api.get(path).status == 200)
    return in_discovery


def test_beside_an_older_one_the_newer_one_stores_what_both_know(tmp_path: Path, etcd: EtcdProcess) -> None:
    with (
        server(tmp_path, etcd, 34) as old,
        server(tmp_path, etcd, 36) as new,
        Api(old) as older,
        Api(new) as newer,
    ):
        made = claim(newer, "a")
        # 1.34 stores what 1.33 can read, which has no v1.
        assert stored_version(etcd, "resource.k8s.io/resourceclaims", "a") == "resource.k8s.io/v1beta2"
        assert older.get(f"{CLAIMS}/a").ok() == made
        assert not is_served(newer, MIGRATIONS)
        assert newer.post(MIGRATIONS, {"metadata": {"name": "a"}}).status == 404
        assert old.stop() == 0
        until_status(200, lambda: newer.get(MIGRATIONS), "it serves what it has")
        assert is_served(newer, MIGRATIONS)
        claim(newer, "b")
        assert stored_version(etcd, "resource.k8s.io/resourceclaims", "b") == "resource.k8s.io/v1"
        assert rewrite(newer, etcd, "a") == "resource.k8s.io/v1"


def is_watched(api: Api, name: str) -> bool:
    """Make a migration while its type is watched. Returns whether the watch tells of it, or ends before."""
    with api.watch(f"{MIGRATIONS}?watch=1") as events:
        api.post(MIGRATIONS, {**MIGRATION, "metadata": {"name": name}}).ok()
        return any(event["object"]["metadata"].get("name") == name for event in events)


def test_an_older_one_may_come_back(tmp_path: Path, etcd: EtcdProcess) -> None:
    """As when an upgrade is given up after the first server."""
    with server(tmp_path, etcd, 36) as new, Api(new) as newer:
        claim(newer, "a")
        assert stored_version(etcd, "resource.k8s.io/resourceclaims", "a") == "resource.k8s.io/v1"
        newer.get(MIGRATIONS).ok()
        with server(tmp_path, etcd, 34) as old, Api(old) as older:
            assert not is_served(newer, MIGRATIONS)
            made = claim(newer, "b")
            assert stored_version(etcd, "resource.k8s.io/resourceclaims", "b") == "resource.k8s.io/v1beta2"
            assert older.get(f"{CLAIMS}/b").ok() == made
            assert rewrite(newer, etcd, "a") == "resource.k8s.io/v1beta2"
        until_status(200, lambda: newer.get(MIGRATIONS), "it serves what it has")
        assert is_watched(newer, "m")


def test_watches_continue_while_one_of_another_release_comes_and_goes(
    tmp_path: Path, etcd: EtcdProcess
) -> None:
    with server(tmp_path, etcd, 36) as new, Api(new) as newer:
        start = newer.get(CLAIMS).ok()["metadata"]["resourceVersion"]
        watched = f"{CLAIMS}?watch=1&resourceVersion={start}"
        with newer.watch(watched) as events:
            claim(newer, "before")
            with server(tmp_path, etcd, 34) as old, Api(old) as older:
                claim(newer, "beside")
                claim(older, "there")
                assert stored_version(etcd, "resource.k8s.io/resourceclaims", "beside") == (
                    "resource.k8s.io/v1beta2"
                )
            until_status(200, lambda: newer.get(MIGRATIONS), "it serves what it has")
            claim(newer, "after")
            assert stored_version(etcd, "resource.k8s.io/resourceclaims", "after") == "resource.k8s.io/v1"
            seen = [("ADDED", name) for name in ("before", "beside", "there", "after")]
            assert events.take(4) == seen
        # Also for a client whose connection has broken meanwhile.
        with newer.watch(watched) as events:
            assert events.take(4) == seen
        # Each time the cache is filled, all watches end, and their clients have to list again.
        assert metric(newer, "apiserver_watch_cache_initializations_total", resource="resourceclaims") == 1


def test_1_25_beside_1_24(tmp_path: Path, etcd: EtcdProcess) -> None:
    """1.24 stores for 1.23, which has only v1beta1; it has security policies, which 1.25 does not see."""
    policy = {
        each: {"rule": "RunAsAny"} for each in ("seLinux", "runAsUser", "supplementalGroups", "fsGroup")
    }
    policies = "/apis/policy/v1beta1/podsecuritypolicies"
    capacity = {"metadata": {"name": "a"}, "storageClassName": "fast"}
    with (
        server(tmp_path, etcd, 24) as old,
        server(tmp_path, etcd, 25) as new,
        Api(old) as older,
        Api(new) as newer,
    ):
        made = older.post(policies, {"metadata": {"name": "a"}, "spec": policy}).ok()
        assert newer.get(policies).status == 404
        newer.post(CAPACITIES.format("v1"), capacity).ok()
        where = "storage.k8s.io/csistoragecapacities"
        assert stored_version(etcd, where, "a") == "storage.k8s.io/v1beta1"
        for version in ("v1", "v1beta1"):
            shown = [api.get(f"{CAPACITIES.format(version)}/a").ok() for api in (older, newer)]
            assert shown[0] == shown[1]
        assert older.get(f"{policies}/a").ok() == made


@pytest.mark.slow  # It waits for as long as the record of a dead server may last.
def test_releases_without_a_version_in_common_do_not_share_a_store(tmp_path: Path, etcd: EtcdProcess) -> None:
    with server(tmp_path, etcd, 24):
        refused = server(tmp_path, etcd, 36).refusal()
    assert refused.code == 1
    assert "have no version of flowschemas.flowcontrol.apiserver.k8s.io in common" in refused.stderr
