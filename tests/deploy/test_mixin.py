"""Prometheus evaluates expressions on a server under load: kubernetes-mixin's, and those of our own files.

Source of the selectors: github.com/kubernetes-monitoring/kubernetes-mixin at aa38e2b (2026-08-06), the files
about the API server: alerts/kube_apiserver.libsonnet, alerts/system_alerts.libsonnet,
rules/kube_apiserver-*.libsonnet and dashboards/apiserver.libsonnet. The table has what these files read from
a server, not their expressions, which combine recording rules over 30 days.
"""

from __future__ import annotations

import base64
import math
import ssl
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import promql_parser as promql
import pytest
import yaml
from aiohttp import web

from apiserver.metrics.declarations import not_served
from tests.deploy.artefacts import ALERTS, alert_rules, dashboard_expressions
from tests.support.api import Api
from tests.support.api_services import SERVICE, SERVICES, external_name, register, until_available
from tests.support.eventually import until
from tests.support.https_server import HttpsServer
from tests.support.prometheus_process import PrometheusProcess
from tests.support.rbac import grant, rule
from tests.support.server_process import ServerProcess

JOB: Final = 'job="apiserver"'
READ: Final = 'verb=~"LIST|GET"'
WRITE: Final = 'verb=~"POST|PUT|PATCH|DELETE"'
REQUESTS: Final = 'verb=~"LIST|GET|POST|PUT|PATCH|DELETE"'
# What does not hold a connection open.
SHORT: Final = 'subresource!~"proxy|attach|log|exec|portforward"'
SECOND: Final = r'le=~"1(\\.0)?"'
SLI: Final = "apiserver_request_sli_duration_seconds"
QUEUES: Final = "workqueue_queue_duration_seconds"


class Selection(NamedTuple):
    """What an expression selects. labels: those that it keeps, or joins by. is_rate: of a counter."""

    metric: str
    matchers: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    is_rate: bool = True

    @property
    def expression(self) -> str:
        selector = f"{self.metric}{{{','.join((JOB, *self.matchers))}}}"
        values = f"rate({selector}[5m])" if self.is_rate else selector
        return f"sum by ({','.join(self.labels)}) ({values})"


SELECTIONS: Final = {
    "burn rate: reads": Selection(f"{SLI}_count", (READ, SHORT)),
    "burn rate: fast reads of an object": Selection(
        f"{SLI}_bucket", (READ, SHORT, 'scope=~"resource|"', SECOND)
    ),
    "burn rate: fast lists of a namespace": Selection(
        f"{SLI}_bucket", (READ, SHORT, 'scope="namespace"', r'le=~"5(\\.0)?"')
    ),
    "burn rate: fast lists of all": Selection(
        f"{SLI}_bucket", (READ, SHORT, 'scope="cluster"', r'le=~"30(\\.0)?"')
    ),
    "burn rate: failed reads": Selection("apiserver_request_total", (READ, 'code=~"5.."')),
    "burn rate: writes": Selection(f"{SLI}_count", (WRITE, SHORT)),
    "burn rate: fast writes": Selection(f"{SLI}_bucket", (WRITE, SHORT, SECOND)),
    "burn rate: failed writes": Selection("apiserver_request_total", (WRITE, 'code=~"5.."')),
    "availability: durations": Selection(f"{SLI}_bucket", (), ("verb", "scope", "le")),
    "availability: all durations": Selection(f"{SLI}_bucket", ('le="+Inf"',), ("verb", "scope")),
    "availability: reads by resource": Selection("apiserver_request_total", (READ,), ("code", "resource")),
    "availability: writes by resource": Selection("apiserver_request_total", (WRITE,), ("code", "resource")),
    **{
        f"availability: codes {code}": Selection(
            "apiserver_request_total", (REQUESTS, f'code=~"{code}"'), ("code", "verb")
        )
        for code in ("2..", "4..", "5..")
    },
    "quantiles of reads": Selection(f"{SLI}_bucket", (READ, SHORT), ("le", "resource")),
    "quantiles of writes": Selection(f"{SLI}_bucket", (WRITE, SHORT), ("le", "resource")),
    "KubeClientCertificateExpiration: buckets": Selection(
        "apiserver_client_certificate_expiration_seconds_bucket", (), ("job", "instance", "le")
    ),
    "KubeClientCertificateExpiration: count": Selection(
        "apiserver_client_certificate_expiration_seconds_count", (), ("job", "instance"), is_rate=False
    ),
    "KubeAggregatedAPIErrors": Selection(
        "aggregator_unavailable_apiservice_total", (), ("instance", "name", "reason")
    ),
    "KubeAggregatedAPIDown": Selection("aggregator_unavailable_apiservice", (), ("name",), is_rate=False),
    "KubeAPIDown": Selection("up", (), (), is_rate=False),
    "KubeAPITerminatedRequests": Selection("apiserver_request_terminations_total"),
    "KubeVersionMismatch": Selection("kubernetes_build_info", (), ("git_version",), is_rate=False),
    "dashboard: added to work queues": Selection("workqueue_adds_total", (), ("instance", "name")),
    "dashboard: depth of work queues": Selection("workqueue_depth", (), ("instance", "name")),
    "dashboard: latency of work queues": Selection(f"{QUEUES}_bucket", (), ("instance", "name", "le")),
    "dashboard: memory": Selection("process_resident_memory_bytes", (), ("instance",), is_rate=False),
    "dashboard: processors": Selection("process_cpu_seconds_total", (), ("instance",)),
}
# What the mixin reads, too, and this server does not have.
NOT_SERVED: Final = ("go_goroutines", "rest_client_requests_total")
# The series of our own dashboard that a healthy server may not have.
MAY_BE_EMPTY: Final = {
    "Watch cache lag: read wait of {{instance}}",
    "Usage of limits: memory of {{instance}}",
    "Slow webhooks: conversion of {{crd_name}}",
    "Rejections: 429 {{priority_level}}: {{reason}}",
    "Rejections: 429 memory: {{kind}}",
}
# The alerts that measure nothing on a healthy server, and why.
NOT_MEASURED: Final = {
    "ApiserverErrors": "no request has failed",
    "ApiserverThrottles": "no request was rejected",
    "ApiserverMemory": "the memory has no limit",
    "ApiserverWebhookFailures": "no webhook was called",
    "ApiserverWebhookSlow": "no webhook was called",
    "ApiserverConversionWebhookFailures": "no webhook was called",
    "ApiserverAuthorizationWebhookFailures": "no webhook was called",
    "ApiserverKmsErrors": "no KMS plugin was called",
}
# The alerts that a busy machine gives, too.
OF_SPEED: Final = ("ApiserverSlow", "ApiserverSlowLists", "ApiserverStoreSlow")
SCRAPES_MIN: Final = 5
NAMESPACE: Final = "/api/v1/namespaces/default"
WEBHOOKS: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
# No server: nothing listens on this port.
BROKEN_WEBHOOK: Final[dict[str, Any]] = {
    "name": "broken.example.com",
    "clientConfig": {"url": "https://127.0.0.1:1/"},
    "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}


class Extension(HttpsServer):
    """An extension API server that answers each request."""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({})


def lose_an_extension(api: Api, port: int) -> None:
    """Register an extension API server, and delete its Service once it is available."""
    external_name(api)
    path = register(api, "gone.example.com", port, ca=None)
    until_available(api, path)
    api.delete(f"{SERVICES}/{SERVICE}").ok()
    until_available(api, path, "False")


def present_certificate(server: ServerProcess, directory: Path) -> None:
    """Send a request with the client certificate of the administrator."""
    user = yaml.safe_load(server.kubeconfig.read_text())["users"][0]["user"]
    path = directory / "admin.pem"
    path.write_bytes(
        b"\n".join(base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key"))
    )
    context = ssl.create_default_context(cafile=server.ca_path)
    context.load_cert_chain(path)
    with urllib.request.urlopen(f"{server.url}/version", context=context) as answer:
        assert answer.status == 200


def act(api: Api, as_alice: dict[str, str]) -> None:
    """Send requests of each kind; some of them fail. as_alice: the headers of a user with limited seats."""
    path = f"{NAMESPACE}/configmaps"
    api.post(path, {"metadata": {"name": "a"}}).ok()
    api.get(f"{path}/a", headers=as_alice).ok()
    api.put(f"{path}/a", {"metadata": {"name": "a"}, "data": {"k": "v"}}).ok()
    api.patch(f"{path}/a", {"data": {"k": "w"}}).ok()
    api.get(path).ok()
    api.get("/api/v1/configmaps").ok()
    api.delete(f"{path}/a").ok()
    assert api.get(f"{path}/a").status == 404
    assert api.post(f"{NAMESPACE}/secrets", {"metadata": {"name": "a"}}).status == 500
    assert api.get("/apis/gone.example.com/v1/things").status == 503


def await_scrapes(prometheus: PrometheusProcess, series: str, use: Callable[[], None]) -> None:
    """Use the server again and again until there are enough samples of a series."""

    def scrapes() -> float:
        use()
        found = prometheus.query(f"sum(count_over_time({series}[5m]))")
        return found[0][1] if found else 0.0

    until(scrapes, lambda count: count >= SCRAPES_MIN, "the server is scraped")


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusProcess]:
    """A Prometheus that has scraped a server under load, and evaluates our alerts."""
    directory = tmp_path_factory.mktemp("mixin")
    with (
        ServerProcess(directory / "data") as server,
        PrometheusProcess(directory, server, ALERTS) as prometheus,
        Api(server) as api,
        Extension(directory / "extension") as extension,
    ):
        present_certificate(server, directory)
        api.post(WEBHOOKS, {"metadata": {"name": "broken"}, "webhooks": [BROKEN_WEBHOOK]}).ok()
        as_alice = grant(api, "default", "alice", rule("get", "configmaps"))
        lose_an_extension(api, extension.port)

        def use() -> None:
            act(api, as_alice)
            present_certificate(server, directory)

        await_scrapes(prometheus, "apiserver_request_terminations_total", use)
        yield prometheus


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusProcess]:
    """A Prometheus that has scraped a healthy server while a client uses it."""
    directory = tmp_path_factory.mktemp("undisturbed")
    with (
        ServerProcess(directory / "data") as server,
        PrometheusProcess(directory, server, ALERTS) as prometheus,
        Api(server) as api,
    ):
        path = f"{NAMESPACE}/configmaps"

        def use() -> None:
            api.post(path, {"metadata": {"name": "a"}}).ok()
            api.get(path).ok()
            api.delete(f"{path}/a").ok()

        await_scrapes(prometheus, 'up{job="apiserver"}', use)
        yield prometheus


def measured(expression: str) -> list[str]:
    """What the comparisons of an alert's expression compare with their limits."""
    found = promql.parse(expression)
    if not isinstance(found, promql.BinaryExpr):
        return []
    if str(found.op) in ("or", "unless"):
        return [text for side in (found.lhs, found.rhs) for text in measured(side.prettify())]
    return [found.lhs.prettify()]


@pytest.mark.parametrize("selection", SELECTIONS.values(), ids=SELECTIONS)
def test_what_the_mixin_selects_has_data(prometheus: PrometheusProcess, selection: Selection) -> None:
    found = prometheus.query(selection.expression)
    assert found
    assert {label for labels, _ in found for label in labels} == set(selection.labels)


def share_of_errors(fast: tuple[str, ...], every: str, failed: str) -> str:
    """The rate at which requests use up the error budget: those that are slow, and those that fail."""
    of = {name: SELECTIONS[name].expression for name in (*fast, every, failed)}
    verbs, _ = SELECTIONS[every].matchers
    total = Selection("apiserver_request_total", (verbs,))
    return f"(({of[every]} - ({' + '.join(of[name] for name in fast)})) + {of[failed]}) / {total.expression}"


BURN_RATES: Final = {
    "read": share_of_errors(
        (
            "burn rate: fast reads of an object",
            "burn rate: fast lists of a namespace",
            "burn rate: fast lists of all",
        ),
        "burn rate: reads",
        "burn rate: failed reads",
    ),
    "write": share_of_errors(("burn rate: fast writes",), "burn rate: writes", "burn rate: failed writes"),
}


@pytest.mark.parametrize("expression", BURN_RATES.values(), ids=BURN_RATES)
def test_the_burn_rate_is_a_share_of_the_requests(prometheus: PrometheusProcess, expression: str) -> None:
    """Some of the requests fail: it is neither 0 nor 1."""
    ((_, value),) = prometheus.query(expression)
    assert 0 < value < 1


@pytest.mark.parametrize("metric", NOT_SERVED)
def test_what_the_mixin_selects_and_is_not_served_has_a_reason(metric: str) -> None:
    assert metric in {each.name for missing in not_served().values() for each in missing}


@pytest.mark.parametrize("name", dashboard_expressions())
def test_a_panel_shows_data(prometheus: PrometheusProcess, name: str) -> None:
    found = prometheus.query(dashboard_expressions()[name])
    assert found or name in MAY_BE_EMPTY
    assert all(
        math.isfinite(value) or "histogram_quantile" in dashboard_expressions()[name] for _, value in found
    )


OF_SERVER: Final = {name: rule for name, rule in alert_rules().items() if name.startswith("Apiserver")}


@pytest.mark.parametrize("alert", OF_SERVER)
def test_a_healthy_server_is_measured_and_gives_no_alarm(undisturbed: PrometheusProcess, alert: str) -> None:
    """Nor does an alert only wait for its time to pass."""
    expression = OF_SERVER[alert]["expr"]
    assert alert in OF_SPEED or undisturbed.query(expression) == []
    values = [undisturbed.query(each) for each in measured(expression)]
    assert any(values) is (alert not in NOT_MEASURED)


def test_prometheus_evaluates_the_alerts(prometheus: PrometheusProcess) -> None:
    def evaluated() -> dict[str, tuple[str, str]]:
        return {rule["name"]: (rule["health"], rule.get("lastError", "")) for rule in prometheus.rules()}

    found = until(evaluated, lambda rules: all(health != "unknown" for health, _ in rules.values()), "all")
    assert found == dict.fromkeys(alert_rules(), ("ok", ""))
