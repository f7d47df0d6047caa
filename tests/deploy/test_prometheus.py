"""Alerts, dashboard and runbook: every metric and label in their expressions is one that is exposed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import promql_parser as promql
import pytest
from prometheus_client.parser import text_string_to_metric_families

from apiserver.cli.flag_values import duration_s
from apiserver.metrics.declarations import known_metrics
from tests.deploy.artefacts import (
    DASHBOARD,
    DEPLOY,
    ROOT,
    alert_rules,
    dashboard_expressions,
    runbook_expressions,
)
from tests.support.api import Api
from tests.support.etcd_process import EtcdProcess, etcd_binaries
from tests.support.eventually import WITHIN_S
from tests.support.metrics import metrics_of
from tests.support.required import missing
from tests.support.server_process import ServerProcess

DIRECTORY: Final = DEPLOY / "prometheus"
RULES: Final = alert_rules()
ABOUT_ETCD: Final = re.compile(r"\betcd_(?!request)|job=\"etcd\"")
EXPRESSIONS: Final = {
    **{alert: rule["expr"] for alert, rule in RULES.items()},
    **dashboard_expressions(),
    **{f"runbook {number}": text for number, text in enumerate(runbook_expressions(), 1)},
}
# What Prometheus itself adds: the labels of a target, and whether it answers.
TARGET_LABELS: Final = frozenset({"job", "instance"})
FROM_PROMETHEUS: Final = {"up": TARGET_LABELS}

Exposed = dict[str, frozenset[str]]


def exposed(text: str) -> Exposed:
    """The names of all samples with their labels; those of our metrics that have no samples yet, too."""
    found = dict(FROM_PROMETHEUS)
    for name in re.findall(r"^# TYPE (\S+)", text, re.MULTILINE):
        if (metric := known_metrics().get(name)) is not None:
            labels = TARGET_LABELS | set(metric.labels)
            is_histogram = metric.kind == "histogram"
            found.update(
                {f"{name}{suffix}": labels for suffix in (("_sum", "_count") if is_histogram else ("",))}
            )
            if is_histogram:
                found[f"{name}_bucket"] = labels | {"le"}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, TARGET_LABELS) | set(sample.labels)
    return found


def selected(expression: str) -> Iterator[tuple[str, set[str]]]:
    """The metrics of an expression with the labels that they are selected by."""
    found: list[promql.VectorSelector] = []

    def visit(node: promql.Expr) -> bool:
        if isinstance(node, promql.MatrixSelector):
            found.append(node.vector_selector)
        elif isinstance(node, promql.VectorSelector):
            found.append(node)
        return True

    promql.walk(promql.parse(expression), visit)
    for selector in found:
        assert selector.name is not None
        yield selector.name, {matcher.name for matcher in selector.matchers.matchers}


def grouped(expression: str) -> Iterator[tuple[set[str], set[str]]]:
    """The labels that sums keep, with the metrics that they are taken from."""
    found: list[promql.AggregateExpr] = []

    def visit(node: promql.Expr) -> bool:
        if isinstance(node, promql.AggregateExpr):
            found.append(node)
        return True

    promql.walk(promql.parse(expression), visit)
    for aggregate in found:
        kept = set(aggregate.modifier.labels) if aggregate.modifier else set()
        yield kept, {name for name, _ in selected(aggregate.expr.prettify())}


def check(expression: str, known: Exposed) -> None:
    metrics = list(selected(expression))
    assert metrics
    for name, labels in metrics:
        assert name in known
        assert labels <= known[name], name
    for kept, names in grouped(expression):
        for name in names:
            assert kept <= known[name], name


@pytest.fixture(scope="module")
def etcd_exposed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exposed]:
    binaries = etcd_binaries()
    if not binaries:
        missing("etcd")
    with (
        EtcdProcess(next(iter(binaries.values())), tmp_path_factory.mktemp("etcd")) as etcd,
        urllib.request.urlopen(f"{etcd.url}/metrics", timeout=WITHIN_S) as answer,
    ):
        yield exposed(answer.read().decode())


@pytest.fixture(scope="module")
def server_exposed(server: ServerProcess) -> Exposed:
    with Api(server) as api:
        api.get("/api/v1/namespaces").ok()
        return exposed(metrics_of(api))


@pytest.mark.parametrize("name", [name for name, text in EXPRESSIONS.items() if not ABOUT_ETCD.search(text)])
def test_an_expression_is_about_what_the_server_exposes(server_exposed: Exposed, name: str) -> None:
    """Row N10."""
    check(EXPRESSIONS[name], server_exposed)


@pytest.mark.etcd
@pytest.mark.parametrize("name", [name for name, text in EXPRESSIONS.items() if ABOUT_ETCD.search(text)])
def test_an_expression_is_about_what_etcd_exposes(etcd_exposed: Exposed, name: str) -> None:
    check(EXPRESSIONS[name], etcd_exposed)


# The check above is only as good as what it refuses.
WRONG: Final = {
    "a metric that nobody exposes": "rate(apiserver_requests_total[5m]) > 0",
    "a label that the metric has not": 'rate(apiserver_request_total{status="500"}[5m]) > 0',
    "a sum by a label that the metric has not": "sum by (status) (rate(apiserver_request_total[5m])) > 0",
}


@pytest.mark.parametrize("expression", WRONG.values(), ids=WRONG)
def test_the_check_sees(server_exposed: Exposed, expression: str) -> None:
    with pytest.raises(AssertionError):
        check(expression, server_exposed)


@pytest.mark.parametrize("alert", RULES)
def test_an_alert_says_how_bad_it_is_and_what(alert: str) -> None:
    rule = RULES[alert]
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"]["summary"]
    assert duration_s(rule.get("for", "0")) >= 0


def test_the_loss_of_a_replica_and_of_all_are_told_apart() -> None:
    assert RULES["ApiserverGone"]["labels"]["severity"] == "critical"
    assert RULES["ApiserverReplicaDown"]["labels"]["severity"] == "warning"


def test_the_dashboard_has_ten_panels_that_fit_beside_each_other() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len(panels) == 10
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == 10
    assert all(panel["gridPos"]["x"] in (0, 12) and panel["gridPos"]["w"] == 12 for panel in panels)


@pytest.mark.parametrize(
    "panel", json.loads(DASHBOARD.read_text())["panels"], ids=lambda panel: panel["title"]
)
def test_a_panel_is_described_on_the_page_about_monitoring(panel: Any) -> None:
    assert panel["description"]
    page = (ROOT / "docs" / "operating" / "monitoring.md").read_text()
    assert re.search(rf"[|;] {panel['title']}( \||;)", page)


def test_legends_name_labels_of_their_series() -> None:
    for name, text in dashboard_expressions().items():
        shown = set(re.findall(r"{{(\w+)}}", name))
        kept = [labels for labels, _ in grouped(text)]
        assert shown <= (set.union(*kept) if kept else TARGET_LABELS), name


def test_prometheus_itself_takes_the_files(tmp_path: Path) -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is missing: it comes with Prometheus, and has to be on PATH")
    for name in ("prometheus.yml", "alerts.yml"):
        (tmp_path / name).write_text(
            (DIRECTORY / name).read_text().replace("/etc/apiserver/scrape", str(tmp_path))
        )
    for name in ("ca.crt", "token"):
        (tmp_path / name).touch()
    said = subprocess.run(
        [program, "check", "config", str(tmp_path / "prometheus.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stdout + said.stderr
