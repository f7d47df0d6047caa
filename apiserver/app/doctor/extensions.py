"""Checks that webhooks and extension API servers can be reached, and their certificates verified."""

from __future__ import annotations

import asyncio
import base64
import binascii
import itertools
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from apiserver.app.doctor import certificates
from apiserver.app.doctor.certificates import CertificateFile
from apiserver.app.doctor.report import Finding, error, ok, unchecked, warning
from apiserver.app.doctor.running_server import ANSWER_WITHIN_S, COMMAND
from apiserver.cli.api_client import ApiClient, RequestFailed, segment
from apiserver.cli.limited_connection import port_of, reason_of
from apiserver.cli.server_options import ServerOptions
from apiserver.endpoints.aggregation.remote_versions import RemoteVersion
from apiserver.meta.brand import Brand
from apiserver.meta.conditions import find_condition
from apiserver.meta.vocabulary import Document
from apiserver.webhooks.client_config import ClientConfig
from apiserver.webhooks.errors import ServiceUnreachable
from apiserver.webhooks.service_resolver import ServiceLookup, locate
from apiserver.webhooks.tls import UnusableBundle, client_context, unverified_context

# Of a list, a connection, and all connections: in sum less than a check may take.
LIST_WITHIN_S: Final = 5.0
CONNECT_WITHIN_S: Final = 3.0
REACH_WITHIN_S: Final = 4.0
CONNECTIONS_MAX: Final = 50
# Definitions have up to a megabyte each.
PAGE: Final = 50
# What reading documents raises that do not have their schema.
_MALFORMED: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class Extension(NamedTuple):
    """A server that this one calls. name: the object that names it.

    client: its URL and CA bundle. service: the namespace and name of its Service; None if it has a URL.
    is_required: requests fail while it cannot be reached. verifies: whether its certificate is verified.
    reported: why the server itself found it unavailable; empty if it did not.
    """

    name: str
    client: ClientConfig
    service: tuple[str, str] | None = None
    is_required: bool = True
    verifies: bool = True
    reported: str = ""

    @property
    def address(self) -> str:
        """Its host and port, without a password that the URL may contain."""
        return self.client.target.rpartition("@")[2]


class Attempt(NamedTuple):
    """An attempt to connect. problem: why it failed; empty if it did not.

    is_certain: an attempt from any machine would fail, for example because there is no such Service.
    """

    problem: str = ""
    is_certain: bool = False


class Unread(NamedTuple):
    """Objects that could not be read. status: of the response; 0 if there was none."""

    message: str
    status: int = 0


class ExtensionFacts(NamedTuple):
    """What was found out about extensions.

    reached: each of them, with the attempt to connect to it. untried: how many there was no time for.
    unread: why objects that name extensions could not be read.
    is_local: whether the API server runs on this machine, so that it has the same network.
    """

    reached: Sequence[tuple[Extension, Attempt]]
    unread: Sequence[Unread] = ()
    untried: int = 0
    is_local: bool = False


async def gather(
    options: ServerOptions,
    brand: Brand,
    is_local: Callable[[], bool] = lambda: False,
    reach_within_s: float = REACH_WITHIN_S,
) -> ExtensionFacts:
    """Lists the extensions, and connects to each of their servers. Raises RequestFailed.

    is_local: asks whether the API server runs on this machine.
    """
    local = asyncio.create_task(asyncio.to_thread(is_local))
    lists = await asyncio.gather(*(_list(options, *each) for each in _lists(brand)))
    listed = list(itertools.chain(*lists))
    extensions = [each for each in listed if isinstance(each, Extension)]
    unread = [each for each in listed if isinstance(each, Unread)]
    if len(unread) == len(lists) and not any(each.status for each in unread):
        raise RequestFailed(unread[0].message)
    at_once = asyncio.Semaphore(CONNECTIONS_MAX)
    # To load the authorities of the system takes 0.1 s.
    contexts = {
        each: asyncio.create_task(asyncio.to_thread(client_context, each))
        for each in {each.client.ca_bundle for each in extensions if each.verifies}
    }

    async def attempt(destination: Extension) -> Attempt | Unread:
        async with at_once:
            context = contexts[destination.client.ca_bundle] if destination.verifies else None
            return await _connect(destination, context, _Services(options, brand))

    attempts = {each: asyncio.create_task(attempt(each)) for each in set(map(_destination, extensions))}
    if attempts:
        await asyncio.wait(attempts.values(), timeout=reach_within_s)
    reached: list[tuple[Extension, Attempt]] = []
    untried = 0
    for extension in extensions:
        task = attempts[_destination(extension)]
        result = task.result() if task.done() else None
        if isinstance(result, Attempt):
            reached.append((extension, result))
        elif extension.reported:
            reached.append((extension, Attempt()))
        elif result is None:
            untried += 1
        else:
            unread.append(result)
    for task in attempts.values():
        task.cancel()
    return ExtensionFacts(reached, list(dict.fromkeys(unread)), untried, await local)


def examine(facts: ExtensionFacts, now: datetime) -> Iterator[Finding]:
    reached = 0
    bundles: dict[tuple[str, str], CertificateFile] = {}
    for extension, attempt in facts.reached:
        if problem := attempt.problem or extension.reported:
            is_certain = bool(attempt.is_certain or extension.reported or facts.is_local)
            make = error if extension.is_required and is_certain else warning
            place = "" if is_certain else "from this machine "
            yield make(
                f"{extension.name} cannot be reached {place}at {extension.address}: {problem}",
                _advice(extension, is_certain=is_certain),
            )
        else:
            reached += 1
        if extension.client.ca_bundle and extension.verifies:
            bundle = _bundle(extension)
            bundles.setdefault((bundle.name, extension.client.ca_bundle), bundle)
    yield from certificates.problems(bundles.values(), now)
    for message, status in facts.unread:
        yield unchecked(
            message, "Use a user who can read these objects, such as the user in admin.kubeconfig.", status
        )
    if facts.untried:
        yield unchecked(
            f"{facts.untried} webhooks and APIServices were not checked: other connections took too long",
            "Solve the problems with other webhooks and APIServices, and run the command again.",
        )
    if not (facts.reached or facts.untried or facts.unread):
        yield ok("there are no webhooks and no extension API servers")
    elif reached:
        yield ok(f"{reached} webhooks and APIServices can be reached from this machine")


def _advice(extension: Extension, *, is_certain: bool) -> str:
    if not is_certain:
        return (
            "Run the command on the machine of the API server. Other machines may not be able to reach the "
            "address."
        )
    if extension.is_required:
        return (
            "Start the server at this address, or correct the Service or the caBundle. Until then, requests "
            "fail."
        )
    return (
        "Start the server at this address, or correct the caBundle. Until then, requests pass without this "
        "check."
    )


def _bundle(extension: Extension) -> CertificateFile:
    name = f"the caBundle of {extension.name}"
    try:
        content = base64.b64decode(extension.client.ca_bundle)
    except binascii.Error:
        return CertificateFile(name, problem="the value is not base64", is_bundle=True)
    return certificates.of_pem(name, content, is_bundle=True)


# ---- what there is


def _lists(brand: Brand) -> Iterator[tuple[str, Callable[[str, Document], Iterator[Extension]]]]:
    """Yields the paths of objects that name extensions, and what finds the extensions in one of them."""
    registration, definitions, aggregation = (
        f"/apis/{brand.group(group)}/v1"
        for group in ("admissionregistration", "apiextensions", "apiregistration")
    )
    yield f"{registration}/validatingwebhookconfigurations", _webhooks_of
    yield f"{registration}/mutatingwebhookconfigurations", _webhooks_of
    yield f"{definitions}/customresourcedefinitions", _conversions_of
    yield f"{aggregation}/apiservices", _api_services_of


async def _list(
    options: ServerOptions, path: str, extensions_of: Callable[[str, Document], Iterator[Extension]]
) -> Sequence[Extension | Unread]:
    """Returns the extensions in a list, or why it cannot be read."""
    plural = path.rpartition("/")[2]

    def read() -> list[Extension | Unread]:
        with closing(ApiClient(options, COMMAND, ANSWER_WITHIN_S)) as client:
            found = [
                extension for each in client.items(path, PAGE) for extension in extensions_of(plural, each)
            ]
        for each in found:
            hash(_destination(each))  # Fails if a field has a wrong type, or the URL is not valid.
        return [*found]

    try:
        async with asyncio.timeout(LIST_WITHIN_S):
            return await asyncio.to_thread(read)
    except TimeoutError:
        return [Unread(f"{plural} cannot be listed: the list was not complete within {LIST_WITHIN_S:g} s")]
    except RequestFailed as failure:
        return [Unread(f"{plural} cannot be listed: {failure}", failure.status)]
    except _MALFORMED:
        return [Unread(f"{plural} cannot be listed: the response is not valid")]


def _webhooks_of(plural: str, document: Document) -> Iterator[Extension]:
    for webhook in document.get("webhooks") or ():
        config = webhook.get("clientConfig") or {}
        yield Extension(
            f"webhook {webhook.get('name')} of {plural}/{document['metadata']['name']}",
            ClientConfig.of(config),
            _service_of(config.get("service")),
            webhook.get("failurePolicy", "Fail") == "Fail",
        )


def _conversions_of(plural: str, document: Document) -> Iterator[Extension]:
    conversion = document["spec"].get("conversion") or {}
    config = (conversion.get("webhook") or {}).get("clientConfig")
    if conversion.get("strategy") == "Webhook" and config:
        name = f"the conversion webhook of {plural}/{document['metadata']['name']}"
        yield Extension(name, ClientConfig.of(config), _service_of(config.get("service")))


def _api_services_of(plural: str, document: Document) -> Iterator[Extension]:
    version = RemoteVersion.of(document)
    if version is None:
        return
    available = find_condition(document, "Available") or {}
    reported = ""
    if available.get("status") == "False":
        reported = f"{available.get('reason')}: {available.get('message')}"
    service = version.service
    client = ClientConfig(f"https://{service.host}:{service.port}/", version.ca_bundle)
    yield Extension(
        f"{plural}/{version.name}",
        client,
        (service.namespace, service.name),
        verifies=version.verifies,
        reported=reported,
    )


def _service_of(service: Any) -> tuple[str, str] | None:
    return (service.get("namespace", ""), service.get("name", "")) if service else None


# ---- connections


class _Services:
    """The Services and EndpointSlices of a server, read one by one. Methods raise RequestFailed."""

    def __init__(self, options: ServerOptions, brand: Brand) -> None:
        self._options, self._discovery = options, f"/apis/{brand.group('discovery')}/v1"

    async def service(self, namespace: str, name: str) -> Document | None:
        try:
            return await self._get(f"/api/v1/namespaces/{segment(namespace)}/services/{segment(name)}")
        except RequestFailed as failure:
            if failure.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    async def slices(self, namespace: str, service: str) -> Iterable[Document]:
        path = f"{self._discovery}/namespaces/{segment(namespace)}/endpointslices"
        found = await self._get(path, {"labelSelector": f"kubernetes.io/service-name={service}"})
        return found.get("items") or ()

    async def _get(self, path: str, query: Mapping[str, str] | None = None) -> Document:
        def get() -> Document:
            with closing(ApiClient(self._options, COMMAND, ANSWER_WITHIN_S)) as client:
                found: Document = client.get(path, query)
                return found

        return await asyncio.to_thread(get)


def _destination(extension: Extension) -> Extension:
    """Returns what extensions with the same server have in common."""
    client = extension.client._replace(url=f"https://{extension.client.target}/")
    return Extension("", client, extension.service, verifies=extension.verifies)


async def _connect(
    extension: Extension, verifying: asyncio.Task[ssl.SSLContext] | None, services: ServiceLookup
) -> Attempt | Unread:
    """Opens a TLS connection, and closes it. verifying: None if the certificate is not verified."""
    try:
        url = extension.client.url
        host, port = urlsplit(url).hostname or "", port_of(url)
        # Connections share a context, which must be made although one of them is cancelled.
        context = unverified_context() if verifying is None else await asyncio.shield(verifying)
        addresses: Sequence[tuple[str, int]] = [(host, port)]
        if extension.service is not None:
            location = await locate(services, *extension.service, port)
            addresses = location.endpoints or [(location.external_name, port)]
        async with asyncio.timeout(CONNECT_WITHIN_S):
            return Attempt(await _connect_to_any(addresses, context, host))
    except TimeoutError:
        return Attempt(f"no connection within {CONNECT_WITHIN_S:g} s")
    except RequestFailed as failure:
        place = "/".join(extension.service or ())
        return Unread(f"the Service {place} cannot be read: {failure}", failure.status)
    except (ServiceUnreachable, UnusableBundle, ValueError) as failure:
        return Attempt(str(failure), is_certain=True)
    except _MALFORMED:
        return Attempt("the Service or its EndpointSlices are not valid", is_certain=True)


async def _connect_to_any(
    addresses: Sequence[tuple[str, int]], context: ssl.SSLContext, server_name: str
) -> str:
    problem = ""
    for host, port in addresses:
        try:
            _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=server_name)
        except OSError as failure:
            problem = reason_of(failure)
        else:
            writer.transport.abort()
            return ""
    return problem
