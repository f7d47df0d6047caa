"""Reconcile functions in worker processes: what they end, and on which of several servers they run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from apiserver.auth.authn.extension_tokens import ExtensionTokens
from apiserver.auth.authn.service_account_keys import read_private_key
from tests.extensions.support import workers_of
from tests.support.api import Api
from tests.support.etcd_process import EtcdProcess, wheel_etcd
from tests.support.eventually import until
from tests.support.metrics import metric
from tests.support.objects import config_map
from tests.support.server_process import ServerProcess

FLAG: Final = "--extension=tests.extensions.modules.reconcilers"
CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
SECRETS: Final = "/api/v1/namespaces/default/secrets"
REVIEWS: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
# One that died cannot be replaced before the test is over.
LONG: Final = "--leader-elect-lease-duration=1h"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data", FLAG) as server:
        yield server


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdProcess]:
    with wheel_etcd(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd


def mark_of(api: Api, path: str) -> str:
    """Returns the process ID of the server that has reconciled an object."""

    def mark() -> Any:
        return (api.get(path).ok()["metadata"].get("annotations") or {}).get("server")

    return str(until(mark, what=f"{path} is reconciled"))


def test_functions_reconcile_whether_they_are_async_or_not(server: ServerProcess) -> None:
    with Api(server) as api:
        for path in (CONFIG_MAPS, SECRETS):
            for name in ("a", "b", "c"):
                api.post(path, {"metadata": {"name": name}}).ok()
            assert {mark_of(api, f"{path}/{name}") for name in ("a", "b", "c")} == {str(server.pid)}


def test_a_function_that_ends_its_worker_is_called_again_and_no_object_is_lost(server: ServerProcess) -> None:
    with Api(server) as api:
        for number in range(20):
            does = {"does": "leaves"} if number in (3, 7) else {}
            api.post(CONFIG_MAPS, config_map(f"a{number}", **does)).ok()
        for number in range(20):
            mark_of(api, f"{CONFIG_MAPS}/a{number}")
        assert metric(api, "apiserver_extension_worker_ends_total", extension="marks") >= 2


def test_a_function_that_never_returns_delays_its_object_and_no_other(server: ServerProcess) -> None:
    with Api(server) as api:
        api.post(CONFIG_MAPS, config_map("loops", does="loops")).ok()
        for name in ("a", "b"):
            api.post(CONFIG_MAPS, config_map(name)).ok()
            mark_of(api, f"{CONFIG_MAPS}/{name}")
        assert "annotations" not in api.get(f"{CONFIG_MAPS}/loops").ok()["metadata"]
        api.patch(f"{CONFIG_MAPS}/loops", {"data": None}, type="merge").ok()
        mark_of(api, f"{CONFIG_MAPS}/loops")
    assert "cannot reconcile default/loops, retrying in" in server.stderr


def test_objects_wait_for_a_worker_that_is_killed(server: ServerProcess) -> None:
    with Api(server) as api:
        for number in range(5):
            [worker] = [each for each in psutil.Process(server.pid).children() if _is_worker(each)]
            os.kill(worker.pid, signal.SIGKILL)
            api.post(CONFIG_MAPS, config_map(f"a{number}")).ok()
            mark_of(api, f"{CONFIG_MAPS}/a{number}")


def _is_worker(process: psutil.Process) -> bool:
    return "apiserver.extensions.worker" in process.cmdline()


@pytest.mark.parametrize("path", [CONFIG_MAPS, SECRETS])
def test_admission_functions_use_the_client_too(server: ServerProcess, path: str) -> None:
    with Api(server) as api:
        for name in ("a", "b"):
            api.post(path, {"metadata": {"name": name, "labels": {"budget": "yes"}}}).ok()
        refused = api.post(path, {"metadata": {"name": "c", "labels": {"budget": "yes"}}})
        assert refused.status == 403
        assert "over budget" in refused.message


def test_a_worker_loads_no_libraries_that_its_functions_do_not_need() -> None:
    """They take longer to import than most functions to run."""
    libraries = ("aiohttp", "http.client", "cryptography", "yaml", "apiserver.registry", "apiserver.wire")
    code = f"import sys, apiserver.extensions.worker; print({set(libraries)} & sys.modules.keys())"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "set()"


# ---- several servers


@pytest.mark.etcd
def test_only_the_leader_reconciles_until_it_stops(etcd: EtcdProcess, tmp_path: Path) -> None:
    with ExitStack() as stack:
        flags = (FLAG, LONG, f"--etcd-servers={etcd.url}", "--etcd-prefix=/replicas")
        leader, other = (
            stack.enter_context(ServerProcess(tmp_path / name, *flags).start()) for name in ("one", "two")
        )
        api = stack.enter_context(Api(other))
        for number in range(5):
            api.post(CONFIG_MAPS, config_map(f"a{number}")).ok()
        assert {mark_of(api, f"{CONFIG_MAPS}/a{number}") for number in range(5)} == {str(leader.pid)}
        assert leader.stop() == 0
        api.post(CONFIG_MAPS, config_map("b")).ok()
        assert mark_of(api, f"{CONFIG_MAPS}/b") == str(other.pid)


@pytest.mark.etcd
def test_only_one_worker_process_of_a_server_reconciles(etcd: EtcdProcess, tmp_path: Path) -> None:
    flags = (FLAG, LONG, "--workers=2", f"--etcd-servers={etcd.url}", "--etcd-prefix=/workers")
    with ServerProcess(tmp_path / "data", *flags) as server, Api(server) as api:
        for number in range(5):
            api.post(CONFIG_MAPS, config_map(f"a{number}")).ok()
        assert len({mark_of(api, f"{CONFIG_MAPS}/a{number}") for number in range(5)}) == 1


@pytest.mark.etcd
def test_a_hangup_signal_reloads_in_all_worker_processes(etcd: EtcdProcess, tmp_path: Path) -> None:
    flags = (FLAG, "--workers=2", f"--etcd-servers={etcd.url}", "--etcd-prefix=/hangup")
    with ServerProcess(tmp_path / "data", *flags) as server:
        before = until(lambda: workers_of(server), lambda found: len(found) == 2)
        os.kill(server.pid, signal.SIGHUP)
        until(lambda: workers_of(server), lambda found: len(found) == 2 and not found & before)


# ---- tokens


def token_of(server: ServerProcess) -> str:
    key = read_private_key((server.data_dir / "pki" / "sa.key").read_bytes())
    return ExtensionTokens(key, ()).issue("marks")


def test_the_token_of_an_extension_is_of_a_user_who_may_do_everything(server: ServerProcess) -> None:
    with Api(server, token_of(server)) as api:
        user = api.post(REVIEWS, {}).ok()["status"]["userInfo"]
        assert user["username"] == "system:extension:marks"
        assert {"system:masters", "system:extensions"} <= set(user["groups"])


def test_a_token_that_another_key_has_made_is_refused(server: ServerProcess) -> None:
    with Api(server, f"extension-marks.{'0' * 64}") as api:
        assert api.post(REVIEWS, {}).status == 401


def test_a_server_without_extensions_refuses_their_tokens(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server, Api(server, token_of(server)) as api:
        assert api.post(REVIEWS, {}).status == 401
