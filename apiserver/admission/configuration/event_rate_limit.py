"""The limits of the plugin EventRateLimit.

Source: kubernetes, plugin/pkg/admission/eventratelimit/apis/eventratelimit.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from apiserver.meta.brand import Brand
from apiserver.wire.configuration_fields import ConfigurationObject, InvalidConfiguration, one_of

SERVER: Final = "Server"
NAMESPACE: Final = "Namespace"
USER: Final = "User"
SOURCE_AND_OBJECT: Final = "SourceAndObject"
# Buckets of one limit that are kept, where the file does not say it.
CACHE_SIZE: Final = 4_096
# What else would be an int32 in Go.
_NUMBER_MAX: Final = 2**31 - 1


class EventLimit(NamedTuple):
    """The limits on requests about Events.

    type: the requests that share a bucket of tokens. qps: tokens added to a bucket per second. burst: its
        capacity.
    cache_size: how many of the last used buckets are kept.
    """

    type: str
    qps: int
    burst: int
    cache_size: int = CACHE_SIZE


def parse(document: Any, brand: Brand) -> tuple[EventLimit, ...]:
    """Returns the limits that a configuration file sets. Raises InvalidConfiguration."""
    group = brand.group("eventratelimit.admission")
    with ConfigurationObject(document) as fields:
        fields.require_kind((f"{group}/v1alpha1", "Configuration"))
        limits = tuple(map(_limit, fields.objects("limits")))
    if not limits:
        raise InvalidConfiguration("limits: must not be empty")
    return limits


def _limit(fields: ConfigurationObject) -> EventLimit:
    with fields:
        type_ = one_of(fields, "type", fields.text("type"), (SERVER, NAMESPACE, USER, SOURCE_AND_OBJECT))
        qps, burst, cache_size = map(fields.integer, ("qps", "burst", "cacheSize"))
    for name, number in (("burst", burst), ("qps", qps)):
        if not 0 < number <= _NUMBER_MAX:
            raise fields.fail(name, "must be positive")
    if not 0 <= cache_size <= _NUMBER_MAX:
        raise fields.fail("cacheSize", "must not be negative")
    return EventLimit(type_, qps, burst, cache_size or CACHE_SIZE)
