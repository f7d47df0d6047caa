"""Metrics of auditing: requests by level, events, and lost events.

Source: k8s.io/apiserver, pkg/audit/metrics.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from apiserver.metrics.series import Family, family, single


class AuditMetrics:
    """Counts audit events and the requests that they are about.

    events: the number of events. levels: the requests at each level. lost: the events that plugins lost.
    rejected: the requests that failed because their first event could not be written.
    """

    def __init__(self) -> None:
        self.events = 0
        self.rejected = 0
        self.levels: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()

    def families(self) -> Iterable[Family]:
        yield single("apiserver_audit_event_total", self.events)
        yield single("apiserver_audit_requests_rejected_total", self.rejected)
        for name, counts in (
            ("apiserver_audit_level_total", self.levels),
            ("apiserver_audit_error_total", self.lost),
        ):
            yield family(name, [((label,), count) for label, count in sorted(counts.items())])
