"""The events of a request, as Kubernetes writes them.

https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any, Final

import orjson
import pytest

from apiserver.audit.event_fields import AuditTarget, ObjectReference, caller_of, source_ips
from apiserver.audit.events import EventWithObjects, legacy_line, pieces_of, truncated
from apiserver.audit.policy import (
    PANIC,
    REQUEST_RECEIVED,
    RESPONSE_COMPLETE,
    RESPONSE_STARTED,
    AuditLevel,
    RequestConfig,
    Stage,
)
from apiserver.audit.request_audit import (
    OBJECT_BYTES_MAX,
    AnnotationKeys,
    ByteBudget,
    RecordingContext,
    RequestAudit,
    without_managed_fields,
)
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import UserInfo

KEYS: Final = AnnotationKeys.of(Brand())
RECEIVED: Final = 1_700_000_000_250_000_000
LATER: Final = 1_700_000_001_500_000_000
EVE: Final = UserInfo("eve", ("dev",), "u-1", (("scopes", ("a", "b")),))


def audit_of(
    level: AuditLevel = AuditLevel.METADATA, *, user: UserInfo | None = EVE, **config: Any
) -> RequestAudit:
    audit = RequestAudit(RECEIVED, RecordingContext(KEYS))
    caller = caller_of(user, "10.0.0.1, x", "10.0.0.1", "127.0.0.1", "curl/8")
    reference = ObjectReference("pods", "a", "", "", "", "v1", "", "status")
    config_ = RequestConfig(level, **config)
    audit.begin("id-1", AuditTarget.of(config_, "/api/v1/x?a=b&c", "update", reference), caller)
    return audit


def document(audit: RequestAudit, stage: Stage = RESPONSE_COMPLETE, code: int = 200) -> dict[str, Any]:
    event = audit.event(stage, LATER, code)
    assert event is not None
    found: dict[str, Any] = orjson.loads(b"{%b}" % b"".join(pieces_of(event)))
    return found


def test_all_that_an_event_says_in_its_order() -> None:
    audit = audit_of()
    audit.impersonate(UserInfo("bob"), "impersonate:user-info")
    audit.refer_to({"name": "p", "namespace": "other", "uid": "u", "resourceVersion": "7", "labels": {}})
    audit.decision = True, "because"
    audit.annotate("z", "1")
    audit.annotate("z", "2")
    audit.annotate("of requests", "x", AuditLevel.REQUEST)
    found = document(audit)
    assert found == {
        "level": "Metadata",
        "auditID": "id-1",
        "stage": "ResponseComplete",
        "requestURI": "/api/v1/x?a=b&c",
        "verb": "update",
        "user": {"username": "eve", "uid": "u-1", "groups": ["dev"], "extra": {"scopes": ["a", "b"]}},
        "impersonatedUser": {"username": "bob"},
        "authenticationMetadata": {"impersonationConstraint": "impersonate:user-info"},
        "sourceIPs": ["10.0.0.1", "127.0.0.1"],
        "userAgent": "curl/8",
        "objectRef": {
            "resource": "pods",
            "namespace": "a",
            "name": "p",
            "uid": "u",
            "apiVersion": "v1",
            "resourceVersion": "7",
            "subresource": "status",
        },
        "responseStatus": {"metadata": {}, "code": 200},
        "requestReceivedTimestamp": "2023-11-14T22:13:20.250000Z",
        "stageTimestamp": "2023-11-14T22:13:21.500000Z",
        "annotations": {
            "authorization.k8s.io/decision": "allow",
            "authorization.k8s.io/reason": "because",
            "z": "1",
        },
    }
    order = [
        "impersonatedUser",
        "authenticationMetadata",
        "sourceIPs",
        "userAgent",
        "objectRef",
        "responseStatus",
    ]
    assert [name for name in found if name in order] == order


def test_the_events_of_most_requests_are_made_when_they_are_written_and_are_the_same() -> None:
    for user, reference in ((EVE, ObjectReference("pods", "a", "p")), (UserInfo("\udcfe"), None)):
        audit = RequestAudit(RECEIVED, RecordingContext(KEYS))
        target = AuditTarget.of(RequestConfig(AuditLevel.METADATA), "/\udcfd", "get", reference)
        audit.begin("\udcff", target, caller_of(user, "", "", "127.0.0.1", "curl/8"))
        assert audit.received() == audit.event(REQUEST_RECEIVED, LATER)
        audit.decision, audit.completed_at_ns, audit.code = (True, "because"), LATER, 201
        assert audit.completed() == audit.event(RESPONSE_COMPLETE, LATER, 201)
        assert audit.details is None
        assert len(audit.received()) <= audit.size


def test_the_first_event_has_no_status_and_only_one_time() -> None:
    found = document(audit_of(user=None), REQUEST_RECEIVED)
    assert "responseStatus" not in found
    assert found["user"] == {}
    assert found["stageTimestamp"] == found["requestReceivedTimestamp"]


STATUSES: Final[dict[str, tuple[dict[str, Any] | None, int, dict[str, Any]]]] = {
    "a code": (None, 201, {"metadata": {}, "code": 201}),
    "nothing was answered": (
        None,
        0,
        {"metadata": {}, "status": "Success", "message": "Connection closed early", "code": 200},
    ),
    "a Status": (
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"x": 1},
            "status": "Failure",
            "message": "no \ud800",
            "reason": "NotFound",
            "details": {"name": "a"},
            "code": 404,
        },
        404,
        {
            "metadata": {},
            "status": "Failure",
            "message": "no ?",
            "reason": "NotFound",
            "details": {"name": "a"},
            "code": 404,
        },
    ),
    "a Status without a code": (
        {"status": "Success", "details": {}},
        200,
        {"metadata": {}, "status": "Success", "code": 200},
    ),
}


@pytest.mark.parametrize(("status", "code", "found"), STATUSES.values(), ids=STATUSES)
def test_what_was_answered(status: dict[str, Any] | None, code: int, found: dict[str, Any]) -> None:
    audit = audit_of()
    if status is not None:
        audit.record_status(status)
    assert document(audit, code=code)["responseStatus"] == found


def test_a_panic_does_not_tell_what_has_gone_wrong() -> None:
    audit = audit_of()
    audit.has_panicked = True
    status = document(audit, PANIC, 500)["responseStatus"]
    assert (status["reason"], status["code"]) == ("InternalError", 500)


LEVELS: Final = {
    AuditLevel.METADATA: (False, False),
    AuditLevel.REQUEST: (True, False),
    AuditLevel.REQUEST_RESPONSE: (True, True),
}


@pytest.mark.parametrize(("level", "wanted"), LEVELS.items(), ids=["Metadata", "Request", "RequestResponse"])
def test_objects_are_put_in_as_they_came(level: AuditLevel, wanted: tuple[bool, bool]) -> None:
    audit = audit_of(level)
    assert (audit.wants_request, audit.wants_response) == wanted
    if audit.wants_request:
        audit.record_request(b' {"a":\r\n 1.50,\n"b": "\\n"}\n')
        event = audit.event(REQUEST_RECEIVED, LATER)
        assert event is not None
        assert b"\n" not in b"".join(pieces_of(event))
        assert document(audit)["requestObject"] == {"a": 1.5, "b": "\n"}
    if audit.wants_response:
        audit.record_response([b'{"c":', b"", b"[2]}\n"])
        assert document(audit)["responseObject"] == {"c": [2]}


def test_an_object_that_is_too_large_is_left_out() -> None:
    audit = audit_of(AuditLevel.REQUEST_RESPONSE)
    audit.record_response(iter([b"[", b" " * OBJECT_BYTES_MAX, b"]"]))
    found = document(audit)
    assert "responseObject" not in found
    assert found["annotations"] == {"audit.k8s.io/truncated": "true"}


def test_an_object_that_was_not_encoded_to_its_end_is_not_recorded() -> None:
    audit = audit_of(AuditLevel.REQUEST_RESPONSE)
    audit.add_to_response(b'{"items":[')
    assert "responseObject" not in document(audit)


def test_objects_that_are_recorded_at_the_same_time_share_room() -> None:
    room = ByteBudget(20)
    first, second = (RequestAudit(RECEIVED, RecordingContext(KEYS, room)) for _ in range(2))
    first.record_response([b"x" * 15])
    second.record_response([b"x" * 3, b"x" * 3])
    assert room.held == 15
    first.forget_response()
    second.record_response([b"x" * 6])
    assert room.held == 6
    second.forget_response()
    second.forget_response()
    assert room.held == 0


def test_a_truncated_event_has_no_objects_and_says_so() -> None:
    audit = audit_of(AuditLevel.REQUEST_RESPONSE)
    audit.record_request(b"{}")
    audit.record_response([b"{}"])
    audit.decision = False, ""
    event = audit.event(RESPONSE_COMPLETE, LATER, 403)
    assert isinstance(event, EventWithObjects)
    found = orjson.loads(b"{%b}" % truncated(event, "x/truncated"))
    assert not {"requestObject", "responseObject"} & found.keys()
    assert found["annotations"] == {
        "authorization.k8s.io/decision": "forbid",
        "authorization.k8s.io/reason": "",
        "x/truncated": "true",
    }


def test_stages_that_are_omitted_have_no_event() -> None:
    audit = audit_of(omitted_stages=frozenset({RESPONSE_STARTED}))
    assert audit.event(RESPONSE_STARTED, LATER, 200) is None
    assert audit.event(RESPONSE_COMPLETE, LATER, 200) is not None


MANAGED: Final = {
    "an object": (
        b'{"metadata":{"name":"a","managedFields":[{"manager":"m"}]}}',
        {"metadata": {"name": "a"}},
    ),
    "a list": (
        b'{"metadata":{},"items":[{"metadata":{"managedFields":[]}},1]}',
        {"metadata": {}, "items": [{"metadata": {}}, 1]},
    ),
    "a patch": (b'[{"op":"add","path":"/a","value":"managedFields"}]', None),
    "metadata that are none": (b'{"metadata":"managedFields","items":{"managedFields":1}}', None),
    "nothing of it": (b'{"a": 1}', None),
}


@pytest.mark.parametrize(("data", "expected"), MANAGED.values(), ids=MANAGED)
def test_managed_fields_are_left_out(data: bytes, expected: Any) -> None:
    found = orjson.loads(without_managed_fields(data))
    assert found == (orjson.loads(data) if expected is None else expected)


# X-Forwarded-For, X-Real-Ip, the peer; k8s.io/apimachinery, pkg/util/net/http_test.go, TestSourceIPs.
ADDRESSES: Final = {
    "no headers": (("", "", "1.2.3.4"), ["1.2.3.4"]),
    "all different": (("1.1.1.1, 2.2.2.2", "3.3.3.3", "4.4.4.4"), [f"{n}.{n}.{n}.{n}" for n in (1, 2, 3, 4)]),
    "forwarded, too": (("1.1.1.1,2.2.2.2", "1.1.1.1", "4.4.4.4"), ["1.1.1.1", "2.2.2.2", "4.4.4.4"]),
    "the peer is the last": (("1.1.1.1,4.4.4.4", "", "4.4.4.4"), ["1.1.1.1", "4.4.4.4"]),
    "the peer was forwarded before": (("4.4.4.4,1.1.1.1", "", "4.4.4.4"), ["4.4.4.4", "1.1.1.1", "4.4.4.4"]),
    "what is no address": (('evil", "x', "nobody", "::1"), ["::1"]),
    "a zone": (("fe80::1%\udcff", "fe80::1%eth0", "fe80::2%eth0"), ["fe80::2"]),
    "an address of another form": (("2001:0DB8::0001", "", "::ffff:9.9.9.9"), ["2001:db8::1", "9.9.9.9"]),
}  # fmt: skip


@pytest.mark.parametrize(("headers", "expected"), ADDRESSES.values(), ids=ADDRESSES)
def test_where_a_request_comes_from(headers: tuple[str, str, str], expected: list[str]) -> None:
    assert source_ips(*headers) == expected


def test_texts_that_are_no_unicode_and_long_user_agents() -> None:
    audit = RequestAudit(RECEIVED, RecordingContext(KEYS))
    caller = caller_of(UserInfo("\udcfe"), "", "", "", "x" * 2000)
    audit.begin("\udcff", AuditTarget.of(RequestConfig(AuditLevel.METADATA), "/\udcfd", "get", None), caller)
    found = document(audit)
    assert (found["auditID"], found["requestURI"], found["user"]) == ("?", "/?", {"username": "?"})
    assert found["userAgent"] == "x" * 1024 + "...TRUNCATED"
    assert "objectRef" not in found


def test_the_line_of_the_legacy_format() -> None:
    audit = audit_of()
    line = legacy_line(document(audit, code=201))
    assert line == (
        '2023-11-14T22:13:20.25Z AUDIT: id="id-1" stage="ResponseComplete" ip="10.0.0.1" method="update" '
        r'user="eve" groups="\"dev\"" as="<self>" asgroups="<lookup>" user-agent="curl/8" namespace="a" '
        'uri="/api/v1/x?a=b&c" response="201"'
    )
    first = legacy_line(document(audit_of(user=None), REQUEST_RECEIVED))
    assert 'user="<none>" groups="<none>"' in first
    assert first.endswith('response="<deferred>"')


LONG: Final = 1_000_000


def _forbid(audit: RequestAudit, reason: str) -> None:
    audit.decision = False, reason


# What clients and webhooks choose, and how the record of a request is told.
CHOSEN: Final[dict[str, Callable[[RequestAudit, str], object]]] = {
    "the name in a body": lambda audit, text: audit.refer_to({"name": text}),
    "the name in a path": lambda audit, text: AuditTarget.of(
        RequestConfig(AuditLevel.METADATA), "/", "get", ObjectReference("pods", "b", text)
    ),
    "the user": lambda audit, text: caller_of(UserInfo(text), "", "", "", ""),
    "the impersonated user": lambda audit, text: audit.impersonate(UserInfo("a", (), "", (("b", (text,)),))),
    "the reason of a decision": _forbid,
}


@pytest.mark.parametrize("tell", CHOSEN.values(), ids=CHOSEN)
def test_nothing_long_is_left_in_memory(tell: Callable[[RequestAudit, str], object]) -> None:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(10):
            audit = audit_of()
            tell(audit, f"{number}".ljust(LONG, "x"))
            assert document(audit)
        del audit
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < LONG


def test_a_reason_that_is_too_long_to_be_remembered() -> None:
    audit = audit_of()
    audit.decision = False, "because " * 1_000
    assert document(audit)["annotations"] == {
        "authorization.k8s.io/decision": "forbid",
        "authorization.k8s.io/reason": "because " * 1_000,
    }
