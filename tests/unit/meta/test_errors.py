"""Errors as clients see them: the Status of each (rows P01, P02), and of each storage error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

from apiserver.meta import errors
from apiserver.meta.errors import ApiError, from_storage
from apiserver.meta.field_errors import FieldError, invalid, required
from apiserver.meta.vocabulary import Document, GroupKind, GroupResource
from apiserver.storage import errors as storage_errors
from apiserver.storage.errors import (
    DataDirectoryError,
    EncryptionFailed,
    KeyExists,
    LeaseNotFound,
    OutcomeUnknown,
    RevisionCompacted,
    RevisionMismatch,
    RevisionOutOfReach,
    RevisionTooLarge,
    StorageError,
    StorageFull,
    StorageUnavailable,
    ValueTooLarge,
)

DEPLOYMENTS: Final = GroupResource("apps", "deployments")
PODS: Final = GroupResource("", "pods")
A_POD: Final = {"name": "a", "kind": "pods"}
A_DEPLOYMENT: Final = {"name": "a", "group": "apps", "kind": "deployments"}
TOO_LARGE: Final = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
MODIFIED: Final = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
NO_NAME: Final = required("metadata.name", "name or generateName is required")
BAD_LABEL: Final = invalid("metadata.labels", "a b", "bad")

# What is raised -> code, reason, message, details.
STATUSES: Final[dict[str, tuple[ApiError, int, str, str, Document | None]]] = {
    "bad request": (errors.BadRequest("why"), 400, "BadRequest", "why", None),
    "nobody": (errors.Unauthorized(), 401, "Unauthorized", "Unauthorized", None),
    "forbidden": (
        errors.Forbidden.to_resource(DEPLOYMENTS, "a", "why"),
        403,
        "Forbidden",
        'deployments.apps "a" is forbidden: why',
        A_DEPLOYMENT,
    ),
    "a forbidden collection": (
        errors.Forbidden.to_resource(PODS, "", "why", causes=[{"reason": "NamespaceTerminating"}]),
        403,
        "Forbidden",
        "pods is forbidden: why",
        {"kind": "pods", "causes": [{"reason": "NamespaceTerminating"}]},
    ),
    "others own what is applied": (
        errors.ApplyConflict("Apply failed with 1 conflict: why", [{"field": ".data.k"}]),
        409,
        "Conflict",
        "Apply failed with 1 conflict: why",
        {"causes": [{"field": ".data.k"}]},
    ),
    "no such object": (errors.NotFound(PODS, "a"), 404, "NotFound", 'pods "a" not found', A_POD),
    "no such path": (
        errors.NoSuchEndpoint(),
        404,
        "NotFound",
        "the server could not find the requested resource",
        {},
    ),
    "no such method": (
        errors.MethodNotAllowed(),
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
        {},
    ),
    "no such representation": (
        errors.NotAcceptable.none_of(["a/b", "c/d"]),
        406,
        "NotAcceptable",
        "only the following media types are accepted: a/b, c/d",
        None,
    ),
    "the name is taken (A09)": (
        errors.AlreadyExists(DEPLOYMENTS, "a"),
        409,
        "AlreadyExists",
        'deployments.apps "a" already exists',
        A_DEPLOYMENT,
    ),
    "the name is still taken": (
        errors.AlreadyExists(PODS, "a", is_terminating=True),
        409,
        "AlreadyExists",
        'object is being deleted: pods "a" already exists',
        A_POD,
    ),
    "a conflict (L01)": (
        errors.Conflict(PODS, "a"),
        409,
        "Conflict",
        f'Operation cannot be fulfilled on pods "a": {MODIFIED}',
        A_POD,
    ),
    "a conflict of another kind": (
        errors.Conflict(PODS, "a", "why"),
        409,
        "Conflict",
        'Operation cannot be fulfilled on pods "a": why',
        A_POD,
    ),
    "expired": (errors.Expired("why"), 410, "Expired", "why", None),
    "too large (Q04)": (
        errors.RequestEntityTooLarge(9),
        413,
        "RequestEntityTooLarge",
        "Request entity too large: limit is 9",
        None,
    ),
    "an unknown body (D19)": (
        errors.UnsupportedMediaType.none_of(["a/b", "c/d"]),
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: a/b, c/d",
        None,
    ),
    "invalid": (
        errors.Invalid(GroupKind("apps", "Deployment"), "a", [BAD_LABEL]),
        422,
        "Invalid",
        'Deployment.apps "a" is invalid: metadata.labels: Invalid value: "a b": bad',
        {
            "name": "a",
            "group": "apps",
            "kind": "Deployment",
            "causes": [
                {
                    "reason": BAD_LABEL.reason,
                    "message": 'Invalid value: "a b": bad',
                    "field": "metadata.labels",
                }
            ],
        },
    ),
    "a patch that cannot be carried out (L03)": (
        errors.UnprocessablePatch(),
        422,
        "Invalid",
        "the server rejected our request due to an error in our request",
        {},
    ),
    "too many requests": (
        errors.TooManyRequests(),
        429,
        "TooManyRequests",
        "Too many requests, please try again later.",
        {"retryAfterSeconds": 1},
    ),
    "a bug": (errors.InternalError("why"), 500, "InternalError", "why", None),
    "a function that makes an object invalid": (
        errors.MadeInvalid("why", "why, without values"),
        500,
        "InternalError",
        "Internal error occurred: why",
        {"causes": [{"message": "why"}]},
    ),
    "a patch that cannot be merged (L06)": (errors.UnmergeablePatch("why"), 422, "Invalid", "why", None),
    "a damaged object (G15)": (errors.StorageReadError("why"), 500, "StorageReadError", "why", None),
    "not now": (errors.ServiceUnavailable("why"), 503, "ServiceUnavailable", "why", {"retryAfterSeconds": 1}),
    "too late": (
        errors.Timeout.of_request(),
        504,
        "Timeout",
        "Timeout: request did not complete within the allotted timeout",
        None,
    ),
    "a version from the future (K37)": (
        errors.Timeout.too_large_resource_version(requested=9, current=7),
        504,
        "Timeout",
        "Timeout: Too large resource version: 9, current: 7",
        {"causes": [TOO_LARGE], "retryAfterSeconds": 1},
    ),
}


@pytest.mark.parametrize(("error", "code", "reason", "message", "details"), STATUSES.values(), ids=STATUSES)
def test_the_status_of_a_failure(
    error: ApiError, code: int, reason: str, message: str, details: Document | None
) -> None:
    """Rows P01, P02."""
    expected: Document = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
    }
    if details is not None:
        expected["details"] = details
    expected["code"] = code
    status = error.status()
    assert status == expected
    assert list(status) == list(expected), "fields come in the order of Kubernetes"
    assert (error.code, error.reason, str(error)) == (code, reason, message)


def subclasses(of: type[Any]) -> Iterator[type[Any]]:
    for each in of.__subclasses__():
        yield each
        yield from subclasses(each)


def test_no_failure_is_left_out_of_these_tables() -> None:
    own = {each for each in subclasses(ApiError) if each.__module__ == errors.__name__}
    assert {type(error) for error, *_ in STATUSES.values()} == own
    stored = {each for each in subclasses(StorageError) if each.__module__ == storage_errors.__name__}
    assert {type(error) for error, *_ in STORAGE.values()} == stored


# A line of the tree in the module's docstring: its indentation, the class, and its HTTP status code.
DRAWN: Final = re.compile(r"^ {4}([│├└─ ]*)(\w+) +(?:(\d{3})\b)?.*$", re.MULTILINE)


def test_the_tree_in_the_docstring_has_every_class_its_parent_and_its_code() -> None:
    drawn: dict[str, tuple[str, int]] = {}
    ancestors: list[str] = []
    for indentation, name, code in DRAWN.findall(errors.__doc__ or ""):
        del ancestors[len(indentation) // 4 :]
        if ancestors:
            drawn[name] = (ancestors[-1], int(code))
        ancestors.append(name)
    own = [each for each in subclasses(ApiError) if each.__module__ == errors.__name__]
    assert ancestors[0] == ApiError.__name__
    assert drawn == {each.__name__: (each.__bases__[0].__name__, each.code) for each in own}
    assert list(drawn) == [each.__name__ for each in own], "in the order of their definitions"


def test_a_list_that_expired_has_a_token_to_go_on_with() -> None:
    """Row K35."""
    error = errors.Expired("why")
    error.list_meta = {"continue": "t"}
    assert error.status()["metadata"] == {"continue": "t"}
    assert errors.Expired("why").status()["metadata"] == {}, "not shared with other failures"


@pytest.mark.parametrize(
    ("kind", "name", "found", "message", "details"),
    [
        pytest.param(
            GroupKind("", "Pod"),
            "",
            [NO_NAME],
            'Pod "" is invalid: metadata.name: Required value: name or generateName is required',
            {"kind": "Pod"},
            id="without a name and a group",
        ),
        pytest.param(
            GroupKind("", "Pod"),
            "a",
            [NO_NAME, BAD_LABEL],
            'Pod "a" is invalid: [metadata.name: Required value: name or generateName is required, '
            'metadata.labels: Invalid value: "a b": bad]',
            {"name": "a", "kind": "Pod"},
            id="many fields",
        ),
        pytest.param(
            GroupKind("", "Pod"),
            "a",
            [BAD_LABEL, BAD_LABEL],
            'Pod "a" is invalid: metadata.labels: Invalid value: "a b": bad',
            {"name": "a", "kind": "Pod"},
            id="the same field twice is told once, and is a cause twice",
        ),
    ],
)
def test_an_invalid_object_has_a_cause_for_each_field(
    kind: GroupKind, name: str, found: list[FieldError], message: str, details: Document
) -> None:
    error = errors.Invalid(kind, name, found)
    assert error.message == message
    causes = [{"reason": e.reason, "message": e.message, "field": e.field} for e in found]
    assert error.details == {**details, "causes": causes}


def test_details_tell_the_resource_as_kind() -> None:
    """As kube-apiserver always has (row P01)."""
    assert errors.details_of(DEPLOYMENTS, "a", "u") == {**A_DEPLOYMENT, "uid": "u"}
    assert errors.details_of(PODS, "") == {"kind": "pods"}


# ---- storage

# What storage raises -> code, reason, a part of the message, Retry-After.
STORAGE: Final[dict[str, tuple[StorageError, int, str, str, int | None]]] = {
    "a value already": (
        KeyExists("/k", mod_revision=3),
        409,
        "AlreadyExists",
        'deployments.apps "a" already exists',
        None,
    ),
    "another revision": (RevisionMismatch("/k", expected=3, found=4), 409, "Conflict", MODIFIED, None),
    "compacted (K31, M08)": (
        RevisionCompacted(requested=3, oldest=7),
        410,
        "Expired",
        "too old resource version: 3 (7)",
        None,
    ),
    "not yet (K37)": (
        RevisionTooLarge(requested=9, current=7),
        504,
        "Timeout",
        "Too large resource version: 9, current: 7",
        1,
    ),
    "a large value (Q04)": (
        ValueTooLarge("/k", size_bytes=10, limit_bytes=9),
        413,
        "RequestEntityTooLarge",
        "limit is 9",
        None,
    ),
    "no store": (StorageUnavailable("no etcd"), 503, "ServiceUnavailable", "no etcd", 1),
    "no room": (StorageFull("no room"), 503, "ServiceUnavailable", "no room", 1),
    "cut off": (OutcomeUnknown("cut"), 504, "Timeout", "the outcome of the write is unknown", None),
    "no key": (EncryptionFailed("/k", "no key"), 500, "InternalError", "error occurred: no key", None),
    "no lease": (LeaseNotFound(1), 500, "InternalError", "Internal error occurred: ", None),
    "an etcd too far behind": (
        RevisionOutOfReach(minimum=9, current=7),
        500,
        "InternalError",
        "Internal error occurred: ",
        None,
    ),
    "no files": (DataDirectoryError("in use"), 500, "InternalError", "Internal error occurred: ", None),
}


@pytest.mark.parametrize(
    ("error", "code", "reason", "message", "retry_after_s"), STORAGE.values(), ids=STORAGE
)
def test_what_a_storage_failure_looks_like(
    error: StorageError, code: int, reason: str, message: str, retry_after_s: int | None
) -> None:
    seen = from_storage(error, DEPLOYMENTS, "a")
    assert (seen.code, seen.reason, seen.retry_after_s) == (code, reason, retry_after_s)
    assert message in seen.message
    assert "/k" not in seen.message, "keys are no business of clients"
    if code in (404, 409):
        assert seen.details == A_DEPLOYMENT


def test_what_a_function_has_made_of_an_object_is_recorded_without_values() -> None:
    recorded = errors.MadeInvalid("why: 7", "why").to_record()
    assert (recorded.code, recorded.message) == (500, "Internal error occurred: why")
