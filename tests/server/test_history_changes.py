"""`GET /history`: what has changed lately, and who changed it, for those who may see it."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import pytest

from tests.server.test_audit import Log
from tests.server.test_history_commands import history
from tests.support.api import Api
from tests.support.audit import audit_flags
from tests.support.definitions import OPEN_SPEC, define, definition, version
from tests.support.etcd_process import EtcdProcess, wheel_etcd
from tests.support.eventually import until
from tests.support.rbac import RBAC, grant, rule
from tests.support.server_process import ServerProcess

CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
SECRETS: Final = "/api/v1/namespaces/default/secrets"
DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/default/deployments"
# What everybody needs who asks at all.
ASKS: Final = {"verbs": ["get"], "nonResourceURLs": ["/history"]}
EVERYTHING: Final = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
MAY_SEE: Final = (rule("list", "configmaps"), rule("get", "configmaps/history"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("changes"), "--history") as server:
        yield server


@pytest.fixture
def api(server: ServerProcess) -> Iterator[Api]:
    with Api(server) as api:
        yield api


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def version_of(document: Any) -> str:
    return str(document["metadata"]["resourceVersion"])


def now(api: Api) -> str:
    """Returns the newest revision."""
    return version_of(api.get("/api/v1/namespaces").ok())


def changes(api: Api, headers: Mapping[str, str] | None = None, **query: str) -> list[dict[str, Any]]:
    """Returns what all pages have."""
    found: list[dict[str, Any]] = []
    while True:
        page = api.get(f"/history?{urlencode(query)}", headers=headers).ok()
        found += page["changes"]
        if "continue" not in page:
            return found
        query["continue"] = page["continue"]


def told(found: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    return [(each["user"], each["verb"], each["resource"], each["name"]) for each in found]


def asking(api: Api, namespace: str, name: str, *rules: dict[str, Any]) -> dict[str, str]:
    """A user who may ask for changes, and has other rights in a namespace; empty for everywhere."""
    grant(api, "", f"{name}-asks", ASKS)
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}
    path = f"{RBAC}/clusterrolebindings/{name}-asks"
    api.patch(path, {"subjects": [subject]}).ok()
    return grant(api, namespace, name, *rules)


# ---- what is listed


def test_changes_of_all_objects_have_their_authors(api: Api) -> None:
    since = now(api)
    writer = grant(api, "default", "a-writer", rule("patch get update", "configmaps"))
    begin = now(api)
    created = version_of(
        api.post(CONFIG_MAPS, config_map("listed", a="1"), headers={"Audit-ID": "mine"}).ok()
    )
    api.patch(f"{CONFIG_MAPS}/listed?fieldManager=m", {"data": {"a": "2", "b": "1"}}, headers=writer).ok()
    api.post("/api/v1/namespaces", {"metadata": {"name": "listed"}}).ok()
    api.delete(f"{CONFIG_MAPS}/listed").ok()
    found = [each for each in changes(api, since=begin) if each["user"] in ("admin", "a-writer")]
    assert told(found) == [
        ("admin", "delete", "configmaps", "listed"),
        ("admin", "create", "namespaces", "listed"),
        ("a-writer", "patch", "configmaps", "listed"),
        ("admin", "create", "configmaps", "listed"),
    ]
    assert found[0]["deleted"]
    assert "namespace" not in found[1]
    assert (found[2]["namespace"], found[2]["version"]) == ("default", "v1")
    assert (found[2]["changedFields"], found[2]["fieldManager"]) == (["data.a", "data.b"], "m")
    assert (found[3]["resourceVersion"], found[3]["auditID"]) == (created, "mine")
    # Each is as in the list of the object's versions.
    versions = api.get(f"{CONFIG_MAPS}/listed/history").ok()["versions"]
    where = {"version", "resource", "namespace", "name"}
    assert [
        {key: value for key, value in each.items() if key not in where} for each in found[2:]
    ] == versions[1:]
    assert {each["resource"] for each in changes(api, since=since, until=begin)} == {"roles", "rolebindings"}


def test_changes_are_selected(api: Api) -> None:
    begin = now(api)
    api.post("/api/v1/namespaces", {"metadata": {"name": "selected"}}).ok()
    user = grant(api, "selected", "selecting", rule("create", "configmaps"))
    for number in range(3):
        api.post("/api/v1/namespaces/selected/configmaps", config_map(f"c{number}"), headers=user).ok()
        api.post(CONFIG_MAPS, config_map(f"selected-{number}")).ok()
    names = [each["name"] for each in changes(api, since=begin, by="selecting")]
    assert names == ["c2", "c1", "c0"]
    assert len(changes(api, since=begin, namespace="selected", by="admin")) == 2  # the role and its binding
    assert changes(api, since=begin, by="nobody") == []
    assert changes(api, since=begin, namespace="default", by="selecting") == []


def test_pages_together_have_all_changes(api: Api) -> None:
    begin = now(api)
    for number in range(25):
        api.post(CONFIG_MAPS, config_map(f"paged-{number}")).ok()
    end = now(api)
    whole = changes(api, since=begin, until=end)
    assert [each["name"] for each in whole] == [f"paged-{number}" for number in range(25)][::-1]
    for limit in (1, 7, 25, 26):
        assert changes(api, since=begin, until=end, limit=str(limit)) == whole
    first = api.get(f"/history?since={begin}&limit=7").ok()
    assert len(first["changes"]) == 7
    # What changes meanwhile is not on later pages.
    api.post(CONFIG_MAPS, config_map("paged-later")).ok()
    rest = changes(api, since=begin, **{"continue": first["continue"]})
    assert first["changes"] + rest == whole
    assert (first["since"], first["until"]) == (begin, end)


def test_times_include_their_second(api: Api) -> None:
    api.post(CONFIG_MAPS, config_map("before-it")).ok()
    time.sleep(1.1)
    created = api.post(CONFIG_MAPS, config_map("in-it")).ok()
    (at,) = [each["time"] for each in changes(api, namespace="default") if each["name"] == "in-it"]
    second = f"{at.partition('.')[0]}Z"
    for query in ({"since": second}, {"since": second, "until": second}, {"since": at, "until": at}):
        names = [each["name"] for each in changes(api, namespace="default", **query)]
        assert "in-it" in names
        assert "before-it" not in names
    assert changes(api, since=version_of(created), until=version_of(created)) == []


REFUSED: Final = {
    "a future revision": ("since=999999999", 400, "since: revision 999999999 is in the future"),
    "a future time": ("since=2999-01-01T00:00:00Z", 400, "since: 2999-01-01T00:00:00Z is in the future"),
    "an end in the future": ("until=999999999", 400, "until: "),
    "no moment": ("since=yesterday", 400, "since: 'yesterday' is neither"),
    "an end that is no moment": ("until=%00", 400, "until: "),
    "before the history": ("since=2001-01-01T00:00:00Z", 410, "since: the history does not have all"),
    "an end before the history": ("until=2001-01-01T00:00:00Z", 410, "until: the history does not have all"),
    "an end before the begin": ("since={now}&until={before}", 400, "until: {before} is before since"),
    "a misspelt filter": ("user=alice", 400, "unknown parameter 'user': the request takes since"),
    "two filters": ("by=alice&by=bob", 400, "the parameter by must be set once"),
    "a huge limit": ("limit=501", 400, "limit must be at most 500, not 501"),
    "too many digits": ("limit=" + "9" * 400, 400, "limit must be a positive number"),
    "a negative limit": ("limit=-1", 400, "limit must be a positive number"),
    "a word as a position": ("continue=abc", 400, "continue must be a positive number"),
    "a position in the future": ("continue=999999999999999", 400, "continue is not from a response"),
    "a position before the begin": ("since={now}&continue=70000", 400, "continue is not from a response"),
    "digits of another script": ("continue=%D9%A1", 400, "continue must be a positive number"),
}


@pytest.mark.parametrize(("query", "status", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(api: Api, query: str, status: int, message: str) -> None:
    api.post(CONFIG_MAPS, config_map("refused"))
    last = now(api)
    texts = {"now": last, "before": str(int(last) - 1)}
    answer = api.get(f"/history?{query.format_map(texts)}")
    assert answer.status == status
    assert answer.message.startswith(message.format_map(texts))


def test_other_methods_and_paths_are_refused(api: Api, tmp_path: Path) -> None:
    for method in ("POST", "PUT", "PATCH"):
        assert api.send(method, "/history", {}).status == 405
    assert api.get(f"/at/{now(api)}/history").status == 404
    with ServerProcess(tmp_path / "data") as without, Api(without) as other:
        assert other.get("/history").status == 404


# ---- gaps


def test_gaps_are_shown(tmp_path: Path) -> None:
    """A file that is damaged is a gap, with what is before and after it."""
    flags = ["--history", "--history-max-bytes=4194304", "--controllers=-*"]
    with ServerProcess(tmp_path / "data", *flags) as server:
        numbers = count()
        with Api(server) as api:
            directory = tmp_path / "data" / "history"
            while len(files := sorted(directory.glob("*.history"))) < 3:
                noise = random.Random(next(numbers)).randbytes(40_000).hex()
                api.put(f"{CONFIG_MAPS}/big", config_map("big", noise=noise))
                api.post(CONFIG_MAPS, config_map("big", noise=noise))
                # All is recorded then: what is recorded at once is in one file, however large.
                api.get("/history?limit=1").ok()
            # The newest file may be empty yet.
            api.post(CONFIG_MAPS, config_map("newest"))
        server.stop()
        for end in ("-wal", "-shm"):
            files[1].with_name(files[1].name + end).unlink(missing_ok=True)
        files[1].write_bytes(b"damaged")
        server.start()
        with Api(server) as api:
            found = changes(api, limit="10", namespace="default")
            (gap,) = [each["gap"] for each in found if "gap" in each]
            place = next(index for index, each in enumerate(found) if "gap" in each)
            newer, older = found[:place], found[place + 1 :]
            assert min(int(each["resourceVersion"]) for each in newer) > int(gap["until"])
            assert max(int(each["resourceVersion"]) for each in older) <= int(gap["since"])
            inside = str((int(gap["since"]) + int(gap["until"])) // 2)
            assert changes(api, since=inside, until=str(int(inside) + 1)) == [{"gap": gap}]
            assert {"gap": gap} in changes(api, since=inside)
            assert {"gap": gap} not in changes(api, since=gap["until"])
            assert {"gap": gap} not in changes(api, until=gap["since"])


@pytest.mark.etcd
def test_what_the_store_has_compacted_unseen_is_a_gap(tmp_path: Path, etcd: EtcdProcess) -> None:
    flags = [f"--etcd-servers={etcd.url}", "--etcd-prefix=/changes-gap", "--controllers=-*"]
    with (
        ServerProcess(tmp_path / "one", *flags, "--history") as recording,
        ServerProcess(tmp_path / "two", *flags) as other,
        Api(other) as there,
    ):
        with Api(recording) as here:
            before = version_of(here.post(CONFIG_MAPS, config_map("seen")).ok())
            assert changes(here, since=str(int(before) - 1))[0]["name"] == "seen"
        recording.send_signal(signal.SIGKILL)
        recording.wait()
        there.post(CONFIG_MAPS, config_map("unseen")).ok()
        compacted = version_of(there.post(CONFIG_MAPS, config_map("unseen-2")).ok())
        etcd.ctl("compact", compacted)
        recording.start()
        with Api(recording) as here:
            here.post(CONFIG_MAPS, config_map("seen-again")).ok()
            found = changes(here, since=str(int(before) - 1), namespace="default")
            assert [each.get("name", "a gap") for each in found] == ["seen-again", "a gap", "seen"]
            gap = found[1]["gap"]
            assert int(before) <= int(gap["since"]) < int(gap["until"]) == int(compacted)
            # Who undoes what a user has done learns of it, too.
            undone = history(recording, "undo", "--by=admin", "--since", before)
            assert undone.returncode == 1
            assert undone.stderr.startswith(
                f"apiserver: changes after revision {gap['since']}, up to {compacted}"
            )
            assert undone.stdout.endswith("undone 1 of 1 changes by admin\n")


# ---- rights


def test_only_who_may_list_and_read_the_history_sees_a_change(api: Api) -> None:
    begin = now(api)
    api.post("/api/v1/namespaces", {"metadata": {"name": "elsewhere"}}).ok()
    for path in (CONFIG_MAPS, "/api/v1/namespaces/elsewhere/configmaps"):
        api.post(path, config_map("seen-by", k="value-of-it")).ok()
    api.post(SECRETS, {"metadata": {"name": "seen-by"}, "stringData": {"k": "value-of-it"}}).ok()
    users = {
        "sees-here": ("default", MAY_SEE, ["default"]),
        "sees-all": ("", MAY_SEE, ["elsewhere", "default"]),
        "only-lists": ("default", (rule("get list watch", "configmaps"),), []),
        "only-history": ("default", (rule("get", "configmaps/history"),), []),
        "only-one": ("default", (rule("list", "configmaps", "seen-by"), MAY_SEE[1]), []),
        "gets": ("default", (rule("get", "configmaps", "configmaps/history"),), []),
        "nothing": ("default", (rule("get", "pods"),), []),
    }
    for name, (namespace, rules, seen) in users.items():
        headers = asking(api, namespace, name, *rules)
        page = api.get(f"/history?since={begin}", headers=headers)
        assert [(each["namespace"], each["name"]) for each in page.ok()["changes"]] == [
            (each, "seen-by") for each in seen
        ], name
        assert b"value-of-it" not in page.body
        if not seen:
            # Nothing tells that there was more.
            assert page.json.keys() == {"since", "until", "changes"}
    assert api.get("/history", headers={"Impersonate-User": "nobody"}).status == 403


def test_a_right_that_is_revoked_ends_at_once(api: Api) -> None:
    begin = now(api)
    api.post(CONFIG_MAPS, config_map("revoked")).ok()
    user = asking(api, "default", "revoked", *MAY_SEE)
    assert len(changes(api, user, since=begin)) == 1
    api.patch(f"{RBAC}/namespaces/default/roles/revoked", {"rules": [MAY_SEE[0]]}).ok()
    until(lambda: changes(api, user, since=begin) == [])


def test_an_earlier_object_needs_the_right_everywhere(api: Api) -> None:
    begin = now(api)
    for _ in range(2):
        api.post(CONFIG_MAPS, config_map("again")).ok()
        api.delete(f"{CONFIG_MAPS}/again").ok()
    here, everywhere = asking(api, "default", "again-here", *MAY_SEE), asking(api, "", "again-all", *MAY_SEE)
    assert [each["verb"] for each in changes(api, here, since=begin)] == ["delete", "create"]
    assert [each["verb"] for each in changes(api, everywhere, since=begin)] == ["delete", "create"] * 2


def test_an_earlier_namespace_needs_the_right_everywhere(api: Api) -> None:
    begin, namespace = now(api), "/api/v1/namespaces/reborn"
    api.post("/api/v1/namespaces", {"metadata": {"name": "reborn"}}).ok()
    api.post(f"{namespace}/configmaps", config_map("old")).ok()
    api.delete(namespace).ok()
    until(lambda: api.get(namespace).status == 404)
    gone = asking(api, "", "reborn-all", *MAY_SEE)
    api.post("/api/v1/namespaces", {"metadata": {"name": "reborn"}}).ok()
    api.post(f"{namespace}/configmaps", config_map("new")).ok()
    here = asking(api, "reborn", "reborn-here", *MAY_SEE)
    assert [each["name"] for each in changes(api, here, since=begin)] == ["new"]
    assert [each["name"] for each in changes(api, gone, since=begin)] == ["new", "old", "old"]


def test_a_resource_that_is_not_served_any_more_has_no_changes(api: Api) -> None:
    begin = now(api)
    define(api, definition("changes.example.com", version(schema=OPEN_SPEC)))
    widgets = "/apis/changes.example.com/v1/namespaces/default/widgets"
    widget = {"apiVersion": "changes.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    api.post(widgets, widget).ok()
    assert any(each["resource"] == "widgets" for each in changes(api, since=begin))
    api.delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.changes.example.com").ok()
    until(lambda: api.get(widgets).status == 404)
    assert not any(each["resource"] == "widgets" for each in changes(api, since=begin))


def test_values_of_secrets_are_not_shown(api: Api) -> None:
    begin = now(api)
    api.post(SECRETS, {"metadata": {"name": "s"}, "stringData": {"key": "value-of-key"}}).ok()
    api.patch(f"{SECRETS}/s", {"stringData": {"key": "other-value"}}).ok()
    page = api.get(f"/history?since={begin}")
    assert page.ok()["changes"][0]["changedFields"] == ["data.key"]
    assert b"redacted" not in page.body


# ---- beside the audit log


class Users:
    """Several users who write at random, in every way."""

    def __init__(self, api: Api, seed: int) -> None:
        self.api, self.random = api, random.Random(seed)
        self.headers = [grant(api, "", f"user-{number}", EVERYTHING) for number in range(3)]

    def step(self) -> None:
        api, headers = self.api, self.random.choice(self.headers)
        name, value = f"o{self.random.randrange(5)}", str(self.random.randrange(1_000))
        one = f"{CONFIG_MAPS}/{name}"
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
        spec = {"selector": {"matchLabels": labels}, "template": template}
        match self.random.randrange(10):
            case 0 | 1:
                api.post(CONFIG_MAPS, config_map(name, k=value), headers=headers)
            case 2:
                api.put(one, config_map(name, k=value), headers=headers)
            case 3:
                api.patch(one, {"data": {"k": value[0]}}, headers=headers)
            case 4:
                document = config_map(name, k=value)
                api.apply(f"{one}?fieldManager=m{value[0]}&force=true", document, headers=headers)
            case 5:
                api.delete(one, headers=headers)
            case 6:
                api.delete(f"{CONFIG_MAPS}?fieldSelector=metadata.name!={name}", headers=headers)
            case 7:
                api.post(DEPLOYMENTS, {"metadata": {"name": name}, "spec": spec}, headers=headers)
            case 8:
                body = {"spec": {"replicas": int(value) % 3}}
                api.patch(f"{DEPLOYMENTS}/{name}/scale", body, headers=headers)
            case _:
                body = {"status": {"replicas": int(value)}}
                api.patch(f"{DEPLOYMENTS}/{name}/status", body, headers=headers)


@pytest.fixture(params=["embedded", pytest.param("etcd", marks=pytest.mark.etcd)])
def audited(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerProcess]:
    policy = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: RequestResponse}]}"
    flags = ["--history", *audit_flags(tmp_path, policy)]
    if request.param == "embedded":
        with ServerProcess(tmp_path / "data", *flags) as server:
            yield server
        return
    with (
        wheel_etcd(tmp_path) as etcd,
        ServerProcess(tmp_path / "data", f"--etcd-servers={etcd.url}", *flags) as server,
    ):
        yield server


def test_changes_are_those_in_the_audit_log(audited: ServerProcess, tmp_path: Path) -> None:
    """By user, verb, object and audit ID, and the revisions of the answers are those of the changes."""
    with Api(audited) as api:
        users = Users(api, seed=3)
        begin = now(api)
        for _ in range(150):
            users.step()
        last = api.get("/api/v1/namespaces")
        found = [each for each in changes(api, since=begin, limit="20") if each["user"].startswith("user-")]
        by_user = {f"user-{number}": changes(api, since=begin, by=f"user-{number}") for number in range(3)}
        log = Log(tmp_path / "audit.log")
        log.of(last.headers["audit-id"])
        events = [each for each in log.all() if each["stage"] == "ResponseComplete"]
    written = {
        each["auditID"]: each
        for each in events
        if each.get("impersonatedUser", {}).get("username", "").startswith("user-")
        and each["responseStatus"]["code"] < 300
    }
    assert found
    # These requests are in it, too.
    assert sum(each["requestURI"].startswith("/history?") for each in events) > 4
    assert sorted(found, key=_place) == sorted(
        (each for user in by_user.values() for each in user), key=_place
    )
    for each in found:
        event = written[each["auditID"]]
        target = event["objectRef"]
        assert (each["user"], each["verb"], each["resource"], each["namespace"]) == (
            event["impersonatedUser"]["username"],
            event["verb"],
            target["resource"],
            target["namespace"],
        )
        assert each.get("subresource") == target.get("subresource")
        assert target.get("name", each["name"]) == each["name"]
    changed = Counter(each["auditID"] for each in found)
    for audit_id, event in written.items():
        answer = event.get("responseObject", {})
        if event["verb"] == "deletecollection":
            assert changed[audit_id] == len(answer["items"])
        elif event["verb"] == "delete":
            assert changed[audit_id] == 1
        else:
            # A write that changes nothing has the revision of another one.
            made = [each for each in found if each["resourceVersion"] == version_of(answer)]
            assert len(made) == 1
            assert changed[audit_id] == (made[0]["auditID"] == audit_id)
    assert {each["verb"] for each in found} == {"create", "update", "patch", "delete", "deletecollection"}


def _place(change: dict[str, Any]) -> tuple[int, str]:
    return int(change["resourceVersion"]), change["name"]
