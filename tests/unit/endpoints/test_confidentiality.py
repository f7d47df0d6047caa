"""What errors and audit events do not say of objects that hold secrets, and of credentials in URLs."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.endpoints.confidentiality import RedactedError, redacted_uri
from apiserver.meta import field_errors
from apiserver.meta.errors import (
    REJECTED,
    ApiError,
    ApplyConflict,
    BadRequest,
    Conflict,
    Forbidden,
    InternalError,
    Invalid,
    MadeInvalid,
    NotFound,
    TooManyRequests,
    UnmergeablePatch,
)
from apiserver.meta.field_errors import REDACTED, FieldError
from apiserver.meta.vocabulary import GroupKind, GroupResource

SECRETS: Final = GroupResource("", "secrets")
MARK: Final = "nobody-may-read"
# Each error, and its text without any value.
ERRORS: Final[dict[str, tuple[FieldError, str]]] = {
    "invalid": (field_errors.invalid("f", MARK, f"not {MARK}"), f"Invalid value: {REDACTED}"),
    "of another type": (
        FieldError("f", "FieldValueTypeInvalid", f'Invalid value: "{MARK}": a string'),
        f"Invalid value: {REDACTED}",
    ),
    "duplicate": (field_errors.duplicate("f", MARK), f"Duplicate value: {REDACTED}"),
    "not supported": (field_errors.not_supported("f", MARK, ["a"]), f"Unsupported value: {REDACTED}"),
    "not found": (field_errors.not_found("f", MARK), f"Not found: {REDACTED}"),
    "required": (field_errors.required("f", MARK), "Required value"),
    "forbidden": (field_errors.forbidden("f", MARK), "Forbidden"),
    "too long": (field_errors.too_long("f", 9), "Too long"),
    "too many": (field_errors.too_many("f", 9, 8), "Too many"),
    "of a definition": (
        FieldError("f", "FieldValueInvalid", f"Invalid value: {MARK}"),
        f"Invalid value: {REDACTED}",
    ),
    "of a kind that is not known": (FieldError("f", "Other", MARK), f"Invalid value: {REDACTED}"),
}


@pytest.mark.parametrize(("error", "text"), ERRORS.values(), ids=ERRORS)
def test_an_error_without_any_value(error: FieldError, text: str) -> None:
    assert error.without_text() == FieldError("f", error.reason, text)


def test_a_value_is_redacted_and_the_rest_stays() -> None:
    found = field_errors.invalid("f", {"a": MARK}, "is wrong").without_value()
    assert found.message == f"Invalid value: {REDACTED}: is wrong"
    other = field_errors.required("f", "is missing")
    assert other.without_value() is other


def shown(error: ApiError, has_copied: bool) -> RedactedError:
    return RedactedError(error, GroupKind("", "Secret"), "s", has_copied=has_copied)


def invalid(*fields: str) -> Invalid:
    errors = [field_errors.invalid(each, MARK, "is wrong") for each in fields]
    return Invalid(GroupKind("", "Secret"), "s", errors)


# An error, whether values were copied, and what the client sees and what is recorded is free of the mark.
SHOWN: Final[dict[str, tuple[ApiError, bool, bool, bool]]] = {
    "a field that a client has sent": (invalid("metadata.labels"), False, False, True),
    "a patch that does not fit": (invalid("patch"), False, True, True),
    "both": (invalid("patch", "metadata.labels"), False, False, True),
    "a field that was copied": (invalid("metadata.labels"), True, True, True),
    "an apply that does not fit": (UnmergeablePatch(f"got {MARK}"), False, True, True),
    "a body that is none": (BadRequest(f"({MARK} ...)"), False, False, True),
    "an item of a set that another manager owns": (
        ApplyConflict(
            f'conflict with "m": .spec.tags[v:"{MARK}"]',
            [{"reason": "FieldManagerConflict", "field": f'.spec.tags[v:"{MARK}"]'}],
        ),
        *(False, False, True),
    ),
    "a kind that was copied": (
        Invalid(GroupKind("", MARK), "s", [field_errors.invalid("kind", MARK, "")]),
        *(True, True, True),
    ),
    "a name that was copied": (BadRequest(f"the name of the object ({MARK})"), True, True, True),
    "a uid that was copied": (Conflict(SECRETS, "s", f"UID in precondition: {MARK}"), True, True, True),
    "a plugin that tells what was copied": (Forbidden(f"not {MARK}"), True, True, True),
    "a webhook that tells what was copied": (InternalError.of(MARK), True, True, True),
}


@pytest.mark.parametrize(("error", "has_copied", "is_hidden", "is_unrecorded"), SHOWN.values(), ids=SHOWN)
def test_who_is_told_a_value(error: ApiError, has_copied: bool, is_hidden: bool, is_unrecorded: bool) -> None:
    found = shown(error, has_copied)
    for told, is_free in ((found.to_client, is_hidden), (found.recorded, is_unrecorded)):
        status = told.status()
        assert (MARK not in str(status)) is is_free
        assert (told.code, told.reason) == (error.code, error.reason)
        assert (status["code"], status["reason"]) == (error.code, error.reason)


def test_fields_are_told_and_so_is_what_the_error_is_about() -> None:
    status = shown(invalid("metadata.uid", "metadata.labels"), True).to_client.status()
    assert [each["field"] for each in status["details"]["causes"]] == ["metadata.uid", "metadata.labels"]
    assert {**status["details"], "causes": None} == {"name": "s", "kind": "Secret", "causes": None}
    conflict = shown(Conflict(SECRETS, "s", MARK), True).to_client.status()
    assert conflict["message"] == REJECTED
    assert conflict["details"] == {"name": "s", "kind": "secrets"}


UNCHANGED: Final[tuple[ApiError, ...]] = (NotFound(SECRETS, "s"), TooManyRequests(retry_after_s=3))


@pytest.mark.parametrize("has_copied", [True, False])
@pytest.mark.parametrize("error", UNCHANGED)
def test_what_tells_of_no_object_is_told(error: ApiError, has_copied: bool) -> None:
    found = shown(error, has_copied)
    assert found.to_client is found.recorded is error


@pytest.mark.parametrize(("has_copied", "warnings"), [(True, []), (False, [MARK])])
def test_warnings_of_what_was_copied_are_not_told(has_copied: bool, warnings: list[str]) -> None:
    error = invalid("patch")
    error.add_warnings([MARK])
    assert shown(error, has_copied).to_client.warnings == warnings


# RFC 6750: what is forwarded may bring its token in the query. Kubernetes itself takes none from there.
URIS: Final[dict[str, tuple[str, str]]] = {
    "no query": ("/api/access_token=1", "/api/access_token=1"),
    "an empty query": ("/api?", "/api?"),
    "no credentials": ("/api?a=b&labelSelector=x%3Dy", "/api?a=b&labelSelector=x%3Dy"),
    "the token of a list": ("/api?continue=abc&limit=5", "/api?continue=abc&limit=5"),
    "an access token": ("/api?access_token=1&a=b", "/api?access_token=REDACTED&a=b"),
    "in capital letters": ("/api?Access_Token=1", "/api?Access_Token=REDACTED"),
    "among others": ("/api?a=b&token=1&c=d", "/api?a=b&token=REDACTED&c=d"),
    "twice": ("/api?token=1&token=2", "/api?token=REDACTED&token=REDACTED"),
    "a name that is escaped": ("/api?access%5Ftoken=1", "/api?access%5Ftoken=REDACTED"),
    "a name that is escaped in part": ("/api?acc%65ss_tok%65n=1", "/api?acc%65ss_tok%65n=REDACTED"),
    "a value with an equals sign": ("/api?token=1=2", "/api?token=REDACTED"),
    "a value with a question mark": ("/api?token=1?2", "/api?token=REDACTED"),
    "an empty value": ("/api?token=", "/api?token=REDACTED"),
    "no value": ("/api?token&a=b", "/api?token&a=b"),
    "a value that is a name": ("/api?a=token", "/api?a=token"),
}
NAMES: Final = (
    *(
        "access_token",
        "id_token",
        "refresh_token",
        "bearer_token",
        "token",
        "X-Amz-Security-Token",
        "csrftoken",
    ),
    *("password", "passwd", "client_secret", "secret", "api_key", "apikey", "api-key", "access_key", "key"),
    *(
        "sig",
        "signature",
        "X-Goog-Signature",
        "X-Amz-Credential",
        "auth",
        "authorization",
        "jwt",
        "code",
        "pwd",
    ),
    "client_assertion",
)


@pytest.mark.parametrize(("uri", "redacted"), URIS.values(), ids=URIS)
def test_credentials_in_a_query(uri: str, redacted: str) -> None:
    assert redacted_uri(uri) == redacted


@pytest.mark.parametrize("name", NAMES)
def test_names_of_credentials(name: str) -> None:
    assert redacted_uri(f"/api?{name}=1") == f"/api?{name}=REDACTED"


@pytest.mark.parametrize(
    "name",
    ["continue", "limit", "resourceVersion", "fieldSelector", "timeoutSeconds", "pretty", "author", "monkey"],
)
def test_names_of_other_parameters(name: str) -> None:
    assert redacted_uri(f"/api?{name}=1") == f"/api?{name}=1"


def test_details_of_no_object() -> None:
    error: Any = shown(BadRequest("x"), True).to_client
    assert "details" not in error.status()


def test_what_a_function_has_made_of_an_object_is_only_for_the_client() -> None:
    error = MadeInvalid(f'extension "e": f has made it invalid: f: Invalid value: {MARK}', "f is invalid")
    found = shown(error, has_copied=False)
    assert found.to_client is error
    assert found.recorded.message == "Internal error occurred: f is invalid"
    assert MARK not in str(shown(error, has_copied=True).to_client.status())
