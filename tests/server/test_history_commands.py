"""`apiserver history`: versions are listed and compared, changes undone, and lines have authors."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.cli.api_client import ApiClient, RequestFailed
from apiserver.cli.history import command
from apiserver.cli.history.object_client import ObjectClient, named_object
from apiserver.cli.history.object_undo import Undo
from apiserver.cli.server_options import ServerOptions
from apiserver.meta.vocabulary import Document
from tests.support.api import STRATEGIC_PATCH, Api
from tests.support.eventually import WITHIN_S
from tests.support.kubeconfigs import write_kubeconfig
from tests.support.kubectl import each_version, program
from tests.support.rbac import grant, rule
from tests.support.server_process import ServerProcess

CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/default/deployments"
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
    some = json.loads(printed(history(server, "list", "configmap", "listed", "--limit=2", "-o", "json")))
    assert some == {"versions": documents["versions"][:2], "more": True}
    for huge in (["list"], ["blame"]):
        assert history(server, *huge, "cm", "listed", f"--limit={'9' * 30}").stderr.count("\n") <= 1


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


# ---- apiserver history undo


def test_the_last_change_is_undone(server: ServerProcess, api: Api) -> None:
    path = f"{CONFIG_MAPS}/undone"
    created = api.post(CONFIG_MAPS, config_map("undone", mode="slow", size="1")).ok()
    changed = api.patch(path, {"data": {"mode": "fast", "new": "1", "size": None}}).ok()
    out = printed(history(server, "undo", "cm", "undone", "--dry-run=server"))
    assert "(server dry run)" in out
    assert api.get(path).ok() == changed
    first, *fields = printed(history(server, "undo", "cm", "undone")).splitlines()
    assert first.startswith(f"configmaps/undone: undone change {version_of(changed)} by admin at ")
    assert sorted(fields) == ["  data.mode", "  data.new", "  data.size"]
    assert api.get(path).ok()["data"] == created["data"]
    # That is a change, which can be undone in turn.
    versions = api.get(f"{path}/history").ok()["versions"]
    assert (versions[0]["verb"], versions[0]["fieldManager"]) == ("update", "apiserver-history-undo")
    printed(history(server, "undo", "cm", "undone"))
    assert api.get(path).ok()["data"] == changed["data"]


def test_an_earlier_change_is_undone_and_later_ones_stay(server: ServerProcess, api: Api) -> None:
    path = f"{CONFIG_MAPS}/earlier"
    api.post(CONFIG_MAPS, config_map("earlier", a="1", b="1")).ok()
    change = version_of(api.patch(path, {"data": {"a": "2"}}).ok())
    api.patch(path, {"data": {"b": "2"}, "metadata": {"labels": {"c": "1"}}}).ok()
    printed(history(server, "undo", "cm", "earlier", "--change", change))
    found = api.get(path).ok()
    assert (found["data"], found["metadata"]["labels"]) == ({"a": "1", "b": "2"}, {"c": "1"})
    line = refused(history(server, "undo", "cm", "earlier", "--change", change))
    assert line.startswith(
        f"the fields of configmaps/earlier already have the values from before change {change}"
    )


def test_a_later_writer_is_named_and_nothing_is_written(server: ServerProcess, api: Api) -> None:
    path = f"{CONFIG_MAPS}/contested"
    api.post(CONFIG_MAPS, config_map("contested", a="1", b="1")).ok()
    change = version_of(api.patch(path, {"data": {"a": "2", "b": "2"}}).ok())
    user = grant(api, "default", "later-writer", rule("get patch", "configmaps"))
    later = version_of(api.patch(path, {"data": {"a": "3"}}, headers=user).ok())
    live = api.patch(path, {"data": {"other": "1"}}).ok()
    line = refused(history(server, "undo", "cm", "contested", f"--change={change}"))
    assert re.fullmatch(
        rf"cannot undo change {change} by admin at \S+ of configmaps/contested: "
        rf"data\.a has been changed by later-writer at \S+Z \(version {later}\)",
        line,
    )
    assert api.get(path).ok() == live


def test_a_deleted_object_is_created_again(server: ServerProcess, api: Api) -> None:
    path = f"{CONFIG_MAPS}/reborn"
    document = config_map("reborn", a="1")
    document["metadata"]["labels"] = {"c": "1"}
    old = api.post(CONFIG_MAPS, document).ok()
    api.delete(path).ok()
    out = printed(history(server, "undo", "cm", "reborn"))
    new = api.get(path).ok()
    assert (new["data"], new["metadata"]["labels"]) == (old["data"], {"c": "1"})
    uids = [each["metadata"]["uid"] for each in (new, old)]
    assert uids[0] != uids[1]
    assert f"created again with the new UID {uids[0]} (before: {uids[1]})" in out
    # What was done before the deletion, and the deletion, are of another object.
    versions = [each["resourceVersion"] for each in api.get(f"{path}/history").ok()["versions"]]
    assert "has been created again by kubernetes-admin at" in refused(
        history(server, "undo", "cm", "reborn", f"--change={versions[1]}")
    )
    line = refused(history(server, "undo", "cm", "reborn", f"--change={versions[2]}"))
    assert "configmaps/reborn has been deleted by admin at" in line
    assert f"(version {versions[1]})" in line


def test_the_creation_of_an_object_is_undone_while_it_is_as_created(server: ServerProcess, api: Api) -> None:
    path = f"{CONFIG_MAPS}/fresh"
    created = version_of(api.post(CONFIG_MAPS, config_map("fresh", a="1")).ok())
    changed = version_of(api.patch(path, {"metadata": {"labels": {"b": "1"}}}).ok())
    line = refused(history(server, "undo", "cm", "fresh", f"--change={created}"))
    assert "metadata.labels has been changed by admin at" in line
    assert line.endswith(f"(version {changed})")
    printed(history(server, "undo", "cm", "fresh"))
    dry_run = printed(history(server, "undo", "cm", "fresh", f"--change={created}", "--dry-run=server"))
    assert dry_run.endswith("  deleted\n")
    assert api.get(path).status == 200
    assert printed(history(server, "undo", "cm", "fresh", f"--change={created}")).endswith("  deleted\n")
    assert api.get(path).status == 404


def test_kinds_with_subresources(server: ServerProcess, api: Api) -> None:
    """A change of the status is only undone if it is named. One of the scale is one of the object."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "c:1"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template, "replicas": 1}
    path = f"{DEPLOYMENTS}/web"
    api.post(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec}).ok()
    api.patch(f"{path}/scale", {"spec": {"replicas": 5}}).ok()
    status = version_of(api.patch(f"{path}/status", {"status": {"replicas": 3}}).ok())
    assert printed(history(server, "undo", "deploy", "web")).splitlines()[1:] == ["  spec.replicas"]
    found = api.get(path).ok()
    assert (found["spec"]["replicas"], found["status"]["replicas"]) == (1, 3)
    out = printed(history(server, "undo", "deployments.apps", "web", f"--change={status}"))
    assert out.splitlines()[1:] == ["  status.replicas"]
    assert "replicas" not in api.get(path).ok()["status"]


def test_an_image_of_one_container(server: ServerProcess, api: Api) -> None:
    def containers(*images: str) -> dict[str, Any]:
        listed = [{"name": f"c{number}", "image": image} for number, image in enumerate(images)]
        return {"spec": {"template": {"spec": {"containers": listed}}}}

    labels = {"a": "b"}
    document = containers("one:1", "two:1")
    document["metadata"] = {"name": "images"}
    document["spec"]["selector"] = {"matchLabels": labels}
    document["spec"]["template"]["metadata"] = {"labels": labels}
    path = f"{DEPLOYMENTS}/images"
    api.post(DEPLOYMENTS, document).ok()
    strategic = {"Content-Type": STRATEGIC_PATCH}
    first = version_of(api.patch(path, containers("one:2", "two:1"), headers=strategic).ok())
    api.patch(path, containers("one:2", "two:2"), headers=strategic).ok()
    out = printed(history(server, "undo", "deploy", "images", f"--change={first}"))
    assert out.splitlines()[1:] == ["  spec.template.spec.containers[name=c0].image"]
    found = api.get(path).ok()["spec"]["template"]["spec"]["containers"]
    assert [each["image"] for each in found] == ["one:1", "two:2"]


def test_no_value_of_a_secret_is_written(server: ServerProcess, api: Api) -> None:
    """The history has digests instead, which must not replace values."""
    path = f"{SECRETS}/undone"
    api.post(SECRETS, {"metadata": {"name": "undone"}, "stringData": {"k": "one"}}).ok()
    value = version_of(api.patch(path, {"stringData": {"k": "two"}}).ok())
    api.patch(path, {"metadata": {"labels": {"a": "b"}}}).ok()
    printed(history(server, "undo", "secret", "undone"))
    found = api.get(path).ok()
    assert "labels" not in found["metadata"]
    assert base64.b64decode(found["data"]["k"]) == b"two"
    line = refused(history(server, "undo", "secret", "undone", f"--change={value}"))
    assert line.endswith("the history has no values and annotations of Secrets")
    api.delete(path).ok()
    assert "cannot be created again" in refused(history(server, "undo", "secret", "undone"))
    assert api.get(path).status == 404


def test_a_write_in_the_meantime_is_a_conflict(server: ServerProcess, api: Api) -> None:
    """Between the command's read and its write."""
    path = f"{CONFIG_MAPS}/raced"
    api.post(CONFIG_MAPS, config_map("raced", a="1")).ok()
    api.patch(path, {"data": {"a": "2"}}).ok()

    class RacedClient(ObjectClient):
        def live(self) -> Document | None:
            found = super().live()
            api.patch(path, {"data": {"raced": "1"}}).ok()
            return found

    given = command.parser().parse_args(["undo", "cm", "raced", f"--kubeconfig={server.kubeconfig}"])
    with closing(ApiClient(ServerOptions.of(given), "test")) as client:
        undo = Undo(RacedClient(client, named_object(client, given)), {})
        with pytest.raises(RequestFailed, match="please apply your changes to the latest version") as failed:
            list(undo.lines(None))
    assert failed.value.status == 409
    assert api.get(path).ok()["data"] == {"a": "2", "raced": "1"}


@pytest.mark.parametrize("more", [1, 2])
def test_fields_that_are_not_shown_are_counted(server: ServerProcess, api: Api, more: int) -> None:
    name = f"wide-{more}"
    path = f"{CONFIG_MAPS}/{name}"
    api.post(CONFIG_MAPS, config_map(name, before="1")).ok()
    wide = version_of(api.patch(path, {"data": {f"k{n}": "1" for n in range(20 + more)}}).ok())
    out = printed(history(server, "undo", "cm", name, "--dry-run=server"))
    assert out.splitlines()[-1] == {1: "  ... 1 more field", 2: "  ... 2 more fields"}[more]
    api.patch(path, {"data": {f"k{n}": "2" for n in range(5 + more)}}).ok()
    line = refused(history(server, "undo", "cm", name, f"--change={wide}"))
    assert line.endswith({1: "; 1 more field has been changed", 2: "; 2 more fields have been changed"}[more])


def test_the_versions_are_read_once_for_all_changes(server: ServerProcess, api: Api) -> None:
    api.post(CONFIG_MAPS, config_map("often", a="0")).ok()
    revisions = [
        int(version_of(api.patch(f"{CONFIG_MAPS}/often", {"data": {"a": str(number)}}).ok()))
        for number in range(1, 4)
    ]

    class CountingClient(ObjectClient):
        count = 0

        def _get_history(self, query: Mapping[str, str]) -> Document:
            self.count += 1
            return super()._get_history(query)

    given = command.parser().parse_args(["undo", "cm", "often", f"--kubeconfig={server.kubeconfig}"])
    with closing(ApiClient(ServerOptions.of(given), "test")) as client:
        counting = CountingClient(client, named_object(client, given))
        undo = Undo(counting, {})
        for revision in reversed(revisions):
            assert list(undo.lines(revision))[1:] == ["  data.a"]
    assert api.get(f"{CONFIG_MAPS}/often").ok()["data"] == {"a": "0"}
    assert counting.count == 1


CANNOT: Final = {
    "a change that there is not": (["cm", "kept", "--change=1"], "does not have change 1"),
    "an object that there never was": (["cm", "never"], 'configmaps "never" not found'),
    "what a namespace holds": (["ns", "kept"], "deleting it would delete all it holds"),
}


@pytest.mark.parametrize(("arguments", "why"), CANNOT.values(), ids=CANNOT)
def test_what_cannot_be_undone(server: ServerProcess, api: Api, arguments: list[str], why: str) -> None:
    api.send("POST", CONFIG_MAPS, config_map("kept", a="1"))
    api.send("POST", "/api/v1/namespaces", {"metadata": {"name": "kept"}})
    assert why in refused(history(server, "undo", *arguments))
    assert api.get(f"{CONFIG_MAPS}/kept").status == api.get("/api/v1/namespaces/kept").status == 200


def test_undoing_needs_the_rights_of_its_requests(server: ServerProcess, api: Api, tmp_path: Path) -> None:
    path = f"{CONFIG_MAPS}/protected"
    api.post(CONFIG_MAPS, config_map("protected", a="1")).ok()
    changed = api.patch(path, {"data": {"a": "2"}}).ok()
    config = write_kubeconfig(tmp_path / "config", server.url, ca=server.ca_path, token="alice-token")
    arguments = ("undo", "cm", "protected", f"--kubeconfig={config}")
    assert "is forbidden" in refused(history(server, *arguments))
    assert api.get(path).ok() == changed


# ---- apiserver history blame


def test_each_line_has_its_author(server: ServerProcess, api: Api) -> None:
    path = f"{CONFIG_MAPS}/blamed"
    created = version_of(api.post(CONFIG_MAPS, config_map("blamed", a="1", b="1")).ok())
    user = grant(api, "default", "blamed-writer", rule("get patch", "configmaps"))
    later = version_of(api.patch(f"{path}?fieldManager=m", {"data": {"b": "2"}}, headers=user).ok())
    head, *lines = printed(history(server, "blame", "cm", "blamed")).splitlines()
    assert columns(head) == ["REVISION", "TIME", "USER", "MANAGER", "YAML"]
    makers = {line.rpartition("   ")[2].strip(): (columns(line)[0], *columns(line)[2:4]) for line in lines}
    assert makers['a: "1"'] == makers["data:"] == makers["name: blamed"] == (created, "admin", "unknown")
    assert makers['b: "2"'] == (later, "blamed-writer", "m")
    found = json.loads(printed(history(server, "blame", "cm", "blamed", "--limit=1", "-o", "json")))
    assert {each.get("resourceVersion") for each in found["lines"]} == {None}
    api.delete(path).ok()
    assert refused(history(server, "blame", "cm", "blamed")) == "configmaps/blamed does not exist now"


def test_lines_from_before_the_history_have_no_author(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server, Api(server) as api:
        api.post(CONFIG_MAPS, config_map("old", a="1")).ok()
    with ServerProcess(tmp_path / "data", "--history") as server, Api(server) as api:
        before = printed(history(server, "blame", "cm", "old")).splitlines()[1:]
        assert {columns(line)[0] for line in before} == {"-"}
        api.patch(f"{CONFIG_MAPS}/old", {"data": {"b": "2"}}).ok()
        lines = printed(history(server, "blame", "cm", "old")).splitlines()[1:]
        assert [line.rpartition(" ")[2] for line in lines if "admin" in line] == ['"2"']
        assert 'a: "1"' in "".join(line for line in lines if line.startswith("- "))
