"""Answers the requests of API servers to the kubelets of simulated nodes.

Source: k8s.io/kubernetes, pkg/kubelet/server/server.go; k8s.io/cri-streaming, pkg/streaming.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final
from weakref import WeakSet

from aiohttp import hdrs, web

from apiserver.endpoints.reverse_proxy.backends import BackendConnection, BackendConnector
from apiserver.endpoints.reverse_proxy.target import ProxyBackend
from apiserver.endpoints.reverse_proxy.upgrades import first_of
from apiserver.golang.quoting import go_quote
from apiserver.meta.errors import ApiError, BadRequest, NotFound, TooManyRequests
from apiserver.meta.vocabulary import Document
from apiserver.registry.clock import Clock
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.storage.event_loop_turns import Turn
from apiserver.storage.interface import MOST_RECENT
from apiserver.testkit.simulation.container_answers import SimulatedContainer, addresses_of
from apiserver.testkit.simulation.field_values import InvalidStage
from apiserver.testkit.simulation.kubelet_server import spdy_shells
from apiserver.testkit.simulation.kubelet_server.channels import (
    PORT_PROTOCOLS,
    SHELL_PROTOCOLS,
    Channels,
    ShellChannels,
)
from apiserver.testkit.simulation.kubelet_server.followers import followed
from apiserver.testkit.simulation.kubelet_server.forwarding import PodPorts, forward_channels, forward_streams
from apiserver.testkit.simulation.kubelet_server.requests import (
    NoContainer,
    NoPod,
    NotServed,
    asks_for_websocket,
    log_options,
    negotiated,
    no_address,
    ports_of,
    refusal,
    streams_of,
    unknown_command,
)
from apiserver.testkit.simulation.kubelet_server.sessions import SESSION_S_MAX, ClientGone, Session, Write
from apiserver.testkit.simulation.kubelet_server.spdy import upgraded
from apiserver.testkit.simulation.kubelet_server.spdy_shells import SpdyShell
from apiserver.testkit.simulation.logs import (
    ContainerRun,
    LogLine,
    LogReader,
    NoLog,
    PodLogOptions,
    by_now,
    next_line_in_s,
    run_of,
)
from apiserver.testkit.simulation.nodes import is_simulated
from apiserver.testkit.simulation.ports import HostPort
from apiserver.testkit.simulation.programs import Program
from apiserver.testkit.simulation.resources import PODS
from apiserver.testkit.simulation.stages import Stage, stages_for

# Sessions, forwarded ports and logs at the same time.
REQUESTS_MAX: Final = 500
# What is written to a log at once.
PIECE_BYTES: Final = 32 * 1024
# When the server stops, nothing is asked any more.
SHUTDOWN_S: Final = 0.1
PORT_PROTOCOL: Final = "portforward.k8s.io"


class SimulatedKubelets:
    """The kubelets of simulated nodes; see `InProcessKubelets`.

    stages: those of pods without annotations. backends: connects to the addresses of ports.
    """

    def __init__(
        self,
        registry: Registry,
        served: ServedTable,
        stages: Sequence[Stage],
        clock: Clock,
        backends: BackendConnector,
        *,
        requests_max: int = REQUESTS_MAX,
    ) -> None:
        self._registry, self._served = registry, served
        self._stages = tuple(stages)
        self._clock = clock
        self._backends = backends
        self._requests_max = requests_max
        self._servers: WeakSet[web.Server] = WeakSet()  # one for each connection
        self._handling: set[asyncio.Task[object]] = set()

    def serves(self, node: Document) -> bool:
        return is_simulated(node)

    async def connect(self, node: str) -> socket.socket:
        server = web.Server(partial(self._handle, node), handler_cancellation=True, access_log=None)
        ours, theirs = socket.socketpair()
        try:
            ours.setblocking(False)
            theirs.setblocking(False)
            await asyncio.get_running_loop().connect_accepted_socket(server, ours)
        except BaseException:
            ours.close()
            theirs.close()
            raise
        self._servers.add(server)
        return theirs

    async def close(self) -> None:
        for task in (ending := list(self._handling)):
            task.cancel()
        if ending:
            await asyncio.wait(ending)
        await asyncio.gather(*(each.shutdown(SHUTDOWN_S) for each in self._servers))
        await self._backends.close()

    async def _handle(self, node: str, request: web.BaseRequest) -> web.StreamResponse:
        is_log = request.path.startswith("/containerLogs/")
        try:
            if len(self._handling) >= self._requests_max:
                raise TooManyRequests
            task = asyncio.current_task()
            assert task is not None
            self._handling.add(task)
            try:
                return await self._answer(node, request)
            finally:
                self._handling.discard(task)
        except InvalidStage as error:
            return refusal(BadRequest(str(error)), is_text=is_log)
        except NoLog as error:
            return refusal(BadRequest(str(error)), is_text=True)
        except ApiError as error:
            return refusal(error, is_text=is_log)

    async def _answer(self, node: str, request: web.BaseRequest) -> web.StreamResponse:
        """Answers a request."""
        match request.path.split("/")[1:]:
            case ["healthz"]:
                return web.Response(text="ok")
            case ["containerLogs", namespace, pod, container]:
                return await self._log(request, await self._container(node, namespace, pod, container))
            case ["exec" | "attach" as what, namespace, pod, container]:
                found = await self._container(node, namespace, pod, container)
                return await self._shell(request, what, found)
            case ["portForward", namespace, pod]:
                return await self._forward(request, await self._pod(node, namespace, pod))
        raise NotServed

    async def _pod(self, node: str, namespace: str, name: str) -> Document:
        """Returns a pod of the requested node. Raises NoPod."""
        try:
            found = (await self._registry.get(self._pods, namespace, name, MOST_RECENT)).document()
        except NotFound:
            raise NoPod from None
        if found["spec"].get("nodeName") != node:
            raise NoPod
        return found

    @property
    def _pods(self) -> ServedResource:
        found = self._served.hub(*PODS)
        assert found is not None
        return found

    async def _container(self, node: str, namespace: str, pod: str, name: str) -> SimulatedContainer:
        """Returns a container."""
        document = await self._pod(node, namespace, pod)
        found = SimulatedContainer.of(document, name, stages_for(document, self._stages))
        if found is None:
            raise NoContainer(f"container {go_quote(name)} not found in pod {go_quote(pod)}")
        return found

    # ---- logs

    async def _log(self, request: web.BaseRequest, container: SimulatedContainer) -> web.StreamResponse:
        """Sends a log."""
        options = log_options(request.rel_url.query, self._clock.time())
        run = run_of(container.pod, container.name, previous=options.previous)
        response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "text/plain"})
        await response.prepare(request)

        async def write(_: int, data: bytes) -> None:
            await response.write(data)

        reader = LogReader(options)
        with contextlib.suppress(OSError):
            if options.follow:
                await self._follow(container, run, reader, write)
            else:
                await _write_lines(reader.read(container.lines(run), run, self._clock.time()), write)
            await response.write_eof()
        return response

    async def _follow(
        self, container: SimulatedContainer, run: ContainerRun, reader: LogReader, write: Write
    ) -> None:
        """Writes the log of a run until it has ended, the client has the requested part, or the pod is gone.

        It also ends when the annotations of the pod become invalid.
        """
        lines: Sequence[LogLine] = ()
        async with followed(self._registry, self._pods, container.pod) as pod:
            seen: Document | None = None
            while not reader.is_over and pod.document is not None:
                if pod.document is not seen:
                    seen = pod.document
                    run = by_now(run, seen, container.name)
                    try:
                        found = SimulatedContainer.of(seen, container.name, stages_for(seen, self._stages))
                    except InvalidStage:
                        return
                    lines = [] if found is None else found.lines(run)
                now = self._clock.time()
                await _write_lines(reader.read(lines, run, now), write)
                if run.ended_s < math.inf:
                    return
                await pod.wait(next_line_in_s(lines, run, now))

    async def _wait(self, pod: Document, has_ended: Callable[[Document], bool]) -> None:
        """Waits until a condition on a pod holds, or the pod is gone."""
        async with followed(self._registry, self._pods, pod) as found:
            while found.document is not None and not has_ended(found.document):
                await found.wait(None)

    # ---- sessions

    async def _shell(
        self, request: web.BaseRequest, what: str, container: SimulatedContainer
    ) -> web.StreamResponse:
        """Runs a shell session."""
        query = request.rel_url.query
        asks_for_tty = query.get("tty") == "1"
        wanted = streams_of(query, tty=asks_for_tty)
        if not container.is_running:
            raise NoContainer(f"container not found ({go_quote(container.name)})")
        program: Program | None
        if what == "exec":
            tty = asks_for_tty
            program = self._program(container, query.getall("command", []), tty=tty)
        else:
            tty = bool(container.spec.get("tty"))  # It was decided when the container started.
            program = self._attached(container, wanted, tty=tty)
        run = run_of(container.pod, container.name)

        def has_ended(pod: Document) -> bool:
            return by_now(run, pod, container.name).ended_s < math.inf

        async def converse(session: Session) -> None:
            if program is not None:
                await session.run(program, partial(self._wait, container.pod, has_ended))
            else:
                await session.show(partial(self._show_log, container))

        if asks_for_websocket(request):
            channels = await Channels.open(request, SHELL_PROTOCOLS)
            streams = ShellChannels(channels, wanted)
            with contextlib.suppress(ClientGone, TimeoutError):
                await streams.begin()
                await converse(Session(streams, tty=tty))
            await channels.close()
            return channels.socket
        protocol = negotiated(request, spdy_shells.PROTOCOLS)
        async with upgraded(request, protocol) as (response, session):

            async def answer() -> None:
                async with SpdyShell.open(session, protocol, wanted, tty=asks_for_tty) as streams:
                    await converse(Session(streams, tty=tty))

            with contextlib.suppress(TimeoutError):
                await first_of(session.run(), answer())
        return response

    def _program(self, container: SimulatedContainer, words: Sequence[str], *, tty: bool) -> Program:
        """Returns the program of a command. Raises BadRequest."""
        if not words or not words[0]:
            raise BadRequest("you must specify at least one command for the container")
        program = container.start(words, self._clock.time, tty=tty)
        if program is None:
            raise unknown_command(container.name, words)
        return program

    def _attached(self, container: SimulatedContainer, wanted: Sequence[str], *, tty: bool) -> Program | None:
        """Returns the program that a client is attached to; None if the client gets the log, from now on."""
        words = container.own_command
        has_stdin = "stdin" in wanted and bool(container.spec.get("stdin"))
        if not words and has_stdin:
            words = ["sh"]  # What most images run.
        is_listed = bool(words) and container.knows(words)
        if not words or (not is_listed and container.says_log):
            return None
        return container.start(words, self._clock.time, tty=tty)

    async def _show_log(self, container: SimulatedContainer, write: Write) -> None:
        run, reader = run_of(container.pod, container.name), LogReader(PodLogOptions(follow=True))
        reader.skip(container.lines(run), run, self._clock.time())
        await self._follow(container, run, reader, write)

    # ---- ports

    async def _forward(self, request: web.BaseRequest, pod: Document) -> web.StreamResponse:
        """Forwards ports."""
        meta = pod["metadata"]
        if _has_ended(pod):
            full_name = f"{meta['name']}_{meta['namespace']}"
            raise NoContainer(f"pod not found ({go_quote(full_name)})")
        addresses = addresses_of(pod, stages_for(pod, self._stages))
        pod_ports = PodPorts(meta["name"], meta["uid"], addresses, self._dial)
        if asks_for_websocket(request):
            ports = ports_of(request.rel_url.query)
            if not addresses.keys() & set(ports):
                raise no_address(meta["name"], ports)
            channels = await Channels.open(request, PORT_PROTOCOLS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SESSION_S_MAX):
                    await first_of(forward_channels(channels, ports, pod_ports), self._wait(pod, _has_ended))
            await channels.close()
            return channels.socket
        protocol = negotiated(request, (PORT_PROTOCOL,))
        if not addresses:
            raise no_address(meta["name"], ())
        async with upgraded(request, protocol) as (response, session):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SESSION_S_MAX):
                    await first_of(forward_streams(session, pod_ports), self._wait(pod, _has_ended))
        return response

    async def _dial(self, address: HostPort) -> BackendConnection:
        """Connects to an address."""
        return await self._backends.dial(ProxyBackend(address.host, address.port))


def _has_ended(pod: Document) -> bool:
    return (pod.get("status") or {}).get("phase") != "Running"


async def _write_lines(lines: Iterable[tuple[int, bytes]], write: Write) -> None:
    """Writes lines, several of a stream at once."""
    turn = Turn()
    waiting, of_stream = bytearray(), 0
    for stream, text in lines:
        if waiting and (stream != of_stream or len(waiting) >= PIECE_BYTES):
            await write(of_stream, bytes(waiting))
            waiting.clear()
        of_stream = stream
        waiting += text
        if turn.is_over():
            await turn.next()
    if waiting:
        await write(of_stream, bytes(waiting))
