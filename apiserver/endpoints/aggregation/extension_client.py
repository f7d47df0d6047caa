"""Calls extension servers for this server's own needs, and chooses the endpoints of forwarded requests."""

from __future__ import annotations

import asyncio
import os
import random
import ssl
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import aiohttp
from aiohttp import hdrs
from yarl import URL

from apiserver.endpoints.aggregation.identity_headers import identity_headers
from apiserver.endpoints.aggregation.remote_versions import RemoteVersion, ServiceReference
from apiserver.meta.vocabulary import SYSTEM_MASTERS, IPNetwork, UserInfo
from apiserver.webhooks.addresses import PROXY_FLAG, AddressDenied, AddressRules, CheckedResolver
from apiserver.webhooks.errors import ServiceUnreachable
from apiserver.webhooks.service_resolver import ServiceLocation, ServiceLookup, locate
from apiserver.webhooks.tls import UnusableBundle, client_context, load_certificate, unverified_context

# As whom this server asks. The group makes certain that it may.
AGGREGATOR: Final = UserInfo("system:kube-aggregator", (SYSTEM_MASTERS,))
# To all extension servers together.
CONNECTIONS_MAX: Final = 100
# Each holds the authorities of one bundle. The least recently used are forgotten.
CONTEXTS_MAX: Final = 100
# How long a service is taken to be where it was: all EndpointSlices of its namespace are looked at for that.
LOCATION_TTL_S: Final = 0.5
# If there are more, all are forgotten.
LOCATIONS_MAX: Final = 1_000
# How long the address of an ExternalName is taken to be right.
DNS_TTL_S: Final = 1
HEADER_BYTES_MAX: Final = 64 * 1024
_READ_BYTES: Final = 64 * 1024

# The CA bundle, whether it is looked at, and what is shown.
_ContextKey: TypeAlias = tuple[str, bool, tuple[bytes, bytes]]


class Endpoint(NamedTuple):
    """An endpoint of an extension server. host: an address, or the name of an ExternalName."""

    host: str
    port: int

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ExtensionResponse(NamedTuple):
    """The response of an extension server. url: the requested one. headers: names in lower case."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionRequest:
    """A request to an extension server.

    path: with the query. bytes_max: the limit of the response's body; 0 if that is not needed.
    timeout_s: the limit for the whole response.
    verifies: whether to verify the server's certificate, if the version requires that.
    """

    path: str
    method: str = "GET"
    headers: Sequence[tuple[str, str]] = ()
    bytes_max: int
    timeout_s: float
    verifies: bool = True


class ExtensionFailed(Exception):
    """An extension server cannot be reached, or has not responded within bounds; the message is for
    people.
    """


class ExtensionClient:
    """The HTTP client with which this server calls extension servers.

    certificate: that of this server as a front proxy, with its key, as PEM.
    denied: addresses that are never connected to.
    """

    def __init__(
        self, services: ServiceLookup, certificate: tuple[bytes, bytes], denied: Sequence[IPNetwork] = ()
    ) -> None:
        self.services = services
        self._certificate = certificate
        self._rules = AddressRules(denied, PROXY_FLAG)
        self._session: aiohttp.ClientSession | None = None
        self._contexts: OrderedDict[_ContextKey, ssl.SSLContext] = OrderedDict()
        self._locations: dict[ServiceReference, tuple[float, ServiceLocation]] = {}  # each until when

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def use_certificate(self, certificate: tuple[bytes, bytes]) -> None:
        """Use another client certificate on new connections."""
        self._certificate = certificate
        self._contexts.clear()

    async def endpoint(self, service: ServiceReference) -> Endpoint:
        """Returns one of the endpoints of a service, in turn. Raises ServiceUnreachable."""
        location = await self._locate(service)
        if location.external_name:
            return Endpoint(location.external_name, service.port)
        return Endpoint(*random.choice(location.endpoints))  # noqa: S311  spreads load

    async def _locate(self, service: ServiceReference) -> ServiceLocation:
        """Returns the location of a service, which may be cached for a moment. Raises ServiceUnreachable."""
        now = time.monotonic()
        known = self._locations.get(service)
        if known is not None and now < known[0]:
            return known[1]
        location = await locate(self.services, service.namespace, service.name, service.port)
        if len(self._locations) >= LOCATIONS_MAX:
            self._locations.clear()
        self._locations[service] = now + LOCATION_TTL_S, location
        return location

    async def context(self, version: RemoteVersion) -> ssl.SSLContext:
        """Returns the TLS context for the servers of a version. Raises UnusableBundle."""
        return await self._context(version.ca_bundle, verifies=version.verifies)

    async def ask(self, version: RemoteVersion, question: ExtensionRequest) -> ExtensionResponse:
        """Returns the response to a request, sent as `system:kube-aggregator`. Raises ExtensionFailed."""
        try:
            async with asyncio.timeout(question.timeout_s):
                endpoint = await self.endpoint(version.service)
                verifies = question.verifies and version.verifies
                context = await self._context(version.ca_bundle, verifies=verifies)
                return await self._ask(version.service, endpoint, context, question)
        except TimeoutError:
            raise ExtensionFailed(f"timed out waiting for {version.service.host}{question.path}") from None
        except (ServiceUnreachable, UnusableBundle) as error:
            raise ExtensionFailed(str(error)) from None
        except OSError as error:
            raise ExtensionFailed(f"{error}" or type(error).__name__) from None

    async def _ask(
        self,
        service: ServiceReference,
        endpoint: Endpoint,
        context: ssl.SSLContext,
        question: ExtensionRequest,
    ) -> ExtensionResponse:
        url = f"https://{endpoint.authority}{question.path}"
        failure = f'failing or missing response from {url}: {question.method.title()} "{url}": '
        headers = [*question.headers, (hdrs.ACCEPT_ENCODING, "identity"), *identity_headers(AGGREGATOR)]
        try:
            self._rules.require_host(endpoint.host)
            # Names are checked by the resolver; what the URL has for an address no resolver is asked about.
            self._rules.require_host(URL(url).raw_host or "")
            async with self._open_session().request(
                question.method,
                url,
                headers=headers,
                ssl=context,
                server_hostname=service.host,
                allow_redirects=False,
            ) as response:
                body = await _read(response, url, question.bytes_max) if question.bytes_max else b""
                lower = {name.lower(): value for name, value in response.headers.items()}
                return ExtensionResponse(url, response.status, lower, body)
        except aiohttp.ServerDisconnectedError:
            raise ExtensionFailed(f"{failure}EOF") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise ExtensionFailed(f"{failure}{_told(error)}") from None

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=CONNECTIONS_MAX,
                    resolver=CheckedResolver(self._rules, aiohttp.ThreadedResolver()),
                    ttl_dns_cache=DNS_TTL_S,
                ),
                # No cookies, and nothing of the environment.
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None),
                max_line_size=HEADER_BYTES_MAX,
                max_field_size=HEADER_BYTES_MAX,
            )
        return self._session

    async def _context(self, ca_bundle: str, *, verifies: bool) -> ssl.SSLContext:
        """Returns a TLS context."""
        key = ca_bundle if verifies else "", verifies, self._certificate
        context = self._contexts.get(key)
        if context is None:
            context = await asyncio.to_thread(_new_context, *key)
            self._contexts[key] = context
            if len(self._contexts) > CONTEXTS_MAX:
                self._contexts.popitem(last=False)
        else:
            self._contexts.move_to_end(key)
        return context


def _new_context(ca_bundle: str, verifies: bool, certificate: tuple[bytes, bytes]) -> ssl.SSLContext:
    """Returns a new TLS context."""
    if verifies:
        return client_context(ca_bundle, certificate)
    context = unverified_context()
    load_certificate(context, *certificate)
    return context


async def _read(response: aiohttp.ClientResponse, url: str, bytes_max: int) -> bytes:
    """Reads a response."""
    if response.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
        raise ExtensionFailed(f"the response from {url} is compressed, which was not requested")
    body = bytearray()
    async for piece in response.content.iter_chunked(_READ_BYTES):
        body += piece
        if len(body) > bytes_max:
            raise ExtensionFailed(f"the response from {url} is longer than {bytes_max} bytes")
        await asyncio.sleep(0)
    return bytes(body)


def _told(error: Exception) -> str:
    """Returns the text of an error, in the words of Go's client."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return f"tls: failed to verify certificate: {error.certificate_error}"
        case aiohttp.ClientConnectorError(os_error=AddressDenied() as denied):
            return str(denied)
        case aiohttp.ClientConnectorError() if error.os_error.errno:
            reason = os.strerror(error.os_error.errno).lower()
            return f"dial tcp {error.host}:{error.port}: connect: {reason}"
        case _:
            return f"{error}" or type(error).__name__
