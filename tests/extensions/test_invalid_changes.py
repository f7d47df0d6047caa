"""A function that makes an object invalid has failed, and `on_error` decides about the write."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

import pytest

from tests.extensions.modules.invalidating import GROUP, extensions
from tests.support.api import Answer, Api
from tests.support.definitions import define, definition, version
from tests.support.metrics import metric
from tests.support.objects import pod
from tests.support.server_process import ServerProcess

MODULE: Final = "tests.extensions.modules.invalidating"
IN: Final = "namespaces/default"
CONFIG_MAPS: Final = f"/api/v1/{IN}/configmaps"
DEPLOYMENTS: Final = f"/apis/apps/v1/{IN}/deployments"
SERVICES: Final = f"/api/v1/{IN}/services"
WIDGETS: Final = f"/apis/{GROUP}/v1/{IN}/widgets"
INTEGER: Final = {"type": "integer"}
SCHEMA: Final = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {**INTEGER, "maximum": 10},
                "most": INTEGER,
                "marks": INTEGER,
                "items": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}},
                    },
                },
                "fixed": {
                    "type": "string",
                    "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "stays as it is"}],
                },
            },
            "x-kubernetes-validations": [
                {"rule": "!has(self.most) || self.size <= self.most", "message": "size is more than most"}
            ],
        },
        "status": {"type": "object", "properties": {"phase": {"enum": ["Ready"], "type": "string"}}},
    },
    "x-kubernetes-validations": [
        {"rule": "!has(self.spec.fixed) || self.spec.fixed != 'b'", "message": "b is taken"}
    ],
}
POD: Final = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
OBJECTS: Final[dict[str, dict[str, Any]]] = {
    CONFIG_MAPS: {"data": {"a": "b"}, "immutable": True},
    DEPLOYMENTS: {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": POD}},
    SERVICES: {"spec": {"clusterIP": "None", "ports": [{"port": 80}]}},
    WIDGETS: {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "spec": {"size": 5, "fixed": "a"}},
}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    flags = [f"--extension={MODULE}:{name}" for name in extensions]
    with ServerProcess(tmp_path_factory.mktemp("server") / "data", *flags) as server, Api(server) as api:
        of_widgets = version(schema=SCHEMA, subresources={"status": {}})
        define(api, definition(GROUP, of_widgets))
        yield api


def body(path: str, case: str, extension: str) -> dict[str, Any]:
    labels = {"in": extension, "case": case}
    return {**deepcopy(OBJECTS[path]), "metadata": {"generateName": "a-", "labels": labels}}


NOT_AN_INTEGER: Final = 'spec.size: Invalid value: spec.size in body must be of type integer: "string"'
# What is created or updated, and the reason that the server gives.
CREATED: Final = {
    "sets_a_wrong_type": (WIDGETS, NOT_AN_INTEGER),
    "warns_and_sets_a_wrong_type": (WIDGETS, NOT_AN_INTEGER),
    "sets_too_large_a_number": (WIDGETS, "spec.size: Invalid value: spec.size in body should be less than"),
    "removes_a_required_field": (WIDGETS, "spec.size: Required value"),
    "breaks_a_rule": (WIDGETS, "spec: Invalid value: size is more than most"),
    "sets_a_resource_version": (CONFIG_MAPS, "resourceVersion should not be set on objects to be created"),
    "moves_it": (CONFIG_MAPS, "the namespace of the provided object does not match the namespace sent"),
    "breaks_a_rule_of_the_whole_object": (WIDGETS, "<nil>: Invalid value: b is taken"),
    "sets_a_type_that_needs_another_field": (SERVICES, "spec.externalName: Required value"),
    "sets_an_invalid_annotation": (CONFIG_MAPS, "metadata.annotations: Invalid value: name part must"),
}
UPDATED: Final = {
    **{case: CREATED[case] for case in ("sets_a_wrong_type", "breaks_a_rule", "moves_it")},
    "changes_what_a_rule_keeps": (WIDGETS, "spec.fixed: Invalid value: stays as it is"),
    "sets_a_wrong_status": (WIDGETS, 'status.phase: Unsupported value: "Unknown"'),
    "changes_immutable_data": (CONFIG_MAPS, "data: Forbidden: field is immutable"),
    "changes_the_selector": (DEPLOYMENTS, "spec.selector: Invalid value: field is immutable"),
    "renames_it": (CONFIG_MAPS, "metadata.name: Invalid value: field is immutable"),
    "gives_it_another_uid": (CONFIG_MAPS, "UID in precondition: 1-2-3"),
}


def create(api: Api, case: str, extension: str) -> tuple[Answer, dict[str, Any]]:
    """Create an object. Returns also one that no function is called for."""
    path = CREATED[case][0]
    other = api.post(f"{path}?dryRun=All", body(path, case, "none")).ok()
    return api.post(path, body(path, case, extension)), other


def update(api: Api, case: str, extension: str) -> tuple[Answer, dict[str, Any]]:
    path = UPDATED[case][0]
    stored = [api.post(path, body(path, case, "none")).ok() for _ in range(2)]
    for each in stored:
        each["metadata"]["annotations"] = {"is": "updated"}
    subresource = "/status" if "status" in case else ""
    if subresource:
        for each in stored:
            each["status"] = {"phase": "Ready"}
    [updated, other] = stored
    updated["metadata"]["labels"]["in"] = extension
    paths = [f"{path}/{each['metadata']['name']}{subresource}" for each in stored]
    return api.put(paths[0], updated), api.put(paths[1], other).ok()


WRITES: Final = [(create, case) for case in CREATED] + [(update, case) for case in UPDATED]
IDS: Final = [f"{write.__name__}-{case}" for write, case in WRITES]
MODES: Final = ("", "inline-")
# What differs between two objects with the same contents.
IDENTITY: Final = ("name", "uid", "resourceVersion", "creationTimestamp")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("write", "case"), WRITES, ids=IDS)
def test_a_write_fails_and_names_extension_function_and_field(
    api: Api, write: Any, case: str, mode: str
) -> None:
    extension, (_, reason) = f"{mode}fail", {**CREATED, **UPDATED}[case]
    before = failures(api, extension, case)
    answer, _ = write(api, case, extension)
    assert (answer.status, answer.reason) == (500, "InternalError")
    prefix = f'Internal error occurred: extension "{extension}": {case} (invalidating.py:'
    assert answer.message.startswith(prefix)
    assert re.search(rf"\d\) has made the object invalid: .*{re.escape(reason)}", answer.message)
    # The update fails for the object in the cache, and so is tried on the stored one.
    assert failures(api, extension, case) == (before[0] + (1 if write is create else 2), before[1])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("on_error", ["ignore", "warn"])
@pytest.mark.parametrize(("write", "case"), WRITES, ids=IDS)
def test_without_its_changes_the_object_is_stored_as_if_there_were_no_function(
    api: Api, write: Any, case: str, on_error: str, mode: str
) -> None:
    extension = f"{mode}{on_error}"
    before = failures(api, extension, case)
    answer, other = write(api, case, extension)
    stored = answer.ok()
    assert without_identity(stored) == without_identity(other)
    assert len(answer.warnings) == (on_error == "warn")
    for warning in answer.warnings:
        assert f'extension \\"{extension}\\": {case} (invalidating.py:' in warning
    assert failures(api, extension, case) == (before[0] + 1, before[1] + 1)


# By the case, what the sound function has made of the object beside the other one.
BESIDE: Final[dict[str, dict[str, Any]]] = {
    "is_beside_another": {"marks": 1},
    "adds_a_wrong_item": {"items": [{"name": "sound"}]},
    "breaks_it_when_it_is_called_again": {"most": 9},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("verb", ["create", "apply"])
@pytest.mark.parametrize("case", BESIDE)
def test_another_function_is_called_as_if_it_were_the_only_one(
    api: Api, case: str, verb: str, mode: str
) -> None:
    sent = body(WIDGETS, case, f"{mode}ignore")
    if verb == "create":
        stored = api.post(WIDGETS, sent).ok()
    else:
        name = f"{mode}{case}".replace("_", "-")
        sent["metadata"] = {"name": name, "labels": sent["metadata"]["labels"]}
        stored = api.apply(f"{WIDGETS}/{name}?fieldManager=m", sent).ok()
    assert stored["spec"] == {"size": 5, "fixed": "a", **BESIDE[case]}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", BESIDE)
def test_only_the_function_that_has_made_it_invalid_is_named(api: Api, case: str, mode: str) -> None:
    answer = api.post(WIDGETS, body(WIDGETS, case, f"{mode}fail"))
    assert answer.status == 500
    assert f'extension "{mode}fail": {case} (invalidating.py:' in answer.message


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("on_error", ["fail", "ignore", "warn"])
def test_what_the_client_has_made_invalid_is_refused_as_such(api: Api, on_error: str, mode: str) -> None:
    sent = body(WIDGETS, "sets_another_field", f"{mode}{on_error}")
    sent["spec"]["size"] = 100
    answer = api.post(WIDGETS, sent)
    assert (answer.status, answer.causes) == (422, [("FieldValueInvalid", "spec.size")])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("on_error", ["fail", "ignore", "warn"])
@pytest.mark.parametrize("length", [1, 1_560_000], ids=["small", "nearly too large"])
def test_an_object_that_is_too_large_for_the_store_is_the_function_s_failure(
    api: Api, length: int, on_error: str, mode: str
) -> None:
    sent = body(WIDGETS, "makes_it_too_large", f"{mode}{on_error}")
    sent["spec"]["fixed"] = "a" * length
    answer = api.post(WIDGETS, sent)
    if on_error == "fail":
        assert (answer.status, answer.reason) == (500, "InternalError")
        assert "has made an object of 2000" in answer.message
    else:
        assert answer.ok()["spec"] == {"size": 5, "fixed": "a" * length}
        assert len(answer.warnings) == (on_error == "warn")


def failures(api: Api, extension: str, hook: str) -> tuple[float, float]:
    """Returns how often a function has failed, and how often that was ignored."""
    labels = {"extension": extension, "hook": hook}
    return (
        metric(api, "apiserver_extension_failures_total", **labels, failure="error"),
        metric(api, "apiserver_extension_ignored_failures_total", **labels),
    )


def without_identity(stored: dict[str, Any]) -> dict[str, Any]:
    """Returns an object without what differs between two objects with the same contents."""
    meta = {key: value for key, value in stored["metadata"].items() if key not in IDENTITY}
    meta["labels"] = {"case": meta["labels"]["case"]}
    meta["managedFields"] = [{**each, "time": ""} for each in meta["managedFields"]]
    status = {} if "conditions" in stored.get("status", {}) else stored.get("status")
    return {**stored, "metadata": meta, "status": status}
