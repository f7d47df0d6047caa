"""`--enable-fault-injection`, /debug/faults and `apiserver faults`, as tests in other languages use them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.__main__ import main
from apiserver.testing import ApiServer, User
from tests.support.rbac import binding

FAULTS: Final = "/debug/faults"
CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
CLIENT: Final = {"User-Agent": "client/1"}
DELAY: Final = {"effect": {"type": "Delay", "seconds": 0.01}}
# May do all, but is no member of system:masters.
BINDING: Final = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    **binding("almost-admin", "cluster-admin", "alice"),
}


@pytest.fixture(scope="module")
def shared_server() -> Iterator[ApiServer]:
    tokens = {"alice-token": User("alice"), "bob-token": User("bob")}
    with ApiServer(flags=["--enable-fault-injection"], tokens=tokens) as server:
        server.load(BINDING)
        yield server


@pytest.fixture
def server(shared_server: ApiServer) -> Iterator[ApiServer]:
    yield shared_server
    shared_server.faults.clear()


def test_a_fault_from_its_injection_to_its_end(server: ApiServer, caplog: pytest.LogCaptureFixture) -> None:
    asked = {"match": {"verb": "list", "resource": "configmaps"}, "effect": {"type": "Answer", "code": 503}}
    code, made = server.request("POST", FAULTS, {**asked, "times": 1})
    fault = {"id": made["id"], **asked, "times": 1, "hits": 0}
    assert (code, made) == (201, fault)
    assert [server.request("GET", CONFIG_MAPS, headers=CLIENT)[0] for _ in range(2)] == [503, 200]
    assert server.request("GET", f"{FAULTS}/{made['id']}") == (200, {**fault, "hits": 1})
    assert server.request("GET", FAULTS) == (200, {"faults": [{**fault, "hits": 1}]})
    assert server.request("DELETE", f"{FAULTS}/{made['id']}") == (200, {**fault, "hits": 1})
    assert server.request("DELETE", f"{FAULTS}/{made['id']}")[0] == 404
    warnings = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    said = f"fault {made['id']}: Answer(code=503), Match(verb='list', resource='configmaps'), times=1"
    assert warnings == [
        f"fault injection: admin injected {said}",
        f"fault injection: admin cleared {said}",
    ]


def test_all_of_them(server: ApiServer, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        server.request("POST", FAULTS, DELAY)
    code, answer = server.request("DELETE", FAULTS)
    assert (code, len(answer["faults"])) == (200, 2)
    assert server.request("GET", FAULTS) == (200, {"faults": []})
    assert "fault injection: admin cleared all 2 faults" in caplog.text


def test_history_is_forgotten(server: ApiServer) -> None:
    version = server.request("GET", CONFIG_MAPS)[1]["metadata"]["resourceVersion"]
    server.request("POST", CONFIG_MAPS, {"metadata": {"generateName": "a-"}})
    code, answer = server.request("POST", f"{FAULTS}/compact", {})
    assert (code, int(answer["resourceVersion"]) > int(version)) == (200, True)
    query = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
    assert server.request("GET", CONFIG_MAPS, query=query)[0] == 410


REFUSED: Final[dict[str, tuple[str, str, Any, int, str]]] = {
    "no JSON": ("POST", "", b"{", 400, "the fault is not valid JSON: unexpected end of JSON input"),
    "no fault": ("POST", "", {"effect": {"type": "Delay"}}, 400, "not valid: effect.seconds: is required"),
    "a match of the server": (
        "POST",
        "",
        {"effect": {"type": "NotReady"}, "match": {"verb": "get"}},
        400,
        "the fault is not valid: match: NotReady applies to the server",
    ),
    "one that nobody could clear": (
        "POST",
        "",
        {"effect": {"type": "RefuseTLS"}},
        400,
        (
            "effect.seconds: must be set if times is not set: otherwise, no client could connect to clear "
            "the fault"
        ),
    ),
    "one that there is not": ("GET", "/999", None, 404, 'fault "999" not found'),
    "one that cannot be": ("DELETE", "/x/y", None, 404, 'fault "x/y" not found'),
    "a path that there is not": ("POST", "/1", {}, 404, "could not find the requested resource"),
    "a method that there is not": ("PUT", "/1", {}, 405, "does not allow this method"),
}


@pytest.mark.parametrize(("method", "path", "body", "code", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(
    server: ApiServer, method: str, path: str, body: Any, code: int, message: str
) -> None:
    found, status = server.request(method, FAULTS + path, body)
    assert (found, message in status["message"]) == (code, True), status
    assert server.request("GET", FAULTS)[1] == {"faults": []}


def test_the_field_is_named(server: ApiServer) -> None:
    _, status = server.request("POST", FAULTS, {"effect": {"type": "Answer", "code": 200}})
    assert status["details"]["causes"] == [
        {"reason": "FieldValueInvalid", "message": "200 is not between 400 and 599", "field": "effect.code"}
    ]


@pytest.mark.parametrize(
    ("token", "message"),
    [
        pytest.param("alice-token", "only members of system:masters", id="who may do all else"),
        pytest.param("bob-token", 'User "bob" cannot get path "/debug/faults"', id="who may not"),
    ],
)
def test_only_administrators_may(server: ApiServer, token: str, message: str) -> None:
    code, status = server.request("GET", FAULTS, headers={"Authorization": f"Bearer {token}"})
    assert (code, message in status["message"]) == (403, True), status


def test_faults_do_not_hide_their_end(server: ApiServer) -> None:
    """Whatever is injected, it can be cleared, and probes see what they are for."""
    for effect in ({"type": "CutConnection"}, {"type": "ExpireToken"}):
        server.request("POST", FAULTS, {"effect": effect})
    assert server.request("GET", "/livez", headers=CLIENT) == (200, "ok")
    assert server.request("DELETE", FAULTS, headers=CLIENT)[0] == 200
    assert server.request("GET", CONFIG_MAPS, headers=CLIENT)[0] == 200


def test_without_the_flag_there_is_no_such_path() -> None:
    with ApiServer() as server:
        assert server.request("GET", FAULTS)[0] == 404
        assert server.request("POST", FAULTS, DELAY)[0] == 404


def test_the_start_is_told_and_workers_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--enable-fault-injection", "--workers=2", "--etcd-servers=http://127.0.0.1:1"]
    assert main(arguments) == 2
    assert (
        "--enable-fault-injection requires --workers=1: workers do not share faults"
        in capsys.readouterr().err
    )


# ---- the command


@pytest.fixture
def kubeconfig(server: ApiServer) -> Path:
    return server.kubeconfig


def test_the_command(server: ApiServer, kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> str:
        assert main(["faults", *arguments, "--kubeconfig", str(kubeconfig)]) == 0
        return capsys.readouterr().out

    options = ["--code", "429", "--retry-after", "1", "--verb", "list", "--user-agent", "client/*"]
    number = run("add", "Answer", *options, "--times", "2").strip()
    assert server.request("GET", CONFIG_MAPS, headers=CLIENT)[0] == 429
    assert run("list") == (
        f"{number:>4}  Answer(code=429, retry_after_s=1)  Match(verb='list', user_agent='client/*')  "
        "hits: 1 of 2\n"
    )
    assert f'"id": "{number}"' in run("list", "-o", "json")
    run("clear", number)
    assert run("list") == ""
    run("add", "EndWatch", "--silently", "--after-events", "3")
    run("clear")
    assert server.faults.list() == []
    assert int(run("compact")) > 0


MISTAKES: Final[dict[str, tuple[list[str], int, str]]] = {
    "no effect": (["add"], 2, "faults: add requires one effect: Answer, "),
    "an effect that there is not": (["add", "Explode"], 2, "faults: effect.type: must be one of Answer, "),
    "what the effect has not": (["add", "NotReady", "--code", "500"], 2, "effect.code: unknown field"),
    "an option of add": (["list", "--verb", "get"], 2, "faults: --verb is only valid for add"),
    "an argument of list": (["list", "1"], 2, "faults: list takes no arguments"),
    "a fault without an id": (["clear", ""], 2, "faults: an id must not be empty"),
    "a fault that there is not": (["clear", "999"], 1, 'fault "999" not found'),
    "what only the server knows": (["add", "RefuseTLS"], 1, "no client could connect to clear the fault"),
}


@pytest.mark.parametrize(("arguments", "code", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes(
    kubeconfig: Path, arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["faults", *arguments, "--kubeconfig", str(kubeconfig)]) == code
    assert message in capsys.readouterr().err


def test_a_server_that_cannot_have_faults(capsys: pytest.CaptureFixture[str]) -> None:
    with ApiServer() as server:
        assert main(["faults", "list", "--kubeconfig", str(server.kubeconfig)]) == 1
    assert "start it with --enable-fault-injection" in capsys.readouterr().err
