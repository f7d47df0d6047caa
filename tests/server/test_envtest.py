"""`apiserver envtest-assets` serves every version of envtest, and its ports to other languages."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import psutil
import pytest

from tests.support.envtest import (
    CONTRACTS,
    Contract,
    ControlPlane,
    DidNotStart,
    kubectl_sees_the_namespace,
    link_real_programs,
)
from tests.support.etcd_process import wheel_etcd
from tests.support.eventually import WITHIN_S, until
from tests.support.objects import pod
from tests.support.required import KUBECTL, missing

NEWEST: Final = "controller-runtime 0.24"
POD: Final = pod()
PODS: Final = "/api/v1/namespaces/default/pods"


def make_assets(directory: Path, *options: str) -> Path:
    command = [sys.executable, "-m", "apiserver", "envtest-assets", *options, str(directory)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=WITHIN_S).stdout
    return Path(printed.rstrip("\n"))


@pytest.fixture(scope="module")
def assets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_assets(tmp_path_factory.mktemp("envtest") / "a folder's name")


def works(plane: ControlPlane) -> None:
    """What a suite does first: it waits for the namespace, and then creates what it likes."""
    until(
        lambda: plane.ask("GET", "/api/v1/namespaces/default").status,
        lambda status: status == 200,
        "the namespace is there",
    )
    assert plane.ask("POST", PODS, POD).status == 201
    assert [pod["metadata"]["name"] for pod in plane.ask("GET", PODS).json["items"]] == ["p"]
    service = plane.ask("GET", "/api/v1/namespaces/default/services/kubernetes").json
    assert service["spec"]["clusterIP"] == "10.0.0.1"


@pytest.mark.parametrize(
    "contract",
    [
        pytest.param(contract, id=name, marks=[] if name == NEWEST else [pytest.mark.slow])
        for name, contract in CONTRACTS.items()
    ],
)
def test_every_version_starts_and_stops_it(contract: Contract, assets: Path, tmp_path: Path) -> None:
    if contract.is_self_signed and shutil.which("kubectl") is None:
        missing("kubectl", KUBECTL)
    # It runs where the tests are, whose folders may have any names.
    (tmp_path / "apiserver").mkdir()
    (tmp_path / "apiserver" / "__init__.py").write_text("raise SystemExit('this is not the server')")
    with ControlPlane(assets, contract, tmp_path) as plane:
        if contract.is_self_signed:
            until(lambda: kubectl_sees_the_namespace(plane), what="kubectl sees it")
        works(plane)
        plane.stop()
        assert not any(map(psutil.pid_exists, plane.pids))
    assert "Traceback" not in plane.output
    # The library removes its directories, and there is nothing else.
    assert {path.name for path in tmp_path.iterdir()} <= {
        "admin.crt",
        "admin.key",
        "apiserver",
        "certs",
        "data",
    }
    shutil.rmtree(tmp_path / "certs")


@pytest.mark.slow
def test_a_server_stops_while_somebody_watches(assets: Path, tmp_path: Path) -> None:
    """Controllers of the suite often go on: envtest would report that the server cannot be stopped."""
    with ControlPlane(assets, CONTRACTS[NEWEST], tmp_path) as plane:
        address = f"https://127.0.0.1:{plane.places['secure']}"
        kubectl = shutil.which("kubectl") or missing("kubectl", KUBECTL)
        credentials = (
            f"--client-certificate={plane.admin}",
            f"--client-key={plane.admin.with_suffix('.key')}",
        )
        command = [kubectl, f"--server={address}", "--insecure-skip-tls-verify", *credentials]
        with subprocess.Popen(
            [*command, "get", "namespaces", "--watch", "-o", "name"], stdout=subprocess.PIPE, text=True
        ) as watching:
            assert watching.stdout is not None
            assert watching.stdout.readline().startswith("namespace/")
            plane.stop()


@pytest.mark.slow
def test_a_restarted_server_is_empty(assets: Path, tmp_path: Path) -> None:
    """Its objects were in memory, while the stand-in for etcd went on."""
    plane = ControlPlane(assets, CONTRACTS[NEWEST], tmp_path)
    with plane:
        works(plane)
        plane.restart_server()
        assert plane.ask("GET", PODS).json["items"] == []


@pytest.mark.etcd
@pytest.mark.slow
def test_a_real_etcd_keeps_what_a_server_stores(tmp_path: Path) -> None:
    binary = wheel_etcd(tmp_path).binary
    assets = make_assets(tmp_path / "assets", "--etcd", str(binary))
    (tmp_path / "run").mkdir()
    with ControlPlane(assets, CONTRACTS[NEWEST], tmp_path / "run") as plane:
        works(plane)
        plane.restart_server()
        assert [pod["metadata"]["name"] for pod in plane.ask("GET", PODS).json["items"]] == ["p"]
        plane.stop()


@pytest.mark.slow
def test_an_emulated_release(tmp_path: Path) -> None:
    assets = make_assets(tmp_path / "assets", "--emulated-version", "1.30")
    (tmp_path / "run").mkdir()
    with ControlPlane(assets, CONTRACTS[NEWEST], tmp_path / "run") as plane:
        assert plane.ask("GET", "/version").json["minor"] == "30"


def test_a_server_that_cannot_start_ends(assets: Path, tmp_path: Path) -> None:
    """envtest sees that the process has ended, and does not wait until its time is up."""
    newest = CONTRACTS[NEWEST]
    contract = replace(newest, server_flags=(*newest.server_flags, "--no-such-flag=1"))
    with pytest.raises(DidNotStart, match="unknown flag: --no-such-flag"):  # noqa: SIM117
        with ControlPlane(assets, contract, tmp_path):
            pass


INSECURE: Final = {
    "an address that others reach": (
        ["--insecure-port=18080", "--insecure-bind-address=0.0.0.0"],
        (
            "--insecure-bind-address: 0.0.0.0 is not a loopback address, but all clients of this port are "
            "administrators"
        ),
    ),
    "no port": (["--insecure-port=http"], "argument --insecure-port: 'http' is not a port"),
}


@pytest.mark.parametrize(("flags", "message"), INSECURE.values(), ids=INSECURE)
def test_an_insecure_port_that_is_refused(assets: Path, flags: list[str], message: str) -> None:
    end = subprocess.run(
        [assets / "kube-apiserver", *flags], capture_output=True, text=True, check=False, timeout=WITHIN_S
    )
    assert (end.returncode, end.stderr) == (2, f"kube-apiserver: {message}\n")


# ---- figures


@pytest.mark.slow
@pytest.mark.parametrize("whose", ["ours", "the real one"])
def test_figures(whose: str, assets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a start costs, for comparison with kube-apiserver where there is one: it is printed."""
    directory, programs = tmp_path / "run", tmp_path / "programs"
    directory.mkdir()
    programs.mkdir()
    if whose == "ours":
        programs = assets
    elif not link_real_programs(programs):
        pytest.skip("there are no kube-apiserver and etcd on PATH to compare with")
    began = time.monotonic()
    with ControlPlane(programs, CONTRACTS[NEWEST], directory) as plane:
        told = [f"{whose}: ready in {time.monotonic() - began:.2f} s"]
        for name, pid in zip(("etcd", "kube-apiserver"), plane.pids, strict=True):
            process = psutil.Process(pid)
            cpu_s, mib = sum(process.cpu_times()[:2]), process.memory_info().rss >> 20
            told.append(f"{name} {cpu_s:.2f} s of processor time, {mib} MiB")
        works(plane)
        told += [f"{name} stops in {took:.2f} s" for name, took in plane.stop().items()]
    with capsys.disabled():
        print(f"\n{'; '.join(told)}")
