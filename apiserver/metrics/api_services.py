"""Whether the versions that APIServices name can be reached, under kube-aggregator's names.

Source: k8s.io/kube-aggregator, pkg/controllers/status/metrics.
"""

from __future__ import annotations

from collections.abc import Iterable

from apiserver.metrics.series import Family, family


class ApiServiceMetrics:
    """Counts checks of APIServices, by name and by the reason in the condition. Deleted ones are dropped."""

    def __init__(self) -> None:
        self._unavailable: dict[str, bool] = {}
        self._times: dict[tuple[str, str], int] = {}

    def observe(self, name: str, reason: str, *, is_available: bool, was_available: bool) -> None:
        """Counts a check. was_available: what was known before the first one."""
        is_new = not self._unavailable.get(name, not was_available)
        if not is_available and is_new:
            self._times[name, reason] = self._times.get((name, reason), 0) + 1
        self._unavailable[name] = not is_available

    def forget(self, name: str) -> None:
        self._unavailable.pop(name, None)
        for key in [each for each in self._times if each[0] == name]:
            del self._times[key]

    def families(self) -> Iterable[Family]:
        unavailable = self._unavailable.items()
        yield family(
            "aggregator_unavailable_apiservice", [((name,), int(each)) for name, each in unavailable]
        )
        yield family("aggregator_unavailable_apiservice_total", list(self._times.items()))
