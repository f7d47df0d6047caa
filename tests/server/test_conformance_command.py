"""`apiserver conformance` on a server: ways to reach it, what is counted, and what is left behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import pytest

from apiserver.cli.conformance import command
from apiserver.cli.conformance.command import FAILED, PASSED, UNUSABLE
from tests.references import conformance_counts
from tests.support.api import Api, names_in, until_status
from tests.support.eventually import WITHIN_S, until
from tests.support.server_process import ServerProcess
from tests.test_conformance import MAX_WAIT_S, expected_failures, flags

NAMESPACES: Final = "/api/v1/namespaces"
# Conversations of alice, and with impersonation and webhooks.
AREAS: Final = ("--area=auth", "--area=health", "--scenario=webhooks/deny-*")
SLOW_WEBHOOK: Final = "webhooks/timeout"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("conformance")
    with ServerProcess(directory / "data", *flags(directory)) as server:
        yield server


@pytest.fixture
def access(server: ServerProcess, request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """Flags by which a server is reached as an administrator."""
    token = tmp_path / "token"
    token.write_text("admin-token\n")
    ways: dict[str, list[str]] = {
        "kubeconfig": [f"--kubeconfig={server.kubeconfig}"],
        "token file": [
            f"--server={server.url}",
            f"--token-file={token}",
            f"--certificate-authority={server.ca_path}",
        ],
        "tokens": [
            f"--server={server.url}",
            "--token=admin-token",
            "--token-alice=alice-token",
            "--insecure-skip-tls-verify",
        ],
    }
    return ways[getattr(request, "param", "tokens")]


def run(*arguments: str) -> int:
    return command.run([f"--max-wait={MAX_WAIT_S}", *arguments])


def results(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in json.loads(capsys.readouterr().out)["conversations"]}


@pytest.mark.parametrize("access", ["kubeconfig", "token file", "tokens"], indirect=True)
def test_ways_to_reach_a_server(access: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*access, *AREAS, "-o", "json") == FAILED
    found = results(capsys)
    # The user of the kubeconfig is not called admin.
    other_name = {"auth/self-subject-review"} if len(access) == 1 else set()
    failed = {name for name, each in found.items() if each["outcome"] == "failed"}
    assert failed == {"auth/self-subject-access-review"} | other_name
    skipped = {name for name, each in found.items() if each["outcome"] == "skipped"}
    assert skipped == (set() if "--token-alice=alice-token" in access else {"auth/impersonation-forbidden"})


def test_nothing_is_left_behind(server: ServerProcess, access: list[str]) -> None:
    with Api(server) as api:
        before = names_in(api, NAMESPACES)
        assert run(*access, "--area=rv", "--scenario=webhooks/deny-*") == FAILED
        assert names_in(api, NAMESPACES) == before
        for kind in ("mutating", "validating"):
            path = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations"
            assert names_in(api, path) == []


def test_what_passes(access: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*access, "--area=health") == PASSED
    first, _, *table = capsys.readouterr().out.splitlines()
    assert first.endswith("compared with kube-apiserver v1.36.2")
    assert table == [
        "AREA     PASSED   FAILED   SKIPPED",
        *(f"{name}        6        0         0" for name in ("health", "total ")),
    ]


def test_junit(access: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*access, "--scenario=rv/get-invalid", "--output=junit") == FAILED
    root = ElementTree.fromstring(capsys.readouterr().out)
    (failure,) = root.iter("failure")
    assert failure.get("message") == "step 2: status: expected 500, got 400"


def test_html(access: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*access, "--scenario=rv/get-invalid", "--output=html") == FAILED
    assert "<li>step 2: status: expected 500, got 400</li>" in capsys.readouterr().out


def test_a_user_without_permissions(server: ServerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    reached = (f"--server={server.url}", f"--certificate-authority={server.ca_path}")
    assert run(*reached, "--token=alice-token") == UNUSABLE
    assert "does not have all permissions" in capsys.readouterr().err
    assert run(*reached, "--token=wrong") == UNUSABLE
    assert "does not accept the credentials of the command line: Unauthorized" in capsys.readouterr().err


def test_a_certificate_that_is_not_trusted(server: ServerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"--server={server.url}", "--token=admin-token") == UNUSABLE
    assert "certificate is not trusted: " in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_cleans_up(server: ServerProcess, access: list[str], number: signal.Signals) -> None:
    with Api(server) as api:
        before = names_in(api, NAMESPACES)
        program = [sys.executable, "-m", "apiserver", "conformance", *access, f"--scenario={SLOW_WEBHOOK}"]
        with subprocess.Popen(program, stderr=subprocess.PIPE, text=True) as process:
            until(lambda: names_in(api, NAMESPACES) != before)
            process.send_signal(number)
            _, errors = process.communicate(timeout=WITHIN_S)
        assert process.returncode == 128 + number
        assert errors == "apiserver: interrupted\n"
        assert names_in(api, NAMESPACES) == before


def test_controllers_are_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ServerProcess(tmp_path / "data", "--controllers=*") as server, Api(server) as api:
        until_status(200, lambda: api.get("/api/v1/namespaces/default/configmaps/kube-root-ca.crt"))
        assert run(f"--kubeconfig={server.kubeconfig}", "--area=health") == PASSED
    assert "\nThe server has controllers, but the recorded server had none: " in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.longest
def test_the_published_table_is_what_it_counts(access: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*access, "-o", "json") == FAILED
    document = json.loads(capsys.readouterr().out)
    failed = {each["name"] for each in document["conversations"] if each["outcome"] == "failed"}
    assert failed == expected_failures()
    assert document["areas"] == {area: each._asdict() for area, each in conformance_counts().items()}
