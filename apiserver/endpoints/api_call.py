"""The state of one request, which middleware and handlers share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from aiohttp import web

from apiserver.audit.request_audit import RequestAudit
from apiserver.endpoints.body_limits import BodyLimits, BodyRoom
from apiserver.endpoints.connection import Connection
from apiserver.endpoints.flowcontrol.flow_control import Flow
from apiserver.endpoints.representation import Encoder, StatusEncoder
from apiserver.endpoints.request_slots import RequestSlot
from apiserver.golang.quoting import go_quote
from apiserver.load.offload import Offload
from apiserver.meta.vocabulary import Query, RequestInfo, UserInfo
from apiserver.metrics.requests import RequestEnding
from apiserver.registry.served_resource import ServedResource
from apiserver.tracing.request_trace import QUEUE, RequestTrace, traced


@dataclass(slots=True, eq=False, repr=False)
class ApiCall:
    """One request, its user, and the state of its response.

    Known from the start; the verb in `info` changes if an update turns out to be a create:

    received_at: seconds of the event loop's clock.
    offload: decides where the call's work runs, for its user once that is known.
    user_agent: the User-Agent header, cut to the length that audit events have of it; empty without one.
    status_encoder: encodes Statuses in the form that the client accepts; without it they are JSON.
    accept: the media types that the client accepts; empty if it accepts all.
    is_pretty: whether the response is indented.
    is_apply: whether the request is a server-side apply, by the media type of its body.
    malformed: why the request cannot be served; empty if it can.

    Unset until the stage that determines them:

    user: by authentication; impersonation replaces it. See `set_user`.
    resource: the served resource that the path names, by `Routes`.

    The same where they may be unset:

    known_user: the user; None before authentication.
    found_resource: the resource that the path names; None if there is none, or it has not been looked up yet.

    Set by middleware for some calls:

    impersonator: the authenticated user, if the request is handled as another one.
    audit: the record of the call, if there is to be one; its level depends on the user.
    audit_encoder: encodes the answer as it is recorded, if it is.
    deadline: when the client gives up, by the event loop's clock, if the request says so.
    error: the reason and the message of the error that the response reports, as audit events have them (see
        `confidentiality`). Not the exception, whose frames hold the call.
    has_timed_out: the time for the request is up, and its task has been cancelled for that.
    flow: its flow in API Priority and Fairness; None for requests that are forwarded, and if that is off.
    slot: its slot among the requests in flight, or its seats, if it needs any; see `take_slot`.
    waited_s: how many seconds it has waited for its turn and for webhooks, rather than for this server's
        work.

    Set while the body of the request is read:

    body_limits: those of the bodies of all requests, if its body may be read.
    body_room: the share of them that its body has taken, until the request has been answered.
    request_bytes: the size of the request's body, once it has been read.
    has_read_body: the client has been asked for the body, which may be on its way.
    discards_body: its body is not needed, and is being discarded.
    has_copied: a JSON patch has copied values within an object that may hold secrets.

    The response, to which any stage may add:

    warnings: the texts of Warning headers.
    head_lines: the header lines that are known before the response: for CORS, and the flow of the request.
    status: the status code of the response; 0 until its first byte is written.
    body_bytes: how many bytes of its body have been sent; they are not counted for watches.
    closes_connection: the connection must not be used again after the response.
    is_answered: its answer is made, or being made as fast as the client takes it: only the client is slow.
    is_answer_lost: the response is dropped after the request was executed: see `testkit.faults`.
    ending: how the request has ended, if not by its own response.
    """

    request: web.BaseRequest
    connection: Connection
    info: RequestInfo
    query: Query
    audit_id: str
    received_at: float
    offload: Offload
    trace: RequestTrace
    user_agent: str = ""
    status_encoder: StatusEncoder | None = None
    accept: str = ""
    is_pretty: bool = False
    is_apply: bool = False
    malformed: str = ""

    user: UserInfo = field(init=False)
    resource: ServedResource = field(init=False)

    known_user: UserInfo | None = None
    found_resource: ServedResource | None = None

    impersonator: UserInfo | None = None
    audit: RequestAudit | None = None
    audit_encoder: Encoder | None = None
    deadline: float | None = None
    error: tuple[str, str] | None = None
    has_timed_out: bool = False
    flow: Flow | None = None
    slot: RequestSlot | None = None
    waited_s: float = 0.0

    body_limits: BodyLimits | None = None
    body_room: BodyRoom | None = None
    request_bytes: int = 0
    has_read_body: bool = False
    discards_body: bool = False
    has_copied: bool = False

    warnings: list[str] = field(default_factory=list)
    head_lines: bytes = b""
    status: int = 0
    body_bytes: int = 0
    closes_connection: bool = False
    is_answered: bool = False
    is_answer_lost: bool = False
    ending: RequestEnding | None = None

    def set_user(self, user: UserInfo) -> None:
        """Handle the request as `user`, who is also charged for its offloaded work."""
        self.user = self.known_user = user
        # That of the last request: most clients are one user.
        offload = self.connection.offload
        if offload is None or offload.user != user.name:
            offload = self.connection.offload = self.offload.for_user(user.name)
        self.offload = offload

    @property
    def client(self) -> str:
        """The user and the program that made the request, for logs."""
        user = self.known_user
        name = "unknown" if user is None else go_quote(user.name)
        if self.impersonator is not None:
            name = f"{go_quote(self.impersonator.name)} as {name}"
        return f"user {name}, user agent {go_quote(self.user_agent) if self.user_agent else 'unknown'}"

    async def take_slot(self) -> None:
        """Take a slot, or seats, if the request has none yet, because its work begins.

        Raises TooManyRequests.
        """
        if self.slot is not None and (waiting := self.slot.take()) is not None:
            await traced(QUEUE, waiting)

    def without_slot(self) -> SlotPause:
        """Releases the slot, or the seats, while the request waits for another server, as a webhook."""
        return SlotPause(self.slot)

    def release_slot(self) -> None:
        """Release the slot, if there is one, because only the response remains to be sent."""
        if self.slot is not None:
            self.slot.release()


class SlotPause:
    """Releases the slot of a request, if it has one, while a block of code runs."""

    __slots__ = ("_slot",)

    def __init__(self, slot: RequestSlot | None) -> None:
        self._slot = slot

    def __enter__(self) -> None:
        if self._slot is not None:
            self._slot.pause()

    def __exit__(self, *_: object) -> None:
        if self._slot is not None:
            self._slot.resume()


Handler: TypeAlias = Callable[[ApiCall], Awaitable[None]]
Middleware: TypeAlias = Callable[[Handler], Handler]
