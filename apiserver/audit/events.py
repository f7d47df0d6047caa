"""An audit event as bytes: a line of the log, an item of what a webhook gets; shortened, if it is too large.

Source: k8s.io/apiserver, pkg/apis/audit/v1/types.go, pkg/audit/format.go and plugin/pkg/audit/truncate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import orjson

from apiserver.audit.policy import Level
from apiserver.golang.quoting import go_quote

# What stands before the annotations of an event.
ANNOTATIONS: Final = b',"annotations":'


class Event(NamedTuple):
    """An event, without what tells its kind and version.

    opening: its fields before the objects; all of them, if there are no objects.
    objects: requestObject and responseObject, in pieces.
    times, annotations: the fields behind them; the latter as JSON.
    size: of all of them, in bytes.
    """

    level: Level
    opening: bytes
    objects: tuple[bytes, ...]
    times: bytes
    annotations: bytes
    size: int

    def pieces(self) -> tuple[bytes, ...]:
        """Returns the fields of its JSON, without the braces around them."""
        if not self.objects:
            return (self.opening,)
        return (self.opening, *self.objects, self.times, *_field(self.annotations))


def plain_event(level: Level, opening: bytes) -> Event:
    """Returns an event without objects. opening: all of its fields."""
    return Event(level, opening, (), b"", b"", len(opening))


def event_with_objects(
    level: Level, opening: bytes, objects: tuple[bytes, ...], times: bytes, annotations: bytes
) -> Event:
    size = sum(map(len, (opening, *objects, times, *_field(annotations))))
    return Event(level, opening, objects, times, annotations, size)


def _field(annotations: bytes) -> tuple[bytes, ...]:
    return (ANNOTATIONS, annotations) if annotations else ()


def truncated(event: Event, annotation: str) -> Event:
    """Returns an event without its objects. annotation: the key of the one that says so."""
    if not event.objects:
        return event
    annotations = orjson.loads(event.annotations) if event.annotations else {}
    text = orjson.dumps({**annotations, annotation: "true"}, option=orjson.OPT_SORT_KEYS)
    return plain_event(event.level, b"".join((event.opening, event.times, ANNOTATIONS, text)))


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
