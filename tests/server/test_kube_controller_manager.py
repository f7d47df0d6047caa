"""What kubectl waits for is done by the server's own controllers, or by a kube-controller-manager beside it.

The same commands, once with `--controllers=*`, and once with `--controllers=-*` and the
kube-controller-manager that is on PATH; where there is none, these are skipped. Row A12, G08, I15.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.api import Api, until_status
from tests.support.eventually import WITHIN_S, until
from tests.support.kubectl import Kubectl, oldest_and_newest, program
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.slow

OWN, BESIDE = "own controllers", "kube-controller-manager"
# No kubelet renews the Lease of a node here, so that its pods would be evicted.
CONTROLLERS: Final = "--controllers=*,-node-lifecycle-controller,-taint-eviction-controller"
READY: Final = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
TIMEOUT: Final = f"--timeout={WITHIN_S:.0f}s"
_numbers: Final = itertools.count(1)


@contextmanager
def controller_manager(server: ServerProcess, log: Path) -> Iterator[None]:
    """Run the kube-controller-manager of this machine beside a server. Skips the test if there is none."""
    binary = shutil.which(BESIDE)
    if binary is None:
        pytest.skip(f"{BESIDE} is missing: it comes with Kubernetes, and has to be on PATH")
    keys = server.data_dir / "pki"
    command = [
        *(binary, f"--kubeconfig={server.kubeconfig}", "--secure-port=0", CONTROLLERS),
        *(f"--service-account-private-key-file={keys}/sa.key", f"--root-ca-file={keys}/ca.crt"),
        "--leader-elect-resource-lock=leases",
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield
        assert process.poll() is None, log.read_text()[-3000:]
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module", params=[OWN, BESIDE])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """A server, and controllers of either kind."""
    directory = tmp_path_factory.mktemp("controllers")
    if request.param == OWN:
        with ServerProcess(directory / "data", "--controllers=*") as server:
            yield server
        return
    with (
        ServerProcess(directory / "data", "--controllers=-*") as server,
        controller_manager(server, directory / "log"),
    ):
        yield server


@pytest.fixture
def api(cluster: ServerProcess) -> Iterator[Api]:
    with Api(cluster) as api:
        yield api


@pytest.fixture
def namespace(api: Api) -> str:
    name = f"n-{next(_numbers)}"
    api.post("/api/v1/namespaces", {"metadata": {"name": name}}).ok()
    # Whoever the controllers are, they are at work.
    until_status(200, lambda: api.get(f"/api/v1/namespaces/{name}/serviceaccounts/default"))
    return name


@pytest.fixture(params=oldest_and_newest()[-1:])
def kubectl(
    request: pytest.FixtureRequest, cluster: ServerProcess, namespace: str, tmp_path: Path
) -> Kubectl:
    return Kubectl(program(request.param), cluster.kubeconfig, namespace, tmp_path)


CASCADES: Final = {"background": 0, "foreground": 0, "orphan": 2}


@pytest.mark.parametrize(("cascade", "left"), CASCADES.items())
def test_dependents_go_or_stay(kubectl: Kubectl, api: Api, namespace: str, cascade: str, left: int) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    uid = api.post(path, {"metadata": {"name": "owner"}}).ok()["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid, "blockOwnerDeletion": True}
    for name in "ab":
        meta = {"name": name, "labels": {"is": "owned"}, "ownerReferences": [owner]}
        api.post(path, {"metadata": meta}).ok()
    waiting = kubectl.start("wait", "configmap/owner", "--for=delete", TIMEOUT)
    kubectl("delete", "configmap", "owner", f"--cascade={cascade}", TIMEOUT)
    said, errors = waiting.communicate(timeout=WITHIN_S)
    assert (waiting.returncode, errors) == (0, ""), said
    if not left:
        kubectl.run("wait", "configmap", "-l", "is=owned", "--for=delete", TIMEOUT)
    owned = api.get(f"{path}?labelSelector=is=owned").ok()["items"]
    assert len(owned) == left
    assert not any("ownerReferences" in each["metadata"] for each in owned)


def test_a_namespace_goes_with_all_that_is_in_it(kubectl: Kubectl, api: Api, namespace: str) -> None:
    kubectl("create", "configmap", "a")
    kubectl("create", "quota", "q", "--hard=configmaps=5")
    until(lambda: api.get(f"/api/v1/namespaces/{namespace}/resourcequotas/q").ok().get("status"))
    waiting = kubectl.start("wait", f"namespace/{namespace}", "--for=delete", TIMEOUT)
    kubectl.run("delete", "namespace", namespace, TIMEOUT)
    said, errors = waiting.communicate(timeout=WITHIN_S)
    assert (waiting.returncode, errors) == (0, ""), said
    assert api.get(f"/api/v1/namespaces/{namespace}/configmaps/a").status == 404


def test_a_node_is_drained_as_budgets_allow(kubectl: Kubectl, api: Api, namespace: str) -> None:
    """One of two pods may go; the other when there is no budget any more."""
    node = f"node-{namespace}"
    pods = f"/api/v1/namespaces/{namespace}/pods"
    api.post("/api/v1/nodes", {"metadata": {"name": node}}).ok()
    for name in "ab":
        spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
        api.post(pods, {"metadata": {"name": name, "labels": {"app": "web"}}, "spec": spec}).ok()
        api.patch(f"{pods}/{name}/status", {"status": READY}).ok()
    kubectl("create", "poddisruptionbudget", "b", "--selector=app=web", "--min-available=1")
    budget = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/b"
    until(lambda: (api.get(budget).ok().get("status") or {}).get("disruptionsAllowed") == 1)
    drain = ("drain", node, "--force", "--grace-period=0", "--pod-selector=app=web")
    refused = kubectl.run(*drain, "--timeout=2s")
    assert refused.returncode == 1
    assert "violate the pod's disruption budget" in refused.stderr
    assert len(api.get(pods).ok()["items"]) == 1
    kubectl("delete", "poddisruptionbudget", "b")
    drained = kubectl.run(*drain, TIMEOUT)
    assert (drained.returncode, api.get(pods).ok()["items"]) == (0, []), drained.stderr


@pytest.mark.parametrize("cluster", [BESIDE], indirect=True)
def test_a_rollout_is_carried_out(kubectl: Kubectl, api: Api, namespace: str) -> None:
    """The server itself has no controllers of workloads."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    api.post("/api/v1/nodes", {"metadata": {"name": f"node-{namespace}"}}).ok()
    kubectl("create", "deployment", "web", "--image=i", "--replicas=2")
    following = kubectl.start("rollout", "status", "deployment/web", TIMEOUT)

    def is_done() -> bool:
        """Does what a scheduler and a kubelet would do. Returns whether the rollout has ended."""
        for pod in api.get(pods).ok()["items"]:
            path = f"{pods}/{pod['metadata']['name']}"
            if not pod["spec"].get("nodeName"):
                target: dict[str, Any] = {"kind": "Node", "name": f"node-{namespace}"}
                meta = {"name": pod["metadata"]["name"]}
                api.post(f"{path}/binding", {"metadata": meta, "target": target}).ok()
                api.patch(f"{path}/status", {"status": READY}).ok()
        return following.poll() is not None

    until(is_done)
    said, errors = following.communicate(timeout=WITHIN_S)
    assert said.endswith('deployment "web" successfully rolled out\n'), errors
    kubectl("delete", "deployment", "web", "--cascade=foreground", TIMEOUT)
    until(lambda: api.get(pods).ok()["items"] == [])
