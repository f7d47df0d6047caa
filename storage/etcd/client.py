"""The few etcd calls this server makes, with failover, deadlines and etcd's errors by name."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from time import monotonic
from typing import Final, Protocol, TypeVar

from google.protobuf.message import Message

from apiserver.storage.errors import (
    LeaseNotFound,
    OutcomeUnknown,
    StorageError,
    StorageFull,
    StorageUnavailable,
)
from apiserver.storage.etcd import etcd_subset_pb2 as pb
from apiserver.storage.etcd.http2_channel import Http2Channel
from apiserver.storage.etcd.http2_connection import UNARY_WINDOW_BYTES
from apiserver.storage.etcd.rpc import (
    CallEnded,
    Channel,
    ChannelClosed,
    Code,
    Endpoint,
    RpcError,
    Stream,
    Tls,
)

log = logging.getLogger(__name__)

# A call that etcd does not answer in this time fails; requests have their own shorter deadlines.
CALL_TIMEOUT_S: Final = 10.0
# How long etcd may take for the next part of a snapshot; each is 32 KiB, the first comes after a commit.
SNAPSHOT_PART_TIMEOUT_S: Final = 30.0
# A call that was cancelled after this time shows that its endpoint hangs.
HANG_AFTER_S: Final = 2.0
# How many bytes etcd may have sent of a watch that have not been read yet. A window of megabytes holds
# thousands of responses with one revision each, and a busy event loop reads some hundreds in a second: the
# watch cache would be seconds behind. While etcd must wait, it gathers what happens in one response.
WATCH_WINDOW_BYTES: Final = 64 * 1024
# Without it a watch on a member that lost its leader stays silent; with it, it ends in some seconds.
_REQUIRE_LEADER: Final = (("hasleader", "true"),)
_USER_AGENT: Final = "apiserver"

HTTP2: Final = "http2"
GRPC: Final = "grpc"
TRANSPORTS: Final = (HTTP2, GRPC)

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


class EtcdCompacted(StorageError):
    """etcd has compacted the requested revision.

    etcd does not report the oldest revision; `store` does (RevisionCompacted).
    """


class EtcdFutureRevision(StorageError):
    """The requested revision is in the future for etcd."""


class EtcdRequestTooLarge(StorageError):
    """The request has more bytes than etcd accepts."""


class WatchCall(Protocol):
    """A watch stream, which one task reads and any task may write to."""

    async def read(self) -> pb.WatchResponse | None:
        """Returns the next response; None when etcd ended the stream."""
        ...

    async def write(self, request: pb.WatchRequest) -> None:
        """Sends a request. Raises StorageUnavailable if the stream has ended already."""
        ...

    def cancel(self) -> None: ...


class EtcdClient:
    """Calls the endpoint in use, and fails over as the package's docstring explains.

    After `close`, and whenever it cuts a call short, every method raises StorageUnavailable, or, for a write
    that may have happened, OutcomeUnknown.
    """

    def __init__(self, endpoints: Sequence[str], tls: Tls | None = None, *, transport: str = HTTP2) -> None:
        """endpoints: as `http://10.0.0.1:2379` or `https://etcd-1:2379`, at least one.

        transport: of `TRANSPORTS`. Raises ValueError for an endpoint, or TLS files, that cannot be used.
        """
        # Names for errors and logs, without credentials.
        self.endpoints = tuple(re.sub(r"//[^/]*@", "//", each) for each in endpoints)
        open_channel = _channels(transport, tls or Tls())
        parsed = [Endpoint.parse(each) for each in endpoints]
        self._channels = [open_channel(each, None) for each in parsed]
        # Watches have separate connections: lists need a larger window.
        self._watch_channels = [open_channel(each, WATCH_WINDOW_BYTES) for each in parsed]
        self._current = 0
        # The endpoint that failed, and why; logged when another one responds.
        self._failed: tuple[int, str] | None = None
        self._is_closed = False

    async def range(self, request: pb.RangeRequest) -> pb.RangeResponse:
        return await self._read("/etcdserverpb.KV/Range", request, pb.RangeResponse)

    async def transact(self, request: pb.TxnRequest) -> pb.TxnResponse:
        return await self._write("/etcdserverpb.KV/Txn", request, pb.TxnResponse)

    async def put(self, request: pb.PutRequest) -> pb.PutResponse:
        return await self._write("/etcdserverpb.KV/Put", request, pb.PutResponse)

    async def compact(self, request: pb.CompactionRequest) -> pb.CompactionResponse:
        return await self._read("/etcdserverpb.KV/Compact", request, pb.CompactionResponse)

    async def grant_lease(self, request: pb.LeaseGrantRequest) -> pb.LeaseGrantResponse:
        return await self._write("/etcdserverpb.Lease/LeaseGrant", request, pb.LeaseGrantResponse)

    async def revoke_lease(self, request: pb.LeaseRevokeRequest) -> pb.LeaseRevokeResponse:
        return await self._write("/etcdserverpb.Lease/LeaseRevoke", request, pb.LeaseRevokeResponse)

    async def keep_lease_alive(self, request: pb.LeaseKeepAliveRequest) -> pb.LeaseKeepAliveResponse:
        """Renew a lease once, over a separate stream."""
        endpoint = self._current
        call = self._open_channel(endpoint).server_stream(
            "/etcdserverpb.Lease/LeaseKeepAlive", request.SerializeToString(), CALL_TIMEOUT_S
        )
        try:
            response = await call.read()
        except CallEnded:
            raise _closed(is_write=False) from None
        except RpcError as error:
            raise self._storage_error(endpoint, error, is_write=False) from error
        finally:
            call.cancel()
        if response is None:
            raise StorageUnavailable("etcd ended the lease stream")
        return pb.LeaseKeepAliveResponse.FromString(response)

    async def status(self) -> pb.StatusResponse:
        return await self._read("/etcdserverpb.Maintenance/Status", pb.StatusRequest(), pb.StatusResponse)

    async def alarms(self) -> pb.AlarmResponse:
        return await self._read("/etcdserverpb.Maintenance/Alarm", pb.AlarmRequest(), pb.AlarmResponse)

    async def snapshot(self) -> AsyncGenerator[bytes, None]:
        """Yields one member's whole database in parts, the last of which is the SHA-256 of those before.

        It contains every write that was answered before the call. After the first part there is no failover,
        as another member's pages differ. Raises StorageUnavailable.
        """
        # A member sends what it has applied, however far behind it is; a linearizable read first makes it
        # catch up.
        await self.range(pb.RangeRequest(key=b"\0", count_only=True))
        endpoint = self._current  # the one that answered
        call = self._open_channel(endpoint).server_stream("/etcdserverpb.Maintenance/Snapshot", b"")
        try:
            while True:
                async with asyncio.timeout(SNAPSHOT_PART_TIMEOUT_S):
                    response = await call.read()
                if response is None:
                    return
                yield pb.SnapshotResponse.FromString(response).blob
        except CallEnded:
            raise _closed(is_write=False) from None
        except RpcError as error:
            raise self._storage_error(endpoint, error, is_write=False) from error
        except TimeoutError:
            raise StorageUnavailable(f"etcd at {self.endpoints[endpoint]}: the snapshot stalled") from None
        finally:
            call.cancel()

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[WatchCall]:
        """Opens a watch stream on the endpoint in use, which is cancelled on leaving the context.

        Errors of the stream inside the block are raised as storage errors.
        """
        endpoint = self._current
        call = self._open_channel(endpoint, self._watch_channels).stream(
            "/etcdserverpb.Watch/Watch", _REQUIRE_LEADER
        )
        try:
            yield _WatchCall(call)
        except CallEnded:
            raise _closed(is_write=False) from None
        except RpcError as error:
            raise self._storage_error(endpoint, error, is_write=False) from error
        finally:
            call.cancel()

    async def close(self) -> None:
        self._is_closed = True
        for channel in (*self._channels, *self._watch_channels):
            await channel.close()

    async def _read(self, path: str, request: Request, answer: type[Response]) -> Response:
        """Make a call that may be repeated, on each endpoint in turn until one responds."""
        for endpoint in self._failover_order():
            try:
                return await self._call(endpoint, path, request, answer, is_write=False)
            except RpcError as error:
                failure = self._storage_error(endpoint, error, is_write=False)
                if not isinstance(failure, StorageUnavailable) or isinstance(failure, StorageFull):
                    raise failure from error
                last, cause = failure, error
        raise last from cause

    async def _write(self, path: str, request: Request, answer: type[Response]) -> Response:
        """Make a call that must not happen twice, on another endpoint only if it certainly was not sent."""
        for endpoint in self._failover_order():
            try:
                return await self._call(endpoint, path, request, answer, is_write=True)
            except RpcError as error:
                failure = self._storage_error(endpoint, error, is_write=True)
                if not error.is_unsent:
                    raise failure from error
                last, cause = failure, error
        raise last from cause

    async def _call(
        self, endpoint: int, path: str, request: Request, answer: type[Response], *, is_write: bool
    ) -> Response:
        channel = self._open_channel(endpoint)
        began = monotonic()
        try:
            content = await channel.unary(path, request.SerializeToString(), CALL_TIMEOUT_S)
        except CallEnded:
            raise _closed(is_write=is_write) from None
        except asyncio.CancelledError:
            # The caller's deadline is shorter than CALL_TIMEOUT_S.
            if monotonic() - began > HANG_AFTER_S:
                self._fail_over_from(endpoint, f"etcd at {self.endpoints[endpoint]} does not answer")
            raise
        if self._failed is not None:
            self._log_failover(endpoint)
        return answer.FromString(content)

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

    def _storage_error(self, endpoint: int, error: RpcError, *, is_write: bool) -> StorageError:
        """Returns the storage error for a gRPC error, and fails over after one of an unreachable endpoint."""
        failure = _translate(self.endpoints[endpoint], error, is_write=is_write)
        is_away = isinstance(failure, StorageUnavailable | OutcomeUnknown)
        if is_away and not isinstance(failure, StorageFull):
            self._fail_over_from(endpoint, str(failure))
        return failure

    def _fail_over_from(self, endpoint: int, why: str) -> None:
        """Use the next endpoint from now on, unless another failed call has already changed it."""
        if self._current == endpoint and len(self._channels) > 1:
            self._current = (endpoint + 1) % len(self._channels)
            self._failed = self._failed or (endpoint, why)

    def _log_failover(self, endpoint: int) -> None:
        """Log, after a failure, which endpoint responds. While none does, the callers report it."""
        assert self._failed is not None
        (failed, why), self._failed = self._failed, None
        if failed != endpoint:
            log.warning("%s; using %s", why, self.endpoints[endpoint])


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

    async def read(self) -> pb.WatchResponse | None:
        response = await self._call.read()
        return None if response is None else pb.WatchResponse.FromString(response)

    async def write(self, request: pb.WatchRequest) -> None:
        try:
            await self._call.write(request.SerializeToString())
        except (RpcError, ChannelClosed) as error:
            raise StorageUnavailable("the watch stream has ended") from error
        except CallEnded as error:
            raise StorageUnavailable("the watch stream was canceled by this server") from error

    def cancel(self) -> None:
        self._call.cancel()


def _closed(*, is_write: bool) -> StorageError:
    """Returns the error of a call that `close` interrupted."""
    return (OutcomeUnknown if is_write else StorageUnavailable)("the store was closed meanwhile")


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
