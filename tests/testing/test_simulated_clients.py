"""kubectl and client libraries read logs, run commands and forward ports of simulated pods.

Source: k8s.io/kubernetes, pkg/kubelet/server; k8s.io/cri-streaming; k8s.io/client-go, tools/remotecommand and
tools/portforward.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import io
import json
import socket
import tarfile
import threading
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from apiserver.testing import ApiServer
from tests.support.eventually import WITHIN_S, eventually
from tests.support.kubectl import Kubectl, oldest_and_newest, program
from tests.support.required import library
from tests.testing.simulated import run_pod, simulating
from tests.testing.streams import COMMANDS, ERROR, STDOUT, log, shell

original = simulating()


@pytest.fixture
def kubectl(request: pytest.FixtureRequest, server: ApiServer, tmp_path: Path) -> Kubectl:
    return Kubectl(program(request.param), server.kubeconfig, "default", tmp_path)


@pytest.mark.parametrize("kubectl", oldest_and_newest(), indirect=True)
def test_kubectl(server: ApiServer, kubectl: Kubectl, echo: int, tmp_path: Path) -> None:
    """The oldest uses SPDY, the newest WebSocket."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        (content := tarfile.TarInfo("report")).size = 4
        archive.addfile(content, io.BytesIO(b"done"))
    commands = [each for each in COMMANDS if each["command"] != "tar cf - /report"]
    commands.append(
        {"command": "tar cf - /report", "stdoutBase64": base64.b64encode(packed.getvalue()).decode()}
    )
    run_pod(server, {"log": "one\ntwo\n", "commands": commands, "ports": {80: f"127.0.0.1:{echo}"}})
    assert kubectl("logs", "p", "--tail=1") == "two\n"
    assert kubectl("exec", "p", "--", "uptime") == "up 3 days\n"
    assert kubectl("exec", "-i", "p", "--", "cat", stdin="hello") == "hello"
    failed = kubectl.run("exec", "p", "--", "sh", "-c", "echo a; exit 3")
    assert (failed.returncode, failed.stdout) == (3, "a\n")
    unknown = kubectl.run("exec", "p", "--", "reboot")
    assert (unknown.returncode, "cannot run the command" in unknown.stderr) == (1, True)
    kubectl("cp", "p:/report", str(tmp_path / "report"))
    assert (tmp_path / "report").read_text() == "done"
    kubectl("cp", str(tmp_path / "report"), "p:/tmp/report")
    with kubectl.start("port-forward", "pod/p", ":80") as forwarding:
        assert forwarding.stdout is not None
        try:
            port = int(forwarding.stdout.readline().split("127.0.0.1:")[1].split(" ")[0])
            for _ in range(2):
                with socket.create_connection(("127.0.0.1", port), WITHIN_S) as connection:
                    connection.sendall(b"hello")
                    assert connection.recv(65_536) == b"HELLO"
        finally:
            forwarding.terminate()


@pytest.mark.parametrize("kubectl", oldest_and_newest(), indirect=True)
def test_kubectl_runs_a_pod_and_attaches_to_it(server: ApiServer, kubectl: Kubectl) -> None:
    annotations = json.dumps({"metadata": {"annotations": {"simulate.apiserver/duration": "4s"}}})
    once = ("--restart=Never", "--image=busybox", f"--overrides={annotations}")
    end = kubectl.run("run", "p", "-i", *once, "--command", "--", "cat", stdin="hello")
    assert (end.returncode, end.stdout) == (0, "hello")


def test_the_commands_of_the_clients_own_tests(tmp_path: Path) -> None:
    """With the stages that docs/testing/simulated-pods.md shows."""
    page = (Path(__file__).parents[2] / "docs" / "testing" / "simulated-pods.md").read_text()
    stages = tmp_path / "clients.yaml"
    stages.write_text(page.partition("```yaml\n# clients.yaml\n")[2].partition("```")[0])
    with ApiServer(flags=["--simulate-nodes=1", f"--simulate-stages={stages}"]) as server:
        run_pod(server, containers=[{"name": name, "image": "i"} for name in ("sleep", "main", "sidecar")])
        for container, script, output in (
            ("sleep", "for i in $(seq 1 3); do date; done", b"now\nnow\nnow\n"),
            ("main", 'printf %s "$TARGET_CONTAINER"', b"main"),
            ("sidecar", 'printf %s "$TARGET_CONTAINER"', b"sidecar"),
        ):
            query = f"&container={container}"
            with shell(server, "/bin/sh", "-c", script, streams="stdout", query=query) as session:
                assert session.rest()[STDOUT] == output
        packing = 'echo -n "This is a test string" | gzip'
        with shell(server, "sh", "-c", packing, streams="stdout", query="&container=sleep") as session:
            assert gzip.decompress(session.rest()[STDOUT]) == b"This is a test string"
        with shell(server, "uptime", streams="stdout", query="&container=sleep") as session:
            assert session.rest()[STDOUT] == b"up 3 days\n"
        assert log(server, "container=main") == (200, "this is a test\n")


def test_kubernetes(server: ApiServer, echo: int) -> None:
    """As its own end-to-end tests do."""
    kubernetes, streaming = library("kubernetes"), library("kubernetes.stream")
    run_pod(server, {"commands": COMMANDS, "log": "one\ntwo\n", "ports": {80: f"127.0.0.1:{echo}"}})
    with kubernetes.config.new_client_from_config(str(server.kubeconfig)) as client:
        core = kubernetes.client.CoreV1Api(client)
        run = core.connect_get_namespaced_pod_exec
        out = {"stdin": False, "stdout": True, "stderr": True, "tty": False}
        session = streaming.stream(run, "p", "default", command=["uptime"], **out, _preload_content=False)
        session.run_forever(timeout=WITHIN_S)
        assert (session.read_stdout(), session.returncode) == ("up 3 days\n", 0)
        session.sock.shutdown()  # `close` leaves it open once the server has closed
        session = streaming.stream(
            run, "p", "default", command=["/bin/sh"], **{**out, "stdin": True}, _preload_content=False
        )
        session.write_stdin("echo one\n")
        assert session.readline_stdout(timeout=WITHIN_S) == "one"
        session.write_stdin("exit 3\n")
        session.run_forever(timeout=WITHIN_S)
        assert session.returncode == 3
        session.sock.shutdown()
        # As operators of Airflow follow a pod.
        answer = core.read_namespaced_pod_log("p", "default", tail_lines=1, _preload_content=False)
        assert b"".join(answer.stream()) == b"two\n"
        forwarding = streaming.portforward(
            core.connect_get_namespaced_pod_portforward, "p", "default", ports="80,81"
        )
        connection = forwarding.socket(80)
        connection.setblocking(True)
        connection.sendall(b"hello")
        assert connection.recv(1_024) == b"HELLO"
        other = forwarding.socket(81)
        other.setblocking(True)
        assert other.recv(1_024) == b""
        assert "contain an address for this port" in forwarding.error(81)
        connection.close()
        other.close()
        for thread in threading.enumerate():
            if thread.name.startswith("Kubernetes port forward proxy"):
                thread.join(WITHIN_S)
        forwarding.websocket.shutdown()  # which it leaves open if the server is first to close it


def test_lightkube(server: ApiServer) -> None:
    lightkube, pods = library("lightkube"), library("lightkube.resources.core_v1")
    run_pod(server, {"commands": COMMANDS, "log": "one\n"})
    client = lightkube.Client(lightkube.KubeConfig.from_file(server.kubeconfig))
    assert pods.Pod is not None
    assert list(client.log("p")) == ["one\n"]
    run = client.exec("p", command=["/bin/cat"], stdin="hello", stdout=True)
    assert (run.stdout, run.exit_code) == ("hello", 0)
    failed = client.exec("p", command=["fail", "x"], stdout=True, stderr=True)
    assert (failed.stdout, failed.stderr, failed.exit_code) == ("out", "err", 7)


@pytest.mark.filterwarnings("ignore:Kubernetes version .* is not supported:UserWarning")
def test_kr8s(server: ApiServer, echo: int) -> None:
    kr8s, objects = library("kr8s"), library("kr8s.objects")
    run_pod(server, {"commands": COMMANDS, "log": "one\ntwo\n", "ports": {80: f"127.0.0.1:{echo}"}})
    api = kr8s.api(kubeconfig=str(server.kubeconfig))
    pod = objects.Pod.get("p", api=api)
    assert list(pod.logs()) == ["one", "two"]
    assert pod.exec(["uptime"]).stdout == b"up 3 days\n"
    assert pod.exec(["fail", "x"], check=False).returncode == 7
    with (
        pod.portforward(80, address="127.0.0.1") as port,
        socket.create_connection(("127.0.0.1", port)) as client,
    ):
        client.sendall(b"hello")
        assert client.recv(1_024) == b"HELLO"


async def test_kubernetes_asyncio(server: ApiServer) -> None:
    asyncio_client, config = library("kubernetes_asyncio.client"), library("kubernetes_asyncio.config")
    streaming = library("kubernetes_asyncio.stream")
    await asyncio.to_thread(run_pod, server, {"commands": COMMANDS})
    configuration = asyncio_client.Configuration()
    await config.load_kube_config(str(server.kubeconfig), client_configuration=configuration)
    async with streaming.WsApiClient(configuration) as client:
        run = asyncio_client.CoreV1Api(client).connect_get_namespaced_pod_exec
        out = {"stdin": False, "stdout": True, "stderr": True, "tty": False}
        assert await run("p", "default", command="uptime", **out) == "up 3 days\n"
        async with await run("p", "default", command=["false"], **out, _preload_content=False) as session:
            told = [message.data[1:] async for message in session if message.data[0] == ERROR]
        assert client.parse_error_data(told[-1]) == 1
    # aiohttp does not wait until its connections are closed: a loop that ends before would leave them open.
    port = urlsplit(server.url).port
    await eventually(
        lambda: not any(each.raddr and each.raddr.port == port for each in psutil.Process().net_connections())
    )
