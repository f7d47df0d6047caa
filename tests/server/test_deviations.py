"""Behaviour that `--strict-kube-compat` changes, with the flag and without."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.api import Api
from tests.support.server_process import ServerProcess

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with (
        ServerProcess(tmp_path_factory.mktemp("strict") / "data", "--strict-kube-compat") as server,
        Api(server) as api,
    ):
        api.post(CONFIGMAPS, {"metadata": {"name": "a"}}).ok()
        yield api


def test_a_bare_dry_run(api: Api, namespace: str, strict: Api) -> None:
    """Row J08."""
    body = {"metadata": {"name": "never"}}
    configmaps = f"/api/v1/namespaces/{namespace}/configmaps"
    for bare in ("dryRun", "dryRun="):
        taken = api.post(f"{configmaps}?{bare}", body)
        assert taken.status == 201
        assert len(taken.warnings) == 1
        refused = strict.post(f"{CONFIGMAPS}?{bare}", body)
        assert (refused.status, refused.causes) == (422, [("FieldValueNotSupported", "dryRun")])
        refused = strict.delete(f"{CONFIGMAPS}/a?{bare}")
        assert (refused.status, refused.causes) == (422, [("FieldValueNotSupported", "dryRun")])
    assert api.get(f"{configmaps}/never").status == 404
    assert strict.post(f"{CONFIGMAPS}?dryRun=All", body).status == 201
    assert strict.get(f"{CONFIGMAPS}/never").status == 404


def test_if_match_on_a_json_patch(api: Api, namespace: str, strict: Api) -> None:
    """Row L04."""
    configmaps = f"/api/v1/namespaces/{namespace}/configmaps"
    made = api.post(configmaps, {"metadata": {"name": "a"}}).ok()
    patch = [{"op": "add", "path": "/data", "value": {"k": "v"}}]
    other, right = {"If-Match": '"1"'}, {"If-Match": f'"{made["metadata"]["resourceVersion"]}"'}
    refused = api.patch(f"{configmaps}/a", patch, "json-patch", headers=other)
    assert (refused.status, refused.reason) == (409, "Conflict")
    assert api.patch(f"{configmaps}/a", patch, "json-patch", headers=right).status == 200
    assert strict.patch(f"{CONFIGMAPS}/a", patch, "json-patch", headers=other).status == 200


def test_a_limit_at_version_zero(api: Api, namespace: str, strict: Api) -> None:
    """Rows K08, K11, K23: pages from the cache; in kube-apiserver the whole list, or the rest of it."""
    configmaps = f"/api/v1/namespaces/{namespace}/configmaps"
    strict.post("/api/v1/namespaces", {"metadata": {"name": "limited"}}).ok()
    names = [f"c{number}" for number in range(5)]
    for name in names:
        api.post(configmaps, {"metadata": {"name": name}}).ok()
        strict.post("/api/v1/namespaces/limited/configmaps", {"metadata": {"name": name}}).ok()

    def listed(client: Api, path: str, query: str) -> tuple[list[str], str]:
        found = client.get(f"{path}?limit=2&resourceVersion=0{query}").ok()
        return [each["metadata"]["name"] for each in found["items"]], found["metadata"].get("continue", "")

    found, token = listed(api, configmaps, "")
    assert found == names[:2]
    assert listed(api, configmaps, f"&continue={token}")[0] == names[2:4]
    assert listed(api, configmaps, "&resourceVersionMatch=NotOlderThan")[0] == names[:2]

    path = "/api/v1/namespaces/limited/configmaps"
    token = strict.get(f"{path}?limit=2").ok()["metadata"]["continue"]
    assert listed(strict, path, "") == (names, "")
    assert listed(strict, path, f"&continue={token}") == (names[2:], "")
    assert listed(strict, path, "&resourceVersionMatch=NotOlderThan") == (names, "")


def test_watching_the_path_of_an_object(api: Api, namespace: str, strict: Api) -> None:
    """Row I11."""
    configmaps = f"/api/v1/namespaces/{namespace}/configmaps"
    api.post(configmaps, {"metadata": {"name": "a"}}).ok()
    with api.watch(f"{configmaps}/a?watch=1") as events:
        assert events.take(1) == [("ADDED", "a")]
    assert strict.get(f"{CONFIGMAPS}/a?watch=1").ok()["kind"] == "ConfigMap"
    # What is not done needs no right.
    nobody = {"Impersonate-User": "nobody"}
    assert '"nobody" cannot watch' in api.get(f"{configmaps}/a?watch=1", headers=nobody).message
    assert '"nobody" cannot get' in strict.get(f"{CONFIGMAPS}/a?watch=1", headers=nobody).message
    with strict.watch(f"{CONFIGMAPS}?watch=1&fieldSelector=metadata.name=a") as events:
        assert events.take(1) == [("ADDED", "a")]
