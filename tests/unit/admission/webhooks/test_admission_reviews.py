"""What webhooks may answer: k8s.io/apiserver, pkg/admission/plugin/webhook/request."""

from __future__ import annotations

import base64
from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.admission.responses import CAUSES_MAX, InvalidAnswer
from apiserver.admission.webhooks.admission_reviews import ReviewResponse, operations, read

GROUP: Final = "admission.k8s.io"
PATCH: Final = [{"op": "add", "path": "/x", "value": 1}]
ENCODED: Final = base64.b64encode(orjson.dumps(PATCH)).decode()


def review(version: str = "v1", **response: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "AdmissionReview",
        "response": {"uid": "u", "allowed": True, **response},
    }


def told(document: Any, version: str = "v1", *, may_patch: bool = True) -> ReviewResponse:
    return read(document, GROUP, version, "u", may_patch=may_patch)


def test_an_answer() -> None:
    found = told(review(patch=ENCODED, patchType="JSONPatch", warnings=["w", ""], status={"code": 200}))
    assert (found.is_allowed, found.warnings, found.result) == (True, ["w"], {"code": 200})
    assert operations(found) == PATCH


def test_of_a_status_counts_what_clients_know() -> None:
    causes = [{"message": "m", "other": 1}] * (CAUSES_MAX + 1)
    metadata = {"name": "a", "resourceVersion": "5"}
    status = {"code": 418, "metadata": metadata, "details": {"causes": causes, "kind": None}, "other": 1}
    assert told(review(status=status)).result == {
        "code": 418,
        "metadata": {"resourceVersion": "5"},
        "details": {"causes": [{"message": "m"}] * CAUSES_MAX},
    }


def test_what_is_absent_is_no() -> None:
    document = review()
    del document["response"]["allowed"]
    assert told(document) == ReviewResponse(False)


def test_the_beta_version_needs_no_uid_and_no_type_of_patch() -> None:
    document = review("v1beta1", patch=ENCODED)
    del document["response"]["uid"]
    assert operations(told(document, "v1beta1")) == PATCH
    assert told(document, "v1beta1", may_patch=False).patch == b""


INVALID: dict[str, tuple[Any, bool, str]] = {
    "no document": (None, True, "not an object"),
    "no response": ({"apiVersion": f"{GROUP}/v1", "kind": "AdmissionReview"}, True, "response was absent"),
    "a response that is none": ({"response": 1}, True, "response is not an object"),
    "another uid": (review(uid="v"), True, 'expected response.uid="u", got "v"'),
    "a uid that is a number": (review(uid=1), True, "response.uid is not a string"),
    "another version": (review("v1beta1"), True, f"expected webhook response of {GROUP}/v1, Kind="),
    "patch without type": (review(patch=ENCODED), True, "response.patch but not response.patchType"),
    "type without patch": (review(patchType="JSONPatch"), True, "patchType but not response.patch"),
    "an empty type": (review(patch=ENCODED, patchType=""), True, 'invalid response.patchType of ""'),
    "a patch of one that may not": (review(patch=ENCODED, patchType="JSONPatch"), False, "may not return"),
    "a type of one that may not": (review(patchType="JSONPatch"), False, "may not return"),
    "no base64": (review(patch="?", patchType="JSONPatch"), True, "not base64"),
    "a type that is a number": (review(patch=ENCODED, patchType=1), True, "patchType is not a string"),
    "a status that is a text": (review(status="no"), True, "response.status is not an object"),
    "a message that is a number": (review(status={"message": 1}), True, "response.status: json: cannot"),
    "a code that is too large": (review(status={"code": 1 << 31}), True, "response.status: json: cannot"),
    "metadata that is a number": (review(status={"metadata": 1}), True, "response.status: json: cannot"),
    "details that are a text": (review(status={"details": "no"}), True, "response.status: json: cannot"),
    "causes that are numbers": (
        review(status={"details": {"causes": [1]}}),
        True,
        "response.status: json: cannot",
    ),
}


@pytest.mark.parametrize(("document", "may_patch", "text"), INVALID.values(), ids=INVALID)
def test_invalid_answers(document: Any, may_patch: bool, text: str) -> None:
    with pytest.raises(InvalidAnswer) as raised:
        told(document, may_patch=may_patch)
    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("patch", "patch_type", "text"),
    [
        (b"{", "JSONPatch", "undecodable patch"),
        (b"{}", "JSONPatch", "undecodable patch"),
        pytest.param(
            b"[" + b"{}," * 250_000 + b"{}]",
            "JSONPatch",
            "document has more than 250000 values",
            id="too many values",
        ),
        (b"[]", "MergePatch", 'unsupported patch type "MergePatch"'),
    ],
)
def test_patches_that_are_none(patch: bytes, patch_type: str, text: str) -> None:
    with pytest.raises(InvalidAnswer, match=text):
        operations(ReviewResponse(True, patch, patch_type))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
FIELDS: Final = ("uid", "allowed", "patch", "patchType", "status", "warnings", "auditAnnotations")


@given(st.dictionaries(st.sampled_from(FIELDS), JSON), st.booleans(), st.sampled_from(["v1", "v1beta1"]))
def test_no_answer_raises_anything_else(response: dict[str, Any], may_patch: bool, version: str) -> None:
    try:
        found = told({**review(version), "response": response}, version, may_patch=may_patch)
    except InvalidAnswer:
        return
    assert isinstance(found.is_allowed, bool)
