"""The few etcd calls this server makes, with failover, deadlines and etcd's errors by name."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from google.protobuf.message import DecodeError, Message

from apiserver.storage.errors import (
    LeaseNotFound,
    OutcomeUnknown,
    StorageError,
    StorageFull,
    StorageUnavailable,
)
from apiserver.storage.etcd import etcd_subset_pb2 as pb
from apiserver.storage.etcd.call_timeouts import CallTimeouts
from apiserver.storage.etcd.http2_channel import Http2Channel
from apiserver.storage.etcd.http2_connection import UNARY_WINDOW_BYTES
from apiserver.storage.etcd.rpc import (
    CallEnded,
    Channel,
    Code,
    Endpoint,
    RpcError,
    Stream,
    Tls,
    without_credentials,
)

log = logging.getLogger(__name__)

# A call to an endpoint fails if it has no response in this time; requests have their own shorter deadlines.
CALL_TIMEOUT_S: Final = 10.0
# How long etcd may take for the next part of a snapshot; each is 32 KiB, the first comes after a commit.
SNAPSHOT_PART_TIMEOUT_S: Final = 30.0
# After this time without a response, a short call that may be repeated goes to the next endpoint, too. A
# member that does not hang takes milliseconds.
PATIENCE_S: Final = 0.8
# A page of a list may have megabytes.
LIST_PATIENCE_S: Final = 5.0
# How many bytes etcd may have sent of a watch that have not been read yet. A window of megabytes holds
# thousands of responses with one revision each, and a busy event loop reads some hundreds in a second: the
# watch cache would be seconds behind. While etcd must wait, it gathers what happens in one response.
WATCH_WINDOW_BYTES: Final = 64 * 1024
# Without it a watch on a member that lost its leader stays silent; with it, it ends in some seconds.
_REQUIRE_LEADER: Final = (("hasleader", "true"),)
_USER_AGENT: Final = "apiserver"
# Codes of calls that etcd may not have responded to.
_WITHOUT_RESPONSE: Final = (Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE)
_READ_NOTHING: Final = pb.RangeRequest(key=b"\0", count_only=True)

HTTP2: Final = "http2"
GRPC: Final = "grpc"
TRANSPORTS: Final = (HTTP2, GRPC)

Answer = TypeVar("Answer", bound=Message)
Response = TypeVar("Response")
# May raise RpcError and CallEnded.
Call: TypeAlias = Callable[[Channel], Coroutine[Any, Any, Response]]


class EtcdCompacted(StorageError):
    """etcd has compacted the requested revision.

    etcd does not report the oldest revision; `store` does (RevisionCompacted).
    """


class EtcdFutureRevision(StorageError):
    """The requested revision is in the future for etcd."""


class EtcdRequestTooLarge(StorageError):
    """The request has more bytes than etcd accepts."""


class WatchCall(Protocol):
    """A watch stream, which one task reads and any task may write to. silent_since: see `rpc.Stream`."""

    @property
    def silent_since(self) -> float | None: ...

    async def read(self) -> pb.WatchResponse | None:
        """Returns the next response; None when etcd ended the stream."""
        ...

    async def write(self, request: pb.WatchRequest) -> None:
        """Sends a request. To be called inside the context, which translates its errors."""
        ...

    async def request_progress(self) -> None:
        """Requests a progress report. Raises StorageUnavailable if the stream has ended already."""
        ...

    def cancel(self) -> None:
        """End the stream; its reader gets StorageUnavailable."""
        ...

    def give_up(self, why: str) -> None:
        """End the stream because its endpoint does not respond: the next one uses another endpoint.

        Its reader gets StorageUnavailable with the reason.
        """
        ...


class EtcdClient:
    """Calls the endpoint in use, and fails over as the package's docstring explains.

    After `close`, and whenever it cuts a call short, every method raises StorageUnavailable, or, for a write
    that may have happened, OutcomeUnknown.
    """

    def __init__(self, endpoints: Sequence[str], tls: Tls | None = None, *, transport: str = HTTP2) -> None:
        """endpoints: as `http://10.0.0.1:2379` or `https://etcd-1:2379`, at least one.

        transport: of `TRANSPORTS`. Raises ValueError for an endpoint, or TLS files, that cannot be used.
        """
        self.endpoints = tuple(map(without_credentials, endpoints))
        open_channel = _channels(transport, tls or Tls())
        parsed = [Endpoint.parse(each) for each in endpoints]
        self._channels = [open_channel(each, None) for each in parsed]
        # Watches have separate connections: lists need a larger window.
        self._watch_channels = [open_channel(each, WATCH_WINDOW_BYTES) for each in parsed]
        self._current = 0
        # The endpoint that failed, and why; logged when another one responds.
        self._failed: tuple[int, str] | None = None
        # The open watches, with the indexes of their endpoints.
        self._watches: dict[_WatchCall, int] = {}
        # When each endpoint last responded to a call, by the loop's clock.
        self._responded_at = [0.0] * len(self.endpoints)
        self._call_timeouts = CallTimeouts()
        self._probing: asyncio.Task[None] | None = None
        self._is_closed = False

    async def range(self, request: pb.RangeRequest) -> pb.RangeResponse:
        is_list = request.range_end and not request.count_only
        call = _unary("/etcdserverpb.KV/Range", request, pb.RangeResponse)
        return await self._repeatable(call, LIST_PATIENCE_S if is_list else PATIENCE_S)

    async def transact(self, request: pb.TxnRequest) -> pb.TxnResponse:
        return await self._write(_unary("/etcdserverpb.KV/Txn", request, pb.TxnResponse))

    async def put_repeatedly(self, request: pb.PutRequest) -> pb.PutResponse:
        """Writes a value that does no harm if it is written twice, or later than a failed call says."""
        return await self._repeatable(_unary("/etcdserverpb.KV/Put", request, pb.PutResponse))

    async def compact(self, request: pb.CompactionRequest) -> pb.CompactionResponse:
        call = _unary("/etcdserverpb.KV/Compact", request, pb.CompactionResponse)
        return await self._repeatable(call, LIST_PATIENCE_S)

    async def grant_lease(self, request: pb.LeaseGrantRequest) -> pb.LeaseGrantResponse:
        return await self._write(_unary("/etcdserverpb.Lease/LeaseGrant", request, pb.LeaseGrantResponse))

    async def revoke_lease(self, request: pb.LeaseRevokeRequest) -> pb.LeaseRevokeResponse:
        return await self._write(_unary("/etcdserverpb.Lease/LeaseRevoke", request, pb.LeaseRevokeResponse))

    async def lease_time_to_live(self, request: pb.LeaseTimeToLiveRequest) -> pb.LeaseTimeToLiveResponse:
        path = "/etcdserverpb.Lease/LeaseTimeToLive"
        return await self._repeatable(_unary(path, request, pb.LeaseTimeToLiveResponse))

    async def keep_lease_alive(self, request: pb.LeaseKeepAliveRequest) -> pb.LeaseKeepAliveResponse:
        """Renew a lease once, over a separate stream."""
        message = request.SerializeToString()

        async def renew(channel: Channel) -> pb.LeaseKeepAliveResponse:
            call = channel.server_stream("/etcdserverpb.Lease/LeaseKeepAlive", message, CALL_TIMEOUT_S)
            try:
                response = await call.read()
            finally:
                call.cancel()
            if response is None:
                raise RpcError(Code.UNAVAILABLE, "the lease stream has ended")
            return _parsed(pb.LeaseKeepAliveResponse, response)

        return await self._repeatable(renew)

    async def status(self) -> pb.StatusResponse:
        return (await self.status_and_endpoint())[0]

    async def status_and_endpoint(self) -> tuple[pb.StatusResponse, int]:
        """Returns a member's status, and the index of its endpoint, for `watch`."""
        path = "/etcdserverpb.Maintenance/Status"
        return await self._with_endpoint(_unary(path, pb.StatusRequest(), pb.StatusResponse))

    async def members(self) -> pb.MemberListResponse:
        path = "/etcdserverpb.Cluster/MemberList"
        return await self._repeatable(_unary(path, pb.MemberListRequest(), pb.MemberListResponse))

    async def alarms(self) -> pb.AlarmResponse:
        path = "/etcdserverpb.Maintenance/Alarm"
        return await self._repeatable(_unary(path, pb.AlarmRequest(), pb.AlarmResponse))

    async def snapshot(self) -> AsyncGenerator[bytes, None]:
        """Yields one member's whole database in parts, the last of which is the SHA-256 of those before.

        It contains every write that was answered before the call. After the first part there is no failover,
        as another member's pages differ. Raises StorageUnavailable.
        """

        # A member sends what it has applied, however far behind it is; a linearizable read makes it catch up.
        read = _unary("/etcdserverpb.KV/Range", _READ_NOTHING, pb.RangeResponse)

        _, endpoint = await self._with_endpoint(read)
        call = self._open_channel(endpoint).server_stream("/etcdserverpb.Maintenance/Snapshot", b"")
        try:
            while True:
                async with asyncio.timeout(SNAPSHOT_PART_TIMEOUT_S):
                    response = await call.read()
                if response is None:
                    return
                yield _parsed(pb.SnapshotResponse, response).blob
        except CallEnded:
            raise _closed(is_write=False) from None
        except RpcError as error:
            raise self._storage_error(endpoint, error) from error
        except TimeoutError:
            raise StorageUnavailable(f"etcd at {self.endpoints[endpoint]}: the snapshot stalled") from None
        finally:
            call.cancel()

    @asynccontextmanager
    async def watch(self, endpoint: int) -> AsyncIterator[WatchCall]:
        """Opens a watch stream on an endpoint, by its index, and cancels it on leaving the context.

        Errors of the stream inside the block are raised as storage errors.
        """
        channel = self._open_channel(endpoint, self._watch_channels)
        call = channel.stream("/etcdserverpb.Watch/Watch", _REQUIRE_LEADER)
        opened = _WatchCall(call)
        self._watches[opened] = endpoint
        try:
            yield opened
        except CallEnded:
            if self._is_closed:
                raise _closed(is_write=False) from None
            why = f"etcd at {self.endpoints[endpoint]}: {opened.given_up_for or 'the watch stream has ended'}"
            if opened.given_up_for:
                self._fail_over_from(endpoint, why)
                channel.retire_connection()
            raise StorageUnavailable(why) from None
        except RpcError as error:
            raise self._storage_error(endpoint, error) from error
        finally:
            del self._watches[opened]
            call.cancel()

    async def close(self) -> None:
        self._is_closed = True
        if self._probing is not None:
            self._probing.cancel()
        await asyncio.gather(*(each.close() for each in (*self._channels, *self._watch_channels)))

    async def _with_endpoint(self, call: Call[Response]) -> tuple[Response, int]:
        """Make a call that may be repeated. Returns its response, and the index of the endpoint."""

        async def numbered(channel: Channel) -> tuple[Response, int]:
            return await call(channel), self._channels.index(channel)

        return await self._repeatable(numbered)

    async def _repeatable(self, call: Call[Response], patience_s: float = PATIENCE_S) -> Response:
        """Make a call that may be repeated on each endpoint, the one in use first, until one responds.

        patience_s: how long an endpoint has until the next one is called, too. No call is given up: while a
            leader is elected all members are silent, and any of them may be the first to respond. Members
            respond with an error when it has been elected, and are called once more while others are silent.
        """
        if len(self._channels) == 1:
            try:
                return await self._call(0, call)
            except RpcError as error:
                raise self._storage_error(0, error) from error
        uncalled = self._failover_order()
        calls, repeatable, silent = dict[asyncio.Task[Response], int](), set(uncalled), set[int]()
        called_at: dict[int, float] = {}
        try:
            while uncalled or calls:
                if uncalled:
                    endpoint = uncalled.pop(0)
                    called_at[endpoint] = asyncio.get_running_loop().time()
                    calls[asyncio.create_task(self._call(endpoint, call), name="etcd-call")] = endpoint
                done = await self._first_ended(calls, patience_s if uncalled else None)
                if not done:
                    self._fail_over_from(endpoint, self._silence_of(endpoint))
                    silent.add(endpoint)
                for each in done:
                    responding = calls.pop(each)
                    try:
                        response = each.result()
                    except RpcError as error:
                        failure, cause = self._storage_error(responding, error), error
                        if not _is_away(failure):
                            raise failure from error
                        has_responded = error.code is not Code.DEADLINE_EXCEEDED
                        if calls and has_responded and responding in repeatable:
                            repeatable.discard(responding)
                            uncalled.append(responding)
                    else:
                        if silent:
                            self._current = responding
                            uncertain = silent.intersection(calls.values())
                            self._give_up_watches({each: called_at[each] for each in uncertain})
                        return response
            raise failure from cause
        finally:
            for each in calls:
                if not each.cancel() and not each.cancelled():
                    each.exception()  # It ended together with another one.

    def _give_up_watches(self, silent: Mapping[int, float]) -> None:
        """End the watches on endpoints that hang, as others respond.

        silent: when these endpoints were called, by the loop's clock, and have not responded to the call.
        The watch cache opens the next watch where calls are answered. To find out by a request for progress
        would take as long again, while reads wait. A single call may take long: watches go on of which bytes
        came meanwhile, or whose endpoint has responded to another call since.
        """
        now = asyncio.get_running_loop().time()
        for watch, endpoint in self._watches.items():
            called_at, since = silent.get(endpoint), watch.silent_since
            if called_at is None or since is None or self._responded_at[endpoint] > called_at:
                continue
            if now - since > PATIENCE_S:
                watch.give_up("etcd does not respond")

    async def _first_ended(
        self, calls: Collection[asyncio.Task[Response]], patience_s: float | None
    ) -> list[asyncio.Task[Response]]:
        """Returns the calls that have ended, as soon as there are any; none if no call ends within
        `patience_s`.
        """
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake(_: object = None) -> None:
            if not woken.done():
                woken.set_result(None)

        for each in calls:
            each.add_done_callback(wake)
        late = 0 if patience_s is None else self._call_timeouts.add(patience_s, wake)
        try:
            await woken
        finally:
            self._call_timeouts.discard(late)
        return [each for each in calls if each.done()]

    async def _write(self, call: Call[Response]) -> Response:
        """Make a call that must not happen twice, on another endpoint only if it certainly was not sent."""
        late = self._call_timeouts.add(PATIENCE_S, self._probe)
        try:
            for endpoint in self._failover_order():
                try:
                    return await self._call(endpoint, call, is_write=True)
                except RpcError as error:
                    failure, cause = self._storage_error(endpoint, error, is_write=True), error
                    if not error.is_unsent:
                        raise failure from error
            raise failure from cause
        finally:
            self._call_timeouts.discard(late)

    def _probe(self) -> None:
        """Find an endpoint that responds, for the calls that follow one that waits."""

        async def read() -> None:
            with suppress(StorageError):
                await self.range(_READ_NOTHING)

        if (
            len(self._channels) > 1
            and (self._probing is None or self._probing.done())
            and not self._is_closed
        ):
            self._probing = asyncio.create_task(read(), name="etcd-probe")

    async def _call(self, endpoint: int, call: Call[Response], *, is_write: bool = False) -> Response:
        """Make a call on one endpoint. Raises RpcError, and StorageError after `close`."""
        try:
            response = await call(self._open_channel(endpoint))
        except CallEnded:
            raise _closed(is_write=is_write) from None
        except RpcError as error:
            if error.code not in _WITHOUT_RESPONSE:
                self._responded_at[endpoint] = asyncio.get_running_loop().time()
            raise
        self._responded_at[endpoint] = asyncio.get_running_loop().time()
        self._log_failover(endpoint)
        return response

    def _open_channel(self, endpoint: int, channels: Sequence[Channel] | None = None) -> Channel:
        """Returns an endpoint's channel; those of all calls but watches are `self._channels`.

        Raises StorageUnavailable after `close`.
        """
        if self._is_closed:
            raise StorageUnavailable("the store is closed")
        return (self._channels if channels is None else channels)[endpoint]

    def _failover_order(self) -> list[int]:
        """Returns every endpoint once, the one in use first."""
        first, count = self._current, len(self._channels)
        return [(first + offset) % count for offset in range(count)]

    def _storage_error(self, endpoint: int, error: RpcError, *, is_write: bool = False) -> StorageError:
        """Returns the storage error for a gRPC error, and fails over after one of an unreachable endpoint."""
        failure = _translate(self.endpoints[endpoint], error, is_write=is_write)
        if _is_away(failure):
            self._fail_over_from(endpoint, str(failure))
        return failure

    def _silence_of(self, endpoint: int) -> str:
        return f"etcd at {self.endpoints[endpoint]} does not respond"

    def _fail_over_from(self, endpoint: int, why: str) -> None:
        """Use the next endpoint from now on, unless another failed call has already changed it."""
        if self._current == endpoint and len(self._channels) > 1:
            self._current = (endpoint + 1) % len(self._channels)
            self._failed = self._failed or (endpoint, why)

    def _log_failover(self, endpoint: int) -> None:
        """Log, after a failure, which endpoint responds. While none does, the callers report it."""
        if self._failed is not None:
            (failed, why), self._failed = self._failed, None
            if failed != endpoint:
                log.warning("%s; using %s", why, self.endpoints[endpoint])


def _unary(path: str, request: Message, answer: type[Answer]) -> Call[Answer]:
    """Returns a call that sends one message and receives one."""
    message = request.SerializeToString()

    async def call(channel: Channel) -> Answer:
        return _parsed(answer, await channel.unary(path, message, CALL_TIMEOUT_S))

    return call


def _is_away(failure: StorageError) -> bool:
    """Whether another endpoint may respond."""
    is_away = isinstance(failure, StorageUnavailable | OutcomeUnknown)
    return is_away and not isinstance(failure, StorageFull)


def _translate(where: str, error: RpcError, *, is_write: bool) -> StorageError:
    """Returns the storage error for an error of etcd or gRPC, some of which differ only by their text."""
    code, text = error.code, error.details
    for fragment, kind in _ERRORS_BY_TEXT.items():
        if fragment in text:
            return kind(f"etcd at {where}: {text}")
    if "requested lease not found" in text:
        return LeaseNotFound(0)
    if is_write and not error.is_unsent and not _was_refused(error):
        return OutcomeUnknown(f"etcd at {where}: {code.name}: {text}")
    return StorageUnavailable(f"etcd at {where}: {code.name}: {text}")


class _WatchCall:
    def __init__(self, call: Stream) -> None:
        self._call = call
        self.given_up_for = ""

    @property
    def silent_since(self) -> float | None:
        return self._call.silent_since

    async def read(self) -> pb.WatchResponse | None:
        response = await self._call.read()
        return None if response is None else _parsed(pb.WatchResponse, response)

    async def write(self, request: pb.WatchRequest) -> None:
        await self._call.write(request.SerializeToString())

    async def request_progress(self) -> None:
        try:
            await self.write(pb.WatchRequest(progress_request=pb.WatchProgressRequest()))
        except RpcError as error:
            raise StorageUnavailable("the watch stream has ended") from error
        except CallEnded as error:
            raise StorageUnavailable("the watch stream was canceled by this server") from error

    def cancel(self) -> None:
        self._call.cancel()

    def give_up(self, why: str) -> None:
        self.given_up_for = why
        self._call.cancel()


def _parsed(kind: type[Answer], message: bytes) -> Answer:
    """Returns a response. Raises RpcError."""
    try:
        return kind.FromString(message)
    except DecodeError as error:
        raise RpcError(Code.INTERNAL, f"a response cannot be decoded: {error}") from None


def _closed(*, is_write: bool) -> StorageError:
    """Returns the error of a call that `close` interrupted."""
    return (OutcomeUnknown if is_write else StorageUnavailable)("the store was closed during the call")


def _channels(transport: str, tls: Tls) -> Callable[[Endpoint, int | None], Channel]:
    """Returns a function that makes channels to endpoints, with a window of bytes for streams."""
    if transport == GRPC:
        # gRPC takes a tenth of a second to import.
        from apiserver.storage.etcd.grpc_channel import GrpcChannel

        return lambda endpoint, window: GrpcChannel(endpoint, tls, stream_window_bytes=window)
    return lambda endpoint, window: Http2Channel(
        endpoint, tls, user_agent=_USER_AGENT, stream_window_bytes=window or UNARY_WINDOW_BYTES
    )


_ERRORS_BY_TEXT: Final[dict[str, type[StorageError]]] = {
    "required revision has been compacted": EtcdCompacted,
    "required revision is a future revision": EtcdFutureRevision,
    "request is too large": EtcdRequestTooLarge,
    "larger than max": EtcdRequestTooLarge,
    "database space exceeded": StorageFull,
}


def _was_refused(error: RpcError) -> bool:
    """Whether the response is one that etcd gives before it proposes a write to the cluster."""
    if error.code in _REFUSALS:
        return True
    return any(
        refusal in error.details for refusal in ("too many requests", "no leader", "permission denied")
    )


# The codes of requests that etcd refuses as they are.
_REFUSALS: Final = (
    Code.INVALID_ARGUMENT,
    Code.OUT_OF_RANGE,
    Code.PERMISSION_DENIED,
    Code.UNAUTHENTICATED,
)
