"""An audit event as bytes: a line of the log, an item of what a webhook gets; shortened, if it is too large.

Source: k8s.io/apiserver, pkg/apis/audit/v1/types.go, pkg/audit/format.go and plugin/pkg/audit/truncate.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import orjson

from apiserver.golang.quoting import go_quote

# What stands before the annotations of an event.
ANNOTATIONS: Final = b',"annotations":'


class EventWithObjects(NamedTuple):
    """An event with what was sent, or answered.

    opening: its fields before the objects.
    objects: requestObject and responseObject, in pieces.
    times, annotations: the fields behind them; the latter as JSON.
    """

    opening: bytes
    objects: tuple[bytes, ...]
    times: bytes
    annotations: bytes


# The fields of its JSON, without those that tell its kind and version; most events have no objects.
Event: TypeAlias = bytes | EventWithObjects

# Makes an event when it is about to be written: many one after the other take half the time that each takes
# amid the request, where nothing that it needs is in the processor's caches.
Render: TypeAlias = Callable[[], Event]


class AuditBackend(Protocol):
    """Takes events.

    keeps_order: whether an event is written once a later one is, and no request fails for want of one. Then
        it is enough for a request that changes nothing to wait for its last event.
    """

    @property
    def keeps_order(self) -> bool: ...

    def process(self, render: Render, size: int, /) -> Awaitable[bool] | None:
        """Take an event. size: about how many bytes it will have.

        Returns what the request has to wait for, if anything: whether it may go on.
        """
        ...


def size_of(event: Event) -> int:
    """Returns how many bytes the fields of an event have."""
    return len(event) if isinstance(event, bytes) else sum(map(len, pieces_of(event)))


def pieces_of(event: Event) -> tuple[bytes, ...]:
    """Returns the fields of an event's JSON, without the braces around them."""
    if isinstance(event, bytes):
        return (event,)
    annotations = (ANNOTATIONS, event.annotations) if event.annotations else ()
    return (event.opening, *event.objects, event.times, *annotations)


def without_objects(event: Event) -> bytes:
    """Returns the fields of an event but for its objects and annotations, where it has objects."""
    return event if isinstance(event, bytes) else event.opening + event.times


def truncated(event: EventWithObjects, annotation: str) -> bytes:
    """Returns an event without its objects. annotation: the key of the one that says so."""
    annotations = orjson.loads(event.annotations) if event.annotations else {}
    text = orjson.dumps({**annotations, annotation: "true"}, option=orjson.OPT_SORT_KEYS)
    return b"".join((event.opening, event.times, ANNOTATIONS, text))


def legacy_line(document: dict[str, Any]) -> str:
    """Returns the line of an event in the format `legacy`. document: of the event."""
    user, other = document.get("user") or {}, document.get("impersonatedUser")
    name, groups = user.get("username") or "", user.get("groups") or ()
    acting, acting_groups = "<self>", "<lookup>"
    if other is not None:
        acting = other.get("username", "")
        if other.get("groups") is not None:
            acting_groups = _listed(other["groups"])
    status = document.get("responseStatus")
    fields = {
        "id": document["auditID"],
        "stage": document["stage"],
        "ip": next(iter(document.get("sourceIPs") or ()), "<unknown>"),
        "method": document["verb"],
        "user": name or "<none>",
        "groups": _listed(groups) if name and groups else "<none>",
        "as": acting,
        "asgroups": acting_groups,
        "user-agent": document.get("userAgent", ""),
        "namespace": (document.get("objectRef") or {}).get("namespace") or "<none>",
        "uri": document["requestURI"],
    }
    told = " ".join(f"{name}={go_quote(value)}" for name, value in fields.items())
    response = "<deferred>" if status is None else status.get("code", 0)
    return f'{_nanoseconds(document["requestReceivedTimestamp"])} AUDIT: {told} response="{response}"'


def _listed(texts: Sequence[str]) -> str:
    return ",".join(map(go_quote, texts))


def _nanoseconds(timestamp: str) -> str:
    """Returns a time as Go's RFC3339Nano has it: without zeros at the end of the fraction."""
    whole, _, fraction = timestamp.removesuffix("Z").partition(".")
    fraction = fraction.rstrip("0")
    return f"{whole}.{fraction}Z" if fraction else f"{whole}Z"
