"""Simulated pods have logs, which can be followed.

Source: k8s.io/kubernetes, pkg/kubelet/server; k8s.io/cri-streaming; k8s.io/client-go, tools/remotecommand and
tools/portforward.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from apiserver.testing import ApiServer
from tests.testing.simulated import PODS, add_pod, await_phase, is_ready, restarts, run_pod, simulating
from tests.testing.streams import followed, log

original = simulating()


LOGS: Final = {
    "all": ("", "one\ntwo\nthree\n"),
    "the last lines": ("tailLines=2", "two\nthree\n"),
    "some bytes": ("limitBytes=6", "one\ntw"),
    "since some seconds": ("sinceSeconds=3600", "one\ntwo\nthree\n"),
    "since the future": ("sinceTime=2999-01-01T00:00:00Z", ""),
    "not of another run": ("previous=false&follow=false", "one\ntwo\nthree\n"),
}


def test_logs(server: ApiServer) -> None:
    run_pod(server, {"log": "one\ntwo\nthree\n"})
    assert {name: log(server, query) for name, (query, _) in LOGS.items()} == {
        name: (200, text) for name, (_, text) in LOGS.items()
    }
    times = [line.partition(" ")[0] for line in log(server, "timestamps=true")[1].splitlines()]
    assert times == sorted(set(times))
    assert log(server, f"sinceTime={times[0][:19]}Z&tailLines=1") == (200, "three\n")


def test_a_log_of_which_nothing_is_said_is_empty(server: ApiServer) -> None:
    run_pod(server)
    assert log(server) == (200, "")


def test_logs_of_several_containers(server: ApiServer) -> None:
    containers: list[dict[str, Any]] = [{"name": name, "image": "i"} for name in ("c", "d", "e")]
    containers[2] |= {"command": ["sh", "-c", "echo of its own; cat /etc/x"]}
    inits: list[dict[str, Any]] = [
        {"name": "i", "image": "i", "command": ["echo", "$(NAME)"], "env": [{"name": "NAME", "value": "n"}]}
    ]
    run_pod(server, {"log": "of all", "log.d": "of d"}, containers=containers, initContainers=inits)
    ephemeral = {"ephemeralContainers": [{"name": "f", "image": "i", "command": ["echo", "late"]}]}
    headers = {"Content-Type": "application/strategic-merge-patch+json"}
    path = f"{PODS}/p/ephemeralcontainers"
    assert server.request("PATCH", path, {"spec": ephemeral}, headers=headers)[0] == 200
    server.wait_for(
        "Pod",
        "p",
        "default",
        until=lambda it: it["status"]["ephemeralContainerStatuses"][0]["state"]["running"],
    )
    # What is annotated for all is not for init containers.
    found = {name: log(server, f"container={name}")[1] for name in "cdeif"}
    assert found == {"c": "of all", "d": "of d", "e": "of all", "i": "n\n", "f": "of all"}


def test_logs_of_the_runs_of_a_container(tmp_path: Path) -> None:
    stages = tmp_path / "stages.yaml"
    stages.write_text(
        'stages: [{times: 1, phase: Failed, log: "no database\\n"}, {phase: Running, log: "ready\\n"}]'
    )
    with ApiServer(flags=["--simulate-nodes=1", f"--simulate-stages={stages}"]) as server:
        add_pod(server)
        # Its first run may be ready for a moment before it fails.
        server.wait_for("Pod", "p", "default", until=lambda it: restarts(it) > 0 and is_ready(it))
        assert log(server) == (200, "ready\n")
        assert log(server, "previous=true") == (200, "no database\n")


def test_a_log_is_followed_until_its_container_ends(server: ApiServer) -> None:
    ends = {"duration": "2s", "exit-code": "1"}
    run_pod(
        server, {"log": "one\ntwo\nthree\nfour\nfive\n", "log-interval": "1s", **ends}, restartPolicy="Never"
    )
    with followed(server, "tailLines=10") as response:
        assert response.read() == b"one\ntwo\nthree\n"
    await_phase(server, "p", "Failed")
    assert log(server) == (200, "one\ntwo\nthree\n")


def test_a_log_is_followed_until_its_pod_is_gone(server: ApiServer) -> None:
    run_pod(server, {"log": "one\n"})
    with followed(server) as response:
        assert response.readline() == b"one\n"
        assert server.request("DELETE", f"{PODS}/p?gracePeriodSeconds=0")[0] == 200
        assert response.read() == b""


def test_a_log_that_grows_is_followed(server: ApiServer) -> None:
    """A test writes to it by changing the annotation."""
    run_pod(server, {"log": "one\n"})
    with followed(server) as response:
        assert response.readline() == b"one\n"
        change = {"metadata": {"annotations": {"simulate.apiserver/log": "one\ntwo\n"}}}
        headers = {"Content-Type": "application/merge-patch+json"}
        assert server.request("PATCH", f"{PODS}/p", change, headers=headers)[0] == 200
        assert response.readline() == b"two\n"


def test_a_log_follows_the_servers_clock(server: ApiServer) -> None:
    run_pod(server, {"log": "one\ntwo\n", "log-interval": "1h"})
    with followed(server) as response:
        assert response.readline() == b"one\n"
        server.clock.advance(hours=1)
        assert response.readline() == b"two\n"


def test_a_followed_log_is_cut_off_at_its_limit(server: ApiServer) -> None:
    run_pod(server, {"log": "one\ntwo\n"})
    with followed(server, "limitBytes=5") as response:
        assert response.read() == b"one\nt"


def test_logs_by_stream() -> None:
    flags = ["--simulate-nodes=1", "--feature-gates=PodLogsQuerySplitStreams=true"]
    with ApiServer(flags=flags) as server:
        run_pod(server, {"log": "out\n", "log-stderr": "err\n"})
        found = {stream: log(server, f"stream={stream}") for stream in ("All", "Stdout", "Stderr")}
        assert found == {"All": (200, "out\nerr\n"), "Stdout": (200, "out\n"), "Stderr": (200, "err\n")}
        assert log(server, "stream=None")[0] == 422
