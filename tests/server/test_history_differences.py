"""`GET …/NAME/history?from=&to=`: two states of an object are compared, by those who may read both."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, Final

import pytest

from apiserver.registry.patch import merge_patch
from tests.support.api import Api
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
