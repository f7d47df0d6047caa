"""Audit events as bytes: lines of the log, or items of a webhook's list; truncated if they are too large.

Source: k8s.io/apiserver, pkg/apis/audit/v1/types.go, pkg/audit/format.go and plugin/pkg/audit/truncate.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import orjson

from apiserver.golang.quoting import go_quote

# The text before the annotations of an event.
ANNOTATIONS: Final = b',"annotations":'


class EventWithObjects(NamedTuple):
    """An event with the object of the request or the response.

    opening: its fields before the objects.
    objects: requestObject and responseObject, in pieces.
    times, annotations: the fields after them; the annotations as JSON.
    """

    opening: bytes
    objects: tuple[bytes, ...]
    times: bytes
    annotations: bytes


# The fields of its JSON, without kind and apiVersion; most events have no objects.
Event: TypeAlias = bytes | EventWithObjects

# Makes an event when it is about to be written: many one after the other take half the time that each takes
# amid the request, where nothing that it needs is in the processor's caches.
Render: TypeAlias = Callable[[], Event]


class AuditBackend(Protocol):
    """A destination that takes events.

    keeps_order: whether all earlier events are written once a later one is, and no request fails because of a
        lost event. Then a request that changes nothing only waits for its last event.
    """

    @property
    def keeps_order(self) -> bool: ...

    def process(self, render: Render, size: int, /) -> Awaitable[bool] | None:
        """Take an event. size: its approximate number of bytes.

        Returns a future of whether the request may continue, if the request has to wait.
        """
        ...


def size_of(event: Event) -> int:
    """Returns the number of bytes of an event's fields."""
    return len(event) if isinstance(event, bytes) else sum(map(len, pieces_of(event)))


def pieces_of(event: Event) -> tuple[bytes, ...]:
    """Returns the fields of an event's JSON, without the braces around them."""
    if isinstance(event, bytes):
        return (event,)
    annotations = (ANNOTATIONS, event.annotations) if event.annotations else ()
    return (event.opening, *event.objects, event.times, *annotations)


def without_objects(event: Event) -> bytes:
    """Returns the fields of an event without its objects and annotations, if it has objects."""
    return event if isinstance(event, bytes) else event.opening + event.times


def truncated(event: EventWithObjects, annotation: str) -> bytes:
    """Returns an event without its objects. annotation: the key that marks truncated events."""
    annotations = orjson.loads(event.annotations) if event.annotations else {}
    text = orjson.dumps({**annotations, annotation: "true"}, option=orjson.OPT_SORT_KEYS)
    return b"".join((event.opening, event.times, ANNOTATIONS, text))


def legacy_line(document: dict[str, Any]) -> str:
    """Returns the line of an event in the format `legacy`. document: the event."""
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
    """Returns a time in Go's format RFC3339Nano: without zeros at the end of the fraction."""
    whole, _, fraction = timestamp.removesuffix("Z").partition(".")
    fraction = fraction.rstrip("0")
    return f"{whole}.{fraction}Z" if fraction else f"{whole}Z"
