"""Handles the logs of pods, `exec`, `attach` and `portforward`, which kubelets answer.

Source: k8s.io/kubernetes, pkg/registry/core/pod/strategy.go and pkg/registry/core/pod/rest;
k8s.io/apiserver, pkg/registry/generic/rest/streamer.go and response_checker.go.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import quote_plus

import aiohttp

from apiserver.auth.authn.websocket_protocols import read_protocols
from apiserver.auth.authz.attributes import ALLOW, require_allowed
from apiserver.auth.authz.chain import AuthorizationChain
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.cors import AllowedOrigins
from apiserver.endpoints.handlers.subresources.connect import Connector
from apiserver.endpoints.handlers.subresources.connect_options import read_log_options
from apiserver.endpoints.handlers.subresources.kubelets import Kubelets
from apiserver.endpoints.middleware import authorizer_attributes
from apiserver.endpoints.responses import ForwardedAnswer, send
from apiserver.endpoints.reverse_proxy.backends import BackendConnector
from apiserver.endpoints.reverse_proxy.errors import BackendRequestFailed, ForwardingFailed
from apiserver.endpoints.reverse_proxy.forwarder import Forwarder, Upgrader
from apiserver.endpoints.reverse_proxy.links import escaped
from apiserver.endpoints.reverse_proxy.target import ProxyBackend, ProxyTarget
from apiserver.endpoints.reverse_proxy.translation import (
    PORTS_PROTOCOL,
    SHELL_PROTOCOL,
    messages,
    protocol_to_translate,
    translate_shell,
    tunnel_ports,
)
from apiserver.endpoints.reverse_proxy.upgrades import first_of, upgrade
from apiserver.endpoints.websocket import (
    CLIENT_MESSAGE_BYTES_MAX,
    accept_websocket,
    asks_for_websocket,
    require_allowed_origin,
)
from apiserver.golang.quoting import go_quote
from apiserver.meta.errors import ApiError, BadRequest, Forbidden, InternalError
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.store import Registry
from apiserver.storage.interface import MOST_RECENT
from apiserver.webhooks.addresses import AddressDenied
from apiserver.webhooks.caller import MESSAGES

# How much of a kubelet's error is read and reported, and for how long.
ERROR_BYTES_MAX: Final = 50_000
ERROR_WITHIN_S: Final = 10.0
_TEXT: Final = "text/plain"
_LOG: Final = "pods/log"
# The parameters of a kubelet, by the options that become them.
_STREAMS: Final = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
_LOG_PARAMETERS: Final = (
    "follow",
    "limitBytes",
    "previous",
    "sinceSeconds",
    "sinceTime",
    "stream",
    "tailLines",
    "timestamps",
)
_REASONS: Final[Mapping[int, str]] = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
    504: "Timeout",
}
_BASE64: Final = "base64.binary.k8s.io"
_LOG_PROTOCOLS: Final = ("binary.k8s.io", _BASE64)
_TOLD_BY_SERVER: Final = frozenset({403, 406, 415})


class KubeletAnswered(ApiError):
    """A kubelet has answered that it has no logs.

    Source: k8s.io/apimachinery, pkg/api/errors, NewGenericServerResponse.
    """

    def __init__(self, status: int, pod: str, text: str) -> None:
        if status in _TOLD_BY_SERVER:
            message = text
        elif status in MESSAGES:
            message = MESSAGES[status]
        elif status >= 500:
            message = f"an error on the server ({go_quote(text)}) has prevented the request from succeeding"
        else:
            message = (
                f"the server responded with the status code {status} but did not return more information"
            )
        super().__init__(f"{message} ( pods/log {pod})", details={"name": pod, "kind": "pods/log"})
        self.code = status
        self.reason = _REASONS.get(status, "InternalError" if status >= 500 else "")


class _PodLocation(NamedTuple):
    """The location of a pod, kept instead of the whole pod while it is connected to, which may take hours.

    node: the name of its node; empty if it has none. path: that of the request to the node's kubelet.
    """

    node: str
    path: str


def pod_connectors(
    registry: Registry,
    served: ServedTable,
    forwarder: Forwarder,
    kubelets: Kubelets,
    origins: AllowedOrigins,
    *,
    splits_log_streams: bool = False,
) -> Mapping[str, Connector]:
    """Returns the connectors of `log`, `exec`, `attach` and `portforward`.

    splits_log_streams: whether a single stream of a log may be requested.
    """

    async def place_of(call: ApiCall, place: Callable[[Document], _PodLocation]) -> _PodLocation:
        """Returns the location of the requested pod. Raises NotFound, and the errors of `place`."""
        info = call.info
        found = await registry.get(call.resource, info.namespace, info.name, MOST_RECENT)
        return await call.offload.read(found, place)

    async def kubelet_of(call: ApiCall, name: str, *, trusts_any: bool = False) -> ProxyBackend:
        """Returns the kubelet of a node. Raises NotFound, NoNodeAddress."""
        nodes = served.find("", "v1", "nodes")
        assert nodes is not None
        node = await registry.get(nodes, "", name, MOST_RECENT)
        return await call.offload.read(node, partial(kubelets.backend_of, trusts_any=trusts_any))

    async def stream(
        call: ApiCall, place: _PodLocation, query: Sequence[tuple[str, str]], upgrader: Upgrader
    ) -> None:
        if not place.node:
            raise BadRequest(f"pod {call.info.name} does not have a host assigned")
        backend = await kubelet_of(call, place.node)
        target = ProxyTarget(backend, place.path, _encoded(query), upgrade_required=True)
        if asks_for_websocket(call.request):
            # Browsers let any page open one, and send the user's certificate along.
            require_allowed_origin(call.request, origins)
        await forwarder.forward(call, target, upgrader)

    async def command(call: ApiCall, options: Document) -> None:
        container = options.get("container", "")
        place = await place_of(call, partial(_place_of_container, what=call.info.subresource, name=container))
        query = [("command", each) for each in options.get("command", ())]
        query += [(name, "1") for option, name in _STREAMS.items() if options.get(option)]
        upgrader: Upgrader = upgrade
        if protocol_to_translate(call) == SHELL_PROTOCOL:
            upgrader = partial(translate_shell, origins=origins, streams=_streams_of(options))
        await stream(call, place, query, upgrader)

    async def port_forward(call: ApiCall, options: Document) -> None:
        place = await place_of(call, partial(_place_of_pod, what="portForward"))
        ports = ",".join(map(str, options.get("ports", ())))
        upgrader: Upgrader = upgrade
        if protocol_to_translate(call) == PORTS_PROTOCOL:
            upgrader = partial(tunnel_ports, origins=origins)
        query = [("port", ports)] if ports else []
        await stream(call, place, query, upgrader)

    async def log(call: ApiCall, _: Document) -> None:
        options = read_log_options(call.query, call.info.name, splits_streams=splits_log_streams)
        container = options.get("container", "")
        place = await place_of(call, partial(_place_of_container, what="containerLogs", name=container))
        if not place.node:
            await send(call, 204, b"", "")
            return
        backend = await kubelet_of(call, place.node, trusts_any="insecureSkipTLSVerifyBackend" in options)
        query = [(name, _text(options[name])) for name in _LOG_PARAMETERS if name in options]
        target = ProxyTarget(backend, place.path, _encoded(query))
        with forwarder.place(call), forwarder.until_stopped():
            await _send_log(call, forwarder, target, origins)

    return {_LOG: log, "pods/exec": command, "pods/attach": command, "pods/portforward": port_forward}


def for_creators(chain: AuthorizationChain, connectors: Mapping[str, Connector]) -> Mapping[str, Connector]:
    """Returns connectors that require the verb create on the pod, whatever the method of a request.

    WebSockets begin with a GET, for which the verb get, which roles of readers often have, would be enough.
    Source: k8s.io/kubernetes, pkg/registry/core/pod/rest/authorize.go.
    """

    def for_creator(connector: Connector) -> Connector:
        async def connect(call: ApiCall, options: Document) -> None:
            if call.info.verb != "create":
                attributes = authorizer_attributes(call, "create")
                verdict = await chain.decide(attributes)
                if verdict.decision is not ALLOW and not verdict.error:
                    # As in Kubernetes the reason is only the authorizer's.
                    pods = GroupResource(attributes.group, attributes.resource)
                    raise Forbidden.to_resource(pods, attributes.name, verdict.reason)
                require_allowed(attributes, verdict)
            await connector(call, options)

        return connect

    return {name: each if name == _LOG else for_creator(each) for name, each in connectors.items()}


def _place_of_container(pod: Document, *, what: str, name: str) -> _PodLocation:
    """Returns the location of a pod, for the container of a request. Raises BadRequest."""
    return _place_of_pod(pod, what=what, container=container_of(pod, name))


def _place_of_pod(pod: Document, *, what: str, container: str = "") -> _PodLocation:
    """Returns the location of a pod."""
    meta = pod["metadata"]
    end = f"/{container}" if container else ""
    path = escaped(f"/{what}/{meta['namespace']}/{meta['name']}{end}")
    return _PodLocation(pod["spec"].get("nodeName") or "", path)


def container_of(pod: Document, name: str) -> str:
    """Returns the requested container of a pod. name: the requested one; empty for the only container.

    Raises BadRequest.
    """
    spec, pod_name = pod["spec"], pod["metadata"]["name"]
    containers = _names(spec, "containers")
    if name:
        known = (*containers, *_names(spec, "initContainers"), *_names(spec, "ephemeralContainers"))
        if name not in known:
            raise BadRequest(f"container {name} is not valid for pod {pod_name}")
        return name
    if len(containers) == 1:
        return containers[0]
    message = (
        f"a container name must be specified for pod {pod_name}, choose one of: [{' '.join(containers)}]"
    )
    if initial := _names(spec, "initContainers"):
        message += f" or one of the init containers: [{' '.join(initial)}]"
    raise BadRequest(message)


def _streams_of(options: Document) -> list[str]:
    """Returns the streams that a shell has by its options; a terminal has one output, for errors, too."""
    is_terminal = bool(options.get("tty"))
    wanted = {
        "stdin": bool(options.get("stdin")),
        "stdout": bool(options.get("stdout")),
        "stderr": bool(options.get("stderr")) and not is_terminal,
        "resize": is_terminal,
    }
    return [name for name, is_wanted in wanted.items() if is_wanted]


def _names(spec: Document, field: str) -> list[str]:
    return [each["name"] for each in spec.get(field) or ()]


def _text(value: Any) -> str:
    return "true" if value is True else str(value)


def _encoded(query: Sequence[tuple[str, str]]) -> str:
    """Returns a query as Go encodes it: sorted by names."""
    ordered = sorted(query, key=lambda pair: pair[0])
    return "&".join(f"{quote_plus(name)}={quote_plus(value)}" for name, value in ordered)


async def _send_log(
    call: ApiCall, forwarder: Forwarder, target: ProxyTarget, origins: AllowedOrigins
) -> None:
    backends = forwarder.backends
    try:
        response = await backends.request("GET", target, [("Host", target.backend.authority)], None)
    except BackendRequestFailed as error:
        raise ForwardingFailed(f'Get "{target.text}": {error}') from None
    except AddressDenied as error:
        raise Forbidden(str(error)) from None
    try:
        await _require_success(call, response)
        if asks_for_websocket(call.request):
            await _send_messages(call, backends, response, target, origins)
            return
        answer = ForwardedAnswer(call, 200, [(b"Content-Type", _TEXT.encode())], length=None, has_body=True)
        with call.connection.relaying():
            async for piece in backends.pieces(response, target.backend):
                call.body_bytes += len(piece)
                answer.write(piece)
                await answer.drain()
        answer.finish()
    except BackendRequestFailed as error:
        raise ForwardingFailed(str(error)) from None  # The client sees an answer that is cut off.
    finally:
        response.close()


async def _send_messages(
    call: ApiCall,
    backends: BackendConnector,
    response: aiohttp.ClientResponse,
    target: ProxyTarget,
    origins: AllowedOrigins,
) -> None:
    """Sends a log over WebSocket. Raises RequestFailed, BadRequest, Forbidden."""
    offered = read_protocols(call.request.headers.getall("Sec-WebSocket-Protocol", ())).others
    protocol = next((each for each in offered if each in _LOG_PROTOCOLS), "")
    if offered and not protocol:
        raise BadRequest(f"Sec-WebSocket-Protocol: must be one of {', '.join(_LOG_PROTOCOLS)}")
    socket = await accept_websocket(call, origins, protocol, CLIENT_MESSAGE_BYTES_MAX)

    async def send_all() -> None:
        async for piece in backends.pieces(response, target.backend):
            if protocol == _BASE64:
                await socket.send_str(base64.b64encode(piece).decode())
            else:
                await socket.send_bytes(piece)

    async def ignore_messages() -> None:
        async for _ in messages(socket):
            pass

    with call.connection.relaying():
        await first_of(send_all(), ignore_messages())
        await socket.close()


async def _require_success(call: ApiCall, response: aiohttp.ClientResponse) -> None:
    """Require that a kubelet responds with success, and raise an error otherwise."""
    status = response.status
    if 200 <= status <= 206:
        return
    if 300 <= status <= 399 and "Location" in response.headers:
        raise ForwardingFailed("redirects forbidden")
    body = b""
    with contextlib.suppress(TimeoutError, aiohttp.ClientError, OSError):
        async with asyncio.timeout(ERROR_WITHIN_S):
            while len(body) < ERROR_BYTES_MAX and (piece := await response.content.readany()):
                body += piece
    text = body[:ERROR_BYTES_MAX].decode("utf-8", "replace")
    if status == 500:
        raise InternalError.of(text)
    if status == 400:
        raise BadRequest(text)
    raise KubeletAnswered(status, call.info.name, text)
