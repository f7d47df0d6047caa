"""The group `events.k8s.io`: the core group's events in another form."""

from __future__ import annotations

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.events import events


def types(*, event_ttl_s: int) -> tuple[BuiltinType, ...]:
    return (events.builtin_type(ttl_s=event_ttl_s),)
