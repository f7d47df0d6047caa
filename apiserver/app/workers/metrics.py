"""Adds up the metrics of several workers to one exposition.

A scrape reaches any one of them, and its numbers alone would jump from scrape to scrape. Counters and
histograms are added up, and kept when a worker dies, as far as a scrape has seen them: to Prometheus a sum
that falls looks like a restart, and what is left of it like a burst of work. Gauges are added up, too, where
each worker has a part (requests under way, memory); where all see the same, one value is shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from apiserver.metrics.declarations import known_metrics

# Metrics of which all workers see the same: gauges, and counters of what they are configured to do. Others
# are added up.
_SHARED: Final[Mapping[str, Callable[[float, float], float]]] = {
    "aggregator_unavailable_apiservice": max,  # unavailable to one of them is unavailable to some clients
    "apiserver_authorization_config_controller_automatic_reload_last_timestamp_seconds": max,
    "apiserver_authorization_config_controller_last_config_info": max,
    "apiserver_authentication_config_controller_automatic_reload_last_timestamp_seconds": max,
    "apiserver_authentication_config_controller_last_config_info": max,
    "apiserver_authentication_jwt_authenticator_jwks_fetch_last_key_set_info": max,
    "apiserver_authentication_jwt_authenticator_jwks_fetch_last_timestamp_seconds": max,
    "apiserver_encryption_config_controller_automatic_reload_last_timestamp_seconds": max,
    "apiserver_encryption_config_controller_last_config_info": max,
    "apiserver_envelope_encryption_key_id_hash_last_timestamp_seconds": max,
    "apiserver_envelope_encryption_key_id_hash_status_last_timestamp_seconds": max,
    # Virtual times, and a proportion.
    "apiserver_flowcontrol_current_r": max,
    "apiserver_flowcontrol_dispatch_r": max,
    "apiserver_flowcontrol_latest_s": max,
    "apiserver_flowcontrol_next_discounted_s_bounds": max,
    "apiserver_flowcontrol_next_s_bounds": max,
    "apiserver_flowcontrol_seat_fair_frac": max,
    "apiserver_memory_pressure": max,
    "apiserver_resource_objects": max,
    "apiserver_resource_size_estimate_bytes": max,
    "apiserver_storage_available": min,
    "apiserver_storage_full": max,
    "apiserver_storage_objects": max,
    "apiserver_storage_size_bytes": max,
    "apiserver_tls_certificate_expiration_timestamp_seconds": min,
    "apiserver_watch_cache_lag_seconds": max,
    "apiserver_watch_cache_refills_total": max,  # one failure of the store concerns all of them
    "apiserver_watch_cache_resource_version": min,  # of the worker that lags most
    "disabled_metrics_total": max,
    "hidden_metrics_total": max,
    "kube_apiserver_clusterip_allocator_allocated_ips": max,
    "kube_apiserver_clusterip_allocator_available_ips": max,
    "kube_apiserver_nodeport_allocator_allocated_ports": max,
    "kube_apiserver_nodeport_allocator_available_ports": max,
    "kubernetes_build_info": max,
    "kubernetes_feature_enabled": max,
    "process_network_receive_bytes_total": max,  # of the machine, or the container, that they are all on
    "process_network_transmit_bytes_total": max,
    "process_start_time_seconds": min,
    "process_virtual_memory_max_bytes": max,
    "python_info": max,
    "registered_metrics_total": max,
    "version_info": max,
    "watch_cache_capacity": max,
    "workqueue_longest_running_processor_seconds": max,
}
_CUMULATIVE: Final = ("counter", "histogram", "summary")
# The metrics that name every resource that a worker knows, one of which may be hidden, and where a sample
# names one.
_OBJECTS: Final = ("apiserver_resource_objects", "apiserver_storage_objects")
_PLURAL: Final = re.compile(r'[{,]resource="([^".]*)')


@dataclass(slots=True)
class MetricFamily:
    """A metric. head: its HELP and TYPE lines. samples: by name and labels, as in the text."""

    head: str
    kind: str
    samples: dict[str, float] = field(default_factory=dict)


def parse_exposition(text: bytes) -> dict[str, MetricFamily]:
    """Parses an exposition: each metric has HELP, TYPE, then its samples."""
    families: dict[str, MetricFamily] = {}
    head, family = "", MetricFamily("", "")
    # Only a line feed ends a line: labels may have what else `str.splitlines` takes for an end.
    for line in filter(None, text.decode().split("\n")):
        if line.startswith("# HELP "):
            head = line
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            family = families[name] = MetricFamily(f"{head}\n{line}\n", kind)
        else:
            # Labels may contain spaces, the value cannot.
            key, _, value = line.rpartition(" ")
            family.samples[key] = float(value)
    return families


def cumulative(families: Mapping[str, MetricFamily]) -> dict[str, MetricFamily]:
    """Returns the counters and histograms, whose counts stay true when the process is gone."""
    return {name: family for name, family in families.items() if family.kind in _CUMULATIVE}


def without_gone(
    departed: Mapping[str, MetricFamily], live: Iterable[Mapping[str, MetricFamily]]
) -> dict[str, MetricFamily]:
    """Returns the counters of ended processes, without those of resources that no worker has any more.

    Otherwise a client that defines and deletes resources would fill memory.
    """
    served = {
        plural
        for families in live
        for name in _OBJECTS
        if name in families
        for key in families[name].samples
        for plural in _PLURAL.findall(key)
    }
    if not served:
        return dict(departed)  # None has been asked yet.
    served |= {"", "other"}
    return {
        name: MetricFamily(
            family.head,
            family.kind,
            {key: value for key, value in family.samples.items() if served.issuperset(_PLURAL.findall(key))},
        )
        for name, family in departed.items()
    }


def merge(sources: Iterable[Mapping[str, MetricFamily]]) -> dict[str, MetricFamily]:
    """Merges metrics by name, in the order in which they first occur."""
    result: dict[str, MetricFamily] = {}
    for source in sources:
        for name, family in source.items():
            into = result.get(name)
            if into is None:
                into = result[name] = MetricFamily(family.head, family.kind)
            choose = _SHARED.get(name) or _choice_of_other(name, family.kind)
            for key, value in family.samples.items():
                known = into.samples.get(key)
                into.samples[key] = value if known is None else choose(known, value)
    return result


def _choice_of_other(name: str, kind: str) -> Callable[[float, float], float]:
    """Returns how a metric is merged that is not known to be shared.

    Gauges of extensions are mostly about what all workers see: objects in the store, or other systems.
    """
    return max if kind == "gauge" and name not in known_metrics() else float.__add__


def render_exposition(families: Mapping[str, MetricFamily]) -> bytes:
    parts = []
    for family in families.values():
        parts.append(family.head)
        parts += (f"{key} {_number(value)}\n" for key, value in family.samples.items())
    return "".join(parts).encode()


def _number(value: float) -> str:
    """Renders whole numbers without a fraction, as kube-apiserver does."""
    return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value!r}"
