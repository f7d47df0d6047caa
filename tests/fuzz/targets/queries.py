"""What targets and headers of requests say: paths, options, selectors, continue tokens, media types."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from apiserver.endpoints.bodies import size_class_of
from apiserver.endpoints.negotiation import Negotiator, base_type, object_targets, stream_types
from apiserver.endpoints.request_info import MalformedRequest, parse_query, parse_target, selected_name
from apiserver.golang.media_types import parse_media_type
from apiserver.meta.brand import Brand
from apiserver.meta.errors import ApiError, NotAcceptable
from apiserver.meta.options import DeleteOptions, ListOptions, WriteOptions, read_at_for_get
from apiserver.meta.selectors import (
    LabelSelector,
    Requirement,
    SelectorSyntaxError,
    parse_field_selector,
    parse_label_selector,
)
from apiserver.storage.continue_token import InvalidToken, decode_token
from apiserver.storage.resource_version import InvalidResourceVersion, parse_resource_version
from apiserver.wire.media_types import supported_media_types
from tests.fuzz.target import fuzzer, require_client_error

_KNOWN: Final = frozenset({"metadata.name", "metadata.namespace", "status.phase"})
_OPERATORS: Final = b"= == != in notin exists ! ( ) , > < a.b/c metadata.name \\, \\= \\\\"


@fuzzer(
    b"a=b,c!=d,e in (f,g),h notin (),!i,j,k>5,l<-3",
    b"a.b/c==d, e  in ( f , ,)",
    b"a in (b",
    b"x" * 64 + b"=y",
    words=_OPERATORS,
)
def label_selectors(data: bytes) -> None:
    """The conditions that a selector is compiled to select what its requirements do, one after another."""
    try:
        selector = parse_label_selector(data.decode("utf-8", "replace"))
    except SelectorSyntaxError:
        return
    conditions = selector.conditions
    matches = conditions.test()
    for labels in _labels(selector):
        expected = all(_holds(requirement, labels) for requirement in selector.requirements)
        assert matches(labels) is expected, labels
        assert expected or not conditions.selects_everything


def _labels(selector: LabelSelector) -> Iterator[dict[str, str]]:
    """Yields some labels that a selector is about."""
    found: dict[str, list[str]] = {}
    for key, _, values in selector.requirements[:20]:
        found.setdefault(key, ["", "5"]).extend(sorted(values)[:5])
    yield {}
    for turn in range(8):
        labels = {key: values[turn % len(values)] for key, values in found.items()}
        yield labels
        yield dict(list(labels.items())[1:])


def _holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    key, operator, values = requirement
    value = labels.get(key)
    match operator:
        case "in":
            return value in values
        case "notin":
            return value is None or value not in values
        case "exists":
            return value is not None
        case "!":
            return value is None
    number, bound = _int64(value or ""), int(next(iter(values)))
    return number is not None and (number > bound if operator == "gt" else number < bound)


def _int64(text: str) -> int | None:
    number = int(text) if re.fullmatch("[+-]?[0-9]+", text) else None
    return number if number is None or -(2**63) <= number < 2**63 else None


@fuzzer(
    b"metadata.name=a,metadata.namespace!=b", rb"metadata.name=a\,b\=c\\,,status.phase==", words=_OPERATORS
)
def field_selectors(data: bytes) -> None:
    """The conditions that a selector is compiled to select what its requirements do, one after another."""
    text = data.decode("utf-8", "replace")
    for known in (_KNOWN, None):
        try:
            selector = parse_field_selector(text, known)
        except SelectorSyntaxError:
            continue
        matches = selector.conditions.test(_getter)
        values: dict[str, str] = {}
        for field, value, _ in selector.requirements:
            expected = all((values.get(r.field, "") == r.value) is r.is_equal for r in selector.requirements)
            assert matches(values) is expected, values
            values[field] = value


def _getter(field: str) -> Callable[[Mapping[str, str]], str]:
    return lambda values: values.get(field, "")


@fuzzer(
    b"GET /api/v1/namespaces/a/pods/b/log?container=c",
    b"DELETE /apis/apps/v1/deployments?labelSelector=a%3Db&limit=5",
    b"GET /api/v1/watch/namespaces/a/pods?resourceVersion=0&fieldSelector=metadata.name%3Db",
    b"PATCH /%zz//..//%2e?a&a=&=;",
    b"GET /apis/g/v1/r?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
    b"GET /apis/g/v1/r?watch=1&allowWatchBookmarks=1&timeoutSeconds=3",
    b"POST /api/v1/pods?dryRun=All&fieldManager=m&fieldValidation=Strict&force=true&pretty=1",
    b"DELETE /api/v1/nodes/n?gracePeriodSeconds=0&propagationPolicy=Orphan&orphanDependents=1&uid=u",
    b"GET /api/v1/nodes?continue=eyJ2Ijoi&limit=0",
    words=b"api apis v1 namespaces pods watch proxy status %2F %00 %ff .. ? & = ; + labelSelector "
    b"fieldSelector limit continue resourceVersion resourceVersionMatch Exact dryRun force timeout",
)
def targets(data: bytes) -> None:
    """Methods, paths and queries, and the options in them. The parser of HTTP lets only ASCII through."""
    if not data.isascii():
        return
    method, _, target = data.decode().partition(" ")
    path, _, raw_query = target.partition("?")
    try:
        query = parse_query(raw_query)
        info = parse_target(method, path, "watch" in query)
    except MalformedRequest:
        return
    assert info.verb or not method
    for text in (info.path, info.name, info.namespace, info.resource, selected_name(info, query)):
        text.encode()
    for options in (
        lambda: ListOptions.for_list(query, _KNOWN, "meta.k8s.io"),
        lambda: ListOptions.for_watch(query, _KNOWN, "meta.k8s.io"),
        lambda: read_at_for_get(query),
        lambda: WriteOptions.from_query(
            query, "PatchOptions", "meta.k8s.io", allows_empty_dry_run=True, is_apply=True
        ),
        lambda: DeleteOptions.from_query(query, "meta.k8s.io", allows_empty_dry_run=False),
    ):
        try:
            options()
        except ApiError as error:
            require_client_error(error, data)


@fuzzer(
    b"application/json;as=Table;v=v1;g=meta.k8s.io,application/yaml;q=0.5,*/*;q=0",
    b"application/vnd.kubernetes.protobuf;stream=watch",
    b'text/plain; charset="utf-8"; a*=utf-8\'\'x; a*0="b"',
    b"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    words=b"application/json application/yaml application/cbor text/html */* application/* ;as=Table "
    b";g=meta.k8s.io ;v=v1 ;q= ;drop=",
)
def media_types(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    for negotiator in _NEGOTIATORS:
        try:
            form = negotiator.form_for(text)
        except NotAcceptable as error:
            require_client_error(error, data)
        else:
            assert form.media_type in _TYPES
    base_type(text)
    size_class_of(b"", text)
    try:
        parsed = parse_media_type(text)
    except ValueError:
        return
    assert parse_media_type(parsed) == parsed


_BRAND: Final = Brand()
_TYPES: Final = supported_media_types(_BRAND, has_cbor=True)
_NEGOTIATORS: Final = (
    Negotiator(
        object_targets(_BRAND),
        _TYPES,
        unavailable=[(each, kind) for each in _TYPES[2:] for kind in ("", "Table")],
    ),
    Negotiator(
        object_targets(_BRAND), _TYPES, is_routed=False, stream_types=stream_types(_TYPES), is_stream=True
    ),
)


@fuzzer(
    b'{"v":"meta.k8s.io/v1","rv":5,"start":"a/b"}',
    b'{"v":"meta.k8s.io/v1","rv":-1,"start":"a\\u0000"}',
    words=b'"v" "rv" "start" meta.k8s.io/v1 -1 9223372036854775807 .. / \\u0000',
    is_json=True,
)
def continue_tokens(data: bytes) -> None:
    """The text in base64, and the bytes as they are; what is read can be written."""
    for text in (base64.urlsafe_b64encode(data).rstrip(b"=").decode(), data.decode("utf-8", "replace")):
        try:
            token = decode_token(text, "meta.k8s.io/v1")
        except InvalidToken as error:
            str(error).encode()
            continue
        assert decode_token(token.encode("meta.k8s.io/v1"), "meta.k8s.io/v1") == token


@fuzzer(b"0", b"42", b"9223372036854775807", b"9223372036854775808", b"-1", b"+1", b"1_0", "٣".encode())
def resource_versions(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    try:
        revision = parse_resource_version(text)
    except InvalidResourceVersion:
        return
    assert parse_resource_version(f"{revision}") == revision
