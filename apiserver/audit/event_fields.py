"""The fields of an audit event as JSON. What many events have alike is remembered.

Source: k8s.io/apiserver, pkg/apis/audit/v1/types.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

import orjson

from apiserver.meta.vocabulary import UserInfo

# Users, and reasons of decisions, that are remembered, and how long each may be: clients and webhooks choose
# them.
REMEMBERED_MAX: Final = 1_024
REMEMBERED_BYTES_MAX: Final = 1_024
_REFERENCE_FIELDS: Final = (
    "resource",
    "namespace",
    "name",
    "uid",
    "apiGroup",
    "apiVersion",
    "resourceVersion",
    "subresource",
)


class ObjectReference(NamedTuple):
    """The object that a request is about, as far as it is known; the fields as an event orders them."""

    resource: str
    namespace: str = ""
    name: str = ""
    uid: str = ""
    group: str = ""
    version: str = ""
    resource_version: str = ""
    subresource: str = ""


def text(value: str) -> bytes:
    """Returns a text as JSON. What is no Unicode, as the bytes of a header may be, is replaced."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return orjson.dumps(value.encode("utf-8", "replace").decode())


def dumped(document: Mapping[str, Any], option: int = 0) -> bytes:
    try:
        return orjson.dumps(document, option=option)
    except TypeError:
        return orjson.dumps(_cleaned(document), option=option)


def _cleaned(value: Any) -> Any:
    """Returns a value with texts that are Unicode."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_cleaned(key): _cleaned(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(each) for each in value]
    return value


# Three digits each, for the fraction of a second.
_THREE_DIGITS: Final = tuple(b"%03d" % number for number in range(1_000))


@lru_cache(maxsize=8)
def _second(second: int) -> bytes:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S.").encode()


def timestamp(at_ns: int) -> bytes:
    """Returns a time as Kubernetes' MicroTime. at_ns: in nanoseconds since 1970."""
    second, microseconds = divmod(at_ns // 1_000, 1_000_000)
    thousands, ones = divmod(microseconds, 1_000)
    return b"".join((_second(second), _THREE_DIGITS[thousands], _THREE_DIGITS[ones], b"Z"))


_users: Final[dict[UserInfo, bytes]] = {}


def user_text(user: UserInfo | None) -> bytes:
    """Returns a user as JSON; None is one that is not known."""
    if user is None:
        return b"{}"
    found = _users.get(user)
    if found is None:
        found = _user_text(user)
        if len(found) <= REMEMBERED_BYTES_MAX:
            if len(_users) >= REMEMBERED_MAX:
                _users.clear()
            _users[user] = found
    return found


def _user_text(user: UserInfo) -> bytes:
    document: dict[str, Any] = {}
    if user.name:
        document["username"] = user.name
    if user.uid:
        document["uid"] = user.uid
    if user.groups:
        document["groups"] = list(user.groups)
    if user.extra:
        document["extra"] = {key: list(values) for key, values in sorted(user.extra)}
    return dumped(document)


@lru_cache(maxsize=REMEMBERED_MAX)
def status_of_code(code: int) -> bytes:
    return b',"responseStatus":{"metadata":{},"code":%d}' % code


def reference_field(reference: ObjectReference) -> bytes:
    """Returns the field `objectRef`. It is not remembered: a client may send names of any length."""
    found = {name: value for name, value in zip(_REFERENCE_FIELDS, reference, strict=True) if value}
    return b',"objectRef":' + dumped(found)
