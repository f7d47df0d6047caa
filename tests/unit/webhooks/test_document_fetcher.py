"""What is fetched from identity providers, and what ends the wait for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Final

import psutil
import pytest
from aiohttp import web

from apiserver.auth.authn.discovery_documents import ProviderFailed
from apiserver.webhooks.document_fetcher import DOCUMENT_BYTES_MAX, DocumentFetcher
from tests.support.eventually import eventually
from tests.support.openid_provider import DISCOVERY, OpenIdProvider, never


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenIdProvider]:
    with OpenIdProvider(tmp_path_factory.mktemp("provider")) as provider:
        yield provider


@asynccontextmanager
async def fetching(provider: OpenIdProvider, fetcher: DocumentFetcher) -> AsyncIterator[DocumentFetcher]:
    """Closes the fetcher. A connection that was given up ends when the provider has said so, too."""
    try:
        yield fetcher
    finally:
        await fetcher.close()
        await eventually(lambda: not connections_to(provider))


def connections_to(provider: OpenIdProvider) -> list[object]:
    every = psutil.Process().net_connections("tcp")
    return [each for each in every if each.raddr and each.raddr[1] == provider.port]


@pytest.fixture
async def fetch(provider: OpenIdProvider) -> AsyncIterator[DocumentFetcher]:
    async with fetching(provider, DocumentFetcher()) as fetcher:
        yield fetcher


def answering(provider: OpenIdProvider, **responses: Callable[[], web.Response]) -> None:
    """Have the provider answer to paths, which are named without their slash."""

    async def answer(path: str) -> web.StreamResponse | None:
        make = responses.get(path.removeprefix("/"))
        return None if make is None else make()

    provider.failing = answer


def authorities(provider: OpenIdProvider) -> str:
    return provider.pki.ca_cert.read_text()


async def test_a_document_is_fetched(provider: OpenIdProvider, fetch: DocumentFetcher) -> None:
    answering(provider)
    assert b'"jwks_uri"' in await fetch(provider.issuer + DISCOVERY, authorities(provider))


async def test_redirections_are_followed_a_little(provider: OpenIdProvider, fetch: DocumentFetcher) -> None:
    answering(
        provider,
        a=lambda: web.Response(status=302, headers={"Location": DISCOVERY}),
        b=lambda: web.Response(status=307, headers={"Location": "/b"}),
    )
    assert b'"jwks_uri"' in await fetch(f"{provider.issuer}/a", authorities(provider))
    with pytest.raises(ProviderFailed, match="stopped after 3 redirects"):
        await fetch(f"{provider.issuer}/b", authorities(provider))


FAILURES: Final[dict[str, tuple[Callable[[], web.Response], str]]] = {
    "not there": (lambda: web.Response(status=404), "unexpected status code 404"),
    "a redirection without https": (
        lambda: web.Response(status=302, headers={"Location": "http://127.0.0.1/x"}),
        "a URL without https",
    ),
    "a redirection to nowhere": (lambda: web.Response(status=302), "unexpected status code 302"),
    "a huge document": (
        lambda: web.Response(body=b" " * (DOCUMENT_BYTES_MAX + 1)),
        "is longer than 1048576 bytes",
    ),
    "a compressed document": (
        lambda: web.Response(body=b"x", headers={"Content-Encoding": "gzip"}),
        "compressed",
    ),
}


@pytest.mark.parametrize(("response", "why"), FAILURES.values(), ids=FAILURES)
async def test_what_is_no_document(
    provider: OpenIdProvider, fetch: DocumentFetcher, response: Callable[[], web.Response], why: str
) -> None:
    answering(provider, x=response)
    with pytest.raises(ProviderFailed, match=why):
        await fetch(f"{provider.issuer}/x", authorities(provider))


async def test_a_provider_that_does_not_answer(provider: OpenIdProvider) -> None:
    provider.failing = never
    async with fetching(provider, DocumentFetcher(timeout_s=0.1)) as fetch:
        with pytest.raises(ProviderFailed, match="context deadline exceeded"):
            await fetch(provider.issuer + DISCOVERY, authorities(provider))


async def test_a_provider_that_nobody_vouches_for(provider: OpenIdProvider, fetch: DocumentFetcher) -> None:
    answering(provider)
    with pytest.raises(ProviderFailed, match="certificate verify failed"):
        await fetch(provider.issuer + DISCOVERY, "")


async def test_a_provider_that_is_down(fetch: DocumentFetcher) -> None:
    with pytest.raises(ProviderFailed, match=r"127\.0\.0\.1:1"):
        await fetch("https://127.0.0.1:1/x", "")
