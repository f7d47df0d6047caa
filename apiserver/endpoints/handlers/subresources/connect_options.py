"""Reads the options of subresources that connect from the query of a request.

Source: k8s.io/api, core/v1, and k8s.io/apimachinery, pkg/runtime/conversion.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from apiserver.endpoints.api_call import ApiCall
from apiserver.golang.quoting import go_quote
from apiserver.golang.times import InvalidTime, parse_time, time_text
from apiserver.meta import field_errors
from apiserver.meta.errors import BadRequest, Invalid
from apiserver.meta.field_errors import Errors
from apiserver.meta.options import is_true
from apiserver.meta.vocabulary import Document, GroupKind, Query
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.subresources import CORE_V1
from apiserver.schema.structural import Schema, ValueKind

_STRING: Final = Schema(ValueKind.STRING, "string")
_BOOLEAN: Final = Schema(ValueKind.BOOLEAN, "bool")
_STRINGS: Final = Schema(ValueKind.LIST, "[]string", element=_STRING)
_PORTS: Final = Schema(ValueKind.LIST, "[]int32", element=Schema(ValueKind.INTEGER, "int32", bits=32))
_STREAMS: Final = {**dict.fromkeys(("stdin", "stdout", "stderr", "tty"), _BOOLEAN), "container": _STRING}
# The options of each kind. The path of a proxy is that of the request.
_OPTIONS: Final[Mapping[str, Mapping[str, Schema]]] = {
    "PodExecOptions": {**_STREAMS, "command": _STRINGS},
    "PodAttachOptions": _STREAMS,
    "PodPortForwardOptions": {"ports": _PORTS},
    "PodProxyOptions": {"path": _STRING},
    "ServiceProxyOptions": {"path": _STRING},
    "NodeProxyOptions": {"path": _STRING},
}
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_INT32_MAX: Final = (1 << 31) - 1
_INT64_MAX: Final = (1 << 63) - 1
# More digits than any integer has are not converted.
_DIGITS_MAX: Final = 32
_LOG_OPTIONS: Final = GroupKind("", "PodLogOptions")
_LOG_FLAGS: Final = ("follow", "previous", "timestamps", "insecureSkipTLSVerifyBackend")
_LOG_STREAMS: Final = ("All", "Stderr", "Stdout")
_LOG_NUMBERS: Final = ("sinceSeconds", "tailLines", "limitBytes")


def options_kinds() -> Mapping[str, ServedResource]:
    """Returns the kinds of options that admission gets, as if they were served, by name."""
    return {kind: _options_kind(kind, fields) for kind, fields in _OPTIONS.items()}


def _options_kind(kind: str, fields: Mapping[str, Schema]) -> ServedResource:
    own = {"apiVersion": _STRING, "kind": _STRING}
    schema = Schema(ValueKind.STRUCT, f"v1.{kind}", fields={**own, **fields})
    return ServedResource(
        group_version=CORE_V1,
        resource=f"{kind.lower()}s",
        kind=kind,
        is_namespaced=True,
        schema=lambda: schema,
        verbs=("create",),
    )


def read_options(call: ApiCall, kind: ServedResource) -> Document:
    """Returns the options in the query of a call. Raises BadRequest."""
    document: Document = {"kind": kind.kind, "apiVersion": kind.api_version}
    for field, schema in _OPTIONS[kind.kind].items():
        value: Any = None
        if field == "path":
            value = "/" + "/".join(call.info.rest) if call.info.rest else ""
        elif field in call.query:
            value = _READERS[schema.kind](call.query, field)
        if value:
            document[field] = value
    return document


def _ports(query: Query, field: str) -> list[int]:
    return [_number(each, _INT32_MAX) for text in query[field] for each in text.split(",")]


def _values(query: Query, field: str) -> list[Any]:
    return _ports(query, field) if field == "ports" else list(query[field])


_READERS: Final[Mapping[ValueKind, Callable[[Query, str], Any]]] = {
    ValueKind.BOOLEAN: is_true,
    ValueKind.STRING: lambda query, field: query[field][0],
    ValueKind.LIST: _values,
}


def _number(text: str, greatest: int) -> int:
    """Returns a number in the query."""
    if not _INTEGER.fullmatch(text):
        raise BadRequest(f"strconv.ParseInt: parsing {go_quote(text)}: invalid syntax")
    value = int(text) if len(text) <= _DIGITS_MAX else greatest + 1
    if not -greatest - 1 <= value <= greatest:
        raise BadRequest(f"strconv.ParseInt: parsing {go_quote(text)}: value out of range")
    return value


def read_log_options(query: Query, pod: str, *, splits_streams: bool = False) -> Document:
    """Returns the PodLogOptions in the query of a request for a pod's log. Raises BadRequest, Invalid.

    splits_streams: whether a single stream of a log may be requested (PodLogsQuerySplitStreams).
    """
    options: Document = {field: True for field in _LOG_FLAGS if field in query and is_true(query, field)}
    for field in _LOG_NUMBERS:
        if field in query:
            options[field] = _number(query[field][0], _INT64_MAX)
    for field in ("container", "sinceTime"):
        if query.get(field, [""])[0]:
            options[field] = query[field][0]
    if "sinceTime" in options:
        options["sinceTime"] = _time(options["sinceTime"])
    errors = _validate_log_options(options)
    if splits_streams:
        options["stream"] = query.get("stream", ["All"])[0]
        errors += _validate_stream(options)
    elif "stream" in query:
        errors.append(field_errors.forbidden("stream", "may not be specified"))
    if errors:
        raise Invalid(_LOG_OPTIONS, pod, errors)
    return options


def _time(text: str) -> str:
    """Returns a time in UTC, to the second. Raises BadRequest."""
    try:
        return time_text(parse_time(text).seconds)
    except InvalidTime as error:
        raise BadRequest(str(error)) from None


def _validate_log_options(options: Document) -> Errors:
    """Validate PodLogOptions."""
    errors: Errors = []
    if options.get("tailLines", 0) < 0:
        text = "must be greater than or equal to 0"
        errors.append(field_errors.invalid("tailLines", options["tailLines"], text))
    if options.get("limitBytes", 1) < 1:
        errors.append(field_errors.invalid("limitBytes", options["limitBytes"], "must be greater than 0"))
    if "sinceSeconds" in options and "sinceTime" in options:
        text = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        errors.append(field_errors.forbidden(field_errors.NO_FIELD, text))
    elif options.get("sinceSeconds", 1) < 1:
        errors.append(field_errors.invalid("sinceSeconds", options["sinceSeconds"], "must be greater than 0"))
    return errors


def _validate_stream(options: Document) -> Errors:
    """Validate the stream in PodLogOptions."""
    errors: Errors = []
    stream = options["stream"]
    if stream not in _LOG_STREAMS:
        errors.append(field_errors.not_supported("stream", stream, _LOG_STREAMS))
    if stream != "All" and "tailLines" in options:
        text = "`tailLines` and specific `stream` are mutually exclusive for now"
        errors.append(field_errors.forbidden(field_errors.NO_FIELD, text))
    return errors
