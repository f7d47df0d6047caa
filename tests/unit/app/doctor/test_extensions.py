"""Findings about webhooks and extension API servers, and connections to them."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import http.server
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from apiserver.app.doctor.extensions import (
    REACH_WITHIN_S,
    Attempt,
    Extension,
    ExtensionFacts,
    Unread,
    examine,
    gather,
)
from apiserver.cli.api_client import RequestFailed
from apiserver.cli.server_options import ServerOptions
from apiserver.meta.brand import Brand
from apiserver.webhooks.client_config import ClientConfig
from tests.support.authority import Authority
from tests.support.https_answers import serving
from tests.support.ports import free_port
from tests.unit.app.doctor.findings import problems, told

NOW: Final = datetime.datetime(2027, 3, 1, tzinfo=datetime.UTC)
HOOK: Final = Extension("webhook a", ClientConfig("https://a.ns.svc:443/x", ""))
REFUSED: Final = "webhook a cannot be reached at a.ns.svc:443: refused"
FROM_HERE: Final = "webhook a cannot be reached from this machine at a.ns.svc:443: refused"
ABSENT: Final = 'webhook a cannot be reached at a.ns.svc:443: service "a" not found'
SICK: Final[dict[str, tuple[ExtensionFacts, list[tuple[str, str]]]]] = {
    "none": (ExtensionFacts([]), [("OK", "there are no webhooks and no extension API servers")]),
    "healthy": (
        ExtensionFacts([(HOOK, Attempt())]),
        [("OK", "1 webhooks and APIServices can be reached from this machine")],
    ),
    "required": (ExtensionFacts([(HOOK, Attempt("refused"))], is_local=True), [("ERROR", REFUSED)]),
    "not required": (
        ExtensionFacts([(HOOK._replace(is_required=False), Attempt("refused"))], is_local=True),
        [("WARNING", REFUSED)],
    ),
    "from another machine": (
        ExtensionFacts([(HOOK, Attempt("refused"))]),
        [("WARNING", FROM_HERE)],
    ),
    "wrong on every machine": (
        ExtensionFacts([(HOOK, Attempt('service "a" not found', is_certain=True))]),
        [("ERROR", ABSENT)],
    ),
    "a URL with a password": (
        ExtensionFacts(
            [(HOOK._replace(client=ClientConfig("https://user:secret@a.ns.svc/x", "")), Attempt("refused"))]
        ),
        [("WARNING", FROM_HERE)],
    ),
    "not tried": (
        ExtensionFacts([(HOOK, Attempt("refused"))], untried=80),
        [
            ("WARNING", FROM_HERE),
            ("WARNING", "80 webhooks and APIServices were not checked: other connections took too long"),
        ],
    ),
    "none tried": (
        ExtensionFacts([], untried=1),
        [("WARNING", "1 webhooks and APIServices were not checked: other connections took too long")],
    ),
    "found unavailable by the server": (
        ExtensionFacts([(HOOK._replace(reported="MissingEndpoints: none"), Attempt())]),
        [("ERROR", "webhook a cannot be reached at a.ns.svc:443: MissingEndpoints: none")],
    ),
    "no permission": (
        ExtensionFacts([], [Unread("apiservices cannot be listed: forbidden", 403), Unread("x: 500", 500)]),
        [
            ("NOTE", "apiservices cannot be listed: forbidden"),
            ("WARNING", "x: 500"),
        ],
    ),
    "a bundle that is none": (
        ExtensionFacts(
            [(HOOK._replace(client=HOOK.client._replace(ca_bundle="anVuaw==")), Attempt("refused"))]
        ),
        [
            ("WARNING", FROM_HERE),
            (
                "ERROR",
                "the caBundle of webhook a cannot be used: no PEM certificate was found",
            ),
        ],
    ),
}


@pytest.mark.parametrize(("facts", "found"), SICK.values(), ids=SICK)
def test_findings(facts: ExtensionFacts, found: list[tuple[str, str]]) -> None:
    assert told(examine(facts, NOW)) == found


# ---- connections


class Api(http.server.BaseHTTPRequestHandler):
    """Answers as an API server with some lists. documents: by path."""

    documents: dict[str, Any]

    def do_GET(self) -> None:
        document = self.documents.get(urlsplit(self.path).path)
        content = json.dumps(document or {"message": "not found"}).encode()
        self.send_response(200 if document else 404)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


class Silent(http.server.BaseHTTPRequestHandler):
    """Only makes handshakes."""

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki") / "right")


@pytest.fixture(scope="module")
def webhook(authority: Authority) -> Iterator[int]:
    """The port of a webhook, whose certificate has the name of a Service."""
    with serving(authority.issue("webhook", "hook.ns.svc"), Silent) as url:
        yield urlsplit(url).port or 0


def service(port: int) -> dict[str, Any]:
    """The documents of a Service with one endpoint on this machine."""
    core, slices = (
        "/api/v1/namespaces/ns/services/hook",
        "/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices",
    )
    endpoint = {"addresses": ["127.0.0.1"], "conditions": {"ready": True}}
    return {
        core: {"spec": {"ports": [{"port": 443}]}},
        slices: {"items": [{"addressType": "IPv4", "ports": [{"port": port}], "endpoints": [endpoint]}]},
    }


def configuration(client_config: dict[str, Any]) -> dict[str, Any]:
    hook = {"name": "h.example.com", "clientConfig": client_config}
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    return {path: {"items": [{"metadata": {"name": "c"}, "webhooks": [hook]}]}}


NAME: Final = "webhook h.example.com of validatingwebhookconfigurations/c"
# What is wrong, with the documents of the server, by the port of the webhook and the CA bundle.
TO_SERVICE: Final = {"service": {"namespace": "ns", "name": "hook"}}
SERVERS: Final[dict[str, tuple[dict[str, Any], bool, str]]] = {
    "a service that answers": (TO_SERVICE, True, ""),
    "a service that does not exist": (
        {"service": {"namespace": "ns", "name": "other"}},
        True,
        f'{NAME} cannot be reached at other.ns.svc:443: service "other" not found',
    ),
    "a port that the service does not have": (
        {"service": {"namespace": "ns", "name": "hook", "port": 8443}},
        True,
        f'{NAME} cannot be reached at hook.ns.svc:8443: no service port 8443 found for service "hook"',
    ),
    "another authority": (
        TO_SERVICE,
        False,
        (
            f"{NAME} cannot be reached at hook.ns.svc:443: the server's certificate is not trusted: "
            "unable to get local issuer certificate"
        ),
    ),
    "a URL that answers": ({"url": "https://127.0.0.1:PORT/x"}, True, ""),
    "a URL that refuses": (
        {"url": "https://127.0.0.1:FREE/x"},
        True,
        f"{NAME} cannot be reached at 127.0.0.1:FREE: Connect call failed ('127.0.0.1', FREE)",
    ),
    "a URL with another name": (
        {"url": "https://localhost:PORT/x"},
        True,
        (
            f"{NAME} cannot be reached at localhost:PORT: the server's certificate is not trusted: "
            "Hostname mismatch, "
            "certificate is not valid for 'localhost'."
        ),
    ),
}


@pytest.mark.parametrize(("client_config", "is_trusted", "problem"), SERVERS.values(), ids=SERVERS)
async def test_a_webhook_is_called(
    tmp_path: Path,
    authority: Authority,
    webhook: int,
    client_config: dict[str, Any],
    is_trusted: bool,
    problem: str,
) -> None:
    free = str(free_port())
    trusted = authority if is_trusted else Authority(tmp_path / "other")
    bundle = base64.b64encode(trusted.ca.read_bytes()).decode()
    text = (
        json.dumps({**client_config, "caBundle": bundle}).replace("PORT", str(webhook)).replace("FREE", free)
    )

    class Server(Api):
        documents = {**service(webhook), **configuration(json.loads(text))}

    with serving(authority.issue("server"), Server) as url:
        options = ServerOptions(server=url, certificate_authority=authority.ca, otherwise=tmp_path / "none")
        facts = await gather(options, Brand(), lambda: True)
    found = problems(examine(facts, datetime.datetime.now(datetime.UTC)))
    unlisted = [
        (severity, message.partition(" ")[0]) for severity, message in found if "cannot be listed" in message
    ]
    assert unlisted == [
        ("WARNING", "mutatingwebhookconfigurations"),
        ("WARNING", "customresourcedefinitions"),
        ("WARNING", "apiservices"),
    ]
    expected = problem.replace("PORT", str(webhook)).replace("FREE", free)
    assert [message for severity, message in found if severity == "ERROR"] == ([expected] if problem else [])


async def test_conversion_webhooks_and_api_services(
    tmp_path: Path, authority: Authority, webhook: int
) -> None:
    bundle = base64.b64encode(authority.ca.read_bytes()).decode()
    client_config = {**TO_SERVICE, "caBundle": bundle}
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": client_config}}
    definitions = [
        {"metadata": {"name": "plain"}, "spec": {"conversion": {"strategy": "None"}}},
        {"metadata": {"name": "converted"}, "spec": {"conversion": conversion}},
    ]
    missing = {"type": "Available", "status": "False", "reason": "MissingEndpoints", "message": "none"}
    api_services = [
        {"metadata": {"name": "v1."}, "spec": {"group": "", "version": "v1"}},
        {
            "metadata": {"name": "v1.x"},
            "spec": {"group": "x", "version": "v1", "caBundle": bundle, "service": TO_SERVICE["service"]},
            "status": {"conditions": [missing]},
        },
    ]

    class Server(Api):
        documents = {
            **service(webhook),
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": {"items": definitions},
            "/apis/apiregistration.k8s.io/v1/apiservices": {"items": api_services},
        }

    with serving(authority.issue("server"), Server) as url:
        options = ServerOptions(server=url, certificate_authority=authority.ca, otherwise=tmp_path / "none")
        facts = await gather(options, Brand())
    assert [(extension.name, problem, extension.reported) for extension, problem in facts.reached] == [
        ("the conversion webhook of customresourcedefinitions/converted", Attempt(), ""),
        ("apiservices/v1.x", Attempt(), "MissingEndpoints: none"),
    ]
    assert not facts.is_local


def hooks(*urls: str) -> dict[str, Any]:
    """Documents of webhooks with some URLs."""
    webhooks = [{"name": f"h{n}", "clientConfig": {"url": url}} for n, url in enumerate(urls)]
    paths = ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")
    lists = [{"items": [{"metadata": {"name": "c"}, "webhooks": webhooks}]}, {"items": []}]
    return {
        f"/apis/admissionregistration.k8s.io/v1/{path}": found
        for path, found in zip(paths, lists, strict=True)
    }


async def found_of(
    documents: dict[str, Any], authority: Authority, directory: Path, reach_within_s: float = REACH_WITHIN_S
) -> ExtensionFacts:
    class Server(Api):
        pass

    Server.documents = documents
    with serving(authority.issue("server"), Server) as url:
        options = ServerOptions(server=url, certificate_authority=authority.ca, otherwise=directory / "none")
        return await gather(options, Brand(), reach_within_s=reach_within_s)


async def test_webhooks_that_hang_leave_the_findings_of_others(authority: Authority, tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        urls = [f"https://127.0.0.1:{each.getsockname()[1]}/x" for each in silent]
        named = hooks(f"https://127.0.0.1:{free_port()}", *urls)
        facts = await found_of(named, authority, tmp_path, reach_within_s=1.5)
    assert facts.untried == 3
    ((extension, attempt),) = facts.reached
    assert extension.name.startswith("webhook h0 ")
    assert attempt.problem


async def test_webhooks_with_one_server_need_one_connection(authority: Authority, tmp_path: Path) -> None:
    connections = 0

    async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        writer.close()

    async with await asyncio.start_server(close, "127.0.0.1", 0) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        facts = await found_of(hooks(*(f"{url}/{n}" for n in range(100))), authority, tmp_path)
    assert [len(facts.reached), connections] == [100, 1]
    assert len({each for _, each in facts.reached}) == 1


async def test_a_list_that_cannot_be_read_leaves_the_others(authority: Authority, tmp_path: Path) -> None:
    documents = hooks(f"https://127.0.0.1:{free_port()}")
    documents["/apis/apiextensions.k8s.io/v1/customresourcedefinitions"] = {"items": [5]}
    facts = await found_of(documents, authority, tmp_path)
    assert len(facts.reached) == 1
    assert facts.unread == [
        Unread("customresourcedefinitions cannot be listed: the response is not valid"),
        Unread("apiservices cannot be listed: not found", 404),
    ]


async def test_a_server_that_is_away_is_named_once(tmp_path: Path) -> None:
    options = ServerOptions(server=f"https://127.0.0.1:{free_port()}", otherwise=tmp_path / "none")
    with pytest.raises(RequestFailed, match="Connection refused"):
        await gather(options, Brand())
