"""The history of objects: each state can be read as it was, by those who may read it, and has its author."""

from __future__ import annotations

import base64
import contextlib
import random
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.api import Api
from tests.support.definitions import OPEN_SPEC, define, definition, version
from tests.support.etcd_process import EtcdProcess, wheel_etcd
from tests.support.eventually import until
from tests.support.kubectl import Kubectl, each_version, program
from tests.support.metrics import metric
from tests.support.rbac import grant, rule
from tests.support.server_process import ServerProcess

CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
SECRETS: Final = "/api/v1/namespaces/default/secrets"
DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/default/deployments"
WIDGETS: Final = "/apis/history.example.com/v1/namespaces/default/widgets"
LISTS: Final = (CONFIG_MAPS, DEPLOYMENTS, WIDGETS, "/api/v1/configmaps", "/api/v1/namespaces")


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


def deployment(name: str) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template}}


def version_of(document: Any) -> str:
    return str(document["metadata"]["resourceVersion"])


class Writer:
    """Writes by every path, at random, and remembers every state that it has seen."""

    def __init__(self, api: Api, seed: int) -> None:
        self.api, self.random = api, random.Random(seed)
        self.states: dict[tuple[str, str], list[Any]] = {}

    def define(self) -> None:
        define(self.api, definition("history.example.com", version(schema=OPEN_SPEC)))

    def remember(self) -> None:
        for path in LISTS:
            listed = self.api.get(path).ok()
            self.states[path, version_of(listed)] = listed["items"]

    def step(self) -> None:
        name = f"o{self.random.randrange(6)}"
        value = str(self.random.randrange(1_000))
        api, one = self.api, f"{CONFIG_MAPS}/{name}"
        match self.random.randrange(10):
            case 0:
                api.post(CONFIG_MAPS, config_map(name, k=value))
            case 1:
                api.put(one, config_map(name, k=value))
            case 2:
                api.patch(one, {"data": {"k": value}})
            case 3:
                api.apply(f"{one}?fieldManager=m{value[0]}&force=true", config_map(name, k=value))
            case 4:
                api.delete(one)
            case 5:
                api.post(DEPLOYMENTS, deployment(name))
                api.patch(f"{DEPLOYMENTS}/{name}/scale", {"spec": {"replicas": int(value)}})
            case 6:
                api.patch(f"{DEPLOYMENTS}/{name}/status", {"status": {"replicas": int(value)}})
            case 7:
                api.delete(f"{CONFIG_MAPS}?fieldSelector=metadata.name={name}")
            case 8:
                widget = {
                    "apiVersion": "history.example.com/v1",
                    "kind": "Widget",
                    "metadata": {"name": name},
                }
                api.post(WIDGETS, {**widget, "spec": {"size": int(value)}})
            case _:
                api.delete(f"{WIDGETS}/{name}")
        self.remember()

    def check(self) -> None:
        for (path, revision), items in self.states.items():
            listed = self.api.get(f"/at/{revision}{path}").ok()
            assert listed["metadata"]["resourceVersion"] == revision
            assert listed["items"] == items, (path, revision)
            for item in items[:2]:
                where = item["metadata"].get("namespace")
                if where == "default" and path != "/api/v1/configmaps":
                    found = self.api.get(f"/at/{revision}{path}/{item['metadata']['name']}").ok()
                    assert found["metadata"] == item["metadata"]


def test_a_change_of_the_type_alone_is_a_changed_field(api: Api) -> None:
    """In JSON, true and 1 differ, unlike in Python."""
    define(api, definition("types.example.com", version(schema=OPEN_SPEC)))
    path = "/apis/types.example.com/v1/namespaces/default/widgets"
    widget = {"apiVersion": "types.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}
    api.post(path, {**widget, "spec": {"a": True}}).ok()
    api.patch(f"{path}/a", {"spec": {"a": 1}}).ok()
    last, _ = api.get(f"{path}/a/history").ok()["versions"]
    assert last["changedFields"] == ["metadata.generation", "spec.a"]
    api.delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.types.example.com").ok()
    until(lambda: api.get(path).status == 404, what="the definition is gone")


@pytest.fixture(params=["embedded", "etcd"])
def writing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerProcess]:
    """A server with a history on each store, which may be stopped."""
    flags = ["--history", "--etcd-compaction-interval=0"]
    if request.param == "embedded":
        with ServerProcess(tmp_path / "data", *flags) as server:
            yield server
        return
    with (
        wheel_etcd(tmp_path) as etcd,
        ServerProcess(tmp_path / "data", f"--etcd-servers={etcd.url}", *flags) as server,
    ):
        yield server


def test_every_state_can_be_read_later(writing: ServerProcess) -> None:
    """Also after a restart, and when the server was killed at some moment."""
    with Api(writing) as api:
        writer = Writer(api, seed=1)
        writer.define()
        for _ in range(40):
            writer.step()
        writer.check()
    for end in ("stop", "kill"):
        getattr(writing, end)()
        writing.start()
        with Api(writing) as api:
            writer.api = api
            for _ in range(10):
                writer.step()
            writer.check()
            if end == "kill":
                versions = [
                    each
                    for item in api.get(CONFIG_MAPS).ok()["items"]
                    for each in api.get(f"{CONFIG_MAPS}/{item['metadata']['name']}/history").ok()["versions"]
                    if item["metadata"]["name"].startswith("o")
                ]
                assert versions
                assert {each["user"] for each in versions} == {"admin"}


def test_a_version_has_its_author(api: Api) -> None:
    path = f"{CONFIG_MAPS}/authors"
    agent = {"User-Agent": "tool/1.0 (test)"}
    api.post(CONFIG_MAPS, config_map("authors", a="1"), headers={**agent, "Audit-ID": "my-id"}).ok()
    user = grant(api, "default", "writer", rule("patch get update", "configmaps"))
    api.patch(f"{path}?fieldManager=mine", {"data": {"a": "2", "b": "1"}}, headers={**agent, **user}).ok()
    api.apply(f"{path}?fieldManager=applier&force=true", config_map("authors", a="3")).ok()
    api.delete(path, headers=agent).ok()
    versions = api.get(f"{path}/history").ok()["versions"]
    told = [
        (each["verb"], each["user"], each.get("fieldManager"), each.get("changedFields"), each.get("deleted"))
        for each in versions
    ]
    assert told == [
        ("delete", "admin", "tool", None, True),
        ("patch", "admin", "applier", ["data.a"], None),
        ("patch", "writer", "mine", ["data.a", "data.b"], None),
        ("create", "admin", "tool", None, None),
    ]
    assert versions[-1]["auditID"] == "my-id"
    assert versions[-1]["userAgent"] == "tool/1.0 (test)"
    assert versions[1]["groupsDigest"] != versions[2]["groupsDigest"]


def test_versions_are_paged(api: Api) -> None:
    path = f"{CONFIG_MAPS}/pages"
    made = [version_of(api.post(CONFIG_MAPS, config_map("pages", n="0")).ok())]
    made += [version_of(api.patch(path, {"data": {"n": str(n)}}).ok()) for n in range(1, 25)]
    found: list[Any] = []
    query = "?limit=10"
    while True:
        page = api.get(f"{path}/history{query}").ok()
        found += page["versions"]
        if "continue" not in page:
            break
        query = f"?limit=10&before={page['continue']['before']}"
    assert [each["resourceVersion"] for each in found] == made[::-1]


def test_a_time_is_a_moment(api: Api) -> None:
    path = f"{CONFIG_MAPS}/times"
    api.post(CONFIG_MAPS, config_map("times", n="1")).ok()
    time.sleep(1.1)  # Times have whole seconds here.
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 1))
    api.patch(path, {"data": {"n": "2"}}).ok()
    assert api.get(f"/at/{moment}{path}").ok()["data"] == {"n": "1"}
    assert api.get(path).ok()["data"] == {"n": "2"}


def test_lists_have_selectors_and_tables(api: Api) -> None:
    for name in ("red", "blue"):
        labelled = config_map(f"select-{name}", k="1")
        labelled["metadata"]["labels"] = {"colour": name}
        created = api.post(CONFIG_MAPS, labelled).ok()
    api.delete(f"{CONFIG_MAPS}/select-red").ok()
    at = f"/at/{version_of(created)}{CONFIG_MAPS}"
    found = api.get(f"{at}?labelSelector=colour%3Dred&limit=1").ok()["items"]
    assert [each["metadata"]["name"] for each in found] == ["select-red"]
    found = api.get(f"{at}?fieldSelector=metadata.name%3Dselect-blue").ok()["items"]
    assert [each["metadata"]["name"] for each in found] == ["select-blue"]
    table = api.get(at, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}).ok()
    assert {"select-red", "select-blue"} <= {row["cells"][0] for row in table["rows"]}


REFUSED: Final = {
    "a write": ("POST", "/at/{rv}" + CONFIG_MAPS, 405),
    "a deletion": ("DELETE", "/at/{rv}" + CONFIG_MAPS + "/x", 405),
    "a watch": ("GET", "/at/{rv}" + CONFIG_MAPS + "?watch=true", 405),
    "a subresource": ("GET", "/at/{rv}" + DEPLOYMENTS + "/x/scale", 405),
    "the future": ("GET", "/at/999999999" + CONFIG_MAPS, 400),
    "a future time": ("GET", "/at/2999-01-01T00:00:00Z" + CONFIG_MAPS, 400),
    "no moment": ("GET", "/at/yesterday" + CONFIG_MAPS, 400),
    "digits of another script": ("GET", "/at/%D9%A1%D9%A2" + CONFIG_MAPS, 400),
    "too many digits": ("GET", "/at/" + "9" * 400 + CONFIG_MAPS, 400),
    "before the history": ("GET", "/at/2001-01-01T00:00:00Z" + CONFIG_MAPS, 410),
    "no such object": ("GET", "/at/{rv}" + CONFIG_MAPS + "/never", 404),
    "no such resource": ("GET", "/at/{rv}/api/v1/namespaces/default/nothings", 404),
    "the past of the past": ("GET", "/at/{rv}/at/{rv}" + CONFIG_MAPS, 404),
    "dots": ("GET", "/at/../at/{rv}" + CONFIG_MAPS, 404),
    "encoded dots": ("GET", "/at/%2e%2e" + CONFIG_MAPS, 400),
    "an encoded slash": ("GET", "/at/1%2f2" + CONFIG_MAPS, 400),
    "bytes that are not UTF-8": ("GET", "/at/%ff" + CONFIG_MAPS, 400),
    "a year before all times": ("GET", "/at/-292277022399-01-01T00:00:00Z" + CONFIG_MAPS, 410),
    "a year of twenty digits": ("GET", f"/at/{'1' * 20}-01-01T00:00:00Z" + CONFIG_MAPS, 400),
    "a year of thousands of digits": ("GET", f"/at/{'1' * 5_000}-01-01T00:00:00Z" + CONFIG_MAPS, 400),
    "metrics": ("GET", "/at/{rv}/metrics", 404),
    "debugging": ("GET", "/at/{rv}/debug/pprof/profile", 404),
    "a continue token": ("GET", "/at/{rv}" + CONFIG_MAPS + "?continue=abc", 400),
    "a bad selector": ("GET", "/at/{rv}" + CONFIG_MAPS + "?labelSelector=%3D%3D", 400),
    "a bad limit": ("GET", CONFIG_MAPS + "/kube-root-ca.crt/history?limit=-1", 400),
    "a bad position": ("GET", CONFIG_MAPS + "/kube-root-ca.crt/history?before=x", 400),
    "versions of nothing": ("GET", CONFIG_MAPS + "/never/history", 404),
    "writing versions": ("POST", CONFIG_MAPS + "/never/history", 405),
    "what is not stored": ("GET", "/at/{rv}/apis/authentication.k8s.io/v1/tokenreviews", 405),
    "what is made up": ("GET", "/at/{rv}/api/v1/componentstatuses", 405),
    "a position beyond 64 bits": (
        "GET",
        CONFIG_MAPS + "/kube-root-ca.crt/history?before=9999999999999999999",
        400,
    ),
}


@pytest.mark.parametrize(("method", "path", "status"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(api: Api, method: str, path: str, status: int) -> None:
    revision = version_of(api.get(CONFIG_MAPS).ok())
    body = config_map("x") if method == "POST" else None
    answer = api.send(method, path.format(rv=revision), body)
    assert answer.status == status, answer.body


# ---- rights


def test_the_past_needs_a_right_of_its_own(api: Api) -> None:
    created = api.post(CONFIG_MAPS, config_map("rights", k="1")).ok()
    at = f"/at/{version_of(created)}{CONFIG_MAPS}"
    reader = grant(api, "default", "reader", rule("get list", "configmaps"))
    historian = grant(
        api, "default", "historian", rule("get list", "configmaps"), rule("get", "configmaps/history")
    )
    only_past = grant(api, "default", "only-past", rule("get", "configmaps/history"))
    paths = (at, f"{at}/rights", f"{CONFIG_MAPS}/rights/history")
    assert [api.get(path, headers=historian).status for path in paths] == [200] * 3
    for user in (reader, only_past):
        answers = [api.get(path, headers=user) for path in paths]
        assert [each.status for each in answers] == [403] * 3
        assert b'"k"' not in b"".join(each.body for each in answers)


def test_an_object_that_was_created_again_needs_the_right_everywhere(api: Api) -> None:
    path = f"{CONFIG_MAPS}/again"
    old = api.post(CONFIG_MAPS, config_map("again", k="old")).ok()
    api.delete(path).ok()
    api.post(CONFIG_MAPS, config_map("again", k="new")).ok()
    at = f"/at/{version_of(old)}{CONFIG_MAPS}"
    rules = rule("get list", "configmaps"), rule("get", "configmaps/history")
    here, everywhere = grant(api, "default", "here", *rules), grant(api, "", "everywhere", *rules)
    listed = api.get(at, headers=here)
    assert "again" not in {each["metadata"]["name"] for each in listed.ok()["items"]}
    assert any(
        "the list omits 1 deleted object whose name has been used again; to see it" in each
        for each in listed.warnings
    )
    assert api.get(f"{at}/again", headers=here).status == 404
    assert len(api.get(f"{path}/history", headers=here).ok()["versions"]) == 1
    assert api.get(f"{at}/again", headers=everywhere).ok()["data"] == {"k": "old"}
    assert len(api.get(f"{path}/history", headers=everywhere).ok()["versions"]) == 3


def test_another_deletion_does_not_open_what_was_refused(api: Api) -> None:
    path = f"{CONFIG_MAPS}/twice"
    old = api.post(CONFIG_MAPS, config_map("twice", k="old")).ok()
    api.delete(path).ok()
    api.post(CONFIG_MAPS, config_map("twice", k="new")).ok()
    rules = rule("get list delete", "configmaps"), rule("get", "configmaps/history")
    user = grant(api, "default", "deleter", *rules)
    api.delete(path, headers=user).ok()
    at = f"/at/{version_of(old)}{CONFIG_MAPS}"
    assert api.get(f"{at}/twice", headers=user).status == 404
    assert "twice" not in {each["metadata"]["name"] for each in api.get(at, headers=user).ok()["items"]}
    versions = api.get(f"{path}/history", headers=user).ok()["versions"]
    assert [each["verb"] for each in versions] == ["delete", "create"]


def test_a_namespace_has_versions(api: Api) -> None:
    api.post("/api/v1/namespaces", {"metadata": {"name": "of-versions"}}).ok()
    api.patch("/api/v1/namespaces/of-versions", {"metadata": {"labels": {"a": "b"}}}).ok()
    versions = api.get("/api/v1/namespaces/of-versions/history").ok()["versions"]
    assert [each["verb"] for each in versions][-1] == "create"
    assert versions[-2]["changedFields"] == ["metadata.labels.a"]


def test_a_position_beyond_the_newest_version_is_the_newest(api: Api) -> None:
    api.post(CONFIG_MAPS, config_map("beyond", k="1")).ok()
    versions = api.get(f"{CONFIG_MAPS}/beyond/history").ok()["versions"]
    assert api.get(f"{CONFIG_MAPS}/beyond/history?before=999999999999999999").ok()["versions"] == versions


def test_metrics_show_the_state_of_the_history(api: Api) -> None:
    def changes() -> float:
        api.post(CONFIG_MAPS, config_map("measured", k="1")).ok()
        api.get(f"{CONFIG_MAPS}/measured/history").ok()  # It waits until all is recorded.
        api.delete(f"{CONFIG_MAPS}/measured").ok()
        api.get(f"{CONFIG_MAPS}/measured/history")
        return metric(api, "apiserver_history_changes_total")

    assert changes() + 2 <= changes()
    assert metric(api, "apiserver_history_available") == 1
    assert metric(api, "apiserver_history_size_bytes") > 4096
    assert metric(api, "apiserver_history_lag_seconds") < 60
    for nothing in ("gaps", "segments_dropped_total"):
        assert metric(api, f"apiserver_history_{nothing}") == 0


def test_the_present_can_be_read_before_anything_changes(tmp_path: Path) -> None:
    """From when the history begins on, though it has no change yet."""
    with ServerProcess(tmp_path / "data") as server, Api(server) as api:
        api.post(CONFIG_MAPS, config_map("quiet", k="1")).ok()
    with ServerProcess(tmp_path / "data", "--history", "--controllers=-*") as server, Api(server) as api:
        assert api.get(f"{CONFIG_MAPS}/quiet").ok()["data"] == {"k": "1"}
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        assert api.get(f"/at/{now}{CONFIG_MAPS}/quiet").ok()["data"] == {"k": "1"}


def test_an_earlier_namespace_needs_the_right_everywhere(api: Api) -> None:
    namespace, name = "/api/v1/namespaces/reborn", "/api/v1/namespaces/reborn/configmaps"
    api.post("/api/v1/namespaces", {"metadata": {"name": "reborn"}}).ok()
    old = api.post(name, config_map("secretive", k="old")).ok()
    api.delete(namespace).ok()
    until(lambda: api.get(namespace).status == 404)
    rules = rule("get list", "configmaps"), rule("get", "configmaps/history")
    api.post("/api/v1/namespaces", {"metadata": {"name": "reborn"}}).ok()
    here, everywhere = grant(api, "reborn", "here-2", *rules), grant(api, "", "everywhere-2", *rules)
    at = f"/at/{version_of(old)}{name}"
    assert api.get(at, headers=here).ok()["items"] == []
    assert api.get(f"{at}/secretive", headers=here).status == 404
    assert api.get(f"{name}/secretive/history", headers=here).status == 404
    assert api.get(f"{at}/secretive", headers=everywhere).ok()["data"] == {"k": "old"}


# ---- secrets


def test_no_value_of_a_secret_is_kept_or_shown(tmp_path: Path) -> None:
    values = ["first-value-of-it", "second-value-of-it", "applied-value-of-it"]
    with ServerProcess(tmp_path / "data", "--history") as server:
        with Api(server) as api:
            secret = {"metadata": {"name": "s"}, "stringData": {"key": values[0]}}
            versions = [version_of(api.post(SECRETS, secret).ok())]
            patched = api.patch(f"{SECRETS}/s", {"stringData": {"key": values[1]}}).ok()
            versions.append(version_of(patched))
            annotation = {"objectset.rio.cattle.io/applied": f'{{"data":"{values[2]}"}}'}
            annotated = api.patch(f"{SECRETS}/s", {"metadata": {"annotations": annotation}}).ok()
            versions.append(version_of(annotated))
            api.patch(f"{SECRETS}/s", {"stringData": {"key": values[0]}}).ok()
            past = [api.get(f"/at/{each}{SECRETS}/s").ok() for each in versions]
            told = b"".join(api.get(f"/at/{each}{SECRETS}").body for each in versions)
            told += api.get(f"{SECRETS}/s/history").body
            # The current one is shown as the others are.
            now = api.get(f"/at/{version_of(api.get(SECRETS).ok())}{SECRETS}/s").ok()
        server.stop()
        told += b"".join(file.read_bytes() for file in (tmp_path / "data" / "history").iterdir())
    for value in values:
        assert value.encode() not in told
        assert base64.b64encode(value.encode()) not in told
    digests = [each["data"]["key"] for each in [*past, now]]
    assert digests[0] == digests[3] != digests[1] == digests[2]
    assert base64.b64decode(digests[0]).startswith(b"redacted:")


def test_the_history_of_encrypted_objects_is_encrypted(tmp_path: Path) -> None:
    key = base64.b64encode(b"k" * 32).decode()
    config = tmp_path / "encryption.yaml"
    config.write_text(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n"
        "- resources: [configmaps]\n  providers:\n"
        f"  - aesgcm: {{keys: [{{name: one, secret: {key}}}]}}\n  - identity: {{}}\n"
    )
    flags = ["--history", f"--encryption-provider-config={config}"]
    with ServerProcess(tmp_path / "data", *flags) as server:
        with Api(server) as api:
            api.post(CONFIG_MAPS, config_map("e", k="")).ok()
            data = [{"k": f"confidential-{n}"} for n in range(40)]
            versions = [version_of(api.patch(f"{CONFIG_MAPS}/e", {"data": each}).ok()) for each in data]
            found = [api.get(f"/at/{each}{CONFIG_MAPS}/e").ok()["data"] for each in versions]
            assert found == data
        server.stop()
        kept = b"".join(file.read_bytes() for file in (tmp_path / "data" / "history").iterdir())
        assert b"k8s:enc:aesgcm" in kept
        assert b"confidential" not in kept


def test_values_whose_key_is_gone_are_lost_and_reported(tmp_path: Path) -> None:
    config = tmp_path / "encryption.yaml"

    def use(*names: str) -> None:
        keys = [
            f"{{name: {each}, secret: {base64.b64encode(each[:1].encode() * 32).decode()}}}" for each in names
        ]
        config.write_text(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n"
            f"- resources: [configmaps]\n  providers:\n  - aesgcm: {{keys: [{', '.join(keys)}]}}\n"
        )

    use("old")
    flags = ["--history", "--controllers=-*", f"--encryption-provider-config={config}"]
    with ServerProcess(tmp_path / "data", *flags) as server:
        with Api(server) as api:
            first = version_of(api.post(CONFIG_MAPS, config_map("e", k="1")).ok())
            api.patch(f"{CONFIG_MAPS}/e", {"data": {"k": "2"}}).ok()
            assert api.get(f"/at/{first}{CONFIG_MAPS}/e").ok()["data"] == {"k": "1"}
        server.stop()
        use("new", "old")
        server.start()
        with Api(server) as api:
            last = version_of(api.patch(f"{CONFIG_MAPS}/e", {"data": {"k": "3"}}).ok())
            assert api.get(f"/at/{first}{CONFIG_MAPS}/e").ok()["data"] == {"k": "1"}
        server.stop()
        use("new")
        server.start()
        with Api(server) as api:
            listed = api.get(f"/at/{first}{CONFIG_MAPS}")
            assert listed.ok()["items"] == []
            assert any("has lost what 1 object was: default/e" in each for each in listed.warnings)
            assert api.get(f"/at/{first}{CONFIG_MAPS}/e").status == 410
            assert api.get(f"/at/{last}{CONFIG_MAPS}/e").ok()["data"] == {"k": "3"}
            versions = api.get(f"{CONFIG_MAPS}/e/history").ok()["versions"]
            assert [each.get("lost", False) for each in versions] == [False, False, True]


# ---- what others see


def test_discovery_is_the_same_with_and_without_a_history(api: Api, tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as other, Api(other) as without:
        for path in ("/", "/api", "/apis", "/api/v1", "/apis/apps/v1", "/openapi/v2"):
            here, there = (
                each.get(path).body.replace(each.server.url.removeprefix("https://").encode(), b"SERVER")
                for each in (api, without)
            )
            assert here == there, path
        assert without.get(f"/at/1{CONFIG_MAPS}").status == 404
        assert without.get(f"{CONFIG_MAPS}/x/history").status == 404


@pytest.mark.kubectl
@pytest.mark.parametrize("release", each_version(-1))
def test_kubectl_reads_the_past(server: ServerProcess, api: Api, tmp_path: Path, release: str) -> None:
    kubectl = Kubectl(program(release), server.kubeconfig, "default", tmp_path)
    created = api.post(CONFIG_MAPS, config_map("seen-by-kubectl", k="then")).ok()
    api.delete(f"{CONFIG_MAPS}/seen-by-kubectl").ok()
    past = f"--server={server.url}/at/{version_of(created)}"
    assert "seen-by-kubectl" in kubectl("get", "configmaps", past)
    assert "then" in kubectl("describe", "configmap", "seen-by-kubectl", past)
    refused = kubectl.run("delete", "configmap", "seen-by-kubectl", past)
    assert "MethodNotAllowed" in refused.stderr


def test_replicas_know_the_authors_of_each_other(tmp_path: Path, etcd: EtcdProcess) -> None:
    flags = [f"--etcd-servers={etcd.url}", "--history", "--etcd-prefix=/history-replicas"]
    with (
        ServerProcess(tmp_path / "one", *flags) as one,
        ServerProcess(tmp_path / "two", *flags) as two,
        Api(one) as here,
        Api(two) as there,
    ):
        here.post(CONFIG_MAPS, config_map("shared", k="1")).ok()
        there.patch(f"{CONFIG_MAPS}/shared", {"data": {"k": "2"}}).ok()
        told = [each.get(f"{CONFIG_MAPS}/shared/history").ok()["versions"] for each in (here, there)]
        assert [[(each["verb"], each["user"]) for each in versions] for versions in told] == [
            [("patch", "admin"), ("create", "admin")]
        ] * 2


def test_what_was_compacted_while_the_server_was_down_is_a_gap(tmp_path: Path, etcd: EtcdProcess) -> None:
    flags = [f"--etcd-servers={etcd.url}", "--etcd-prefix=/history-gap"]
    with (
        ServerProcess(tmp_path / "one", *flags, "--history") as recording,
        ServerProcess(tmp_path / "two", *flags) as other,
        Api(other) as there,
    ):
        with Api(recording) as here:
            before = version_of(here.post(CONFIG_MAPS, config_map("gap", k="1")).ok())
            assert here.get(f"/at/{before}{CONFIG_MAPS}/gap").status == 200
        recording.send_signal(signal.SIGKILL)
        recording.wait()
        missed = version_of(there.patch(f"{CONFIG_MAPS}/gap", {"data": {"k": "2"}}).ok())
        last = version_of(there.patch(f"{CONFIG_MAPS}/gap", {"data": {"k": "3"}}).ok())
        etcd.ctl("compact", last)
        recording.start()
        with Api(recording) as here:
            assert here.get(f"/at/{before}{CONFIG_MAPS}/gap").status == 410
            assert here.get(f"/at/{missed}{CONFIG_MAPS}/gap").status == 410
            versions = here.get(f"{CONFIG_MAPS}/gap/history").ok()["versions"]
            # Of what came with the gap only the value is known.
            assert [each["resourceVersion"] for each in versions] == [last, before]
            assert [each.get("recorded", True) for each in versions] == [False, True]
            after = version_of(here.patch(f"{CONFIG_MAPS}/gap", {"data": {"k": "4"}}).ok())
            assert here.get(f"/at/{last}{CONFIG_MAPS}/gap").ok()["data"] == {"k": "3"}
            assert here.get(f"/at/{after}{CONFIG_MAPS}/gap").ok()["data"] == {"k": "4"}


def test_a_lost_value_is_reported_and_the_other_objects_of_a_list_can_be_read(tmp_path: Path) -> None:
    flags = ["--history", "--controllers=-*"]
    with ServerProcess(tmp_path / "data", *flags) as server:
        with Api(server) as api:
            for name in ("whole", "torn", "untouched"):
                last = version_of(api.post(CONFIG_MAPS, config_map(name, k="old")).ok())
            for name in ("whole", "torn"):
                missing = version_of(api.patch(f"{CONFIG_MAPS}/{name}", {"data": {"k": "new"}}).ok())
            api.patch(f"{CONFIG_MAPS}/torn", {"data": {"k": "newer"}}).ok()
            assert api.get(f"/at/{last}{CONFIG_MAPS}/torn").ok()["data"] == {"k": "old"}
        server.stop()
        (segment,) = (tmp_path / "data" / "history").glob("*.history")
        with contextlib.closing(sqlite3.connect(segment)) as connection:
            connection.execute("DELETE FROM changes WHERE id >> 16 = ?", (int(missing),))
            connection.commit()
        server.start()
        with Api(server) as api:
            listed = api.get(f"/at/{last}{CONFIG_MAPS}")
            assert [each["metadata"]["name"] for each in listed.ok()["items"]] == ["untouched", "whole"]
            assert any("lost what 1 object was: default/torn" in each for each in listed.warnings)
            one = api.get(f"/at/{last}{CONFIG_MAPS}/torn")
            assert (one.status, one.reason) == (410, "Expired")
            assert "the history has lost what configmaps/torn was at revision" in one.message
            assert api.get(f"{CONFIG_MAPS}/torn/history?from={last}").status == 410
            assert api.get(f"/at/{missing}{CONFIG_MAPS}/torn").ok()["data"] == {"k": "new"}
            versions = api.get(f"{CONFIG_MAPS}/torn/history").ok()["versions"]
            assert [(each["resourceVersion"] == missing, each.get("recorded")) for each in versions][1:] == [
                *((True, False), (False, None))
            ]
            assert versions[2]["lost"] is True


def test_a_history_in_use_or_not_writable_is_an_error_at_the_start(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    refused = ServerProcess(tmp_path / "data", "--history", f"--history-dir={blocked}/inside").refusal()
    assert "cannot use the history in" in refused.stderr
    where = f"--history-dir={tmp_path / 'shared'}"
    with ServerProcess(tmp_path / "one", "--history", where):
        refused = ServerProcess(tmp_path / "two", "--history", where).refusal()
        assert "in use by another server" in refused.stderr
