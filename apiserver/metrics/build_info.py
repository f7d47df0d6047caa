"""Which build of the server runs, as a metric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from apiserver.metrics.client_library import gauge_family

if TYPE_CHECKING:
    from prometheus_client.core import Metric

# The labels, and the fields of /version that they show.
_FIELDS: Final = {
    "major": "major",
    "minor": "minor",
    "git_version": "gitVersion",
    "git_commit": "gitCommit",
    "git_tree_state": "gitTreeState",
    "build_date": "buildDate",
    "go_version": "goVersion",
    "compiler": "compiler",
    "platform": "platform",
}


class BuildInfo:
    """Always 1; the labels tell the build. version: the body of /version."""

    def __init__(self, version: Mapping[str, str]) -> None:
        self._labels = [version[field] for field in _FIELDS.values()]

    def families(self) -> Iterable[Metric]:
        metric = gauge_family(
            "kubernetes_build_info", "The version that is served, and of this server.", labels=list(_FIELDS)
        )
        metric.add_metric(self._labels, 1)
        yield metric
