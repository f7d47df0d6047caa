"""Access reviews. Source: k8s.io/kubernetes, pkg/apis/authorization/validation."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.catalogue.authorization.access_reviews import (
    unread_selectors,
    validate_local_review,
    validate_review,
    validate_self_review,
)
from apiserver.meta.vocabulary import Document

RESOURCE: Final = {"namespace": "ns", "verb": "list", "resource": "pods"}
PATH: Final = {"path": "/x", "verb": "get"}
BOTH: Final = (
    'Invalid value: {"Path":"/x","Verb":"get"}: cannot be specified in combination with resourceAttributes'
)
NEITHER: Final = (
    "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified"
)
NO_SUBJECT: Final = 'Invalid value: "": at least one of user or group must be specified'
SELECTOR: Final = "spec.resourceAttributes.fieldSelector"

NEEDS_VALUES: Final = "must be specified when `operator` is 'In' or 'NotIn'"
NEEDS_NO_VALUES: Final = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"


def _selecting(field: str, *requirements: Document) -> Document:
    return {"resourceAttributes": {**RESOURCE, field: {"requirements": list(requirements)}}}


# metadata, spec -> field and message of each error
Case = tuple[Document, Document, list[tuple[str, str]]]
SELF: Final[dict[str, Case]] = {
    "about a resource": ({}, {"resourceAttributes": RESOURCE}, []),
    "about a path": ({}, {"nonResourceAttributes": PATH}, []),
    "about nothing": ({}, {}, [("spec.resourceAttributes", NEITHER)]),
    "about both": (
        {},
        {"resourceAttributes": RESOURCE, "nonResourceAttributes": PATH},
        [("spec.nonResourceAttributes", BOTH)],
    ),
    "with a name": (
        {"name": "a"},
        {"resourceAttributes": RESOURCE},
        [("metadata", 'Invalid value: {"name":"a"}: must be empty')],
    ),
    "an empty selector": (
        {},
        {"resourceAttributes": {**RESOURCE, "fieldSelector": {}}},
        [
            (
                f"{SELECTOR}.requirements",
                f"Required value: when {SELECTOR} is specified, requirements or rawSelector is required",
            )
        ],
    ),
    "a selector in two ways": (
        {},
        {"resourceAttributes": {**RESOURCE, "fieldSelector": {"rawSelector": "a=b", "requirements": [{}]}}},
        [
            (
                f"{SELECTOR}.rawSelector",
                'Invalid value: "a=b": may not specified at the same time as requirements',
            ),
            (f"{SELECTOR}.requirements[0].key", "Required value: must be specified"),
        ],
    ),
    "a field without values": (
        {},
        _selecting("fieldSelector", {"key": "a", "operator": "In"}),
        [(f"{SELECTOR}.requirements[0].values", f"Required value: {NEEDS_VALUES}")],
    ),
    "a field with values too many": (
        {},
        _selecting("fieldSelector", {"key": "a", "operator": "Exists", "values": ["b"]}),
        [(f"{SELECTOR}.requirements[0].values", f"Forbidden: {NEEDS_NO_VALUES}")],
    ),
    "a label without values": (
        {},
        _selecting("labelSelector", {"key": "a", "operator": "NotIn"}),
        [("spec.resourceAttributes.labelSelector.requirements[0].values", f"Required value: {NEEDS_VALUES}")],
    ),
    "operators of a later release": (
        {},
        _selecting("labelSelector", {"key": "a", "operator": "Near", "values": ["b"]}),
        [],
    ),
}
OF_OTHERS: Final[dict[str, Case]] = {
    "a user": ({}, {"resourceAttributes": RESOURCE, "user": "bob"}, []),
    "a group": ({}, {"nonResourceAttributes": PATH, "groups": ["dev"]}, []),
    "of nobody": ({}, {"resourceAttributes": RESOURCE}, [("spec.user", NO_SUBJECT)]),
    "of nobody about nothing": ({}, {}, [("spec.resourceAttributes", NEITHER), ("spec.user", NO_SUBJECT)]),
    "in a namespace": (
        {"namespace": "ns"},
        {"resourceAttributes": RESOURCE, "user": "bob"},
        [("metadata", 'Invalid value: {"namespace":"ns"}: must be empty')],
    ),
}
LOCAL: Final[dict[str, Case]] = {
    "in its namespace": ({"namespace": "ns"}, {"resourceAttributes": RESOURCE, "user": "bob"}, []),
    "with a name": (
        {"namespace": "ns", "name": "a"},
        {"resourceAttributes": RESOURCE, "user": "bob"},
        [("metadata", 'Invalid value: {"namespace":"ns","name":"a"}: must be empty except for namespace')],
    ),
    "about another namespace": (
        {"namespace": "other"},
        {"resourceAttributes": RESOURCE, "user": "bob"},
        [("spec.resourceAttributes.namespace", 'Invalid value: "ns": must match metadata.namespace')],
    ),
    "about a path": (
        {"namespace": "ns"},
        {"nonResourceAttributes": PATH, "user": "bob"},
        [
            (
                "spec.nonResourceAttributes",
                'Invalid value: {"Path":"/x","Verb":"get"}: disallowed on this kind of request',
            )
        ],
    ),
}
ALL: Final = {
    f"{name}: {sentence}": (validate, *case)
    for name, validate, cases in (
        ("self", validate_self_review, SELF),
        ("subject", validate_review, OF_OTHERS),
        ("local", validate_local_review, LOCAL),
    )
    for sentence, case in cases.items()
}


@pytest.mark.parametrize(("validate", "meta", "spec", "expected"), ALL.values(), ids=ALL)
def test_access_reviews(
    validate: Any, meta: Document, spec: Document, expected: list[tuple[str, str]]
) -> None:
    errors = validate({"metadata": meta, "spec": spec})
    assert [(each.field, each.message) for each in errors] == expected


IGNORED: Final = "spec.resourceAttributes.labelSelector ignored due to parse error"
PARTLY: Final = "spec.resourceAttributes.fieldSelector partially ignored due to parse error"
IN: Final = {"key": "a", "operator": "In", "values": ["b"]}
UNREAD: Final[dict[str, tuple[Document, str]]] = {
    "no selector": ({"resourceAttributes": RESOURCE}, ""),
    "about a path": ({"nonResourceAttributes": PATH}, ""),
    "all can be read": (_selecting("labelSelector", IN), ""),
    "none can be read": (_selecting("labelSelector", {**IN, "operator": "Near"}), IGNORED),
    "some can be read": (_selecting("fieldSelector", IN, {**IN, "values": ["b", "c"]}), PARTLY),
    "a text": ({"resourceAttributes": {**RESOURCE, "fieldSelector": {"rawSelector": "any.field=b"}}}, ""),
    "a text that is no selector": (
        {"resourceAttributes": {**RESOURCE, "labelSelector": {"rawSelector": "( bad"}}},
        IGNORED,
    ),
    "both": (
        {
            "resourceAttributes": {
                "fieldSelector": {"requirements": [IN, {**IN, "operator": "Exists"}]},
                "labelSelector": {"rawSelector": "( bad"},
            }
        },
        f"{PARTLY}; {IGNORED}",
    ),
}


@pytest.mark.parametrize(("spec", "expected"), UNREAD.values(), ids=UNREAD)
def test_a_review_tells_which_selectors_it_cannot_read(spec: Document, expected: str) -> None:
    assert unread_selectors(spec) == expected
