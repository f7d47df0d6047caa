"""What the server measures of itself, under the names that Kubernetes' dashboards know.

What changes with each request is counted as it happens, in plain numbers (`requests`, `storage`); what is a
state is read when somebody asks for /metrics (`state`). prometheus-client makes the text of both.
"""

from __future__ import annotations

import re
from typing import Final

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.registry import Collector

from apiserver.metrics.collector import MetricsCollector
from apiserver.metrics.requests import RequestMetrics
from apiserver.metrics.storage import ObservedStorage, StorageMetrics, resources_of_keys

__all__ = [
    "CONTENT_TYPE",
    "Exposition",
    "MetricsCollector",
    "ObservedStorage",
    "RequestMetrics",
    "StorageMetrics",
    "resources_of_keys",
]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


# A sample with a whole number: kube-apiserver writes it without a fraction, and people search for that.
_WHOLE: Final = re.compile(rb"^([^#\n].* -?\d+)\.0$", re.MULTILINE)


class Exposition:
    """The text of /metrics: `state`'s metrics, and what prometheus-client knows of every process."""

    def __init__(self, state: Collector) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        self._registry.register(state)

    def text(self) -> bytes:
        """The exposition format, version 0.0.4."""
        return _WHOLE.sub(rb"\1", generate_latest(self._registry))
