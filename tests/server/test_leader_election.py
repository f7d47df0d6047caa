"""Of several servers on one etcd, one runs the controllers that must not run twice, until it goes.

https://kubernetes.io/docs/concepts/architecture/leases/
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.support.api import Api, until_status
from tests.support.etcd_process import EtcdProcess
from tests.support.eventually import until
from tests.support.metrics import metric, metrics_of
from tests.support.objects import deployment
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.etcd

LEASE: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/apiserver-controllers"
# One that died cannot be replaced before the test is over.
LONG: Final = ("--leader-elect-lease-duration=1h",)
SHORT: Final = (
    "--leader-elect-lease-duration=1s",
    "--leader-elect-renew-deadline=700ms",
    "--leader-elect-retry-period=100ms",
)
_STATUS: Final = "leader_election_master_status"


@contextmanager
def servers(
    etcd: EtcdProcess, directory: Path, *flags: Sequence[str]
) -> Iterator[list[tuple[ServerProcess, Api]]]:
    """Servers on a store of their own, one for each sequence of flags, which start one after another."""
    store = (f"--etcd-servers={etcd.url}", f"--etcd-prefix=/{directory.name}")
    with ExitStack() as stack:
        found = []
        for number, more in enumerate(flags):
            process = stack.enter_context(ServerProcess(directory / str(number), *store, *more))
            found.append((process, stack.enter_context(Api(process))))
            until(lambda: sum(leads(api) for _, api in found) == 1, what="one leads")
        yield found


def leads(api: Api) -> int:
    """Whether a server leads, as its metrics say; for several workers, how many of them."""
    return int(metric(api, _STATUS, name="apiserver-controllers"))


def delete_namespace(api: Api, name: str) -> str:
    path = f"/api/v1/namespaces/{name}"
    api.post("/api/v1/namespaces", {"metadata": {"name": name}}).ok()
    api.post(f"{path}/configmaps", {"metadata": {"name": "a"}}).ok()
    api.delete(path).ok()
    return path


def await_gone(api: Api, path: str) -> None:
    until_status(404, lambda: api.get(path), f"{path} is gone")


def test_a_leader_that_is_stopped_hands_over(etcd: EtcdProcess, tmp_path: Path) -> None:
    with servers(etcd, tmp_path, LONG, LONG) as [(first, one), (_, two)]:
        assert (leads(one), leads(two)) == (1, 0)
        before = two.get(LEASE).ok()["spec"]
        assert first.stop() == 0
        await_gone(two, delete_namespace(two, "later"))
        after = two.get(LEASE).ok()["spec"]
        assert leads(two) == 1
        assert after["holderIdentity"] != before["holderIdentity"]
        assert after["leaseTransitions"] == before["leaseTransitions"] + 1


def by_leadership(pair: list[tuple[ServerProcess, Api]]) -> list[tuple[ServerProcess, Api]]:
    """The two servers, the leader first, once there is one."""
    until(lambda: sum(leads(api) for _, api in pair) == 1, what="one of them leads")
    return sorted(pair, key=lambda one: -leads(one[1]))


def test_another_goes_on_where_a_leader_has_died(etcd: EtcdProcess, tmp_path: Path) -> None:
    with servers(etcd, tmp_path, SHORT, SHORT) as pair:
        (leader, of_leader), (_, other) = by_leadership(pair)
        path = delete_namespace(of_leader, "begun")
        leader.kill()
        await_gone(other, path)
        until(lambda: leads(other) == 1, what="the other leads")


@pytest.mark.slow
def test_a_leader_that_was_suspended_finds_out(etcd: EtcdProcess, tmp_path: Path) -> None:
    """It does not know that it leads no more."""
    with servers(etcd, tmp_path, SHORT, SHORT) as pair:
        (leader, of_leader), (_, other) = by_leadership(pair)
        leader.send_signal(signal.SIGSTOP)
        try:
            until(lambda: leads(other) == 1, what="the other leads")
            await_gone(other, delete_namespace(other, "meanwhile"))
        finally:
            leader.send_signal(signal.SIGCONT)
        until(lambda: leads(of_leader) + leads(other) == 1, what="one of them leads")


def test_one_worker_leads(etcd: EtcdProcess, tmp_path: Path) -> None:
    with servers(etcd, tmp_path, (*LONG, "--workers=2")) as [(_, api)]:
        await_gone(api, delete_namespace(api, "gone"))
        assert leads(api) == 1


def test_no_lease_without_an_election(etcd: EtcdProcess, tmp_path: Path) -> None:
    flags = ("--leader-elect=false", f"--etcd-servers={etcd.url}", f"--etcd-prefix=/{tmp_path.name}")
    with ServerProcess(tmp_path / "data", *flags) as server, Api(server) as api:
        await_gone(api, delete_namespace(api, "gone"))
        assert f"{_STATUS}{{" not in metrics_of(api)
        assert api.get(LEASE).status == 404


def test_the_embedded_store_needs_no_lease(api: Api) -> None:
    await_gone(api, delete_namespace(api, "leader-election"))
    assert api.get(LEASE).status == 404


SIMULATION: Final = ("--simulate-nodes=2", "--simulate-workloads")
DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/default/deployments"


def test_one_server_simulates_and_another_goes_on(etcd: EtcdProcess, tmp_path: Path) -> None:
    """No pod is created twice, or lost, where the leader dies while it creates them."""
    with servers(etcd, tmp_path, (*SHORT, *SIMULATION), (*SHORT, *SIMULATION)) as pair:
        (leader, _), (_, other) = by_leadership(pair)

        def ready() -> int:
            status = other.get(f"{DEPLOYMENTS}/web").ok().get("status", {})
            count: int = status.get("readyReplicas", 0)
            return count

        other.post(DEPLOYMENTS, deployment("web", replicas=2)).ok()
        until(lambda: ready() == 2, what="two pods are ready")
        other.patch(f"{DEPLOYMENTS}/web", {"spec": {"replicas": 40}}).ok()
        leader.kill()
        until(lambda: ready() == 40, what="forty pods are ready")
        assert len(other.get("/api/v1/namespaces/default/pods").ok()["items"]) == 40
