"""Limits how many Events are written: by anybody, in a namespace, by a user, or about one thing.

Events of both groups count. kube-apiserver does not limit those that are written as `events.k8s.io`, by which
a client could pass the limits.
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
    """A limit is reached. The server refuses what it is told to refuse, and does not protect itself."""

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
    """The buckets of one limit: of each key, how many tokens it had when."""

    def __init__(self, limit: EventLimit, clock: Callable[[], float]) -> None:
        self.limit = limit
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # the one used last at the end

    def accepts(self, key: str) -> bool:
        """Returns whether there is a token for the key, and takes it."""
        now, burst = self._clock(), self.limit.burst
        tokens, then = self._buckets.pop(key, (float(burst), now))
        tokens = min(float(burst), tokens + (now - then) * self.limit.qps)
        is_accepted = tokens >= 1
        self._buckets[key] = (tokens - is_accepted, now)
        if len(self._buckets) > self.limit.cache_size:
            self._buckets.popitem(last=False)
        return is_accepted


def _key(type_: str, attributes: AdmissionAttributes, event: Document) -> str:
    """Returns what stands for all that share a bucket."""
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
