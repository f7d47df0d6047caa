"""`--history-policy` with `action: thin`: what an hour later is left of versions, and how answers say so."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from http.client import HTTPResponse
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from apiserver.testing import ApiServer
from apiserver.testing.past import moment_text
from tests.support.eventually import until

PODS: Final = "/api/v1/namespaces/default/pods"
POD: Final = f"{PODS}/one"
POLICY: Final = """apiVersion: apiserver.config.k8s.io/v1alpha1
kind: HistoryPolicy
rules:
- {resources: [pods], action: thin}
"""
CONTAINER: Final = {"name": "c", "image": "i"}
MERGE: Final = {"Content-Type": "application/merge-patch+json"}


class Versions:
    """The versions of a Pod: created, five times another status, another label, and five times more."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        pod = {"metadata": {"name": "one"}, "spec": {"containers": [CONTAINER]}}
        self.created = self.version(server.request("POST", PODS, pod))
        self.first = [self.status(f"first-{number}") for number in range(5)]
        label = {"metadata": {"labels": {"l": "1"}}}
        self.labelled = self.version(server.request("PATCH", POD, label, headers=MERGE))
        self.second = [self.status(f"second-{number}") for number in range(5)]

    def version(self, answer: tuple[int, Any]) -> str:
        assert answer[0] in (200, 201), answer
        self.server.clock.advance(seconds=2)
        return str(answer[1]["metadata"]["resourceVersion"])

    def status(self, message: str) -> str:
        body = {"status": {"message": message}}
        return self.version(self.server.request("PATCH", f"{POD}/status", body, headers=MERGE))

    def listed(self) -> list[dict[str, Any]]:
        versions: list[dict[str, Any]] = self.server.request("GET", f"{POD}/history")[1]["versions"]
        return versions

    def warnings_of(self, path: str) -> tuple[Any, list[str]]:
        connection = self.server.connect()
        connection.request("GET", path, headers=self.server.admin_headers)
        response: HTTPResponse = connection.getresponse()
        document = orjson.loads(response.read())
        connection.close()
        return document, response.headers.get_all("Warning") or []


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Versions]:
    policy = tmp_path_factory.mktemp("policy") / "policy.yaml"
    policy.write_text(POLICY)
    with ApiServer(flags=["--history", f"--history-policy={policy}"]) as server:
        found = Versions(server)
        server.clock.advance(minutes=75)
        until(lambda: len(found.listed()) == 3, what="old versions are dropped")
        yield found


def test_where_versions_are_missing_and_how_many_is_listed(versions: Versions) -> None:
    newest, labelled, created = versions.listed()
    assert (newest["resourceVersion"], newest["thinned"]) == (versions.second[-1], 4)
    assert (labelled["resourceVersion"], labelled["thinned"]) == (versions.labelled, 5)
    assert (created["resourceVersion"], "thinned" in created) == (versions.created, False)
    # The status was changed by others in between.
    assert newest["changedFields"] == []
    assert labelled["changedFields"] == ["metadata.labels"]
    changes = versions.server.request("GET", "/history")[1]["changes"]
    assert [each.get("thinned") for each in changes if each.get("name") == "one"] == [4, 5, None]


def test_a_status_that_is_not_known_is_left_out(versions: Versions) -> None:
    for revision in (versions.first[0], versions.first[-1], versions.second[0]):
        for path in (POD, PODS):
            found, warnings = versions.warnings_of(f"/at/{revision}{path}")
            (pod,) = found.get("items", [found])
            assert "status" not in pod
            assert pod["spec"]["containers"][0]["image"] == "i"
            assert any("the status of " in each and "is left out" in each for each in warnings)


def test_versions_that_were_kept_are_complete(versions: Versions) -> None:
    expected = {versions.labelled: "first-4", versions.second[-1]: "second-4"}
    for revision in (versions.created, *expected):
        for path in (POD, PODS):
            found, warnings = versions.warnings_of(f"/at/{revision}{path}")
            (pod,) = found.get("items", [found])
            assert pod["metadata"]["resourceVersion"] == revision
            assert pod["status"].get("message") == expected.get(revision)
            assert warnings == []


def test_a_difference_does_not_compare_a_status_that_is_not_known(versions: Versions) -> None:
    query = {"from": versions.first[1], "to": versions.second[-1]}
    _, found = versions.server.request("GET", f"{POD}/history", query=query)
    assert found["thinned"] is True
    assert found["mergePatch"] == {"metadata": {"labels": {"l": "1"}}}
    query = {"from": versions.created, "to": versions.second[-1]}
    _, found = versions.server.request("GET", f"{POD}/history", query=query)
    assert "thinned" not in found
    assert found["mergePatch"]["status"]["message"] == "second-4"


def test_no_value_that_was_dropped_is_shown_by_its_time(versions: Versions) -> None:
    listed = versions.listed()
    time = str(listed[1]["time"])
    found, _ = versions.warnings_of(f"/at/{time}{POD}")
    assert found["status"]["message"] == "first-4"
    for later_s in (3, 6):
        later = datetime.fromisoformat(time) + timedelta(seconds=later_s)
        found, warnings = versions.warnings_of(f"/at/{moment_text(later)}{POD}")
        assert "status" not in found
        assert warnings


def test_the_file_is_read(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY.replace("thin", "thaw"))
    with (
        pytest.raises(Exception, match="thaw"),
        ApiServer(flags=["--history", f"--history-policy={policy}"]),
    ):
        pass
