"""What is known of one request that is recorded, and the events that are made of it.

Source: k8s.io/apiserver, pkg/audit/{request,context}.go.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import orjson

from apiserver.audit.event_fields import (
    REMEMBERED_BYTES_MAX,
    ObjectReference,
    decision_annotations,
    dumped,
    reference_field,
    status_of_code,
    text,
    timestamp,
    timestamps,
    user_text,
)
from apiserver.audit.events import ANNOTATIONS, Event, event_with_objects, plain_event
from apiserver.audit.policy import LEVEL_NAMES, REQUEST_RECEIVED, STAGES, Level, RequestConfig, Stage
from apiserver.brand import Brand
from apiserver.vocabulary import Document, UserInfo

# A longer object is left out: a list of everything may be larger than memory.
OBJECT_BYTES_MAX: Final = 16 * 1024 * 1024
# Of all annotations, which webhooks may send any number of. Those beyond it are left out.
ANNOTATION_CHARACTERS_MAX: Final = 256 * 1024
# Of the objects of all responses that are being recorded, together: beyond it they are left out.
RECORDED_BYTES_MAX: Final = 128 * 1024 * 1024
USER_AGENT_LENGTH_MAX: Final = 1_024
_TRUNCATED_SUFFIX: Final = "...TRUNCATED"
_NOT_TWO_LINES: Final = bytes.maketrans(b"\r\n", b"  ")
_MANAGED_FIELDS: Final = b'"managedFields"'
# The parts of a Status that are recorded, in their order.
_STATUS_FIELDS: Final = ("status", "message", "reason", "details")
# The metadata of an object that a reference to it has: by its field there, the field in the reference.
_REFERRED: Final = {
    "namespace": "namespace",
    "name": "name",
    "uid": "uid",
    "resourceVersion": "resource_version",
}
_STAGES: Final = {stage: b',"stage":"%b"' % stage.encode() for stage in STAGES}
_ALLOW: Final = "allow"
_FORBID: Final = "forbid"
_CLOSED_EARLY: Final = (
    b',"responseStatus":{"metadata":{},"status":"Success","message":"Connection closed early","code":200}'
)
_PANIC: Final = {
    "status": "Failure",
    "message": "APIServer panic'd: an internal error occurred",
    "reason": "InternalError",
}


class AnnotationKeys(NamedTuple):
    """The keys of annotations, which have the domain of the API groups in them.

    authentication, latency: what the keys of credentials and of latencies begin with.
    """

    decision: str
    reason: str
    deprecated: str
    removed_release: str
    truncated: str
    unsafe_delete: str
    authentication: str
    latency: str

    @classmethod
    def of(cls, brand: Brand) -> Self:
        authorization = brand.group("authorization")
        return cls(
            decision=f"{authorization}/decision",
            reason=f"{authorization}/reason",
            deprecated=f"{brand.group_domain}/deprecated",
            removed_release=f"{brand.group_domain}/removed-release",
            truncated=f"{brand.group('audit')}/truncated",
            unsafe_delete=f"{brand.group('apiserver')}/unsafe-delete-ignore-read-error",
            authentication=f"{brand.group('authentication')}/",
            latency=f"{brand.group('apiserver.latency')}/",
        )


class Room:
    """What the objects of all responses may take that are being recorded. held: in bytes."""

    def __init__(self, bytes_max: int = RECORDED_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self.held = 0

    def take(self, size: int) -> bool:
        """Returns whether there is so much room; then it is taken."""
        if self.held + size > self._bytes_max:
            return False
        self.held += size
        return True


class Caller(NamedTuple):
    """What an event says of who makes a request, as fields: `user`, then `sourceIPs` and `userAgent`."""

    user: bytes
    client: bytes


@dataclass(frozen=True, slots=True)
class AuditTarget:
    """What a request asks for, and how that is recorded. Requests that are alike share it.

    reference: None for a request that is not about a resource.
    opening, request, reference_field: fields of events: `level` and the name of `auditID`; `requestURI` and
        `verb`; `objectRef`.
    """

    config: RequestConfig
    level_name: str
    is_recorded: bool
    reference: ObjectReference | None
    opening: bytes
    request: bytes
    reference_field: bytes

    @classmethod
    def of(cls, config: RequestConfig, uri: str, verb: str, reference: ObjectReference | None) -> Self:
        """verb: made of characters that may stand in a method."""
        name = LEVEL_NAMES[config.level]
        return cls(
            config,
            name,
            config.level is not Level.NONE,
            reference,
            b'"level":"%b","auditID":' % name.encode(),
            b',"requestURI":%b,"verb":"%b"' % (text(uri), verb.encode()),
            b"" if reference is None else reference_field(reference),
        )


class RequestAudit:
    """The record of one request.

    level: how much of it is recorded; None until the policy has been asked.
    keys: of the annotations that are the same everywhere.
    received_at, authenticated_at: seconds since 1970; the latter is when it was known who asks.
    latencies: how many seconds each layer of the server took, by the name that annotations have for it.
    has_panicked: it has failed for a reason that nobody has foreseen.
    on_response_started: called with the status code when the response of a request begins that runs long.
    """

    __slots__ = (
        "_about",
        "_annotation_characters",
        "_annotations",
        "_caller",
        "_decision",
        "_has_response",
        "_id",
        "_impersonated",
        "_opening",
        "_received",
        "_reference",
        "_reference_field",
        "_request_object",
        "_response_object",
        "_room",
        "_status",
        "_taken",
        "_target",
        "authenticated_at",
        "has_panicked",
        "keys",
        "latencies",
        "level",
        "on_response_started",
        "received_at",
    )

    def __init__(self, audit_id: str, received_at: float, keys: AnnotationKeys, room: Room) -> None:
        self.level: Level | None = None
        self.keys = keys
        self._room, self._taken = room, 0
        self.received_at = self.authenticated_at = received_at
        self.latencies: dict[str, float] = {}
        self.has_panicked = False
        self.on_response_started: Callable[[int], None] | None = None
        self._id = audit_id
        self._target: AuditTarget | None = None
        self._annotations: dict[str, str] | None = None
        self._annotation_characters = 0
        self._decision: tuple[str, str] | None = None
        self._impersonated = b""
        self._status: Document | None = None
        self._request_object: bytes | None = None
        self._response_object: list[bytes] = []
        self._has_response = False

    def begin(self, target: AuditTarget, caller: Caller) -> None:
        """The policy has been asked: from now on there may be events."""
        self.level = target.config.level
        self._target, self._caller = target, caller
        self._reference, self._reference_field = target.reference, target.reference_field
        # What the events of all stages have alike, or nearly all.
        self._opening = target.opening + text(self._id)
        self._received = timestamp(self.received_at)
        self._about = b""

    # ---- what becomes known

    def annotate(self, key: str, value: str, level: Level = Level.METADATA) -> None:
        """Add an annotation, if as much is recorded of the request. The first one of a key counts."""
        if self.level is not None and self.level < level:
            return
        if self._annotations is None:
            self._annotations = {}
        if key in self._annotations:
            return
        self._annotation_characters += len(key) + len(value)
        if self._annotation_characters > ANNOTATION_CHARACTERS_MAX:
            self._annotations[self.keys.truncated] = "true"
        else:
            self._annotations[key] = value

    def took(self, layer: str, seconds: float) -> None:
        """Add to the time that a layer took."""
        self.latencies[layer] = self.latencies.get(layer, 0.0) + seconds

    def decided(self, *, is_allowed: bool, reason: str) -> None:
        """The request is authorized, or forbidden."""
        self._decision = _ALLOW if is_allowed else _FORBID, reason

    def impersonate(self, user: UserInfo) -> None:
        self._impersonated = b',"impersonatedUser":' + user_text(user)
        self._about = b""

    def refer_to(self, metadata: object) -> None:
        """Complete the reference to the object by the metadata that a client has sent."""
        if self._target is None or self._reference is None or not isinstance(metadata, dict):
            return
        reference = self._reference
        for name, field in _REFERRED.items():
            value = metadata.get(name)
            if value and isinstance(value, str) and not getattr(reference, field):
                reference = reference._replace(**{field: value})
        if reference is not self._reference:
            self._reference, self._reference_field = reference, reference_field(reference)
            self._about = b""

    @property
    def wants_request(self) -> bool:
        """Whether the object in the request is recorded."""
        return self.level is not None and self.level >= Level.REQUEST

    @property
    def wants_response(self) -> bool:
        """Whether the object in the response is recorded."""
        return self.level is Level.REQUEST_RESPONSE

    @property
    def omits_managed_fields(self) -> bool:
        return self._target is not None and self._target.config.omits_managed_fields

    def record_request(self, data: bytes) -> None:
        """data: JSON, as a client may write it."""
        self._request_object = on_one_line(data)

    def record_response(self, pieces: Iterable[bytes]) -> None:
        """pieces: of JSON without line feeds but at its end. If they are too many, none is recorded."""
        self.forget_response()
        for piece in pieces:
            if not self.add_to_response(piece):
                return
        self.end_response()

    def add_to_response(self, piece: bytes) -> bool:
        """Record the next piece of an object.

        Returns False if the object is too large: then none of it is recorded.
        """
        size = len(piece)
        if self._taken + size > OBJECT_BYTES_MAX or not self._room.take(size):
            self.forget_response()
            self.annotate(self.keys.truncated, "true")
            return False
        self._taken += size
        if piece:
            self._response_object.append(piece)
        return True

    def end_response(self) -> None:
        """The object is whole."""
        if self._response_object:
            self._response_object[-1] = self._response_object[-1].rstrip(b"\n")
            self._has_response = True

    def forget_response(self) -> None:
        """Give back the room that an object has taken. Its events are made, or it is not recorded."""
        if self._taken:
            self._room.held -= self._taken
            self._taken = 0
            self._response_object = []
            self._has_response = False

    def record_status(self, status: Document) -> None:
        """The answer is a Status, of a failure or a success."""
        self._status = status
        if self.wants_response:
            self.record_response([dumped(status)])

    # ---- events

    def event(self, stage: Stage, at: float, code: int = 0) -> Event | None:
        """Returns the event of a stage; None if the policy omits it.

        at: now, in seconds since 1970. code: of the response; 0 while there is none.
        """
        target = self._target
        assert target is not None
        config = target.config
        if stage in config.omitted_stages:
            return None
        if not self._about:
            user, client = self._caller
            self._about = b"".join((target.request, user, self._impersonated, client, self._reference_field))
        opening: tuple[bytes, ...] = (self._opening, _STAGES[stage], self._about)
        if stage is REQUEST_RECEIVED:
            times = timestamps(self._received, self._received)
        else:
            opening = (*opening, self._response_status(code))
            times = timestamps(self._received, timestamp(at))
        annotations = self._annotations_text()
        if self._request_object is None and not self._has_response:
            closing = (times, ANNOTATIONS, annotations) if annotations else (times,)
            return plain_event(config.level, b"".join(opening + closing))
        objects: tuple[bytes, ...] = ()
        if self._request_object is not None:
            objects = (b',"requestObject":', self._request_object)
        if self._has_response:
            objects = (*objects, b',"responseObject":', *self._response_object)
        return event_with_objects(config.level, b"".join(opening), objects, times, annotations)

    def _annotations_text(self) -> bytes:
        """Returns the annotations as JSON; empty if there are none."""
        decision, keys = self._decision, self.keys
        if self._annotations is None:
            if decision is None:
                return b""
            if len(decision[1]) <= REMEMBERED_BYTES_MAX:
                return decision_annotations(keys.decision, keys.reason, *decision)
        if decision is not None:
            self.annotate(keys.decision, decision[0])
            self.annotate(keys.reason, decision[1])
        return dumped(self._annotations or {}, orjson.OPT_SORT_KEYS)

    def _response_status(self, code: int) -> bytes:
        """Returns the field `responseStatus`."""
        status = self._status
        if status is None and code and not self.has_panicked:
            return status_of_code(code)
        if self.has_panicked:
            status, code = _PANIC, 500
        if status is None:
            return _CLOSED_EARLY
        told = {name: status[name] for name in _STATUS_FIELDS if status.get(name)}
        found = {"metadata": {}, **told, "code": code or status.get("code", 0)}
        return b',"responseStatus":' + dumped(found)


def on_one_line(data: bytes) -> bytes:
    """Returns JSON without line feeds, which in JSON only stand between its parts."""
    data = data.strip()
    return data.translate(_NOT_TWO_LINES) if b"\n" in data or b"\r" in data else data


def without_managed_fields(data: bytes) -> bytes:
    """Returns the JSON of an object, or of a list, without managedFields."""
    if _MANAGED_FIELDS not in data:
        return data
    document = orjson.loads(data)
    if isinstance(document, dict):
        for each in (document, *(document.get("items") or ())):
            if isinstance(each, dict) and isinstance(each.get("metadata"), dict):
                each["metadata"].pop("managedFields", None)
    return orjson.dumps(document)


def caller_of(user: UserInfo | None, forwarded_for: str, real_ip: str, peer: str, user_agent: str) -> Caller:
    """Returns the fields about who makes a request.

    forwarded_for, real_ip: the headers X-Forwarded-For and X-Real-Ip. peer: the address of the connection.
    """
    client = b""
    if addresses := source_ips(forwarded_for, real_ip, peer):
        client = b',"sourceIPs":' + orjson.dumps(addresses)
    if len(user_agent) > USER_AGENT_LENGTH_MAX:
        user_agent = user_agent[:USER_AGENT_LENGTH_MAX] + _TRUNCATED_SUFFIX
    if user_agent:
        client = b'%b,"userAgent":%b' % (client, text(user_agent))
    return Caller(b',"user":' + user_text(user), client)


def source_ips(forwarded_for: str, real_ip: str, peer: str) -> list[str]:
    """Returns the addresses that a request has come from.

    The first ones are what headers say. The last is the peer's: nobody can choose that.
    Source: k8s.io/apimachinery, pkg/util/net/http.go, SourceIPs.
    """
    found = [address for each in forwarded_for.split(",") if (address := _address(each))]
    if (address := _address(real_ip)) and address not in found:
        found.append(address)
    if (address := _address(peer.partition("%")[0])) and (not found or found[-1] != address):
        found.append(address)
    return found


def _address(value: str) -> str:
    """Returns an IP address in its usual form; empty if it is none."""
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
