"""Wrong types in the words of Kubernetes' converter.

Source: k8s.io/apimachinery, pkg/runtime/converter.go.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.meta.vocabulary import Document
from apiserver.schema.from_unstructured import mismatch_text
from tests.unit.endpoints.handlers.calls import DEPLOYMENTS


def container(**fields: Any) -> Document:
    return {"spec": {"template": {"spec": {"containers": [{"name": "c", **fields}]}}}}


CASES: Final[dict[str, tuple[Document, str]]] = {
    "none": (container(image="i"), ""),
    "null is absent": ({"metadata": None, "spec": {"replicas": None}}, ""),
    "a struct": ({"spec": "x"}, "cannot restore struct from: string"),
    "a struct in a list": (
        {"spec": {"template": {"spec": {"containers": [5]}}}},
        "cannot restore struct from: int64",
    ),
    "a map": ({"metadata": {"labels": "x"}}, "cannot restore map from string"),
    "a map that is a list": ({"metadata": {"labels": []}}, "cannot restore map from slice"),
    "a list": ({"metadata": {"finalizers": {"a": 1}}}, "cannot restore slice from map"),
    "a list that is a truth": ({"metadata": {"finalizers": True}}, "cannot restore slice from bool"),
    "a number for a text": ({"metadata": {"name": 5}}, "cannot convert int64 to string"),
    "a truth for a text": ({"metadata": {"labels": {"a": True}}}, "unrecognized type: string"),
    "a text for a number": ({"spec": {"replicas": "2"}}, "unrecognized type: int32"),
    "a fraction for an integer": ({"spec": {"replicas": 1.5}}, "cannot convert float64 to int32"),
    "a whole number is an integer": ({"spec": {"replicas": 2.0}}, ""),
    "a whole number that has too many bits": (
        {"spec": {"replicas": 2147483648.0}},
        "json: cannot unmarshal number 2147483648.0 into Go value of type int32",
    ),
    "a number for a truth, behind a whole one": (
        {"spec": {"replicas": 2.0, "paused": 1}},
        "unrecognized type: bool",
    ),
    "a text for a truth": (container(tty="yes"), "unrecognized type: bool"),
    "the first in the order of the type's fields": (
        {"spec": {"selector": 1, "replicas": "x"}},
        "unrecognized type: int32",
    ),
}


@pytest.mark.parametrize(("document", "text"), CASES.values(), ids=CASES)
def test_a_value_that_cannot_be_restored_is_named(document: Document, text: str) -> None:
    assert mismatch_text(document, DEPLOYMENTS.schema()) == text


def test_what_decodes_itself_has_the_words_of_its_decoder() -> None:
    time = {"metadata": {"creationTimestamp": "yesterday"}}
    assert mismatch_text(time, DEPLOYMENTS.schema()).startswith('parsing time "yesterday"')
