"""Events for the tests of what they are written to."""

from __future__ import annotations

import asyncio

from apiserver.audit.backends.fan_out import Backend
from apiserver.audit.events import Event, EventWithObjects, size_of


def event(name: str, padding: int = 0) -> bytes:
    """Returns an event whose only field is `auditID`, so long."""
    return b'"auditID":"%b"' % (name.encode() + b"." * padding)


def large_event(name: str, object_bytes: int) -> EventWithObjects:
    """Returns one with an object of so many bytes."""
    objects = (b',"requestObject":', b'"%b"' % (b"x" * (object_bytes - 2)))
    return EventWithObjects(b'"auditID":"%b"' % name.encode(), objects, b"", b"")


def process(backend: Backend, event: Event) -> asyncio.Future[bool] | None:
    """Have a backend take an event that is made already. Returns what has to be waited for."""
    waiting = backend.process(lambda: event, size_of(event))
    assert waiting is None or isinstance(waiting, asyncio.Future)
    return waiting
