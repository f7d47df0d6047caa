"""CustomResourceDefinitions of apiextensions/v1beta1. Row T14.

Source: k8s.io/apiextensions-apiserver, pkg/apis/apiextensions/v1beta1 and validation (release 1.21).
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.meta.errors import Invalid
from tests.unit.catalogue.removed_versions.old_kinds import OldKind, read_by_current
from tests.unit.catalogue.served_kinds import Changes, changed

NAMES: Final = {"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"}
SCHEMA: Final = {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}}
OTHER: Final = {"openAPIV3Schema": {"type": "object"}}
COLUMNS: Final = [{"name": "Color", "type": "string", "description": "Which.", "JSONPath": ".spec.color"}]
COLUMNS_V1: Final = [{"name": "Color", "type": "string", "description": "Which.", "jsonPath": ".spec.color"}]
PARTS: Final = {"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}}
V1: Final = {"name": "v1", "served": True, "storage": True}
V2: Final = {"name": "v2", "served": True, "storage": False}
CONFIG: Final = {"service": {"namespace": "ns", "name": "a", "port": 443}}
DEFINITION: Final = OldKind(
    "customresourcedefinitions.apiextensions.k8s.io",
    "v1beta1",
    21,
    {
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "version": "v1", "names": {"plural": "widgets", "kind": "Widget"}},
    },
)
SPEC: Final = {"group": "example.com", "names": NAMES, "scope": "Namespaced"}
NO_CONVERSION: Final = {"conversion": {"strategy": "None"}}


def test_defaults_are_those_of_the_version() -> None:
    assert DEFINITION.completed()["spec"] == {
        **SPEC,
        **NO_CONVERSION,
        "version": "v1",
        "versions": [V1],
        "preserveUnknownFields": True,
    }
    assert DEFINITION.completed({"spec.version": None, "spec.versions": [V2, V1]})["spec"]["version"] == "v2"
    webhook = {"strategy": "Webhook", "webhookClientConfig": {"service": {"namespace": "ns", "name": "a"}}}
    assert DEFINITION.completed({"spec.conversion": webhook})["spec"]["conversion"] == {
        "strategy": "Webhook",
        "webhookClientConfig": CONFIG,
        "conversionReviewVersions": ["v1beta1"],
    }


# The spec in v1beta1 and in v1, both with their defaults.
CONVERSIONS: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "one version": (
        {"version": "v1", "versions": [V1], "preserveUnknownFields": True},
        {"versions": [V1], "preserveUnknownFields": True},
    ),
    "unknown fields are pruned": (
        {"version": "v1", "versions": [V1], "preserveUnknownFields": False},
        {"versions": [V1]},
    ),
    "all that is common to versions": (
        {
            "version": "v1",
            "versions": [V1, V2],
            "validation": SCHEMA,
            "subresources": PARTS,
            "additionalPrinterColumns": COLUMNS,
            "preserveUnknownFields": False,
        },
        {
            "versions": [
                {**each, "schema": SCHEMA, "subresources": PARTS, "additionalPrinterColumns": COLUMNS_V1}
                for each in (V1, V2)
            ]
        },
    ),
    "what differs stays in its version": (
        {
            "version": "v1",
            "versions": [
                {**V1, "schema": SCHEMA, "additionalPrinterColumns": COLUMNS},
                {**V2, "schema": OTHER, "subresources": PARTS, "deprecated": True},
            ],
            "preserveUnknownFields": False,
        },
        {
            "versions": [
                {**V1, "schema": SCHEMA, "additionalPrinterColumns": COLUMNS_V1},
                {**V2, "schema": OTHER, "subresources": PARTS, "deprecated": True},
            ]
        },
    ),
    "a webhook converts": (
        {
            "version": "v1",
            "versions": [V1],
            "preserveUnknownFields": False,
            "conversion": {
                "strategy": "Webhook",
                "webhookClientConfig": CONFIG,
                "conversionReviewVersions": ["v1beta1", "v1"],
            },
        },
        {
            "versions": [V1],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"conversionReviewVersions": ["v1beta1", "v1"], "clientConfig": CONFIG},
            },
        },
    ),
}


@pytest.mark.parametrize(("beta", "stable"), CONVERSIONS.values(), ids=CONVERSIONS)
def test_conversion_both_ways(beta: dict[str, Any], stable: dict[str, Any]) -> None:
    document = {**DEFINITION.completed(), "spec": {**SPEC, **NO_CONVERSION, **beta}}
    current = {**document, "apiVersion": "apiextensions.k8s.io/v1"}
    current["spec"] = {**SPEC, **NO_CONVERSION, **stable}
    assert DEFINITION.to_hub(document) == current
    assert DEFINITION.from_hub(current) == document
    assert read_by_current(document) == current


COLUMN: Final = st.fixed_dictionaries({"name": st.sampled_from("ab"), "type": st.just("string")}).map(
    lambda column: {**column, "jsonPath": ".spec." + column["name"]}
)
OF_VERSION: Final = st.fixed_dictionaries(
    {"served": st.booleans(), "storage": st.booleans()},
    optional={
        "schema": st.sampled_from((SCHEMA, OTHER)),
        "subresources": st.sampled_from((PARTS, {"status": {}}, {})),
        "additionalPrinterColumns": st.lists(COLUMN, min_size=1, max_size=2),
        "deprecated": st.just(True),
        "selectableFields": st.just([{"jsonPath": ".spec.a"}]),
    },
)
VERSIONS: Final = st.lists(OF_VERSION, min_size=1, max_size=3).map(
    lambda versions: [{"name": f"v{index}", **each} for index, each in enumerate(versions)]
)
REVIEWS: Final = st.lists(st.sampled_from(("v1", "v1beta1")), min_size=1, max_size=2)
CONVERSION: Final = st.one_of(
    st.just({"strategy": "None"}),
    REVIEWS.map(
        lambda found: {
            "strategy": "Webhook",
            "webhook": {"conversionReviewVersions": found, "clientConfig": CONFIG},
        }
    ),
)


@given(VERSIONS, CONVERSION, st.booleans())
def test_nothing_of_v1_is_lost(versions: list[Any], conversion: dict[str, Any], keeps: bool) -> None:
    spec: dict[str, Any] = {**SPEC, "versions": versions, "conversion": conversion}
    if keeps:
        spec["preserveUnknownFields"] = True
    document = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "a"},
        "spec": spec,
    }
    assert DEFINITION.to_hub(DEFINITION.from_hub(document)) == document


# What is no error in v1beta1.
ALLOWED: Final[dict[str, Changes]] = {
    "no schema": {},
    "a schema that is not structural": {
        "spec.validation": {"openAPIV3Schema": {"properties": {"spec": {"anyOf": [{"type": "object"}]}}}}
    },
    "an unknown type": {
        "spec.validation": {"openAPIV3Schema": {"properties": {"spec": {"type": "anything"}}}}
    },
    "a group of Kubernetes' that nobody has approved": {
        "metadata.name": "widgets.example.k8s.io",
        "spec.group": "example.k8s.io",
    },
    "unknown fields are kept": {"spec.preserveUnknownFields": True, "spec.validation": SCHEMA},
}


@pytest.mark.parametrize("changes", ALLOWED.values(), ids=ALLOWED)
def test_what_v1beta1_allows(changes: Changes) -> None:
    assert DEFINITION.create(changes).texts == []
    assert DEFINITION.update({"metadata.labels": {"a": "b"}}, old=changes).texts == []


DEFAULTED: Final = {
    "openAPIV3Schema": {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}
}
NEEDS_V1: Final = (
    "(cannot set default values in apiextensions.k8s.io/v1beta1 CRDs, must use apiextensions.k8s.io/v1)"
)
NO_WEBHOOK: Final = "must be None if spec.preserveUnknownFields is true"
PATH: Final = "spec.validation.openAPIV3Schema"
REFUSED: Final[dict[str, tuple[Changes, list[str]]]] = {
    "defaults need v1": (
        {"spec.validation": DEFAULTED, "spec.preserveUnknownFields": False},
        [f"{PATH}.properties[a].default: Forbidden: must not be set {NEEDS_V1}"],
    ),
    "pruning needs a schema": (
        {"spec.preserveUnknownFields": False},
        ["spec.versions[0].schema.openAPIV3Schema: Required value: because otherwise all fields are pruned"],
    ),
    "pruning needs a structural schema": (
        {"spec.preserveUnknownFields": False, "spec.validation": {"openAPIV3Schema": {"properties": {}}}},
        [f"{PATH}.type: Required value: must not be empty at the root"],
    ),
    "webhooks need pruning": (
        {"spec.conversion": {"strategy": "Webhook", "webhookClientConfig": CONFIG}},
        [f'spec.conversion.strategy: Invalid value: "Webhook": {NO_WEBHOOK}'],
    ),
}


@pytest.mark.parametrize(("changes", "expected"), REFUSED.values(), ids=REFUSED)
def test_what_v1beta1_refuses(changes: Changes, expected: list[str]) -> None:
    assert DEFINITION.create(changes).texts == expected


def test_defaults_that_are_there_may_stay() -> None:
    """They were written in v1."""
    stored = DEFINITION.create({"spec.validation": SCHEMA, "spec.preserveUnknownFields": False}).document
    stored = changed(stored, {"spec.versions.0.schema": DEFAULTED})
    new = changed(stored, {"metadata.labels": {"a": "b"}})
    assert DEFINITION.strategy.update.validate(new, stored) == []


COLUMNS_ONLY: Final = "additionalPrinterColumns"
COLUMNS_FIELD: Final = f"spec.{COLUMNS_ONLY}"
MISPLACED: Final[dict[str, tuple[Changes, list[str]]]] = {
    "schemas in both places": (
        {"spec.validation": SCHEMA, "spec.versions": [V1, {**V2, "schema": OTHER}]},
        ["spec.validation: Forbidden: top-level and per-version schemas are mutually exclusive"],
    ),
    "subresources in both places": (
        {"spec.subresources": PARTS, "spec.versions": [V1, {**V2, "subresources": {"status": {}}}]},
        ["spec.subresources: Forbidden: top-level and per-version subresources are mutually exclusive"],
    ),
    "columns in both places": (
        {
            "spec.additionalPrinterColumns": COLUMNS,
            "spec.versions": [V1, {**V2, "additionalPrinterColumns": COLUMNS}],
        },
        [f"{COLUMNS_FIELD}: Forbidden: top-level and per-version {COLUMNS_ONLY} are mutually exclusive"],
    ),
    "another version than the first": (
        {"spec.versions": [V2, V1]},
        ['spec.version: Invalid value: "v1": must match the first version in spec.versions'],
    ),
}


@pytest.mark.parametrize(("changes", "expected"), MISPLACED.values(), ids=MISPLACED)
def test_what_v1_cannot_express(changes: Changes, expected: list[str]) -> None:
    with pytest.raises(Invalid) as raised:
        DEFINITION.create(changes)
    assert raised.value.details is not None
    assert [f"{each['field']}: {each['message']}" for each in raised.value.details["causes"]] == expected


def test_the_same_in_all_versions_belongs_beside_them() -> None:
    versions = [{**each, "schema": SCHEMA, "subresources": PARTS} for each in (V1, V2)]
    with pytest.raises(Invalid) as raised:
        DEFINITION.create({"spec.versions": versions})
    message = str(raised.value)
    assert "per-version schemas may not all be set to identical values" in message
    assert "(top-level subresources should be used instead)" in message
