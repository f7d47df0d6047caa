"""Collects the metrics of all workers for a scrape of /metrics, whichever worker is scraped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from apiserver.app.workers import metrics
from apiserver.app.workers.messages import MessageKind
from apiserver.app.workers.metrics import MetricFamily
from apiserver.app.workers.slots import WorkerSlot

# A worker that has not reported its metrics by then is shown as it was at the scrape before.
SCRAPE_TIMEOUT_S: Final = 1.0


class ScrapeRounds:
    """Collects metrics in rounds: all scrapes that arrive during a round are answered by the next.

    own_metrics: the supervisor's own. clock: seconds, monotonic.
    """

    def __init__(
        self,
        slots: Sequence[WorkerSlot],
        own_metrics: Callable[[], Mapping[str, MetricFamily]],
        clock: Callable[[], float],
    ) -> None:
        self._slots, self._own_metrics, self._clock = slots, own_metrics, clock
        # The workers that the round under way will answer, and those that have asked since it began.
        self._waiting: list[WorkerSlot] = []
        self._waiting_next: list[WorkerSlot] = []
        self._deadline = 0.0
        # The counters of processes that are gone.
        self._departed: Mapping[str, MetricFamily] = {}

    @property
    def deadline(self) -> float | None:
        """The time by which the current round ends; None if there is none."""
        return self._deadline if self._waiting else None

    def request(self, slot: WorkerSlot) -> None:
        """Respond to a scraped worker once the metrics of all workers are collected."""
        self._waiting_next.append(slot)
        if not self._waiting:
            self._begin()

    def report(self, slot: WorkerSlot, exposition: bytes) -> None:
        """Record the metrics that a worker reports of itself."""
        slot.unanswered -= 1
        slot.metrics = metrics.parse_exposition(exposition)
        self._end_if_complete()

    def end_if_due(self, now: float) -> None:
        if self._waiting and self._deadline <= now:
            self._end()

    def keep_counters(self, slot: WorkerSlot) -> None:
        """Keep the counters of a process that is about to be forgotten."""
        self._departed = metrics.merge([self._departed, metrics.cumulative(slot.metrics)])

    def forget(self, slot: WorkerSlot) -> None:
        """Drop the scrapes of a process that has ended, and do not wait for its metrics."""
        self._waiting = [each for each in self._waiting if each is not slot]
        self._waiting_next = [each for each in self._waiting_next if each is not slot]
        if self._waiting:
            self._end_if_complete()
        elif self._waiting_next:
            self._begin()

    def _begin(self) -> None:
        self._waiting, self._waiting_next = self._waiting_next, []
        self._deadline = self._clock() + SCRAPE_TIMEOUT_S
        for slot in self._slots:
            if slot.channel is not None and slot.is_connected and not slot.unanswered:
                slot.unanswered += 1
                slot.channel.send(MessageKind.GET_OWN_METRICS)
        self._end_if_complete()

    def _end_if_complete(self) -> None:
        if self._waiting and not any(slot.unanswered for slot in self._slots):
            self._end()

    def _end(self) -> None:
        live = [slot.metrics for slot in self._slots]
        self._departed = metrics.without_gone(self._departed, live)
        sources = [self._departed, *live, self._own_metrics()]
        text = metrics.render_exposition(metrics.merge(sources))
        waiting, self._waiting = self._waiting, []
        for slot in waiting:
            if slot.channel is not None:
                slot.channel.send(MessageKind.ALL_METRICS, text)
        if self._waiting_next:
            self._begin()
