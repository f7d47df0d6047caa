"""Limits the rate of Events: of the server, of a namespace, of a user, or about one object.

Events of both groups count. kube-apiserver does not limit Events of `events.k8s.io`, with which a client
could bypass the limits.
Source: kubernetes, plugin/pkg/admission/eventratelimit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from apiserver.admission.chain import AdmissionAttributes, Plugin, writes
from apiserver.admission.configuration.event_rate_limit import NAMESPACE, SERVER, USER, EventLimit
from apiserver.catalogue.core.resource_quotas.usage import resources_without_quota
from apiserver.load.token_bucket import KeyedTokenBuckets
from apiserver.meta.brand import Brand
from apiserver.meta.errors import TooManyRequests
from apiserver.meta.vocabulary import Document

# Keys are made of what clients send.
KEY_LENGTH_MAX: Final = 1_024


class TooManyEvents(TooManyRequests):
    """A rate limit of Events is reached, by configuration and not because the server is overloaded."""

    is_termination = False


class EventRateLimit(Plugin):
    name = "EventRateLimit"

    def __init__(
        self, limits: Sequence[EventLimit], brand: Brand, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """clock: seconds since some time."""
        self._limits = [
            (each.type, KeyedTokenBuckets(each.qps, each.burst, each.cache_size, clock)) for each in limits
        ]
        self.handled = writes(*resources_without_quota(brand))

    async def validate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        """Count an Event against every limit, also after one has refused it. Raises TooManyEvents."""
        if attributes.is_dry_run:
            return
        refusal = None
        for type_, buckets in self._limits:
            key = _key(type_, attributes, new)
            if not buckets.take(key):
                refusal = f"limit reached on type {type_} for key {key}"
        if refusal is not None:
            raise TooManyEvents(f"Too many requests: {refusal}")


def _key(type_: str, attributes: AdmissionAttributes, event: Document) -> str:
    """Returns the key of the bucket that an Event belongs to."""
    if type_ == SERVER:
        return ""
    if type_ == NAMESPACE:
        return attributes.namespace
    if type_ == USER:
        return attributes.user.name
    source, involved = event.get("source") or {}, event.get("involvedObject") or {}
    parts = [source.get("component"), source.get("host")]
    parts += [involved.get(field) for field in ("kind", "namespace", "name", "uid", "apiVersion")]
    return "".join(part or "" for part in parts)[:KEY_LENGTH_MAX]
