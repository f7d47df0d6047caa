"""Metrics whose values functions of extensions return, when /metrics is requested.

A scrape waits for them for a short time, and never fails because of them. Metrics whose function has failed
are left out until its next call.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from apiserver.extensions.errors import InvalidExtension
from apiserver.extensions.hooks import Kind
from apiserver.extensions.host.hooks import ExtensionHook, ExtensionHooks
from apiserver.extensions.host.runner import ExtensionInfo, HookFailed
from apiserver.extensions.metric_declarations import SERIES_MAX, metric_options
from apiserver.metrics.declarations import Metric, MetricStability, known_metrics
from apiserver.metrics.series import Family, family_of

# However often they are scraped, functions are called once in this time.
CACHED_S: Final = 1.0
# How long a scrape waits. Values of functions that take longer are in the next one.
SCRAPE_WAIT_MAX_S: Final = 2.0
LABEL_LENGTH_MAX: Final = 256
# What the text of a histogram or summary has after its name.
_SUFFIXES: Final = ("_bucket", "_count", "_sum")
_Values = Sequence[tuple[Sequence[str], float]]


class FunctionMetrics:
    """The metrics of all extensions, also after a reload. clock: in seconds."""

    def __init__(self, extensions: ExtensionHooks, clock: Callable[[], float]) -> None:
        self._extensions, self._clock = extensions, clock
        self._metrics: Sequence[_FunctionMetric] = ()
        extensions.call_on_change(self._find_metrics)

    def _find_metrics(self) -> None:
        self._metrics = [_FunctionMetric(each) for each in self._extensions.of_kind(Kind.METRIC)]

    async def refresh(self) -> None:
        """Call the functions whose values are old, and wait for them for a short time."""
        now = self._clock()
        calls = [call for each in self._metrics if (call := each.refresh(now)) is not None]
        if calls:
            await asyncio.wait(calls, timeout=SCRAPE_WAIT_MAX_S)

    def families(self) -> Iterable[Family]:
        for each in self._metrics:
            yield family_of(each.metric, each.values)


class _FunctionMetric:
    """One metric. values: those of the last call; none if it has failed."""

    def __init__(self, hook: ExtensionHook) -> None:
        self._hook = hook
        self.metric = declared_by(hook)
        self.values: _Values = ()
        self._called_at = -math.inf
        self._call: asyncio.Task[None] | None = None

    def refresh(self, now: float) -> asyncio.Task[None] | None:
        """Returns the call of the function, if there is one to wait for."""
        if self._call is not None and not self._call.done():
            return self._call
        if now - self._called_at < CACHED_S:
            return None
        self._called_at = now
        self._call = asyncio.create_task(self._update())
        return self._call

    async def _update(self) -> None:
        try:
            result = await self._hook.call({})
            self.values = self._checked(result)
        except HookFailed:  # It is counted and logged.
            self.values = ()

    def _checked(self, result: Mapping[str, Any]) -> _Values:
        """Returns the values in a result. Raises HookFailed."""
        samples = result.get("samples")
        if not isinstance(samples, list) or len(samples) > SERIES_MAX:
            raise self._hook.invalid(f"has an invalid result: samples is not a list of at most {SERIES_MAX}")
        found: dict[tuple[str, ...], float] = {}
        for index, each in enumerate(samples):
            match each:
                case [list(labels), int() | float() as value] if self._are_labels(labels):
                    if isinstance(value, bool) or (self.metric.kind == "counter" and value < 0):
                        raise self._hook.invalid(f"has an invalid result: samples[{index}] is {value!r}")
                    found[tuple(labels)] = value
                case _:
                    raise self._hook.invalid(f"has an invalid result: samples[{index}] has wrong types")
        return list(found.items())

    def _are_labels(self, labels: Sequence[Any]) -> bool:
        return len(labels) == len(self.metric.labels) and all(
            isinstance(each, str) and len(each) <= LABEL_LENGTH_MAX for each in labels
        )


def declared_by(hook: ExtensionHook) -> Metric:
    """Returns the declaration of the metric of a function."""
    options = hook.info.options
    text = options["help"].replace("\\", r"\\")
    return Metric(options["metric"], options["type"], MetricStability.NONE, tuple(options["labels"]), text)


def require_free_names(extensions: Iterable[ExtensionInfo]) -> None:
    """Require that the metrics of extensions are valid, and have names that no others have.

    Raises InvalidExtension.
    """
    server = known_metrics()
    series = {f"{name}{suffix}" for name, each in server.items() if each.bounds for suffix in _SUFFIXES}
    taken: dict[str, str] = {**dict.fromkeys((*server, *series), "the server")}
    for info in extensions:
        mine = f'extension "{info.name}"'
        for hook in info.of_kind(Kind.METRIC):
            options = hook.options
            # A worker says which they are.
            name = options["metric"]
            metric_options(name, options["help"], options["type"], options["labels"])
            if (owner := taken.get(name)) is not None:
                raise InvalidExtension(f"{mine}: {hook}: {owner} has a metric {name}, too")
            taken[name] = mine
