"""Limits the rate of Events: of the server, of a namespace, of a user, or about one object.

Events of both groups count. kube-apiserver does not limit Events of `events.k8s.io`, with which a client
could bypass the limits.
Source: kubernetes, plugin/pkg/admission/eventratelimit.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from apiserver.admission.chain import AdmissionAttributes, Plugin, writes
from apiserver.admission.configuration.event_rate_limit import NAMESPACE, SERVER, USER, EventLimit
from apiserver.catalogue.core.resource_quotas.usage import resources_without_quota
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
        self._limits = [_Limit(each, clock) for each in limits]
        self.handled = writes(*resources_without_quota(brand))

    async def validate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        """Count an Event against every limit, also after one has refused it. Raises TooManyEvents."""
        if attributes.is_dry_run:
            return
        refusal = None
        for limit in self._limits:
            key = _key(limit.limit.type, attributes, new)
            if not limit.accepts(key):
                refusal = f"limit reached on type {limit.limit.type} for key {key}"
        if refusal is not None:
            raise TooManyEvents(f"Too many requests: {refusal}")


class _Limit:
    """The buckets of one limit: the tokens of each key at a time."""

    def __init__(self, limit: EventLimit, clock: Callable[[], float]) -> None:
        self.limit = limit
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # the one used last at the end

    def accepts(self, key: str) -> bool:
        """Takes a token for the key, and returns whether there was one."""
        now, burst = self._clock(), self.limit.burst
        tokens, then = self._buckets.pop(key, (float(burst), now))
        tokens = min(float(burst), tokens + (now - then) * self.limit.qps)
        is_accepted = tokens >= 1
        self._buckets[key] = (tokens - is_accepted, now)
        if len(self._buckets) > self.limit.cache_size:
            self._buckets.popitem(last=False)
        return is_accepted


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
