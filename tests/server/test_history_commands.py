"""What is done with the history: states are compared, by requests and by `apiserver history`."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.registry.patch import merge_patch
from tests.support.api import Api
from tests.support.eventually import WITHIN_S
from tests.support.kubectl import each_version, program
from tests.support.rbac import grant, rule
from tests.support.server_process import ServerProcess

CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
SECRETS: Final = "/api/v1/namespaces/default/secrets"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("history"), "--history") as server:
        yield server


@pytest.fixture
def api(server: ServerProcess) -> Iterator[Api]:
    with Api(server) as api:
        yield api


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def version_of(document: Any) -> str:
    return str(document["metadata"]["resourceVersion"])


# ---- GET …/NAME/history?from=&to=


def test_two_moments_are_compared(api: Api) -> None:
    path = f"{CONFIG_MAPS}/compared"
    states = [api.post(CONFIG_MAPS, config_map("compared", a="1", b="1")).ok()]
    states += [api.patch(path, {"data": change}).ok() for change in ({"a": "2"}, {"b": None})]
    versions = [version_of(each) for each in states]
    found = api.get(f"{path}/history?from={versions[0]}&to={versions[2]}").ok()
    assert (found["from"], found["to"]) == (
        {"resourceVersion": versions[0]},
        {"resourceVersion": versions[2]},
    )
    assert found["mergePatch"] == {"data": {"a": "2", "b": None}}
    assert found["yamlDiff"].startswith(f"--- configmaps/compared@{versions[0]}\n")
    assert '\n-  a: "1"\n-  b: "1"\n+  a: "2"\n' in found["yamlDiff"]
    # In the other order, and with what is left out as the present.
    assert api.get(f"{path}/history?from={versions[2]}&to={versions[0]}").ok()["mergePatch"] == {
        "data": {"a": "1", "b": "1"}
    }
    assert api.get(f"{path}/history?from={versions[1]}").ok()["mergePatch"] == {"data": {"b": None}}
    assert api.get(f"{path}/history?to={versions[1]}").ok()["mergePatch"] == {"data": {"b": "1"}}
    # Between any two states the patch makes the second of the first.
    for before in states:
        for after in states:
            query = f"from={version_of(before)}&to={version_of(after)}"
            patch = api.get(f"{path}/history?{query}").ok()["mergePatch"]
            assert merge_patch.apply(before["data"].copy(), patch.get("data", {})) == after["data"]


def test_the_time_of_a_version_is_its_moment(api: Api) -> None:
    path = f"{CONFIG_MAPS}/timed"
    api.post(CONFIG_MAPS, config_map("timed", n="0")).ok()
    for number in range(1, 30):
        api.patch(path, {"data": {"n": str(number)}}).ok()
    for version in api.get(f"{path}/history").ok()["versions"]:
        found = api.get(f"/at/{version['time']}{path}").ok()
        # Not an older one; a newer one if two have the same millisecond.
        assert int(version_of(found)) >= int(version["resourceVersion"])


def test_an_object_is_compared_with_nothing_before_it_and_after_it(api: Api) -> None:
    path = f"{CONFIG_MAPS}/passing"
    before = version_of(api.get(CONFIG_MAPS).ok())
    created = version_of(api.post(CONFIG_MAPS, config_map("passing", k="1")).ok())
    api.delete(path).ok()
    found = api.get(f"{path}/history?from={before}&to={created}").ok()
    assert (found["from"], found["mergePatch"]["data"]) == ({}, {"k": "1"})
    found = api.get(f"{path}/history?from={created}").ok()
    assert (found["to"], found["mergePatch"]) == ({}, None)
    assert api.get(f"{path}/history?from={before}").status == 404


REFUSED: Final = {
    "no moment": ("kube-root-ca.crt", "from=yesterday", 400),
    "a relative time, which is for the command": ("kube-root-ca.crt", "from=-2h", 400),
    "a revision of the future": ("kube-root-ca.crt", "from=999999999", 400),
    "a time of the future": ("kube-root-ca.crt", "from=2999-01-01T00:00:00Z", 400),
    "a bad second moment": ("kube-root-ca.crt", "from=%s&to=x", 400),
    "digits of another script": ("kube-root-ca.crt", "from=%%D9%%A1%%D9%%A2", 400),
    "too many digits": ("kube-root-ca.crt", f"to={'9' * 400}", 400),
    "before the history": ("kube-root-ca.crt", "from=2001-01-01T00:00:00Z", 410),
    "no such object": ("never", "from=%s", 404),
}


@pytest.mark.parametrize(("name", "query", "status"), REFUSED.values(), ids=REFUSED)
def test_moments_are_refused_as_below_at(api: Api, name: str, query: str, status: int) -> None:
    revision = version_of(api.post(CONFIG_MAPS, {"metadata": {"generateName": "r-"}, "data": {}}).ok())
    answer = api.get(f"{CONFIG_MAPS}/{name}/history?{query.replace('%s', revision).replace('%%', '%')}")
    assert answer.status == status, answer.body
    assert answer.json["kind"] == "Status"


def test_a_difference_needs_the_rights_of_the_list_of_versions(api: Api) -> None:
    path = f"{CONFIG_MAPS}/rights"
    old = version_of(api.post(CONFIG_MAPS, config_map("rights", k="old")).ok())
    api.delete(path).ok()
    new = version_of(api.post(CONFIG_MAPS, config_map("rights", k="new")).ok())
    rules = rule("get list", "configmaps"), rule("get", "configmaps/history")
    here, everywhere = grant(api, "default", "here", *rules), grant(api, "", "everywhere", *rules)
    for few in rules:
        user = grant(api, "default", f"few-{few['resources'][0].replace('/', '-')}", few)
        answer = api.get(f"{path}/history?from={new}", headers=user)
        assert answer.status == 403
        assert b'"k"' not in answer.body
    found = api.get(f"{path}/history?from={old}&to={new}", headers=here).ok()
    assert found["from"] == {}
    assert "old" not in found["yamlDiff"]
    assert api.get(f"{path}/history?from={old}&to={old}", headers=here).status == 404
    found = api.get(f"{path}/history?from={old}&to={new}", headers=everywhere).ok()
    assert found["mergePatch"]["data"] == {"k": "new"}
    assert "uid" in found["mergePatch"]["metadata"]


def test_a_difference_of_a_secret_shows_which_values_have_changed(api: Api) -> None:
    secret = {"metadata": {"name": "s"}, "stringData": {"changed": "first-value", "same": "same-value"}}
    old = version_of(api.post(SECRETS, secret).ok())
    api.patch(f"{SECRETS}/s", {"stringData": {"changed": "second-value"}}).ok()
    answer = api.get(f"{SECRETS}/s/history?from={old}")
    (name, digest), *others = answer.ok()["mergePatch"]["data"].items()
    assert (name, others) == ("changed", [])
    assert base64.b64decode(digest).startswith(b"redacted:")
    for value in (b"first-value", b"second-value", b"same-value"):
        assert value not in answer.body
        assert base64.b64encode(value) not in answer.body


def test_a_large_object_is_compared(api: Api) -> None:
    path = f"{CONFIG_MAPS}/large"
    data = {f"key-{number}": "v" * 20 for number in range(20_000)}
    old = version_of(api.post(CONFIG_MAPS, config_map("large", **data)).ok())
    api.patch(path, {"data": {"key-7": "w", "key-19999": None}}).ok()
    found = api.get(f"{path}/history?from={old}").ok()
    assert found["mergePatch"] == {"data": {"key-7": "w", "key-19999": None}}
    assert found["yamlDiff"].count("@@\n") == 2


# ---- apiserver history


def history(server: ServerProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `apiserver history` as a process."""
    return subprocess.run(
        [sys.executable, "-m", "apiserver", "history", *arguments],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
        env={**os.environ, "KUBECONFIG": str(server.kubeconfig)},
    )


def printed(ended: subprocess.CompletedProcess[str]) -> str:
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def refused(ended: subprocess.CompletedProcess[str]) -> str:
    """Returns the line on stderr."""
    assert (ended.returncode, ended.stdout) == (1, "")
    (line,) = ended.stderr.splitlines()
    return line.removeprefix("apiserver: ")


def columns(line: str) -> list[str]:
    return re.split(r" {3,}", line)


def test_the_versions_are_a_table(server: ServerProcess, api: Api) -> None:
    path = f"{CONFIG_MAPS}/listed"
    created = version_of(api.post(CONFIG_MAPS, config_map("listed", a="1")).ok())
    fields = {f"k{number}": "v" for number in range(7)}
    changed = version_of(api.patch(f"{path}?fieldManager=mine", {"data": fields}).ok())
    api.delete(path).ok()
    head, *rows = printed(history(server, "cm", "listed")).splitlines()
    assert columns(head) == ["REVISION", "TIME", "USER", "MANAGER", "VERB", "CHANGED"]
    found = [columns(row) for row in rows]
    assert [(row[0], *row[2:]) for row in found[1:]] == [
        (changed, "admin", "mine", "patch", "data.k0, data.k1, data.k2, data.k3, data.k4, 2 more"),
        (created, "admin", "unknown", "create", "-"),
    ]
    assert found[0][4:] == ["delete", "deleted"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found[0][1])
    documents = json.loads(printed(history(server, "configmaps", "listed", "-n", "default", "-o", "json")))
    assert documents == api.get(f"{path}/history").ok()
    few = printed(history(server, "list", "configmap", "listed", "--limit=2")).splitlines()
    assert few[1:] == [*rows[:2], "... more versions; --limit shows them"]


def test_all_versions_are_more_than_a_page(server: ServerProcess, api: Api) -> None:
    path = f"{CONFIG_MAPS}/many"
    api.post(CONFIG_MAPS, config_map("many", n="0")).ok()
    for number in range(1, 520):
        api.patch(path, {"data": {"n": str(number)}}).ok()
    assert len(printed(history(server, "cm", "many", "--limit=0")).splitlines()) == 521


def test_moments_of_the_command(server: ServerProcess, api: Api) -> None:
    path = f"{CONFIG_MAPS}/moved"
    created = api.post(CONFIG_MAPS, config_map("moved", mode="slow")).ok()
    changed = api.patch(path, {"data": {"mode": "fast"}}).ok()
    old, new = version_of(created), version_of(changed)
    diff = printed(history(server, "diff", "cm", "moved", old, new))
    assert diff == api.get(f"{path}/history?from={old}&to={new}").ok()["yamlDiff"]
    assert diff.startswith(f"--- configmaps/moved@{old}\n+++ configmaps/moved@{new}\n")
    assert printed(history(server, "diff", "cm", "moved", f"@{old}")) == diff
    assert printed(history(server, "diff", "cm", "moved", old, "@now")) == diff
    assert "-  mode: fast\n+  mode: slow\n" in printed(history(server, "diff", "cm", "moved", "@now", old))
    times = [each["time"] for each in api.get(f"{path}/history").ok()["versions"]]
    assert printed(history(server, "diff", "cm", "moved", f"@{times[1]}")) == diff
    answer = json.loads(printed(history(server, "diff", "cm", "moved", old, "-o", "json")))
    assert answer["mergePatch"] == {"data": {"mode": "fast"}}
    # Nothing has changed since.
    assert printed(history(server, "diff", "cm", "moved", new)) == ""


FAILED: Final = {
    "an object without versions": (["cm", "never"], 'configmaps "never" not found'),
    "no such resource": (["unicorns", "a"], "the server doesn't have a resource type 'unicorns'"),
    "before the history": (["diff", "cm", "x", "@2001-01-01T00:00:00Z"], "the history does not have all"),
    "two hours before the server has started": (["diff", "cm", "x", "@-2h"], "the history does not have all"),
    "the future": (["diff", "cm", "x", "@2999-01-01T00:00:00Z"], "is in the future"),
}


@pytest.mark.parametrize(("arguments", "why"), FAILED.values(), ids=FAILED)
def test_what_the_server_refuses_is_one_line(server: ServerProcess, arguments: list[str], why: str) -> None:
    assert why in refused(history(server, *arguments))


MISUSED: Final = {
    "no kind": [],
    "no name": ["cm"],
    "no moment": ["diff", "cm", "x"],
    "a word as a moment": ["diff", "cm", "x", "yesterday"],
    "the same moment": ["diff", "cm", "x", "@now", "@now"],
    "a negative limit": ["cm", "x", "--limit=-1"],
}


@pytest.mark.parametrize("arguments", MISUSED.values(), ids=MISUSED)
def test_usage_errors(server: ServerProcess, arguments: list[str]) -> None:
    ended = history(server, *arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert len(ended.stderr.splitlines()) == 1


def test_a_server_without_a_history_says_so(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        assert refused(history(server, "cm", "x")) == (
            "the server has no history of configmaps/x; it must run with --history"
        )


@pytest.mark.parametrize("release", each_version(-1))
def test_kubectl_has_a_plugin(server: ServerProcess, api: Api, tmp_path: Path, release: str) -> None:
    api.post(CONFIG_MAPS, config_map(name := f"plugged-{release}", k="1")).ok()
    plugin = tmp_path / "kubectl-rewind"
    code = "import sys; from apiserver.__main__ import kubectl_rewind; sys.exit(kubectl_rewind())"
    plugin.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n')
    plugin.chmod(0o755)
    ended = subprocess.run(
        [program(release), "rewind", "cm", name, "-n", "default"],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
        env={**os.environ, "KUBECONFIG": str(server.kubeconfig), "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert printed(ended) == printed(history(server, "cm", name))
