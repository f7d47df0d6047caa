"""Builds the exposition, the text of /metrics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from time import monotonic
from typing import TYPE_CHECKING

from apiserver.app.core import Core
from apiserver.app.stores import OBJECT_OVERHEAD_BYTES
from apiserver.endpoints.flowcontrol.metrics import FlowControlMetrics
from apiserver.endpoints.priority_and_fairness import Fairness
from apiserver.endpoints.version import version_document
from apiserver.load.switch_interval import compute_in_thread
from apiserver.metrics.controllers import ApiServiceMetrics
from apiserver.metrics.exposition import Exposition
from apiserver.metrics.history import HistoryMetrics
from apiserver.metrics.process import (
    BuildInfo,
    FeatureGateMetrics,
    LimitMetrics,
    MemoryMetrics,
    OffloadMetrics,
    ProcessMetrics,
    process_collectors,
)
from apiserver.metrics.registry import MetricRegistry
from apiserver.metrics.request_filters import RequestFilterMetrics
from apiserver.metrics.storage_state import StorageStateMetrics
from apiserver.metrics.watch_cache import CacheLag, CacheMetrics

if TYPE_CHECKING:
    from apiserver.extensions.host.function_metrics import FunctionMetrics


def build_exposition(
    core: Core,
    storage_state: StorageStateMetrics,
    cache_lag: CacheLag,
    api_services: ApiServiceMetrics,
    fairness: Fairness | None,
) -> Callable[[], Awaitable[Iterator[bytes]]]:
    """Returns the function that makes the text of /metrics in slices, of all workers if there are several."""
    metrics, serving, limits = core.metrics, core.serving, core.config.serving
    registry = MetricRegistry(core.config.metrics, core.config.release)
    flow_control = None if fairness is None else FlowControlMetrics(fairness.control, monotonic)
    filters = {
        "authentication": metrics.authentication.durations,
        "authorization": metrics.authorization.durations,
        "constrainedimpersonation": metrics.impersonation.durations,
        **({} if flow_control is None else {"priorityandfairness": flow_control.waits}),
    }
    functions = _function_metrics(core) if core.extensions else None
    exposition = Exposition(
        (
            metrics.requests,
            metrics.served_names,
            CacheMetrics(core.registry.cache, metrics.resource_of, OBJECT_OVERHEAD_BYTES),
            cache_lag,
            core.allocations,
            metrics.storage,
            metrics.encryption,
            metrics.conversion_webhooks,
            metrics.extensions,
            storage_state,
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
            LimitMetrics(
                serving,
                core.streams,
                {"readOnly": limits.max_requests_inflight, "mutating": limits.max_mutating_requests_inflight},
            ),
            ProcessMetrics(),
            BuildInfo(version_document(core.config.release)),
            FeatureGateMetrics(core.config.gates),
            *(() if flow_control is None else (flow_control,)),
            RequestFilterMetrics(filters),
            metrics.node_graph,
            metrics.expressions,
            registry,
            *(() if functions is None else (functions,)),
            HistoryMetrics(None if core.history is None else core.history.recorder),
        ),
        registry,
    )

    async def own() -> Iterator[bytes]:
        if not process_collectors.cache_info().currsize:
            await compute_in_thread(process_collectors)
        if functions is not None:
            await functions.refresh()
        return exposition.slices()

    if serving.worker is not None:
        serving.worker.report_metrics(own)
        return serving.worker.all_metrics
    return own


def _function_metrics(core: Core) -> FunctionMetrics:
    # Most servers have none.
    from apiserver.extensions.host.function_metrics import FunctionMetrics

    return FunctionMetrics(core.extensions, core.loop_clock)
