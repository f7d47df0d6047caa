"""Traces of requests: sent to an OpenTelemetry collector, and in the log of slow requests.

Source: KEP-647.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.server.test_admission_webhooks import Webhook, answer, configure
from tests.support.api import Api
from tests.support.eventually import until
from tests.support.objects import config_map, config_maps
from tests.support.server_process import ServerProcess
from tests.support.webhook_server import Reply, Review

SAMPLED: Final = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
NOT_SAMPLED: Final = SAMPLED[:-1] + "0"
TRACE_ID: Final = bytes.fromhex(SAMPLED.split("-")[1])
PARENT_ID: Final = bytes.fromhex(SAMPLED.split("-")[2])


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """A collector. spans: those that have come."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self._server = grpc.server(ThreadPoolExecutor(2))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(  # type: ignore[no-untyped-call]
            self, self._server
        )
        self.port = self._server.add_insecure_port("127.0.0.1:0")

    def Export(self, request: Any, context: Any) -> Any:
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                self.spans += scope.spans
        return trace_service_pb2.ExportTraceServiceResponse()

    def __enter__(self) -> Collector:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait()

    def of_request(self, audit_id: str) -> tuple[Span, dict[str, Span]]:
        """Returns the span of a request, and those within it by name, once they have come."""
        request = until(
            lambda: [each for each in self.spans if attributes(each).get("audit-id") == audit_id],
            bool,
            "the span of the request",
        )[0]
        return request, {each.name: each for each in self.spans if each.parent_span_id == request.span_id}


def attributes(span: Span) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector


@pytest.fixture(scope="module")
def webhook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    with Webhook(tmp_path_factory.mktemp("webhook")) as webhook:
        yield webhook


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("traced")
    configuration = directory / "tracing.yaml"
    configuration.write_text(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"
        f"endpoint: 127.0.0.1:{collector.port}\n"
    )
    with ServerProcess(
        directory / "data", f"--tracing-config-file={configuration}", "--v=3", module="apiserver"
    ) as server:
        yield server


def test_a_create_through_a_webhook_is_one_trace(
    api: Api, collector: Collector, webhook: Webhook, namespace: str
) -> None:
    configure(api, namespace, webhook.hook(namespace))
    headers = {"traceparent": SAMPLED, "Audit-Id": f"create-{namespace}"}
    api.post(config_maps(namespace), config_map("a"), headers=headers).ok()
    request, within = collector.of_request(f"create-{namespace}")
    assert (request.trace_id, request.parent_span_id) == (TRACE_ID, PARENT_ID)
    assert request.name == "POST /api/v1/namespaces/{namespace}/configmaps"
    assert request.kind == Span.SPAN_KIND_SERVER
    assert attributes(request)["http.response.status_code"] == 201
    parts = {"authentication", "authorization", "validating admission", "webhook", "storage create"}
    assert parts <= set(within)
    for span in within.values():
        assert request.start_time_unix_nano <= span.start_time_unix_nano
        assert span.start_time_unix_nano <= span.end_time_unix_nano <= request.end_time_unix_nano
    call = within["webhook"]
    assert call.kind == Span.SPAN_KIND_CLIENT
    assert attributes(call)["detail"] == f"127.0.0.1:{webhook.port}/a.example.com"
    # The webhook's own spans belong to the call.
    assert webhook.headers["traceparent"] == f"00-{TRACE_ID.hex()}-{call.span_id.hex()}-01"


def test_only_privileged_users_decide_what_is_sampled(api: Api, collector: Collector) -> None:
    """kubernetes PR 127053: others would decide about the server's costs."""
    with api.as_caller("alice-token") as alice:
        for audit_id, caller, parent in (
            ("alice", alice, SAMPLED),
            ("not-sampled", api, NOT_SAMPLED),
            ("nonsense", api, "00-0-0-01"),
            ("sampled", api, SAMPLED),
        ):
            caller.get("/version", headers={"traceparent": parent, "Audit-Id": audit_id}).ok()
    collector.of_request("sampled")
    seen = {attributes(each).get("audit-id") for each in collector.spans}
    assert seen.isdisjoint({"alice", "not-sampled", "nonsense"})


def test_a_slow_request_is_logged_with_where_its_time_went(
    api: Api, server: ServerProcess, webhook: Webhook, namespace: str
) -> None:
    async def slow(_: str, review: Review) -> Reply:
        await asyncio.sleep(0.6)
        return answer(review)

    configure(api, namespace, webhook.hook(namespace))
    webhook.replying = slow
    headers = {"Audit-Id": f"slow-{namespace}", "User-Agent": "tester/1"}
    api.post(config_maps(namespace), config_map("a"), headers=headers).ok()
    webhook.reset()

    def lines() -> list[str]:
        return re.findall(rf'slow request: (.*auditID="slow-{namespace}"\n)', server.stderr)

    (line,) = until(lines, bool, "the line")
    pattern = (
        rf"POST /api/v1/namespaces/{namespace}/configmaps took (\d+) ms: "
        rf".*webhook \(127\.0\.0\.1:{webhook.port}/a\.example\.com\) (\d+) ms, validating admission \d+ ms, "
        rf'.*other \d+ ms; user "admin", user agent "tester/1" auditID="slow-{namespace}"\n'
    )
    found = re.match(pattern, line)
    assert found, line
    assert int(found[1]) >= int(found[2]) >= 600


def test_each_request_is_logged_at_verbosity_3(api: Api, server: ServerProcess) -> None:
    api.get("/version?pretty=1", headers={"Audit-Id": "logged-1", "User-Agent": "tester/2"})
    text = until(lambda: server.stderr, lambda text: "logged-1" in text, "the line")
    assert re.search(
        r"INFO apiserver\.http: GET /version\?pretty=1: 200 after [\d.]+ ms; "
        r'user "admin", user agent "tester/2" auditID="logged-1"\n',
        text,
    )


def test_a_client_cannot_forge_fields_of_a_line(api: Api, server: ServerProcess) -> None:
    headers = {
        "Audit-Id": 'forged" auditID="other',
        "User-Agent": 'tester/3" auditID="other',
        "Impersonate-User": "alice",
    }
    api.get("/version?" + "a" * 10_000, headers=headers)
    text = until(lambda: server.stderr, lambda text: "tester/3" in text, "the line")
    line = next(each for each in text.splitlines() if "tester/3" in each)
    agent, audit_id = r'"tester/3\" auditID=\"other"', r'"forged\" auditID=\"other"'
    assert line.endswith(f'; user "admin" as "alice", user agent {agent} auditID={audit_id}')
    assert "GET /version?aaa" in line
    assert len(line) < 1_000


@pytest.mark.parametrize("agent", ["\xff\xfe", "x" * 30_000], ids=["no UTF-8", "long"])
def test_spans_are_sent_whatever_a_client_sends(api: Api, collector: Collector, agent: str) -> None:
    audit_id, path = f"agent-{len(agent)}", f"/nowhere/{'a' * len(agent)}"
    api.get(path, headers={"traceparent": SAMPLED, "Audit-Id": audit_id, "User-Agent": agent})
    request, _ = collector.of_request(audit_id)
    assert request.name == "GET"
    assert len(attributes(request)["user_agent.original"]) <= 1_024
    assert len(attributes(request)["url.path"]) <= 1_024
