"""Reads the file of `--tracing-config-file`.

Source: k8s.io/component-base, tracing/api/v1 (config.go), and apiserver's TracingConfiguration.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from apiserver.meta.brand import Brand
from apiserver.wire.configuration_fields import ConfigurationObject, InvalidConfiguration, decode

KIND: Final = "TracingConfiguration"
DEFAULT_ENDPOINT: Final = "localhost:4317"
_GROUP: Final = "apiserver.config"
_VERSIONS: Final = ("v1", "v1beta1", "v1alpha1")
_MILLION: Final = 1_000_000


class TracingConfiguration(NamedTuple):
    """Where to send traces. endpoint: of the collector. sampled_per_million: the number of requests."""

    endpoint: str = DEFAULT_ENDPOINT
    sampled_per_million: int = 0


def parse_tracing_configuration(content: bytes, brand: Brand) -> TracingConfiguration:
    """Returns the configuration in a file. Raises InvalidConfiguration."""
    with ConfigurationObject(decode(content)) as fields:
        fields.require_kind(*((f"{brand.group(_GROUP)}/{version}", KIND) for version in _VERSIONS))
        endpoint = fields.text("endpoint", DEFAULT_ENDPOINT)
        rate = fields.integer("samplingRatePerMillion")
    if not endpoint or any(each.isspace() or not each.isprintable() for each in endpoint):
        raise InvalidConfiguration(f"endpoint: {endpoint!r} is not an address such as {DEFAULT_ENDPOINT}")
    if not 0 <= rate <= _MILLION:
        raise InvalidConfiguration(f"samplingRatePerMillion: {rate} is not between 0 and {_MILLION}")
    return TracingConfiguration(endpoint, rate)
