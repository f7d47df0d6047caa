"""Objects that cannot be read are removed by who may, and nothing else is (rows G11-G15, O07)."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.api import Api
from tests.support.audit import METADATA, audit_flags
from tests.support.definitions import define, definition, new_group
from tests.support.eventually import until
from tests.support.rbac import grant, rule
from tests.support.server_process import ServerProcess

CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
ROLES: Final = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
OPTION: Final = "ignoreStoreReadErrorWithClusterBreakingPotential"
GATE: Final = "--feature-gates=AllowUnsafeMalformedObjectDeletion=true"
CUT: Final = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cut"'
# Values that are objects, but none of their kind, are as corrupt as others.
OF_NO_CONFIG_MAP: Final = {
    "by-query": b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"by-query"},"data":{"a":[1]}}',
    "by-body": b'{"apiVersion":"v1","kind":"Secret","metadata":{"name":"by-body"}}',
}
NAMES: Final = ("options", "forbidden", "by-query", "by-body", "held", "collection", "watched")


@dataclass
class Corrupt:
    """A server whose store has objects that cannot be decoded. custom: the path of one of them."""

    api: Api
    custom: str
    audit_log: Path


@pytest.fixture(scope="module")
def corrupt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Corrupt]:
    directory = tmp_path_factory.mktemp("unsafe")
    policy = METADATA.replace("rules:", "omitStages: [RequestReceived], rules:")
    with ServerProcess(directory / "data", GATE, *audit_flags(directory, policy)) as server:
        with Api(server) as api:
            for name in (*NAMES, "sound"):
                finalizers = ["example.com/hold"] if name == "held" else []
                api.post(CONFIG_MAPS, {"metadata": {"name": name, "finalizers": finalizers}}).ok()
            defined = define(api, definition(new_group()))
            defined.create("custom").ok()
            grant(api, "default", "alice", rule("get delete", "configmaps"))
        server.stop()
        keys = [
            *(f"/registry/core/configmaps/default/{name}" for name in NAMES),
            f"/registry/{defined.group}/widgets/default/custom",
        ]
        with contextlib.closing(sqlite3.connect(directory / "data" / "store" / "store.db")) as store, store:
            for key in keys:
                value = OF_NO_CONFIG_MAP.get(key.rpartition("/")[2], CUT)
                assert store.execute("UPDATE versions SET value = ? WHERE key = ?", (value, key)).rowcount
        server.start()
        with Api(server) as api:
            yield Corrupt(api, defined.objects() + "/custom", directory / "audit.log")


@pytest.fixture
def api(corrupt: Corrupt) -> Api:
    return corrupt.api


# https://github.com/kubernetes/apimachinery/blob/master/pkg/apis/meta/v1/validation/validation.go
NOT_TOGETHER: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "a dry run": ("dryRun", {"dryRun": ["All"]}),
    "a grace period": ("gracePeriodSeconds", {"gracePeriodSeconds": 0}),
    "dependents": ("orphanDependents", {"orphanDependents": False}),
    "preconditions, though empty": ("preconditions", {"preconditions": {}}),
    "a propagation policy": ("propagationPolicy", {"propagationPolicy": "Background"}),
}


@pytest.mark.parametrize(("field", "options"), NOT_TOGETHER.values(), ids=NOT_TOGETHER)
def test_g14_it_is_not_combined_with(api: Api, field: str, options: dict[str, Any]) -> None:
    answer = api.delete(f"{CONFIG_MAPS}/options", {OPTION: True, **options})
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert f"Invalid value: true: cannot be set together with .{field}" in answer.message
    assert answer.causes == [("FieldValueInvalid", OPTION)]
    assert answer.json["details"]["kind"] == "DeleteOptions"


def test_g14_each_mistake_is_named(api: Api) -> None:
    """In the query, too, where false asks for nothing."""
    answer = api.delete(f"{CONFIG_MAPS}/options?{OPTION}=true&dryRun=All&gracePeriodSeconds=1&uid=x")
    assert [field for _, field in answer.causes] == [OPTION] * 3
    assert api.delete(f"{CONFIG_MAPS}/options?{OPTION}=false&dryRun=All").reason == "StorageReadError"


def test_g13_a_readable_object_is_not_removed(api: Api) -> None:
    for name in ("sound", "absent"):
        answer = api.delete(f"{CONFIG_MAPS}/{name}", {OPTION: True})
        assert (answer.status, answer.reason) == (422, "Invalid")
        assert answer.message.startswith(f'configmaps "{name}" is invalid: {OPTION}: Invalid value: true: ')
        assert "is exclusively used to delete corrupt object(s), try again by removing" in answer.message
    assert api.get(f"{CONFIG_MAPS}/sound").status == 200


@pytest.fixture
def alice(api: Api) -> Iterator[Api]:
    with api.as_caller("alice-token") as alice:
        yield alice


def test_who_tried_it_is_recorded(corrupt: Corrupt) -> None:
    """As kube-apiserver does, whatever comes of it."""
    audit_id = "tries-to-delete-what-can-be-read"
    headers = {"Audit-Id": audit_id}
    assert corrupt.api.delete(f"{CONFIG_MAPS}/sound", {OPTION: True}, headers=headers).status == 422
    until(lambda: audit_id in corrupt.audit_log.read_text(), what="the request is recorded")
    lines = corrupt.audit_log.read_text().splitlines()
    (event,) = [json.loads(line) for line in lines if audit_id in line]
    assert event["annotations"]["apiserver.k8s.io/unsafe-delete-ignore-read-error"] == ""


def test_o07_who_may_only_delete_may_not(api: Api, alice: Api) -> None:
    path = f"{CONFIG_MAPS}/forbidden"
    assert alice.delete(path).reason == "StorageReadError"
    answer = alice.delete(path, {OPTION: True})
    assert (answer.status, answer.reason) == (403, "Forbidden")
    denied = 'not permitted to do "unsafe-delete-ignore-read-errors", reason: '
    assert answer.message.startswith(f'configmaps "forbidden" is forbidden: {denied}')
    assert api.get(path).status == 500
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["unsafe-delete-ignore-read-errors"]}
    patch = [{"op": "add", "path": "/rules/-", "value": rule}]
    api.patch(f"{ROLES}/roles/alice", patch, "json-patch").ok()
    assert alice.delete(path, {OPTION: True}).status == 200
    assert api.get(path).status == 404


def test_g12_a_corrupt_object_is_removed(api: Api) -> None:
    """Whatever finalizers it had, in the body or in the query; the answer has no uid."""
    for path, body in (
        (f"{CONFIG_MAPS}/by-query?{OPTION}=true", None),
        (f"{CONFIG_MAPS}/by-body", {OPTION: True}),
        (f"{CONFIG_MAPS}/held", {OPTION: True}),
    ):
        name = path.rpartition("/")[2].partition("?")[0]
        assert api.get(path).reason == "StorageReadError"
        status = api.delete(path, body).ok()
        assert (status["kind"], status["status"]) == ("Status", "Success")
        assert status["details"] == {"name": name, "kind": "configmaps"}
        assert api.get(path).status == 404
        api.post(CONFIG_MAPS, {"metadata": {"name": name}}).ok()


def test_g12_custom_resources(corrupt: Corrupt) -> None:
    api, path = corrupt.api, corrupt.custom
    assert api.get(path).reason == "StorageReadError"
    api.delete(path, {OPTION: True}).ok()
    assert api.get(path.rpartition("/")[0]).ok()["items"] == []


def test_g12_watches_are_told_of_what_they_could_not_see(api: Api) -> None:
    start = api.post(CONFIG_MAPS, {"metadata": {"name": "new"}}).ok()["metadata"]["resourceVersion"]
    query = f"watch=1&resourceVersion={start}&fieldSelector=metadata.name=watched"
    with api.watch(f"{CONFIG_MAPS}?{query}") as events:
        api.delete(f"{CONFIG_MAPS}/watched", {OPTION: True}).ok()
        last = events.next()
    assert (last["type"], last["object"]["reason"]) == ("ERROR", "StorageReadError")


def test_g15_no_collection_is_removed_unread(api: Api) -> None:
    answer = api.delete(f"{CONFIG_MAPS}?{OPTION}=true")
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert "is not allowed with DELETECOLLECTION, try again after removing the option" in answer.message
    assert api.get(f"{CONFIG_MAPS}/sound").status == 200
