"""The audit record of one request, from which its events are made.

Source: k8s.io/apiserver, pkg/audit/{request,context}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, Self, TypeAlias

import orjson

from apiserver.audit.event_fields import (
    REMEMBERED_BYTES_MAX,
    REMEMBERED_MAX,
    STAGE_FIELDS,
    AuditTarget,
    Caller,
    ObjectReference,
    dumped,
    reference_field,
    status_of_code,
    text,
    times,
    user_text,
)
from apiserver.audit.events import ANNOTATIONS, Event, EventWithObjects
from apiserver.audit.policy import REQUEST_RECEIVED, AuditLevel, Stage
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import Document, UserInfo

# A longer object is left out: a list of everything may be larger than memory.
OBJECT_BYTES_MAX: Final = 16 * 1024 * 1024
# Of all annotations, which webhooks may send any number of. Those beyond it are left out.
ANNOTATION_CHARACTERS_MAX: Final = 256 * 1024
# Of the objects of all responses that are being recorded, together: beyond it they are left out.
RECORDED_BYTES_MAX: Final = 128 * 1024 * 1024
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
# The first levels at which objects are recorded: looking up a member of an enumeration takes long.
_WITH_REQUESTS: Final = AuditLevel.REQUEST
_WITH_RESPONSES: Final = AuditLevel.REQUEST_RESPONSE
# Whether a request is authorized, and why.
Decision: TypeAlias = tuple[bool, str]
_DECISIONS: Final = ("forbid", "allow")
_NO_LATENCIES: Final[Mapping[str, float]] = MappingProxyType({})
_CLOSED_EARLY: Final = (
    b',"responseStatus":{"metadata":{},"status":"Success","message":"Connection closed early","code":200}'
)
_PANIC: Final = {
    "status": "Failure",
    "message": "APIServer panic'd: an internal error occurred",
    "reason": "InternalError",
}


class AnnotationKeys(NamedTuple):
    """The keys of annotations, which contain the domain of the API groups.

    authentication, latency: the prefixes of keys for credentials and latencies.
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


class ByteBudget:
    """A limit for the bytes of all responses' objects that are being recorded. held: the bytes in use."""

    def __init__(self, bytes_max: int = RECORDED_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self.held = 0

    def take(self, size: int) -> bool:
        """Reserve bytes, if there are as many. Returns whether they are reserved."""
        if self.held + size > self._bytes_max:
            return False
        self.held += size
        return True


class _DecisionAnnotations(dict[Decision, bytes]):
    """The annotations, as JSON, of requests that only have a decision. Nearly all have one of a few
    decisions.
    """

    def __init__(self, keys: AnnotationKeys) -> None:
        super().__init__()
        self._keys = keys

    def __missing__(self, decision: Decision) -> bytes:
        is_allowed, reason = decision
        document = {self._keys.decision: _DECISIONS[is_allowed], self._keys.reason: reason}
        found = dumped(document, orjson.OPT_SORT_KEYS)
        # Clients and webhooks choose reasons.
        if len(found) <= REMEMBERED_BYTES_MAX:
            if len(self) >= REMEMBERED_MAX:
                self.clear()
            self[decision] = found
        return found


class RecordingContext:
    """The data that the records of all requests share. keys: of annotations that are the same everywhere."""

    def __init__(self, keys: AnnotationKeys, budget: ByteBudget | None = None) -> None:
        self.keys, self.budget = keys, budget or ByteBudget()
        self.annotations = _DecisionAnnotations(keys)


class AuditDetails:
    """The parts of a record that most requests do not have: annotations, objects, failures."""

    __slots__ = (
        "annotation_characters",
        "annotations",
        "has_response",
        "impersonated",
        "latencies",
        "reference",
        "request_object",
        "response_object",
        "status",
        "taken",
    )

    def __init__(self) -> None:
        self.annotations: dict[str, str] = {}
        self.annotation_characters = 0
        self.has_response = False
        self.impersonated = b""
        self.latencies: dict[str, float] = {}
        self.reference: ObjectReference | None = None
        self.request_object: bytes | None = None
        self.response_object: list[bytes] = []
        self.status: Document | None = None
        self.taken = 0


class RequestAudit:
    """The audit record of one request.

    Every recorded request has one, and at least two events. The parts that only some requests have are
    separate, and made when they are needed.

    level: its audit level; None until the policy has been evaluated.
    wants_request, wants_response: whether the objects of the request and of the response are recorded.
    omits_managed_fields: whether objects are recorded without managed fields.
    received_at_ns, authenticated_at_ns, completed_at_ns: since 1970. The second is the time of
        authentication.
    code: the status code of its response. target: the resource or path of the request.
    has_panicked: whether it failed with an unexpected exception.
    size: the approximate bytes of its events, without objects, annotations and the reason of the decision.
    decision: whether it is authorized, and why; None until that is decided.
    details: the parts that only some requests have; None if it has none of them: then `received` and
        `completed` are its events.
    on_response_started: called with the status code when the response of a long-running request begins.
    """

    __slots__ = (
        "_caller",
        "_context",
        "_id",
        "_reference",
        "authenticated_at_ns",
        "code",
        "completed_at_ns",
        "decision",
        "details",
        "has_panicked",
        "level",
        "omits_managed_fields",
        "on_response_started",
        "received_at_ns",
        "size",
        "target",
        "wants_request",
        "wants_response",
    )
    # Set once the policy has been asked.
    target: AuditTarget
    size: int
    _id: bytes
    _caller: Caller
    _reference: bytes
    # Set once the user is known.
    authenticated_at_ns: int
    # Set when it has been answered.
    completed_at_ns: int
    code: int

    def __init__(self, received_at_ns: int, recording: RecordingContext) -> None:
        self.received_at_ns, self._context = received_at_ns, recording
        self.level: AuditLevel | None = None
        self.decision: Decision | None = None
        self.on_response_started: Callable[[int], None] | None = None
        self.details: AuditDetails | None = None
        self.has_panicked = False
        self.wants_request = self.wants_response = self.omits_managed_fields = False

    def begin(self, audit_id: str, target: AuditTarget, caller: Caller) -> None:
        """Begin to record the request as the policy demands."""
        self.level = level = target.config.level
        self.wants_request, self.wants_response = level >= _WITH_REQUESTS, level >= _WITH_RESPONSES
        self.omits_managed_fields = target.config.omits_managed_fields
        self.target, self._caller, self._reference = target, caller, target.reference_field
        self._id = text(audit_id)
        self.size = target.size + caller.size + len(self._id)

    @property
    def keys(self) -> AnnotationKeys:
        return self._context.keys

    @property
    def _more(self) -> AuditDetails:
        """The details of the request, made at the first use."""
        if self.details is None:
            self.details = AuditDetails()
        return self.details

    # ---- what becomes known

    def annotate(self, key: str, value: str, level: AuditLevel = AuditLevel.METADATA) -> None:
        """Add an annotation, if the level of the request has annotations. The first one of a key counts."""
        if self.level is not None and self.level < level:
            return
        more = self._more
        if key in more.annotations:
            return
        more.annotation_characters += len(key) + len(value)
        if more.annotation_characters > ANNOTATION_CHARACTERS_MAX:
            more.annotations[self.keys.truncated] = "true"
        else:
            more.annotations[key] = value

    def took(self, layer: str, seconds: float) -> None:
        """Add to the time that a layer took. The layer is named as in annotations."""
        latencies = self._more.latencies
        latencies[layer] = latencies.get(layer, 0.0) + seconds

    @property
    def latencies(self) -> Mapping[str, float]:
        """The seconds that each layer of the server took, by the names of the layers."""
        return _NO_LATENCIES if self.details is None else self.details.latencies

    def impersonate(self, user: UserInfo, constraint: str = "") -> None:
        """Record the impersonated user.

        constraint: the verb of constrained impersonation that allowed it, if any.
        """
        impersonated = b',"impersonatedUser":' + user_text(user)
        if constraint:
            metadata = {"impersonationConstraint": constraint}
            impersonated += b',"authenticationMetadata":' + dumped(metadata)
        self._more.impersonated = impersonated

    def refer_to(self, metadata: object) -> None:
        """Complete the reference to the object from the metadata that the client sent."""
        if self.level is None or not isinstance(metadata, dict):
            return
        told = None if self.details is None else self.details.reference
        known = told or self.target.reference
        if known is None:
            return
        reference = known
        for name, field in _REFERRED.items():
            value = metadata.get(name)
            if value and isinstance(value, str) and not getattr(reference, field):
                reference = reference._replace(**{field: value})
        if reference is not known:
            self._more.reference, self._reference = reference, reference_field(reference)

    def record_request(self, data: bytes) -> None:
        """Record the object of the request. data: JSON, in any layout."""
        self._more.request_object = on_one_line(data)

    def record_response(self, pieces: Iterable[bytes]) -> None:
        """Record the object of the response. If it is too large, it is not recorded.

        pieces: of JSON without line feeds but at its end.
        """
        self.forget_response()
        for piece in pieces:
            if not self.add_to_response(piece):
                return
        self.end_response()

    def add_to_response(self, piece: bytes) -> bool:
        """Record the next piece of an object.

        Returns False if the object is too large: then it is not recorded.
        """
        size, more = len(piece), self._more
        if more.taken + size > OBJECT_BYTES_MAX or not self._context.budget.take(size):
            self.forget_response()
            self.annotate(self.keys.truncated, "true")
            return False
        more.taken += size
        if piece:
            more.response_object.append(piece)
        return True

    def end_response(self) -> None:
        """Note that the object of the response is complete."""
        more = self._more
        if more.response_object:
            more.response_object[-1] = more.response_object[-1].rstrip(b"\n")
            more.has_response = True

    def forget_response(self) -> None:
        """Release the budget of the response's object, when its events are made or it is not recorded."""
        more = self.details
        if more is not None and more.taken:
            self._context.budget.held -= more.taken
            more.taken = 0
            more.response_object = []
            more.has_response = False

    def forget(self) -> None:
        """Drop objects and annotations of webhooks: all events are made, or none are wanted.

        `received` may still be called: its event may wait to be written.
        """
        self.forget_response()
        self.details = self.decision = None

    def record_status(self, status: Document) -> None:
        """Record the Status in the response, which is a failure or a success."""
        self._more.status = status
        if self.wants_response:
            self.record_response([dumped(status)])

    # ---- events

    def received(self) -> Event:
        """Returns the event of the stage RequestReceived of a request without details at that stage.

        It may be called later: it only reads fields that do not change after `begin`.
        """
        target, caller = self.target, self._caller
        # fmt: off
        return b"".join((
            target.opening, self._id, target.received, caller.user, caller.client,
            target.reference_field, times(self.received_at_ns, self.received_at_ns),
        ))
        # fmt: on

    def completed(self) -> Event:
        """Returns the event of the stage ResponseComplete of a request without details that has ended.

        It may be called later: only the `details` of a request may change after its response.
        """
        target, caller = self.target, self._caller
        assert self.decision is not None
        # fmt: off
        return b"".join((
            target.opening, self._id, target.completed, caller.user, caller.client, self._reference,
            status_of_code(self.code), times(self.received_at_ns, self.completed_at_ns),
            ANNOTATIONS, self._context.annotations[self.decision],
        ))
        # fmt: on

    def last_event(self, stage: Stage, at_ns: int, code: int) -> Event | None:
        """Returns the last event of the request, like `event`, and drops the data for later events."""
        try:
            return self.event(stage, at_ns, code)
        finally:
            self.forget()

    def event(self, stage: Stage, at_ns: int, code: int = 0) -> Event | None:
        """Returns the event of any stage; None if the policy omits it.

        at_ns: the current time, since 1970. code: the status code of the response; 0 while there is none.
        """
        target, caller, more = self.target, self._caller, self.details
        if stage in target.config.omitted_stages:
            return None
        impersonated = b"" if more is None else more.impersonated
        is_first = stage is REQUEST_RECEIVED
        opening = [target.opening, self._id, STAGE_FIELDS[stage], target.request, caller.user, impersonated]
        opening += (caller.client, self._reference, b"" if is_first else self._response_status(code))
        when = times(self.received_at_ns, self.received_at_ns if is_first else at_ns)
        annotations = self._annotations_text()
        if more is None or (more.request_object is None and not more.has_response):
            return b"".join((*opening, when, ANNOTATIONS, annotations) if annotations else (*opening, when))
        objects: tuple[bytes, ...] = ()
        if more.request_object is not None:
            objects = (b',"requestObject":', more.request_object)
        if more.has_response:
            objects = (*objects, b',"responseObject":', *more.response_object)
        return EventWithObjects(b"".join(opening), objects, when, annotations)

    def _annotations_text(self) -> bytes:
        """Returns the annotations as JSON; empty if there are none."""
        more, decision = self.details, self.decision
        if more is None or not more.annotations:
            return b"" if decision is None else self._context.annotations[decision]
        if decision is not None:
            is_allowed, reason = decision
            self.annotate(self.keys.decision, _DECISIONS[is_allowed])
            self.annotate(self.keys.reason, reason)
        return dumped(more.annotations, orjson.OPT_SORT_KEYS)

    def _response_status(self, code: int) -> bytes:
        """Returns the field `responseStatus`."""
        status = None if self.details is None else self.details.status
        if self.has_panicked:
            status, code = _PANIC, 500
        elif status is None and code:
            return status_of_code(code)
        if status is None:
            return _CLOSED_EARLY
        told = {name: status[name] for name in _STATUS_FIELDS if status.get(name)}
        found = {"metadata": {}, **told, "code": code or status.get("code", 0)}
        return b',"responseStatus":' + dumped(found)


def on_one_line(data: bytes) -> bytes:
    """Returns JSON without line feeds; in JSON these are only between tokens."""
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
