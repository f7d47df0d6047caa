"""Events for the tests of what they are written to."""

from __future__ import annotations

from apiserver.audit.events import Event, event_with_objects, plain_event
from apiserver.audit.policy import Level


def event(name: str, padding: int = 0) -> Event:
    """Returns an event whose only field is `auditID`, so long."""
    return plain_event(Level.METADATA, b'"auditID":"%b"' % (name.encode() + b"." * padding))


def large_event(name: str, object_bytes: int) -> Event:
    """Returns one with an object of so many bytes."""
    objects = (b',"requestObject":', b'"%b"' % (b"x" * (object_bytes - 2)))
    return event_with_objects(Level.REQUEST, b'"auditID":"%b"' % name.encode(), objects, b"", b"")
