"""StorageVersionMigrations and `apiserver migrate` have objects stored in their storage version. Row S04."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.api import Api, until_status
from tests.support.definitions import condition, define, definition, new_group, version
from tests.support.eventually import until
from tests.support.metrics import metric, metrics_of
from tests.support.server_process import ServerProcess

SERVED: Final = (
    "--runtime-config=storagemigration.k8s.io/v1beta1=true",
    "--controllers=storage-version-migrator-controller",
)
MIGRATIONS: Final = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations"
AUTOSCALERS: Final = "/apis/autoscaling/{}/namespaces/default/horizontalpodautoscalers"
AUTOSCALER_RESOURCE: Final = "horizontalpodautoscalers.autoscaling"
# A release that stores autoscalers as v1: the one before it has no v2.
OLD: Final = ("--emulated-version=1.23", "--min-compatibility-version=1.22")
COUNT: Final = 20


def autoscaler(name: str) -> dict[str, Any]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {"metadata": {"name": name}, "spec": {"maxReplicas": 3, "scaleTargetRef": target}}


def stored_versions(directory: Path) -> Mapping[str, str]:
    """The apiVersion in which each autoscaler is stored now, by its key."""
    query = "SELECT key, value FROM versions WHERE key LIKE '%horizontalpodautoscalers/%' ORDER BY revision"
    with contextlib.closing(sqlite3.connect(directory / "store" / "store.db")) as store:
        rows = store.execute(query).fetchall()
    return {key: json.loads(value)["apiVersion"] for key, value in rows if value}


def migrate(api: Api, name: str, group: str, resource: str) -> Any:
    """Returns the status in which a migration ends."""
    api.post(
        MIGRATIONS, {"metadata": {"name": name}, "spec": {"resource": {"group": group, "resource": resource}}}
    ).ok()

    def status() -> Any:
        return api.get(f"{MIGRATIONS}/{name}").json.get("status") or {}

    def has_ended(found: Any) -> bool:
        kinds = {each["type"] for each in found.get("conditions", ()) if each["status"] == "True"}
        return bool(kinds & {"Succeeded", "Failed"})

    return until(status, has_ended, f"the migration {name} ends")


@pytest.fixture
def of_old_release(tmp_path: Path) -> Path:
    """A data directory whose autoscalers an old release has written."""
    with ServerProcess(tmp_path, *OLD) as server, Api(server) as api:
        for number in range(COUNT):
            api.post(AUTOSCALERS.format("v1"), autoscaler(f"a-{number}")).ok()
    assert set(stored_versions(tmp_path).values()) == {"autoscaling/v1"}
    return tmp_path


def test_a_migration_writes_what_is_stored_in_another_version(of_old_release: Path) -> None:
    with ServerProcess(of_old_release, *SERVED) as server, Api(server) as api:
        before = {each["metadata"]["name"]: each for each in api.get(AUTOSCALERS.format("v2")).json["items"]}
        status = migrate(api, "a", "autoscaling", "horizontalpodautoscalers")
        after = {each["metadata"]["name"]: each for each in api.get(AUTOSCALERS.format("v2")).json["items"]}
        again = migrate(api, "b", "autoscaling", "horizontalpodautoscalers")
        revisions = [each["metadata"]["resourceVersion"] for each in after.values()]
        assert [
            each["metadata"]["resourceVersion"] for each in api.get(AUTOSCALERS.format("v2")).json["items"]
        ] == revisions  # what is stored so already is not written
        metrics = metrics_of(api)
    assert int(status["resourceVersion"]) <= min(map(int, revisions))
    kinds = {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}
    assert kinds == {
        "Running": ("False", "StorageVersionMigrationInProgress"),
        "Succeeded": ("True", "StorageVersionMigrationSucceeded"),
    }
    assert [each["type"] for each in again["conditions"]] == ["Running", "Succeeded"]
    for name, found in after.items():
        before[name]["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
    assert after == before
    assert set(stored_versions(of_old_release).values()) == {"autoscaling/v2"}
    migrated = f'storage_migrator_core_migrator_migrated_objects_total{{resource="{AUTOSCALER_RESOURCE}"}}'
    assert f"{migrated} {2 * COUNT}" in metrics


def run_migrate(server: ServerProcess, *resources: str) -> list[str]:
    """Returns what the command has printed."""
    command = [sys.executable, "-m", "apiserver", "migrate", f"--kubeconfig={server.kubeconfig}"]
    done = subprocess.run(
        [*command, "--rate=10000", *resources], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.splitlines()


def test_the_command_does_the_same(of_old_release: Path) -> None:
    with ServerProcess(of_old_release) as server:
        for rewritten, unchanged in ((COUNT, 0), (0, COUNT)):
            counts = f"{rewritten} rewritten, {unchanged} up to date"
            assert run_migrate(server, AUTOSCALER_RESOURCE) == [f"{AUTOSCALER_RESOURCE}: {counts}"]
    assert set(stored_versions(of_old_release).values()) == {"autoscaling/v2"}


def test_what_the_server_itself_writes_is_up_to_date(tmp_path: Path) -> None:
    """At the start, of a namespace and of a definition: it stores the bytes that a client's write would."""
    with (
        ServerProcess(tmp_path, "--runtime-config=api/all=true", "--controllers=*") as server,
        Api(server) as api,
    ):
        group = new_group()
        define(api, definition(group))
        api.post("/api/v1/namespaces", {"metadata": {"name": "own"}}).ok()
        paths = (
            f"/apis/apiregistration.k8s.io/v1/apiservices/v1.{group}",
            "/api/v1/namespaces/own/serviceaccounts/default",
            "/api/v1/namespaces/own/configmaps/kube-root-ca.crt",
        )
        until(lambda: {api.get(path).status for path in paths}, lambda found: found == {200})
        printed = run_migrate(server)
    counts = dict(line.split(": ") for line in printed)
    assert {name: each for name, each in counts.items() if not each.startswith("0 rewritten, ")} == {}
    assert counts["apiservices.apiregistration.k8s.io"] != "0 rewritten, 0 up to date"


def update_again_and_again(server: ServerProcess, name: str, is_over: threading.Event) -> int:
    """Change an autoscaler, each time from what is there, until it is over. Returns how often it was."""
    path, updates = f"{AUTOSCALERS.format('v2')}/{name}", 0
    with Api(server) as api:
        while not is_over.is_set():
            found = api.get(path).ok()
            found["spec"]["maxReplicas"] = 10 + updates + 1
            answer = api.put(path, found)
            assert answer.status in (200, 409), answer.body  # 409: it was written in between
            updates += answer.status == 200
    return updates


@pytest.mark.parametrize("how", ["objects", "the command"])
def test_no_update_is_lost_while_others_write(of_old_release: Path, how: str) -> None:
    names = [f"a-{number}" for number in range(0, COUNT, 5)]
    is_over = threading.Event()
    with (
        ServerProcess(of_old_release, *SERVED) as server,
        Api(server) as api,
        ThreadPoolExecutor(len(names)) as writers,
    ):
        updating = [writers.submit(update_again_and_again, server, name, is_over) for name in names]
        try:
            for number in range(5):
                if how == "objects":
                    migrate(api, f"m-{number}", "autoscaling", "horizontalpodautoscalers")
                else:
                    run_migrate(server, AUTOSCALER_RESOURCE)
        finally:
            is_over.set()
        updates = {name: each.result() for name, each in zip(names, updating, strict=True)}
        assert min(updates.values()) > 0
        listed = api.get(AUTOSCALERS.format("v2")).json["items"]
        found = {each["metadata"]["name"]: each["spec"]["maxReplicas"] for each in listed}
        assert found == {f"a-{number}": 3 for number in range(COUNT)} | {
            name: 10 + count for name, count in updates.items()
        }
    assert set(stored_versions(of_old_release).values()) == {"autoscaling/v2"}


def test_custom_resources_and_what_there_is_not(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, *SERVED) as server, Api(server) as api:
        defined = define(api, definition(new_group()))
        body = {"apiVersion": f"{defined.group}/v1", "kind": defined.kind, "metadata": {"name": "a"}}
        api.post(defined.objects(), body).ok()
        status = migrate(api, "custom", defined.group, "widgets")
        assert status["conditions"][-1]["type"] == "Succeeded"
        status = migrate(api, "none", "apps", "nothings")
        assert [(each["type"], each["message"]) for each in status["conditions"]] == [
            ("Failed", "resource does not exist in discovery")
        ]


def two_versions(group: str, *, storage: str) -> dict[str, Any]:
    return definition(group, *(version(name, storage=name == storage) for name in ("v1", "v2")))


def migrating(found: Any) -> tuple[str, str, str]:
    """Returns what a definition says of its last migration."""
    said = condition(found, "StorageMigrating")
    assert said["observedGeneration"] == found["metadata"]["generation"]
    return said["status"], said["reason"], said["message"]


def test_a_migration_leaves_only_the_storage_version_in_the_list_of_a_definition(tmp_path: Path) -> None:
    """As of 1.36; then a version can be removed from the definition."""
    with ServerProcess(tmp_path, *SERVED) as server, Api(server) as api:
        group = new_group()
        defined = define(api, two_versions(group, storage="v1"))
        defined.create("a").ok()
        spec = two_versions(group, storage="v2")["spec"]
        assert api.patch(defined.path, {"spec": spec}).ok()["status"]["storedVersions"] == ["v1", "v2"]
        only_v2 = {"spec": {"versions": spec["versions"][1:]}}
        assert api.patch(defined.path, only_v2).status == 422
        status = migrate(api, "first", group, "widgets")
        assert status["conditions"][-1]["type"] == "Succeeded"
        found = api.get(defined.path).ok()
        assert found["status"]["storedVersions"] == ["v2"]
        assert migrating(found) == (
            "False",
            "MigrationSucceeded",
            "The migration has succeeded and the stored versions have been updated",
        )
        # Nothing is lost of the other conditions, nor of the objects; and the version can go.
        assert {each["type"] for each in found["status"]["conditions"]} >= {"Established", "NamesAccepted"}
        api.patch(defined.path, only_v2).ok()
        until_status(200, lambda: api.get(f"{defined.objects(version='v2')}/a"))


def test_a_migration_that_fails_leaves_the_list_of_a_definition(tmp_path: Path) -> None:
    group = new_group()
    with ServerProcess(tmp_path, *SERVED) as server, Api(server) as api:
        defined = define(api, two_versions(group, storage="v1"))
        for name in "ab":
            defined.create(name).ok()
        api.patch(defined.path, {"spec": two_versions(group, storage="v2")["spec"]}).ok()
    with contextlib.closing(sqlite3.connect(tmp_path / "store" / "store.db")) as store, store:
        broken = b'{"apiVersion":"%b/v1","kind":"Widget","metadata":{' % group.encode()
        query = f"UPDATE versions SET value = ? WHERE key LIKE '%{group}/widgets/default/a'"
        assert store.execute(query, (broken,)).rowcount
    with ServerProcess(tmp_path, *SERVED) as server, Api(server) as api:
        until_status(200, lambda: api.get(f"{defined.objects()}/b"))
        status = migrate(api, "first", group, "widgets")
        assert status["conditions"][-1]["type"] == "Failed"
        found = api.get(defined.path).ok()
        assert found["status"]["storedVersions"] == ["v1", "v2"]
        assert migrating(found) == ("False", "MigrationFailed", "The migration has failed")


def test_migrations_of_a_resource_run_one_after_the_other(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, *SERVED) as server, Api(server) as api:
        defined = define(api, definition(new_group()))
        resource = {"group": defined.group, "resource": "widgets"}
        for name in "abc":
            api.post(MIGRATIONS, {"metadata": {"name": name}, "spec": {"resource": resource}}).ok()

        def ended() -> list[str]:
            found = api.get(MIGRATIONS).ok()["items"]
            return [each["status"].get("conditions", [{"type": ""}])[-1]["type"] for each in found]

        until(ended, lambda found: found == ["Succeeded"] * 3)
        assert migrating(api.get(defined.path).ok())[:2] == ("False", "MigrationSucceeded")


GATE: Final = "StorageVersionMigrator"


@pytest.mark.parametrize("given", ["", "true", "false"])
def test_the_gate_of_migrations(tmp_path: Path, given: str) -> None:
    """docs/reference/differences.md: --runtime-config alone has them served, unless the gate is off."""
    gates = [f"--feature-gates={GATE}={given}"] if given else []
    with ServerProcess(tmp_path, SERVED[0], *gates) as server, Api(server) as api:
        assert api.get(MIGRATIONS).status == (404 if given == "false" else 200)
        enabled = metric(api, "kubernetes_feature_enabled", name=GATE, stage="BETA")
        assert enabled == (given == "true")


def test_objects_that_cannot_be_read_are_named(of_old_release: Path) -> None:
    """The others are written all the same."""
    with contextlib.closing(sqlite3.connect(of_old_release / "store" / "store.db")) as store, store:
        broken = b'{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","metadata":{'
        assert store.execute(
            "UPDATE versions SET value = ? WHERE key LIKE '%/horizontalpodautoscalers/default/a-7'", (broken,)
        ).rowcount
    with ServerProcess(of_old_release, *SERVED) as server, Api(server) as api:
        status = migrate(api, "a", "autoscaling", "horizontalpodautoscalers")
        failed = status["conditions"][-1]
        assert failed["type"] == "Failed"
        assert failed["message"].startswith("1 objects could not be migrated: default/a-7: ")
        repaired = api.get(AUTOSCALERS.format("v1") + "/a-8")
        assert repaired.status == 200
