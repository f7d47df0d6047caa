"""FlowSchemas; row T01. Source: pkg/apis/flowcontrol/{validation,v1} (release 1.34)."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.catalogue.flowcontrol.flow_schemas import MANDATORY_FLOW_SCHEMAS
from apiserver.catalogue.flowcontrol.priority_level_configurations import MANDATORY_PRIORITY_LEVELS
from tests.unit.catalogue.served_kinds import Changes, ServedKind

GROUP: Final = "flowcontrol.apiserver.k8s.io"
LEVEL: Final = ServedKind(
    f"prioritylevelconfigurations.{GROUP}",
    {"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}}},
)

RESOURCES: Final = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True}
SCHEMA: Final = ServedKind(
    f"flowschemas.{GROUP}",
    {
        "spec": {
            "priorityLevelConfiguration": {"name": "p"},
            "rules": [{"subjects": [{"kind": "User", "user": {"name": "u"}}], "resourceRules": [RESOURCES]}],
        }
    },
)


def test_defaults() -> None:
    schema, level = SCHEMA.create(), LEVEL.create()
    assert schema.errors == level.errors == []
    assert schema.document["spec"]["matchingPrecedence"] == 1000
    limited = level.document["spec"]["limited"]
    assert (limited["nominalConcurrencyShares"], limited["lendablePercent"]) == (30, 0)
    assert limited["limitResponse"]["queuing"] == {"queues": 64, "handSize": 8, "queueLengthLimit": 50}


def of_rule(**changes: Any) -> Changes:
    return {"spec.rules.0.resourceRules": [{**RESOURCES, **changes}]}


def of_subject(**subject: Any) -> Changes:
    return {"spec.rules.0.subjects": [subject]}


def of_url(url: str) -> Changes:
    return {"spec.rules.0.nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": [url]}]}


_RULE: Final = "spec.rules[0].resourceRules[0]"
_SUBJECT: Final = "spec.rules[0].subjects[0]"
_URL: Final = "spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value:"
INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "only one schema comes first": (
        {"spec.matchingPrecedence": 1},
        [
            (
                "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have "
                "matchingPrecedence 1"
            )
        ],
    ),
    "precedence ends at ten thousand": (
        {"spec.matchingPrecedence": 10_001},
        ["spec.matchingPrecedence: Invalid value: 10001: must not be greater than 10000"],
    ),
    "flows are of users or of namespaces": (
        {"spec.distinguisherMethod": {"type": "ByName"}},
        [
            (
                'spec.distinguisherMethod.type: Unsupported value: {"Type":"ByName"}: supported values: '
                '"ByNamespace", "ByUser"'
            )
        ],
    ),
    "it has a level": (
        {"spec.priorityLevelConfiguration.name": ""},
        ["spec.priorityLevelConfiguration.name: Required value: must reference a priority level"],
    ),
    "a rule is about somebody and something": (
        {"spec.rules": [{}]},
        [
            "spec.rules[0].subjects: Required value: subjects must contain at least one value",
            (
                "spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be "
                "non-empty"
            ),
        ],
    ),
    "a subject is what its kind says": (
        of_subject(kind="Group", user={"name": "u"}),
        [
            f"{_SUBJECT}.group: Required value: group is required when subject kind is 'Group'",
            f"{_SUBJECT}.user: Forbidden: user is forbidden when subject kind is not 'User'",
        ],
    ),
    "an account has a namespace": (
        of_subject(kind="ServiceAccount", serviceAccount={"name": "*"}),
        [f"{_SUBJECT}.serviceAccount.namespace: Required value: must specify namespace for service account"],
    ),
    "verbs are known": (
        of_rule(verbs=["read"]),
        [
            (
                f'{_RULE}.verbs: Unsupported value: ["read"]: supported values: "create", "delete", '
                '"deletecollection", "get", "list", "patch", "proxy", "update", "watch"'
            )
        ],
    ),
    "all leaves no room": (
        of_rule(resources=["*", "pods"]),
        [
            (
                f'{_RULE}.resources: Invalid value: ["*","pods"]: if \'*\' is present, must not specify '
                "other resources"
            )
        ],
    ),
    "what is not of the cluster is of namespaces": (
        of_rule(clusterScope=False),
        [
            (
                f"{_RULE}.namespaces: Required value: resource rules that are not cluster scoped must "
                "supply at "
                "least one namespace"
            )
        ],
    ),
    "a URL is a path": (of_url("x"), [f'{_URL} "x": must start with slash']),
    "a wildcard comes last": (of_url("/a*"), [f'{_URL} "/a*": wildcard can only do suffix matching']),
}


@pytest.mark.parametrize(("changes", "texts"), INVALID.values(), ids=INVALID)
def test_schemas_that_are_wrong(changes: Changes, texts: list[str]) -> None:
    assert SCHEMA.create(changes).texts == texts


# ---- the objects without which nobody could reach the server

MANDATORY: Final = {
    **{f"schema {name}": (SCHEMA, name, spec) for name, spec in MANDATORY_FLOW_SCHEMAS.items()},
    **{f"level {name}": (LEVEL, name, spec) for name, spec in MANDATORY_PRIORITY_LEVELS.items()},
}


@pytest.mark.parametrize(("served", "name", "spec"), MANDATORY.values(), ids=MANDATORY)
def test_mandatory_objects_are_complete_and_valid(served: ServedKind, name: str, spec: Any) -> None:
    document, errors = served.create({"metadata.name": name, "spec": spec})
    assert (errors, document["spec"]) == ([], spec)


@pytest.mark.parametrize(("served", "name", "spec"), MANDATORY.values(), ids=MANDATORY)
def test_nobody_changes_what_they_say(served: ServedKind, name: str, spec: Any) -> None:
    texts = served.create({"metadata.name": name}).texts
    assert any(text.startswith("spec: ") and text.endswith("must equal the fixed value") for text in texts)


def test_conditions_are_told_once() -> None:
    conditions = [{"type": "Dangling", "status": "True"}, {"type": "Dangling"}]
    texts = SCHEMA.update({"status.conditions": conditions}, "status").texts
    assert texts == ['status.conditions[1].type: Duplicate value: "Dangling"']


def test_rows() -> None:
    schema, level = (
        SCHEMA.cells({"status.conditions": [{"type": "Dangling", "status": "True"}]}),
        LEVEL.cells(),
    )
    expected = {"PriorityLevel": "p", "DistinguisherMethod": "<none>", "MissingPL": "True"}
    assert schema.items() >= expected.items()
    assert SCHEMA.cells()["MissingPL"] == "?"
    assert level.items() >= {"NominalConcurrencyShares": 30, "Queues": 64, "HandSize": 8}.items()
    rejecting = LEVEL.cells({"spec.limited.limitResponse": {"type": "Reject"}})
    assert rejecting["Queues"] == "<none>"
