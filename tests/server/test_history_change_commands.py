"""`apiserver history changes`: what has changed lately, and who changed it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.server.test_history_changes import CONFIG_MAPS, DEPLOYMENTS, changes, config_map, now
from tests.server.test_history_commands import columns, history, printed, refused
from tests.support.api import Api
from tests.support.rbac import grant, rule
from tests.support.server_process import ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("changes"), "--history") as server:
        yield server


@pytest.fixture
def api(server: ServerProcess) -> Iterator[Api]:
    with Api(server) as api:
        yield api


def deployment(name: str) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template}}


def test_the_changes_are_a_table_of_users_and_objects(server: ServerProcess, api: Api) -> None:
    writer = grant(api, "default", "writing", rule("patch", "configmaps"))
    begin = now(api)
    api.post(CONFIG_MAPS, config_map("one", a="1")).ok()
    api.patch(f"{CONFIG_MAPS}/one", {"data": {"b": "1"}}, headers=writer).ok()
    api.patch(f"{CONFIG_MAPS}/one", {"data": {"c": "1", "b": "2"}}, headers=writer).ok()
    api.post(DEPLOYMENTS, deployment("web")).ok()
    api.patch(f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": 5}}).ok()
    api.post("/api/v1/namespaces", {"metadata": {"name": "with-changes"}}).ok()
    api.delete(f"{CONFIG_MAPS}/one").ok()
    end = now(api)
    head, *rows = printed(history(server, "changes", "--since", begin, "--until", end)).splitlines()
    assert columns(head) == ["USER", "NAMESPACE", "OBJECT", "CHANGES", "LAST", "VERBS", "CHANGED"]
    found = [columns(row) for row in rows]
    assert [(*row[:4], *row[5:]) for row in found] == [
        ("admin", "default", "configmaps/one", "2", "delete, create", "deleted"),
        ("admin", "-", "namespaces/with-changes", "1", "create", "-"),
        (
            "admin",
            "default",
            "deployments.apps/web",
            "2",
            "patch/scale, create",
            "metadata.generation, spec.replicas",
        ),
        ("writing", "default", "configmaps/one", "2", "patch", "data.b, data.c"),
    ]
    one = printed(history(server, "changes", "--since", begin, "--by=writing", "-n", "default"))
    assert [columns(row) for row in one.splitlines()[1:]] == found[-1:]
    assert printed(history(server, "changes", "--since", begin, "--by=writing", "-n", "other")) == ""
    documents = json.loads(printed(history(server, "changes", "--since", begin, "-o", "json", "--limit=0")))
    assert documents["changes"] == changes(api, since=begin)
    few = printed(history(server, "changes", "--since", begin, "--until", end, "--limit=1")).splitlines()
    assert columns(few[1])[:4] == ["admin", "default", "configmaps/one", "1"]
    assert few[2:] == ["... more changes; --limit shows them"]


def test_periods_are_durations_or_moments(server: ServerProcess, api: Api) -> None:
    api.post(CONFIG_MAPS, config_map("now", a="1")).ok()
    begin = api.get(f"{CONFIG_MAPS}/now").ok()["metadata"]["creationTimestamp"]
    for since in ("0s", begin):
        ended = history(server, "changes", f"--since={since}", "--by=admin")
        assert ended.returncode == 0
    assert "configmaps/now" in printed(history(server, "changes", f"--since={begin}"))
    assert "since: the history does not have all changes" in refused(history(server, "changes", "--since=7d"))
    assert "is in the future" in refused(history(server, "changes", "--since=2999-01-01T00:00:00Z"))


MISUSED: Final = {
    "a word": ["--since=yesterday"],
    "the present": ["--since=@now"],
    "a duration without a unit": ["--since=2.5"],
    "a broken time": ["--since=2026-13-99T00:00:00Z"],
    "a negative limit": ["--limit=-1"],
    "an object": ["configmap", "a"],
}


@pytest.mark.parametrize("arguments", MISUSED.values(), ids=MISUSED)
def test_usage_errors(server: ServerProcess, arguments: list[str]) -> None:
    ended = history(server, "changes", *arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert len(ended.stderr.splitlines()) == 1


def test_a_server_without_a_history_says_so(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        assert refused(history(server, "changes")) == "the server has no history; it must run with --history"
