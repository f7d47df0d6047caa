"""The text of /metrics, in Prometheus' exposition format."""

from __future__ import annotations

import re
from typing import Final

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.registry import Collector

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

# A sample with a whole number: kube-apiserver writes it without a fraction, and people search for that.
_WHOLE: Final = re.compile(rb"^([^#\n].* -?\d+)\.0$", re.MULTILINE)


class Exposition:
    """Writes the server's own metrics and those that prometheus-client has of every process."""

    def __init__(self, server: Collector) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        self._registry.register(server)

    def text(self) -> bytes:
        """Returns all metrics in the exposition format, version 0.0.4."""
        return _WHOLE.sub(rb"\1", generate_latest(self._registry))
