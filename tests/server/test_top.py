"""`apiserver top` and /debug/clients: which clients send the most requests."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.cli import top
from apiserver.cli.api_client import RequestFailed
from apiserver.cli.argument_parser import UsageError
from apiserver.cli.server_options import ServerOptions
from apiserver.cli.worker_answers import ask_workers
from tests.support.api import Api
from tests.support.etcd_process import EtcdProcess
from tests.support.eventually import until
from tests.support.server_process import ServerProcess

PATH: Final = "/debug/clients"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("top") / "data") as server:
        yield server


def of_agent(api: Api, user_agent: str) -> list[dict[str, Any]]:
    return [each for each in api.get(PATH).ok()["clients"] if each["userAgent"] == user_agent]


COUNTED: Final = {
    "a list": ("GET", "/api/v1/pods", {}, ("admin", "list", "", "pods", "", 0, 0)),
    "a subresource": (
        "GET",
        "/apis/apps/v1/namespaces/default/deployments/none/scale",
        {},
        ("admin", "get", "apps", "deployments", "scale", 0, 0),
    ),
    "an impersonated user": (
        "GET",
        "/api/v1/nodes",
        {"Impersonate-User": "alice"},
        ("alice", "list", "", "nodes", "", 1, 0),
    ),
    "a path of the server": ("GET", "/version", {}, ("admin", "get", "", "/version", "", 0, 0)),
    "a path that leads to nothing": ("GET", "/nowhere/at/all", {}, ("admin", "get", "", "", "", 0, 0)),
    "a resource that is not served": (
        "GET",
        "/api/v1/unicorns",
        {},
        ("admin", "list", "", "unicorns", "", 0, 0),
    ),
    "a failed login": (
        "GET",
        "/api/v1/pods",
        {"Authorization": "Bearer wrong"},
        ("", "other", "", "", "", 1, 0),
    ),
}


@pytest.mark.parametrize(("method", "path", "headers", "expected"), COUNTED.values(), ids=COUNTED)
def test_a_request_is_counted_for_its_client(
    api: Api, method: str, path: str, headers: dict[str, str], expected: tuple[Any, ...]
) -> None:
    agent = f"counted{path}{len(headers)}{headers.get('Authorization')}"
    for _ in range(2):
        api.send(method, path, headers={"User-Agent": agent, **headers})
    (row,) = of_agent(api, agent)
    user, verb, group, resource, subresource, refused, failed = expected
    assert row.pop("seconds") > 0
    assert row.pop("sentBytes") > 0
    assert row == {
        "user": user,
        "userAgent": agent,
        "verb": verb,
        "group": group,
        "resource": resource,
        "subresource": subresource,
        "requests": 2,
        "refused": 2 * refused,
        "failed": 2 * failed,
        "watches": 0,
    }


def test_open_watches_are_counted(api: Api) -> None:
    agent = "watcher/1"
    with api.watch("/api/v1/configmaps?watch=true", **{"User-Agent": agent}):
        (row,) = until(lambda: of_agent(api, agent), bool, "the watch")
        assert (row["verb"], row["resource"], row["watches"], row["requests"]) == (
            "watch",
            "configmaps",
            1,
            0,
        )
    (row,) = until(lambda: of_agent(api, agent), lambda rows: not rows[0]["watches"], "its end")
    assert (row["requests"], row["seconds"]) == (1, 0), "the duration of a watch is no work"


REFUSED: Final = {
    "without the right": ("GET", "alice-token", 403),
    "another method": ("POST", "admin-token", 405),
}


@pytest.mark.parametrize(("method", "token", "code"), REFUSED.values(), ids=REFUSED)
def test_the_list_is_authorized_as_other_paths(api: Api, method: str, token: str, code: int) -> None:
    with api.as_caller(token) as caller:
        assert caller.send(method, PATH).status == code


def run(server: ServerProcess, *arguments: str) -> str:
    printed = io.BytesIO()
    with redirect_stdout(io.TextIOWrapper(printed, write_through=True)):
        assert top.run([f"--kubeconfig={server.kubeconfig}", *arguments]) == 0
        return printed.getvalue().decode()


def test_the_command_prints_a_table(server: ServerProcess, api: Api) -> None:
    for _ in range(30):
        api.get("/api/v1/secrets", headers={"User-Agent": "bell\xc2\x9b31m-busy"}).ok()
    head, *lines = run(server, "--sort=requests", "--top=1").splitlines()
    assert [each.strip() for each in head.split("   ") if each] == [
        *(
            "USER",
            "AGENT",
            "VERB",
            "RESOURCE",
            "REQUESTS/S",
            "IN FLIGHT",
            "KB/S",
            "REFUSED",
            "FAILED",
            "WATCHES",
        )
    ]
    cells = [each.strip() for each in lines[0].split("   ") if each.strip()]
    assert cells[:4] == ["admin", "bell\\x9b31m-busy", "list", "secrets"], "nothing steers the terminal"
    assert float(cells[4]) > 0
    assert lines[1].endswith("more rows")


def test_the_command_groups_and_prints_json(server: ServerProcess, api: Api) -> None:
    for path in ("/api/v1/pods", "/api/v1/nodes", "/apis/apps/v1/deployments"):
        api.get(path, headers={"User-Agent": "grouped/1"}).ok()
    rows = json.loads(run(server, "--by=agent", "--top=0", "-o", "json"))["rows"]
    (row,) = (each for each in rows if each["agent"] == "grouped/1")
    assert row["requestsPerSecond"] > 0
    rows = json.loads(run(server, "--by=resource,agent", "--top=0", "-o", "json"))["rows"]
    assert {each["resource"] for each in rows if each["agent"] == "grouped/1"} == {
        *("pods", "nodes", "deployments.apps")
    }


def test_all_workers_are_asked(etcd: EtcdProcess, tmp_path: Path) -> None:
    flags = (f"--etcd-servers={etcd.url}", "--etcd-prefix=/top", "--workers=2")
    with ServerProcess(tmp_path / "data", *flags) as server:
        for _ in range(40):
            with Api(server) as api:  # Each connection leads to any one of them.
                api.get("/api/v1/pods", headers={"User-Agent": "spread/1"}).ok()
        found = ask_workers(
            ServerOptions.of(top.parser().parse_args([f"--kubeconfig={server.kubeconfig}"])),
            "top",
            PATH,
            "clients",
        )
        assert len(found) == 2
        rows = [each for answer in found for each in answer["clients"] if each["userAgent"] == "spread/1"]
        assert sum(each["requests"] for each in rows) == 40


@pytest.mark.parametrize("argument", ["--by=", "--by=user,nothing", "--top=-1"])
def test_arguments_are_checked(server: ServerProcess, argument: str) -> None:
    with pytest.raises(UsageError):
        run(server, argument)


def test_the_command_needs_the_right(server: ServerProcess) -> None:
    with pytest.raises(RequestFailed, match="cannot get path"):
        run(server, "--token=alice-token")
