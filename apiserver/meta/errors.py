"""The errors that clients see as a Status, and the one table from storage errors to them.

    ApiError                       carries the Status document
    ├── BadRequest             400
    ├── Unauthorized           401
    ├── Forbidden              403
    ├── NotFound               404  of an object
    ├── NoSuchEndpoint         404  of a path
    ├── MethodNotAllowed       405
    ├── NotAcceptable          406
    ├── AlreadyExists          409
    ├── Conflict               409
    ├── ApplyConflict          409  with a cause for each field that another manager owns
    ├── Expired                410
    ├── RequestEntityTooLarge  413
    ├── UnsupportedMediaType   415
    ├── Invalid                422  with a cause for each field
    ├── UnprocessablePatch     422  a JSON patch that cannot be applied
    ├── UnmergeablePatch       422  another patch that cannot be applied
    ├── TooManyRequests        429
    ├── InternalError          500  a bug here, never the client's fault
    │   └── MadeInvalid        500  a function of an extension has made an object invalid
    ├── StorageReadError       500  a damaged object, or several in a list
    ├── ServiceUnavailable     503
    └── Timeout                504

Errors that only one module raises are defined there. tests/unit/meta/test_errors.py checks the tree.
Source: k8s.io/apimachinery, pkg/api/errors/errors.go; requirement rows P01-P04.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from apiserver.golang.quoting import aggregate, go_quote
from apiserver.meta import field_errors
from apiserver.meta.field_errors import FieldError
from apiserver.meta.vocabulary import Document, GroupKind, GroupResource
from apiserver.storage.errors import (
    KeyExists,
    OutcomeUnknown,
    RevisionCompacted,
    RevisionMismatch,
    RevisionTooLarge,
    StorageError,
    StorageUnavailable,
    ValueTooLarge,
)

# Objects that cannot be read and that the error of one list names. Source: k8s.io/apiserver,
# pkg/storage/etcd3/store.go.
DAMAGED_CAUSES_MAX: Final = 100


class ApiError(Exception):
    """An error with its Status. Subclasses set `code` and `reason`.

    details: the Status' details; None leaves them out.
    is_termination: whether the server ends a request with it to protect itself, or because it takes too long.
    retry_after_s: sent as Retry-After and, in details, as retryAfterSeconds.
    """

    code = 500
    reason = "InternalError"
    is_termination = False

    def __init__(
        self, message: str, *, details: Document | None = None, retry_after_s: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        self.retry_after_s = retry_after_s
        # The Status' metadata; that of an expired list has a continue token.
        self.list_meta: Document = {}
        # What the client is to be warned of beside the failure: a refused write was looked at before.
        self.warnings: list[str] = []

    def add_warnings(self, earlier: Iterable[str]) -> None:
        """Put earlier warnings before those of the error. Clients get each text once, as in Kubernetes."""
        self.warnings = [*dict.fromkeys((*earlier, *self.warnings))]

    def to_record(self) -> ApiError:
        """Returns the error for logs and audit events."""
        return self

    def status(self) -> Document:
        """Returns the response body, with its fields in the order of Kubernetes."""
        document: Document = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.list_meta,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            document["reason"] = self.reason
        details = self.details
        if self.retry_after_s is not None:
            details = {**(details or {}), "retryAfterSeconds": self.retry_after_s}
        if details is not None:
            document["details"] = details
        document["code"] = self.code
        return document


class BadRequest(ApiError):
    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    """The credentials are not valid.

    why: the problem of a token. Callers do not see it; users who may create TokenReviews do.
    annotations: those of the request's audit event about the credentials: names in the group of
        authentication, and values.
    """

    code, reason = 401, "Unauthorized"

    def __init__(self, why: str = "", annotations: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__("Unauthorized")
        self.why, self.annotations = why, annotations


class Forbidden(ApiError):
    code, reason = 403, "Forbidden"

    def __init__(
        self, message: str, *, causes: Sequence[dict[str, Any]] = (), details: Document | None = None
    ) -> None:
        details = dict(details or {})
        if causes:
            details["causes"] = list(causes)
        super().__init__(message, details=details)

    @classmethod
    def to_resource(
        cls, resource: GroupResource, name: str, why: str, *, causes: Sequence[dict[str, Any]] = ()
    ) -> Forbidden:
        """Returns the error that the user may not do this to the object, or to the collection if `name` is
        empty.
        """
        subject = f'{resource} "{name}"' if name else f"{resource}"
        return cls(f"{subject} is forbidden: {why}", causes=causes, details=details_of(resource, name))


class NotFound(ApiError):
    code, reason = 404, "NotFound"

    def __init__(self, resource: GroupResource, name: str) -> None:
        super().__init__(f'{resource} "{name}" not found', details=details_of(resource, name))


class NoSuchEndpoint(ApiError):
    """There is no such path, though its group is served."""

    code, reason = 404, "NotFound"

    def __init__(self) -> None:
        super().__init__("the server could not find the requested resource", details={})


class MethodNotAllowed(ApiError):
    code, reason = 405, "MethodNotAllowed"

    def __init__(self) -> None:
        super().__init__("the server does not allow this method on the requested resource", details={})

    @classmethod
    def of_verb(cls, resource: GroupResource, verb: str) -> MethodNotAllowed:
        """Returns the error for a verb that is not served, where its method is served for another one.

        Source: k8s.io/apimachinery, pkg/api/errors, NewMethodNotSupported.
        """
        error = cls()
        error.message = f"{verb} is not supported on resources of kind {go_quote(str(resource))}"
        error.details = {"group": resource.group, "kind": resource.resource}
        return error


class NotAcceptable(ApiError):
    code, reason = 406, "NotAcceptable"

    @classmethod
    def none_of(cls, accepted: Sequence[str]) -> NotAcceptable:
        return cls(f"only the following media types are accepted: {', '.join(accepted)}")


class AlreadyExists(ApiError):
    code, reason = 409, "AlreadyExists"

    def __init__(self, resource: GroupResource, name: str, *, is_terminating: bool = False) -> None:
        prefix = "object is being deleted: " if is_terminating else ""
        super().__init__(f'{prefix}{resource} "{name}" already exists', details=details_of(resource, name))


class Conflict(ApiError):
    code, reason = 409, "Conflict"

    def __init__(self, resource: GroupResource, name: str, why: str = "") -> None:
        why = why or _MODIFIED
        super().__init__(
            f'Operation cannot be fulfilled on {resource} "{name}": {why}', details=details_of(resource, name)
        )


class ApplyConflict(ApiError):
    """Other managers own applied fields with other values.

    causes: one for each field and manager (row F10).
    """

    code, reason = 409, "Conflict"

    def __init__(self, message: str, causes: Sequence[dict[str, Any]]) -> None:
        super().__init__(message, details={"causes": list(causes)})


class Expired(ApiError):
    code, reason = 410, "Expired"


class RequestEntityTooLarge(ApiError):
    code, reason = 413, "RequestEntityTooLarge"

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"Request entity too large: limit is {limit_bytes}")

    @classmethod
    def because(cls, reason: str) -> RequestEntityTooLarge:
        """Returns the error about another limit than that of bytes."""
        error = cls(0)
        error.message = f"Request entity too large: {reason}"
        return error


class UnsupportedMediaType(ApiError):
    code, reason = 415, "UnsupportedMediaType"

    @classmethod
    def none_of(cls, accepted: Sequence[str]) -> UnsupportedMediaType:
        return cls(
            "the body of the request was in an unknown format - accepted media types include: "
            + ", ".join(accepted)
        )


class Invalid(ApiError):
    code, reason = 422, "Invalid"

    def __init__(self, kind: GroupKind, name: str, errors: Sequence[FieldError]) -> None:
        """errors: the Status includes the first of them, as many as fit."""
        details: Document = {"name": name} if name else {}
        if kind.group:
            details["group"] = kind.group
        if kind.kind:
            details["kind"] = kind.kind
        reported = field_errors.reported(errors)
        details["causes"] = field_errors.causes(reported)
        super().__init__(f'{kind} "{name}" is invalid: {aggregate(reported)}', details=details)
        self.kind, self.name, self.errors = kind, name, reported

    def with_errors(self, redacted: Callable[[FieldError], FieldError]) -> Invalid:
        """Returns the same error with a function applied to each of its field errors."""
        return Invalid(self.kind, self.name, [redacted(each) for each in self.errors])


class UnprocessablePatch(ApiError):
    """A JSON patch has an operation that cannot be applied to the object."""

    code, reason = 422, "Invalid"

    def __init__(self) -> None:
        super().__init__(REJECTED, details={})


class UnmergeablePatch(ApiError):
    """A strategic merge patch or an apply contradicts the object, the schema or itself.

    kube-apiserver responds with 500 in this case.
    """

    code, reason = 422, "Invalid"


class TooManyRequests(ApiError):
    """A limit is reached; the client may retry after `retry_after_s` seconds.

    Raised for these requests, besides those that only servers for tests have (`testkit.faults`, `testing`):

    Refused request                               Module
    a request without a seat or slot              `endpoints.priority_and_fairness`, `endpoints.request_slots`
    a body that exceeds the memory                `endpoints.body_limits`
    a watch beyond its user's share               `endpoints.watch_stream`
    a WebSocket for watches beyond that           `console.watches.endpoint`
    a watch too many on one WebSocket             `console.watches.multiplexer`
    a watch beyond those of an extension          `extensions.host.virtual_registry`
    heavy work while its lane of threads is full  `load.offload`
    requests while memory is low                  `endpoints.load_shedding`
    a token while too many are being reviewed     `auth.authn.token_cache`
    a call of a busy authorization webhook        `webhooks.authorizer`
    a proxied request beyond the limit            `endpoints.reverse_proxy.forwarder`
    an event beyond its rate                      `admission.plugins.event_rate_limit`

    An eviction that a disruption budget forbids is a 429, too, but another error: `DisruptionBudgetViolated`.
    """

    code, reason = 429, "TooManyRequests"
    is_termination = True

    def __init__(
        self, message: str = "Too many requests, please try again later.", *, retry_after_s: int = 1
    ) -> None:
        super().__init__(message, details={}, retry_after_s=retry_after_s)


class InternalError(ApiError):
    code, reason = 500, "InternalError"

    @classmethod
    def of(cls, cause: str) -> InternalError:
        """Returns the error for a failure that is not the client's fault, with its cause, as Kubernetes'
        NewInternalError.
        """
        return cls(f"Internal error occurred: {cause}", details={"causes": [{"message": cause}]})


class MadeInvalid(InternalError):
    """A function of an extension has made an object invalid."""

    def __init__(self, cause: str, recorded: str) -> None:
        """cause: for the client. recorded: the same without values."""
        super().__init__(f"Internal error occurred: {cause}", details={"causes": [{"message": cause}]})
        self.recorded = recorded

    def to_record(self) -> ApiError:
        return InternalError.of(self.recorded)


class StorageReadError(ApiError):
    """A stored object cannot be decoded or decrypted."""

    code, reason = 500, "StorageReadError"

    @classmethod
    def of_list(cls, resource: GroupResource, damaged: Sequence[tuple[str, str]]) -> StorageReadError:
        """Returns the error of a list with damaged objects, whose keys and errors are `damaged`.

        Source: k8s.io/apiserver, pkg/storage/etcd3/corrupt_obj_deleter.go.
        """
        causes = [
            {"reason": "UnexpectedServerResponse", "message": text, "field": key}
            for key, text in damaged[:DAMAGED_CAUSES_MAX]
        ]
        if len(damaged) > DAMAGED_CAUSES_MAX:
            causes.append(
                {"reason": "FieldValueTooMany", "message": "too many errors, the list is truncated"}
            )
        details = {"name": "list", "group": resource.group, "kind": resource.resource, "causes": causes}
        return cls(
            f"failed to read one or more {resource} from the storage",
            details={name: value for name, value in details.items() if value},
        )


class ServiceUnavailable(ApiError):
    code, reason = 503, "ServiceUnavailable"

    def __init__(self, message: str) -> None:
        super().__init__(message, retry_after_s=1)


class Timeout(ApiError):
    code, reason = 504, "Timeout"

    @classmethod
    def of_request(cls) -> Timeout:
        error = cls("Timeout: request did not complete within the allotted timeout")
        error.is_termination = True
        return error

    @classmethod
    def too_large_resource_version(cls, *, requested: int, current: int) -> Timeout:
        """Returns the error of row K37; clients recognize it by the reason of its cause."""
        cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        return cls(
            f"Timeout: Too large resource version: {requested}, current: {current}",
            details={"causes": [cause]},
            retry_after_s=1,
        )


# What Kubernetes says where it does not say why.
REJECTED: Final = "the server rejected our request due to an error in our request"
_MODIFIED: Final = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def details_of(resource: GroupResource, name: str, uid: str = "") -> Document:
    """Returns the details of a Status about one object. `kind` holds the resource, as in kube-apiserver."""
    details: Document = {}
    if name:
        details["name"] = name
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.resource
    if uid:
        details["uid"] = uid
    return details


def from_storage(error: StorageError, resource: GroupResource, name: str) -> ApiError:
    """Translate a storage error for a client; no other function does."""
    match error:
        case KeyExists():
            return AlreadyExists(resource, name)
        case RevisionMismatch():
            return Conflict(resource, name)
        case RevisionCompacted(requested=requested, oldest=oldest):
            return Expired(f"too old resource version: {requested} ({oldest})")
        case RevisionTooLarge(requested=requested, current=current):
            return Timeout.too_large_resource_version(requested=requested, current=current)
        case ValueTooLarge(limit_bytes=limit_bytes):
            return RequestEntityTooLarge(limit_bytes)
        case OutcomeUnknown():
            return Timeout(f"Timeout: the outcome of the write is unknown: {error}")
        case StorageUnavailable():
            return ServiceUnavailable(f"the storage is not available: {error}")
        case _:
            return InternalError(f"Internal error occurred: {error}")
