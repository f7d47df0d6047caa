"""The fields of an audit event as JSON; those that many events share are cached.

Source: k8s.io/apiserver, pkg/apis/audit/v1/types.go.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple, Self

import orjson

from apiserver.audit.policy import (
    LEVEL_NAMES,
    REQUEST_RECEIVED,
    RESPONSE_COMPLETE,
    STAGES,
    AuditLevel,
    RequestConfig,
)
from apiserver.meta.vocabulary import UserInfo

# Users, and reasons of decisions, that are remembered, and how long each may be: clients and webhooks choose
# them.
REMEMBERED_MAX: Final = 1_024
REMEMBERED_BYTES_MAX: Final = 1_024
USER_AGENT_LENGTH_MAX: Final = 1_024
_TRUNCATED_SUFFIX: Final = "...TRUNCATED"
# The times in an event, its status code, its decision, and the names of its fields, about.
_OTHERS_BYTES: Final = 384
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
    """The object that a request is about, as far as it is known. The fields are in the order of an
    event's.
    """

    resource: str
    namespace: str = ""
    name: str = ""
    uid: str = ""
    group: str = ""
    version: str = ""
    resource_version: str = ""
    subresource: str = ""


def text(value: str) -> bytes:
    """Returns a text as JSON; text that is not valid Unicode, such as bytes of a header, is replaced."""
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
    """Returns a value whose texts are valid Unicode."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_cleaned(key): _cleaned(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(each) for each in value]
    return value


STAGE_FIELDS: Final = {stage: b',"stage":"%b"' % stage.encode() for stage in STAGES}
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


def times(received_ns: int, stage_ns: int) -> bytes:
    """Returns the fields for the time at which a request was received, and at which its event was made."""
    received = timestamp(received_ns)
    stage = received if stage_ns == received_ns else timestamp(stage_ns)
    return b',"requestReceivedTimestamp":"%b","stageTimestamp":"%b"' % (received, stage)


_users: Final[dict[UserInfo, bytes]] = {}


def user_text(user: UserInfo | None) -> bytes:
    """Returns a user as JSON; None for an unknown one."""
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
    """Returns the field `objectRef`. It is not cached: a client may send names of any length."""
    found = {name: value for name, value in zip(_REFERENCE_FIELDS, reference, strict=True) if value}
    return b',"objectRef":' + dumped(found)


class AuditTarget(NamedTuple):
    """The target of a request and its recording. Requests that are alike share it.

    reference: the object; None for a request that is not for a resource.
    opening, request, reference_field: fields of events: `level` and the name of `auditID`; `requestURI` and
        `verb`; `objectRef`.
    received, completed: `request` behind the field `stage` of these two stages.
    omits: whether no event is made at some stages.
    size: of all these fields, and of those that nearly all events have: times and the decision.
    """

    config: RequestConfig
    level_name: str
    is_recorded: bool
    omits: bool
    size: int
    reference: ObjectReference | None
    opening: bytes
    request: bytes
    received: bytes
    completed: bytes
    reference_field: bytes

    @classmethod
    def of(cls, config: RequestConfig, uri: str, verb: str, reference: ObjectReference | None) -> Self:
        """Returns the target of a request. verb: consists of characters that are valid in a method."""
        name = LEVEL_NAMES[config.level]
        request = b',"requestURI":%b,"verb":"%b"' % (text(uri), verb.encode())
        referred = b"" if reference is None else reference_field(reference)
        return cls(
            config,
            name,
            config.level is not AuditLevel.NONE,
            bool(config.omitted_stages),
            len(request) + len(referred) + _OTHERS_BYTES,
            reference,
            b'"level":"%b","auditID":' % name.encode(),
            request,
            STAGE_FIELDS[REQUEST_RECEIVED] + request,
            STAGE_FIELDS[RESPONSE_COMPLETE] + request,
            referred,
        )


class Caller(NamedTuple):
    """The fields of an event about the caller: `user`, then `sourceIPs` and `userAgent`."""

    user: bytes
    client: bytes
    size: int


def caller_of(user: UserInfo | None, forwarded_for: str, real_ip: str, peer: str, user_agent: str) -> Caller:
    """Returns the fields about the caller of a request.

    forwarded_for, real_ip: the headers X-Forwarded-For and X-Real-Ip. peer: the address of the connection.
    """
    client = b""
    if addresses := source_ips(forwarded_for, real_ip, peer):
        client = b',"sourceIPs":' + orjson.dumps(addresses)
    if len(user_agent) > USER_AGENT_LENGTH_MAX:
        user_agent = user_agent[:USER_AGENT_LENGTH_MAX] + _TRUNCATED_SUFFIX
    if user_agent:
        client = b'%b,"userAgent":%b' % (client, text(user_agent))
    told = b',"user":' + user_text(user)
    return Caller(told, client, len(told) + len(client))


def source_ips(forwarded_for: str, real_ip: str, peer: str) -> list[str]:
    """Returns the addresses that a request came through.

    The first ones are from headers. The last is that of the connection's peer, which clients cannot forge.
    Source: k8s.io/apimachinery, pkg/util/net/http.go, SourceIPs.
    """
    found = [address for each in forwarded_for.split(",") if (address := _address(each))]
    if (address := _address(real_ip)) and address not in found:
        found.append(address)
    if (address := _address(peer.partition("%")[0])) and (not found or found[-1] != address):
        found.append(address)
    return found


def _address(value: str) -> str:
    """Returns an IP address in its canonical form; empty if the text is none."""
    value = value.strip()
    # A zone, which Go refuses, may have any characters in it.
    if not value or "%" in value:
        return ""
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return ""
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
