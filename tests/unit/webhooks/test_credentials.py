"""What this server shows the webhooks that it calls. They are real, on this machine.

https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#authenticate-apiservers
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import web

from apiserver.app.serving import pki, pki_files
from apiserver.load.offload import Offload
from apiserver.meta.vocabulary import Document
from apiserver.webhooks.caller import AdmissionCaller
from apiserver.webhooks.client import WebhookClient
from apiserver.webhooks.client_config import ClientConfig
from apiserver.webhooks.credential_files import REREAD_S, CredentialFiles
from apiserver.webhooks.credentials import ClientCredentials, HostCredentials, PemText
from apiserver.webhooks.errors import CallFailed
from tests.support.server_thread import end

NAMES: Final = (
    *("a.b.svc:443", "*.b.svc:443", "*.svc:443", "a.b.svc", "*.b.svc", "*.svc", "*", "x.y:8443", "*.y:8443"),
)
FOUND: Final[dict[str, tuple[str, str]]] = {
    "its own": ("a.b.svc:443", "a.b.svc:443"),
    "of its domain": ("c.b.svc:443", "*.b.svc:443"),
    "of a domain further up": ("c.d.svc:443", "*.svc:443"),
    "of all others": ("a.example.com:443", "*"),
    "with another port": ("x.y:8443", "x.y:8443"),
    "of a domain, with that port": ("z.y:8443", "*.y:8443"),
    "not without the port": ("a.b.svc:8443", "*"),
}


@pytest.mark.parametrize(("target", "name"), FOUND.values(), ids=FOUND)
def test_the_most_specific_name_counts(target: str, name: str) -> None:
    credentials = HostCredentials({each: ClientCredentials(token=each) for each in NAMES})
    assert credentials.of(target).token == name


def test_names_without_port_are_of_https() -> None:
    credentials = HostCredentials({"*.svc": ClientCredentials(token="t")})
    assert credentials.of("a.b.svc:443").token == "t"
    assert credentials.of("a.b.svc:8443").are_none


def test_others_get_what_the_current_context_says() -> None:
    credentials = HostCredentials({"a": ClientCredentials()}, ClientCredentials(token="t"))
    assert credentials.of("a:443").are_none
    assert credentials.of("b:443").token == "t"


TARGETS: Final = {
    "https://a.example.com/path": "a.example.com:443",
    "https://a.example.com:8443/path": "a.example.com:8443",
    "https://[::1]/path": "[::1]:443",
    "https://[::1]:8443": "[::1]:8443",
}


@pytest.mark.parametrize(("url", "target"), TARGETS.items())
def test_whose_credentials_are_shown(url: str, target: str) -> None:
    assert ClientConfig(url, "").target == target


def test_a_service_has_its_name_and_port() -> None:
    service = {"name": "a", "namespace": "b", "port": 8443, "path": "/x"}
    assert ClientConfig.of({"service": service}).target == "a.b.svc:8443"


# ---- files


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_tokens_are_read_again(tmp_path: Path) -> None:
    clock, file = Clock(), tmp_path / "token"
    file.write_text("first\n")
    files, credentials = CredentialFiles(clock), ClientCredentials(token_file=file)

    async def shown() -> str:
        ((_, value),) = (await files.proof(credentials)).headers
        return value

    assert await shown() == "Bearer first"
    file.write_text("second")
    assert await shown() == "Bearer first", "for a while"
    clock.now += REREAD_S
    assert await shown() == "Bearer second"
    file.unlink()
    clock.now += REREAD_S
    assert await shown() == "Bearer second", "the last one that was there"


async def test_a_token_that_cannot_be_read(tmp_path: Path) -> None:
    files, missing = CredentialFiles(), tmp_path / "none"
    with pytest.raises(CallFailed, match=r"cannot read .*none: No such file"):
        await files.proof(ClientCredentials(token_file=missing))
    proof = await files.proof(ClientCredentials(token="other", token_file=missing))
    assert proof.headers == [("Authorization", "Bearer other")]


@pytest.mark.parametrize("content", [b"", b" \n", b"a\nb", b"\xff\x00"])
async def test_what_is_no_token(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(CallFailed, match="contains no token"):
        await CredentialFiles().proof(ClientCredentials(token_file=file))


# ---- calls


class NoServices:
    async def service(self, namespace: str, name: str) -> Document | None:
        return None

    async def slices(self, namespace: str, service: str) -> list[Document]:
        return []


class Seen:
    headers: Mapping[str, str] = {}
    certificate: Any = None


@asynccontextmanager
async def serving(certificates: pki_files.Pki) -> AsyncIterator[tuple[ClientConfig, Seen]]:
    """A webhook that asks for certificates, and what it has seen of the last call."""
    seen = Seen()

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        seen.headers, seen.certificate = request.headers, request.transport.get_extra_info("peercert")
        response = web.json_response({})
        response.force_close()
        return response

    runner = web.ServerRunner(web.Server(handle), shutdown_timeout=0.1)
    await runner.setup()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificates.ca_cert))
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_cert_chain(certificates.serving_cert, certificates.serving_key)
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    port = runner.addresses[0][1]
    bundle = base64.b64encode(certificates.ca_cert.read_bytes()).decode()
    try:
        yield ClientConfig(f"https://127.0.0.1:{port}/call", bundle), seen
    finally:
        await end(runner)


@asynccontextmanager
async def calling(credentials: ClientCredentials) -> AsyncIterator[AdmissionCaller]:
    offload = Offload()
    http = WebhookClient(offload, NoServices())
    try:
        yield AdmissionCaller(http, HostCredentials({}, credentials))
    finally:
        await http.close()
        offload.close()


@pytest.fixture
def certificates(tmp_path: Path) -> pki_files.Pki:
    return pki.ensure(tmp_path, ["127.0.0.1"])


HEADERS: Final[dict[str, tuple[ClientCredentials, dict[str, str]]]] = {
    "none": (ClientCredentials(), {}),
    "a token": (ClientCredentials(token="t"), {"Authorization": "Bearer t"}),
    "a password": (
        ClientCredentials(basic=("u", "p")),
        {"Authorization": f"Basic {base64.b64encode(b'u:p').decode()}"},
    ),
    "impersonation": (ClientCredentials(headers=(("Impersonate-User", "u"),)), {"Impersonate-User": "u"}),
}


@pytest.mark.parametrize(("credentials", "headers"), HEADERS.values(), ids=HEADERS)
async def test_what_webhooks_are_shown(
    certificates: pki_files.Pki, credentials: ClientCredentials, headers: dict[str, str]
) -> None:
    async with serving(certificates) as (client, seen), calling(credentials) as caller:
        await caller.post(client, b"{}", 30)
        sent = {
            name: seen.headers[name] for name in ("Authorization", "Impersonate-User") if name in seen.headers
        }
        assert sent == headers
        assert seen.headers["Content-Type"] == "application/json"
        assert seen.certificate is None


@pytest.mark.parametrize("is_inline", [False, True])
async def test_a_client_certificate(certificates: pki_files.Pki, *, is_inline: bool) -> None:
    paths = (certificates.admin_cert, certificates.admin_key)
    certificate, key = (
        PemText(text=path.read_bytes()) if is_inline else PemText(path=path) for path in paths
    )
    async with (
        serving(certificates) as (client, seen),
        calling(ClientCredentials(certificate=(certificate, key))) as caller,
    ):
        await caller.post(client, b"{}", 30)
        subject = {name: value for ((name, value),) in seen.certificate["subject"]}
        assert subject["commonName"]


async def test_a_certificate_that_is_none(certificates: pki_files.Pki) -> None:
    garbage = PemText(text=b"garbage")
    async with (
        serving(certificates) as (client, _),
        calling(ClientCredentials(certificate=(garbage, garbage))) as caller,
    ):
        with pytest.raises(CallFailed, match="unable to load the client certificate"):
            await caller.post(client, b"{}", 30)


async def test_an_empty_file_of_authorities_does_not_stand_for_those_of_the_system(tmp_path: Path) -> None:
    empty = tmp_path / "ca.crt"
    empty.touch()
    with pytest.raises(CallFailed, match="is empty"):
        await CredentialFiles().pem(PemText(path=empty))
