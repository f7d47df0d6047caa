"""What auditing counts: requests by level, events, and what of them was lost.

Source: k8s.io/apiserver, pkg/audit/metrics.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from apiserver.metrics.series import Family, values


class AuditMetrics:
    """events: those that were made. levels: the requests at each level. lost: the events that plugins lost.

    rejected: the requests that failed because their first event could not be written.
    """

    def __init__(self) -> None:
        self.events = 0
        self.rejected = 0
        self.levels: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()

    def families(self) -> Iterable[Family]:
        yield values(
            "apiserver_audit_event_total",
            "counter",
            "Counter of audit events generated and sent to the audit backend.",
            (),
            [((), self.events)],
        )
        yield values(
            "apiserver_audit_requests_rejected_total",
            "counter",
            "Counter of apiserver requests rejected due to an error in audit logging backend.",
            (),
            [((), self.rejected)],
        )
        if self.levels:
            yield values(
                "apiserver_audit_level_total",
                "counter",
                "Counter of policy levels for audit events (1 per request).",
                ("level",),
                [((level,), count) for level, count in sorted(self.levels.items())],
            )
        if self.lost:
            yield values(
                "apiserver_audit_error_total",
                "counter",
                "Counter of audit events that failed to be audited properly. Plugin identifies the plugin "
                "affected by the error.",
                ("plugin",),
                [((plugin,), count) for plugin, count in sorted(self.lost.items())],
            )
