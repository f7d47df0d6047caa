"""AuditSinks of auditregistration/v1alpha1. Source: pkg/apis/auditregistration (release 1.18); row S03."""

from __future__ import annotations

from typing import Final

import pytest

from tests.unit.catalogue.removed_versions.old_kinds import OldKind
from tests.unit.catalogue.served_kinds import Changes, assert_texts_begin

POLICY: Final = {"level": "Metadata", "stages": ["ResponseComplete"]}
SERVICE: Final = {"namespace": "a", "name": "b"}
SINK: Final = OldKind(
    "auditsinks.auditregistration.k8s.io",
    "v1alpha1",
    18,
    {"spec": {"policy": POLICY, "webhook": {"clientConfig": {"service": SERVICE}}}},
)
WEBHOOK: Final = "spec.webhook"


def test_defaults() -> None:
    created = SINK.create()
    assert created.texts == []
    assert created.document["spec"]["webhook"] == {
        "throttle": {"qps": 10, "burst": 15},
        "clientConfig": {"service": {**SERVICE, "port": 443}},
    }
    throttle = SINK.create({f"{WEBHOOK}.throttle": {"qps": 3}}).document["spec"]["webhook"]["throttle"]
    assert throttle == {"qps": 3, "burst": 15}
    assert SINK.resource.has_protobuf
    assert SINK.cells().keys() == {"Name", "Created At"}


INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "no stages": ({"spec.policy.stages": None}, ["spec.policy.stages: Required value"]),
    "a level that needs none": ({"spec.policy": {"level": "None"}}, []),
    "no level": ({"spec.policy.level": ""}, ["spec.policy.level: Required value"]),
    "no such level": (
        {"spec.policy.level": "All"},
        ['spec.policy.level: Unsupported value: "All": supported values: "Metadata", "None", "Request", '],
    ),
    "no such stage": (
        {"spec.policy.stages": ["End"]},
        ['spec.policy.stages[0]: Invalid value: "End": allowed stages are Panic,RequestReceived,Response'],
    ),
    "no rate": (
        {f"{WEBHOOK}.throttle": {"qps": 0, "burst": -1}},
        [
            f"{WEBHOOK}.throttle.qps: Invalid value: 0: qps must be a positive number",
            f"{WEBHOOK}.throttle.burst: Invalid value: -1: burst must be a positive number",
        ],
    ),
    "nowhere": (
        {f"{WEBHOOK}.clientConfig": {}},
        [f"{WEBHOOK}.clientConfig: Required value: exactly one of url or service is required"],
    ),
    "another scheme": (
        {f"{WEBHOOK}.clientConfig": {"url": "http://a"}},
        [f"{WEBHOOK}.clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme"],
    ),
}


@pytest.mark.parametrize(("changes", "beginnings"), INVALID.values(), ids=INVALID)
def test_invalid(changes: Changes, beginnings: list[str]) -> None:
    assert_texts_begin(SINK.create(changes).texts, beginnings)
