"""What webhooks answer: HTTP, and reviews."""

from __future__ import annotations

from typing import Final

import orjson

from apiserver.admission.responses import InvalidAnswer
from apiserver.admission.webhooks.admission_reviews import ReviewResponse, operations, read
from apiserver.webhooks.http_answers import AnswerReader, AnswerTooLong, MalformedHttpAnswer
from apiserver.wire import json_text
from tests.fuzz.target import fuzzer

_BODY_BYTES_MAX: Final = 1_000


def _read(*pieces: bytes) -> tuple[object, ...]:
    """Returns what is read of an answer that comes in pieces; nothing but the error if there is one."""
    reader = AnswerReader(_BODY_BYTES_MAX)
    try:
        for piece in pieces:
            reader.feed(piece)
        reader.feed_eof()
    except (AnswerTooLong, MalformedHttpAnswer) as error:
        return (type(error),)
    assert len(reader.body) <= _BODY_BYTES_MAX
    return reader.status, reader.is_complete, reader.body, reader.content_type, reader.encoding


@fuzzer(
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: application/json; charset=utf-8\r\n\r\n{}",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"2;a=b\r\n{}\r\n0\r\nA: b\r\n\r\n",
    b"HTTP/1.0 204\n\n",
    b"HTTP/1.1 500 x\r\nConnection: close\r\nContent-Encoding: gzip\r\n\r\nabc",
    words=b"HTTP/1.1 HTTP/1.0 200 100 204 Content-Length: Transfer-Encoding: chunked Connection: close "
    b"Content-Encoding: ; \r\n",
)
def answers(data: bytes) -> None:
    """However an answer is cut, it says the same."""
    whole = _read(data)
    assert _read(*(data[index : index + 1] for index in range(len(data)))) == whole
    middle = len(data) // 2
    assert _read(data[:middle], data[middle:]) == whole


@fuzzer(
    orjson.dumps(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {
                "uid": "u",
                "allowed": True,
                "patch": "W3sib3AiOiJhZGQiLCJwYXRoIjoiL3giLCJ2YWx1ZSI6MX1d",
                "patchType": "JSONPatch",
                "warnings": ["w"],
                "auditAnnotations": {"a": "b"},
                "status": {"code": 403, "message": "m", "details": {"causes": [{"field": "f"}]}},
            },
        }
    ),
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u"}}',
    words=b"response uid allowed patch patchType JSONPatch warnings auditAnnotations status code details "
    b"causes retryAfterSeconds admission.k8s.io/v1 admission.k8s.io/v1beta1",
    is_json=True,
)
def reviews(data: bytes) -> None:
    try:
        review = json_text.load(data)
    except (ValueError, json_text.TooManyValues):
        return
    for version in ("v1", "v1beta1"):
        for may_patch in (True, False):
            try:
                found = read(review, "admission.k8s.io", version, "u", may_patch=may_patch)
            except InvalidAnswer:
                continue
            assert isinstance(found, ReviewResponse)
            assert may_patch or not found.patch
            try:
                assert isinstance(operations(found), list)
            except InvalidAnswer:
                continue
