"""Builds the exposition, the text of /metrics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from time import monotonic

from apiserver.app.core import Core
from apiserver.app.stores import OBJECT_OVERHEAD_BYTES
from apiserver.endpoints.priority_and_fairness import Fairness
from apiserver.endpoints.version import version_document
from apiserver.flowcontrol.metrics import FlowControlMetrics
from apiserver.load.switch_interval import compute_in_thread
from apiserver.metrics.controllers import ApiServiceMetrics
from apiserver.metrics.exposition import Exposition
from apiserver.metrics.process import (
    BuildInfo,
    FeatureGateMetrics,
    MemoryMetrics,
    OffloadMetrics,
    ProcessMetrics,
    RefusalMetrics,
    process_collectors,
)
from apiserver.metrics.registry import MetricRegistry
from apiserver.metrics.request_filters import RequestFilterMetrics
from apiserver.metrics.storage_size import StorageSizeMetric
from apiserver.metrics.watch_cache import CacheMetrics


def build_exposition(
    core: Core, storage_size: StorageSizeMetric, api_services: ApiServiceMetrics, fairness: Fairness | None
) -> Callable[[], Awaitable[Iterator[bytes]]]:
    """Returns the function that makes the text of /metrics in slices, of all workers if there are several."""
    metrics, serving, streams = core.metrics, core.serving, core.streams
    registry = MetricRegistry(core.config.metrics, core.config.release)
    flow_control = None if fairness is None else FlowControlMetrics(fairness.control, monotonic)
    filters = {
        "authentication": metrics.authentication.durations,
        "authorization": metrics.authorization.durations,
        "constrainedimpersonation": metrics.impersonation.durations,
        **({} if flow_control is None else {"priorityandfairness": flow_control.waits}),
    }
    exposition = Exposition(
        (
            metrics.requests,
            metrics.served_names,
            CacheMetrics(core.registry.cache, metrics.resource_of, OBJECT_OVERHEAD_BYTES),
            core.allocations,
            metrics.storage,
            metrics.encryption,
            metrics.conversion_webhooks,
            storage_size,
            metrics.admission,
            metrics.authorization,
            metrics.impersonation,
            metrics.audit,
            metrics.authentication,
            metrics.certificates,
            api_services,
            metrics.storage_migrations,
            metrics.validation,
            metrics.work_queues,
            metrics.garbage_collector,
            metrics.leader_election,
            OffloadMetrics(core.offload),
            metrics.event_loop,
            MemoryMetrics(core.memory_budget),
            RefusalMetrics(
                lambda: serving.refused_connections,
                lambda: streams.refused_total,
                lambda: streams.unauthorized_total,
            ),
            ProcessMetrics(),
            BuildInfo(version_document(core.config.release)),
            FeatureGateMetrics(core.config.gates),
            *(() if flow_control is None else (flow_control,)),
            RequestFilterMetrics(filters),
            metrics.node_graph,
            metrics.expressions,
            registry,
        ),
        registry,
    )

    async def own() -> Iterator[bytes]:
        if not process_collectors.cache_info().currsize:
            await compute_in_thread(process_collectors)
        return exposition.slices()

    if serving.worker is not None:
        serving.worker.report_metrics(own)
        return serving.worker.all_metrics
    return own
