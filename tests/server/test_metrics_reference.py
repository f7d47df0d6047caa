"""The served metrics are those of docs/reference/metrics.md, with their types and labels. Row N10."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from apiserver.metrics.declarations import known_metrics
from tests.references import METRICS, metrics_reference
from tests.support.api import Api
from tests.support.metrics import metrics_of
from tests.support.server_process import ServerProcess

OF_SEVERAL_WORKERS: Final = {"apiserver_workers", "apiserver_worker_restarts_total"}


@pytest.fixture(scope="module")
def exposition(server: ServerProcess) -> str:
    with Api(server) as api:
        api.get("/api/v1/pods").ok()
        return metrics_of(api)


def test_the_document_is_up_to_date() -> None:
    assert METRICS.read_text() == metrics_reference(), "make docs"


def test_all_metrics_are_served(exposition: str) -> None:
    served = {line.split()[2] for line in exposition.splitlines() if line.startswith("# TYPE ")}
    assert served == known_metrics().keys() - OF_SEVERAL_WORKERS


def test_all_labels_are_known(exposition: str) -> None:
    """Those of the metrics that have series by now."""
    wrong = {}
    for family in text_string_to_metric_families(exposition):
        name = family.name if family.name in known_metrics() else f"{family.name}_total"
        labels = {tuple(sorted(each.labels.keys() - {"le"})) for each in family.samples}
        if labels - {tuple(sorted(known_metrics()[name].labels))}:
            wrong[name] = labels
    assert wrong == {}


def test_s09_help_texts_tell_stability_and_deprecation(exposition: str) -> None:
    assert "# HELP apiserver_storage_objects [STABLE] (Deprecated since 1.34.0) " in exposition


@pytest.fixture(scope="module")
def configured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server of 1.37, in which a metric is hidden."""
    flags = (
        "--emulated-version=1.37",
        "--show-hidden-metrics-for-version=1.36",
        "--disabled-metrics=etcd_requests_total",
        "--allow-metric-labels=apiserver_request_total,resource=pods",
    )
    with ServerProcess(tmp_path_factory.mktemp("metrics") / "data", *flags) as server, Api(server) as api:
        yield api


def test_s10_flags_decide_what_is_served(configured: Api) -> None:
    for path in ("/api/v1/pods", "/api/v1/services", "/api/v1/secrets"):
        configured.get(path).ok()
    families = {each.name: each for each in text_string_to_metric_families(metrics_of(configured))}
    assert "apiserver_storage_objects" in families, "it is hidden, and shown"
    assert "etcd_requests" not in families
    resources = {each.labels["resource"] for each in families["apiserver_request"].samples}
    assert resources <= {"pods", "unexpected"}
    lists = [
        each.value
        for each in families["apiserver_request"].samples
        if each.labels["verb"] == "LIST" and each.labels["resource"] == "unexpected"
    ]
    assert sum(lists) >= 2
