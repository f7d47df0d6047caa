"""`apiserver history changes` and `undo --by`: what users have changed lately, and how to take it back."""

from __future__ import annotations

import base64
import json
import random
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from apiserver.cli.api_client import ApiClient
from apiserver.cli.history import command
from apiserver.cli.history.changes_client import ListedChange, listed_changes
from apiserver.cli.server_options import ServerOptions
from tests.server.test_history_changes import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVERYTHING,
    MAY_SEE,
    SECRETS,
    asking,
    changes,
    config_map,
    now,
    version_of,
)
from tests.server.test_history_commands import columns, history, printed, refused
from tests.support.api import Api
from tests.support.etcd_process import wheel_etcd
from tests.support.kubeconfigs import write_kubeconfig
from tests.support.rbac import RBAC, grant, rule
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
    for limit, more in ((1, {"more": True}), (1000, {})):
        found = json.loads(printed(history(server, "changes", "-o", "json", f"--limit={limit}")))
        assert {key: value for key, value in found.items() if key != "changes"} == more


def history_begin_ms(server: ServerProcess) -> int:
    """Returns since when the history of a server has all changes, in milliseconds since 1970."""
    (file,) = (server.data_dir / "history").glob("*.history")
    with closing(sqlite3.connect(file)) as history:
        ((begin_ms,),) = history.execute("SELECT at_ms FROM spans").fetchall()
    return int(begin_ms)


def time_text(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms // 1_000, UTC):%Y-%m-%dT%H:%M:%S}.{at_ms % 1_000:03}Z"


def test_periods_are_durations_or_moments(server: ServerProcess, api: Api) -> None:
    api.post(CONFIG_MAPS, config_map("now", a="1")).ok()
    api.get(f"{CONFIG_MAPS}/now/history").ok()  # Waits until it is recorded.
    # The history does not go back to the beginning of its first second, but to the millisecond.
    begin_ms = history_begin_ms(server)
    begin, before, second = time_text(begin_ms + 1), time_text(begin_ms), time_text(begin_ms)[:19] + "Z"
    for since in ("0s", begin):
        ended = history(server, "changes", f"--since={since}", "--by=admin")
        assert ended.returncode == 0
    assert "configmaps/now" in printed(history(server, "changes", f"--since={begin}"))
    for since in ("7d", before, second):
        because = refused(history(server, "changes", f"--since={since}"))
        assert "since: the history does not have all changes" in because
    assert "is in the future" in refused(history(server, "changes", "--since=2999-01-01T00:00:00Z"))


MISUSED: Final = {
    "a word": ["--since=yesterday"],
    "the present": ["--since=@now"],
    "a duration without a unit": ["--since=2.5"],
    "a broken time": ["--since=2026-13-99T00:00:00Z"],
    "a negative limit": ["--limit=-1"],
    "a limit beyond memory": [f"--limit={'9' * 30}"],
    "an object": ["configmap", "a"],
}


@pytest.mark.parametrize("arguments", MISUSED.values(), ids=MISUSED)
def test_usage_errors(server: ServerProcess, arguments: list[str]) -> None:
    ended = history(server, "changes", *arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert len(ended.stderr.splitlines()) == 1


class AskingClient(ApiClient):
    """Remembers what it asks for; an object is changed before the second page."""

    def __init__(self, server: ServerProcess, api: Api) -> None:
        given = command.parser().parse_args(["changes", f"--kubeconfig={server.kubeconfig}"])
        super().__init__(ServerOptions.of(given), "test")
        self._api, self.asked = api, list[dict[str, str]]()

    def get(self, path: str, query: Mapping[str, str] | None = None, accept: str = "application/json") -> Any:
        self.asked.append(dict(query or {}))
        if len(self.asked) == 2:
            self._api.post(CONFIG_MAPS, config_map("meanwhile")).ok()
        return super().get(path, query, accept)


def test_all_pages_are_of_the_period_of_the_first(server: ServerProcess, api: Api) -> None:
    for number in range(3):
        api.post(CONFIG_MAPS, config_map(f"paged-{number}")).ok()
    with closing(AskingClient(server, api)) as client:
        found = [*listed_changes(client, {}, page_size=2)]
    assert "meanwhile" not in {each.target.name for each in found if isinstance(each, ListedChange)}
    first, *others = client.asked
    assert first.keys() == {"limit"}
    assert len({(each["since"], each["until"]) for each in others}) == 1


FORGED: Final = "x\nundone 7 of 7 changes by mallory"


def test_names_with_line_breaks_are_on_one_line(server: ServerProcess, api: Api) -> None:
    begin = now(api)
    user = grant(api, "", "mallory", EVERYTHING, {"verbs": ["*"], "nonResourceURLs": ["*"]})
    path = f"{RBAC}/clusterroles/{quote(FORGED, safe='')}"
    created = api.post(f"{RBAC}/clusterroles", {"metadata": {"name": FORGED}}, headers=user).ok()
    api.patch(path, {"metadata": {"labels": {"a": "b"}}}, headers=user).ok()
    outputs = [
        history(server, "changes", "--since", begin, "--by=mallory"),
        history(server, "clusterrole", FORGED),
        history(server, "blame", "clusterrole", FORGED),
        history(server, "diff", "clusterrole", FORGED, version_of(created)),
        history(server, "undo", "clusterrole", FORGED, "--dry-run=server"),
        history(server, "undo", "--by=mallory", "--since", begin),
        history(server, "purge", "clusterrole", FORGED),
    ]
    for lines in [printed(each).splitlines() for each in outputs]:
        assert lines
        assert not any(line.startswith("undone 7 of 7") for line in lines)
    assert api.get(path).status == 404


def test_a_server_without_a_history_says_so(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        assert refused(history(server, "changes")) == "the server has no history; it must run with --history"


# ---- apiserver history undo --by


@pytest.fixture(params=["embedded", pytest.param("etcd", marks=pytest.mark.etcd)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerProcess]:
    """A server on each store."""
    if request.param == "embedded":
        with ServerProcess(tmp_path / "data", "--history") as server:
            yield server
        return
    with (
        wheel_etcd(tmp_path) as etcd,
        ServerProcess(tmp_path / "data", f"--etcd-servers={etcd.url}", "--history") as server,
    ):
        yield server


def data_of(api: Api) -> dict[str, Any]:
    return {each["metadata"]["name"]: each.get("data") for each in api.get(CONFIG_MAPS).ok()["items"]}


class Vandal:
    """A user who writes ConfigMaps at random."""

    def __init__(self, api: Api, seed: int) -> None:
        self.api, self.random = api, random.Random(seed)
        self.headers = grant(api, "", f"vandal-{seed}", EVERYTHING)

    def step(self) -> None:
        name, value = f"o{self.random.randrange(4)}", str(self.random.randrange(1_000))
        api, one, headers = self.api, f"{CONFIG_MAPS}/{name}", self.headers
        match self.random.randrange(6):
            case 0 | 1:
                api.post(CONFIG_MAPS, config_map(name, k=value), headers=headers)
            case 2:
                api.put(one, config_map(name, k=value, **{f"k{value[0]}": value}), headers=headers)
            case 3:
                api.patch(one, {"data": {"k": value}, "metadata": {"labels": {"l": value}}}, headers=headers)
            case 4:
                api.apply(f"{one}?fieldManager=m&force=true", config_map(name, k=value), headers=headers)
            case _:
                api.delete(one, headers=headers)


def said(text: str) -> list[str]:
    """Returns what undoing has printed, without what a dry run does not know."""
    text = text.replace(" (server dry run)", "")
    return re.sub(r"(the new|a new) UID( [0-9a-f-]{36})? \(before: [^)]*\)", "a new UID", text).splitlines()


@pytest.mark.parametrize("seed", range(4))
def test_everything_that_one_user_has_done_is_undone(server: ServerProcess, api: Api, seed: int) -> None:
    """And a dry run says before what will be done."""
    for number in (0, 1):
        api.send("PUT", f"{CONFIG_MAPS}/o{number}", config_map(f"o{number}", k="before", other="1"))
    vandal = Vandal(api, seed)
    before, begin = data_of(api), now(api)
    for _ in range(25):
        vandal.step()
    arguments = ("undo", f"--by=vandal-{seed}", "--since", begin)
    after = api.get(CONFIG_MAPS).ok()
    assert data_of(api) != before
    dry = printed(history(server, *arguments, "--dry-run=server"))
    assert api.get(CONFIG_MAPS).ok()["items"] == after["items"]
    assert said(printed(history(server, *arguments))) == said(dry)
    assert data_of(api) == before
    last = dry.splitlines()[-1]
    count = len(changes(api, since=begin, by=f"vandal-{seed}"))
    assert re.fullmatch(rf"undone \d+ of {count} changes by vandal-{seed} \(server dry run\)", last)


def test_changes_in_every_way_are_undone_on_each_store(store: ServerProcess) -> None:
    with Api(store) as api:
        user = grant(api, "", "vandal", EVERYTHING)
        for name in ("kept", "deleted", "swept-1", "swept-2"):
            api.post(CONFIG_MAPS, config_map(name, a="1")).ok()
        api.post(DEPLOYMENTS, deployment("web")).ok()
        api.patch(f"{DEPLOYMENTS}/web/status", {"status": {"replicas": 1}}).ok()
        before, begin = data_of(api), now(api)
        api.patch(f"{CONFIG_MAPS}/kept", {"data": {"a": "2"}}, headers=user).ok()
        api.patch(f"{CONFIG_MAPS}/kept", {"data": {"b": "1"}}).ok()
        api.patch(f"{CONFIG_MAPS}/deleted", {"data": {"a": "2"}}, headers=user).ok()
        api.delete(f"{CONFIG_MAPS}/deleted", headers=user).ok()
        api.delete(f"{CONFIG_MAPS}?fieldSelector=metadata.name!=kept", headers=user).ok()
        api.post(CONFIG_MAPS, config_map("new"), headers=user).ok()
        api.patch(f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": 5}}, headers=user).ok()
        api.patch(f"{DEPLOYMENTS}/web/status", {"status": {"replicas": 5}}, headers=user).ok()
        out = printed(history(store, "undo", "--by=vandal", "--since", begin))
        assert "configmaps/deleted in default: undone change" in out
        assert "created again with the new UID" in out
        # What others have changed stays.
        assert data_of(api) == before | {"kept": {"a": "1", "b": "1"}}
        web = api.get(f"{DEPLOYMENTS}/web").ok()
        assert (web["spec"]["replicas"], web["status"]["replicas"]) == (1, 1)
        authors = {each["user"] for each in changes(api, since=begin)}
        # The undoing is by the user of the command.
        assert authors >= {"vandal", "admin", "kubernetes-admin"}


def test_what_others_have_changed_since_is_refused_and_the_rest_is_undone(
    server: ServerProcess, api: Api
) -> None:
    user = grant(api, "", "meddler", EVERYTHING)
    other = grant(api, "default", "later-one", rule("patch delete create", "configmaps"))
    for name in ("free", "taken", "gone", "replaced"):
        api.post(CONFIG_MAPS, config_map(name, a="1")).ok()
    begin = now(api)
    for name in ("replaced", "gone", "taken", "free"):
        api.patch(f"{CONFIG_MAPS}/{name}", {"data": {"a": "2"}}, headers=user).ok()
    taken = version_of(api.patch(f"{CONFIG_MAPS}/taken", {"data": {"a": "3"}}, headers=other).ok())
    api.patch(f"{CONFIG_MAPS}/taken", {"data": {"a": "4"}}, headers=user).ok()
    api.delete(f"{CONFIG_MAPS}/gone", headers=other).ok()
    api.delete(f"{CONFIG_MAPS}/replaced", headers=user).ok()
    api.post(CONFIG_MAPS, config_map("replaced", a="9"), headers=other).ok()
    for flags in (["--dry-run=server"], []):
        ended = history(server, "undo", "--by=meddler", "--since", begin, *flags)
        assert ended.returncode == 1
        lines = sorted(ended.stderr.splitlines())
        assert len(lines) == 4
        # Not the command itself, which has just undone the last change of this field.
        later = rf"data\.a has been changed by later-one at \S+ \(version {taken}\)$"
        assert re.search(rf"of configmaps/taken in default: {later}", lines[0])
        assert "configmaps/gone in default has been deleted by later-one at" in lines[1]
        assert "configmaps/replaced in default has been created again by later-one at" in lines[2]
        assert "configmaps/replaced in default has been deleted by meddler at" in lines[3]
        assert ended.stdout.splitlines()[-1].startswith("undone 2 of 6 changes by meddler")
    assert {name: data_of(api)[name] for name in ("free", "taken", "replaced")} == {
        "free": {"a": "1"},
        "taken": {"a": "3"},
        "replaced": {"a": "9"},
    }
    # What was undone is not undone a second time.
    again = history(server, "undo", "--by=meddler", "--since", begin)
    assert again.stdout.splitlines()[-1].startswith("undone 0 of 6 changes")
    assert "the fields of configmaps/free in default already have the values" in again.stdout


def test_a_request_that_is_refused_does_not_stop_the_others(
    server: ServerProcess, api: Api, tmp_path: Path
) -> None:
    """Here, the command's user may write in one namespace, and only read in another one."""
    user = grant(api, "", "roaming", EVERYTHING)
    api.post("/api/v1/namespaces", {"metadata": {"name": "read-only"}}).ok()
    places = (CONFIG_MAPS, "/api/v1/namespaces/read-only/configmaps")
    for path in places:
        api.post(path, config_map("refused-here", a="1")).ok()
    begin = now(api)
    for path in places:
        api.patch(f"{path}/refused-here", {"data": {"a": "2"}}, headers=user).ok()
    asking(api, "", "alice", *MAY_SEE, rule("get", "configmaps"))
    grant(api, "default", "alice", rule("update", "configmaps"))
    config = write_kubeconfig(tmp_path / "config", server.url, ca=server.ca_path, token="alice-token")
    arguments = ("undo", "--by=roaming", "--since", begin, f"--kubeconfig={config}")
    ended = history(server, *arguments)
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert "of configmaps/refused-here in read-only: " in line
    assert "is forbidden" in line
    assert [api.get(f"{path}/refused-here").ok()["data"]["a"] for path in places] == ["1", "2"]
    # A namespace that is named limits it.
    printed(history(server, *arguments, "-n", "default"))


def test_values_of_secrets_are_refused_and_labels_are_undone(server: ServerProcess, api: Api) -> None:
    user = grant(api, "", "leaker", EVERYTHING)
    begin = now(api)
    for name in ("made", "changed"):
        by = {"headers": user} if name == "made" else {}
        api.post(SECRETS, {"metadata": {"name": name}, "stringData": {"k": "value-of-it"}}, **by).ok()
        api.patch(f"{SECRETS}/{name}", {"metadata": {"labels": {"a": "b"}}}, headers=user).ok()
    api.patch(f"{SECRETS}/changed", {"stringData": {"k": "other-value"}}, headers=user).ok()
    for flags in (["--dry-run=server"], []):
        ended = history(server, "undo", "--by=leaker", "--since", begin, *flags)
        assert ended.returncode == 1
        (line,) = ended.stderr.splitlines()
        assert line.endswith("the history has no values and annotations of Secrets")
        assert ended.stdout.splitlines()[-1].startswith("undone 3 of 4 changes")
        assert "value" not in ended.stdout
    assert api.get(f"{SECRETS}/made").status == 404
    found = api.get(f"{SECRETS}/changed").ok()
    assert base64.b64decode(found["data"]["k"]) == b"other-value"
    assert "labels" not in found["metadata"]


MISUSED_UNDO: Final = {
    "no object": ["undo"],
    "no name": ["undo", "configmap"],
    "no begin": ["undo", "--by=admin"],
    "no user": ["undo", "--by=", "--since=1h"],
    "a begin without a user": ["undo", "configmap", "a", "--since=1h"],
    "an end without a user": ["undo", "configmap", "a", "--until=1h"],
    "an object and a user": ["undo", "configmap", "a", "--by=admin", "--since=1h"],
    "a change and a user": ["undo", "--change=5", "--by=admin", "--since=1h"],
    "the present": ["undo", "--by=admin", "--since=@now"],
}


@pytest.mark.parametrize("arguments", MISUSED_UNDO.values(), ids=MISUSED_UNDO)
def test_usage_errors_of_undo(server: ServerProcess, arguments: list[str]) -> None:
    ended = history(server, *arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert len(ended.stderr.splitlines()) == 1
