"""The few etcd calls that this server makes, with failover, deadlines and etcd's errors by name."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from time import monotonic
from typing import Any, Final, NamedTuple, Protocol, TypeVar, cast
from urllib.parse import urlsplit

import grpc
import grpc.aio
from google.protobuf.message import Message

from apiserver.storage.errors import (
    LeaseNotFound,
    OutcomeUnknown,
    StorageError,
    StorageFull,
    StorageUnavailable,
)
from apiserver.storage.etcd import etcd_subset_pb2 as pb

log = logging.getLogger(__name__)

# A call that etcd does not answer in this time fails; requests have shorter deadlines.
CALL_TIMEOUT_S: Final = 10.0
# How long etcd may take for the next part of a snapshot; each is 32 KiB, the first comes after a commit.
SNAPSHOT_PART_TIMEOUT_S: Final = 30.0
# A call that was cancelled after this time shows that its endpoint hangs.
HANG_AFTER_S: Final = 2.0
KEEPALIVE_INTERVAL_MS: Final = 10_000  # etcd refuses clients that ping more often than every 5 s
KEEPALIVE_TIMEOUT_MS: Final = 10_000
RECONNECT_FIRST_MS: Final = 100
RECONNECT_MAX_MS: Final = 2_000
# A connection, with its handshakes, that takes longer has failed: an endpoint far away, or on a busy machine,
# needs some tenths of a second. For so long an endpoint from which nothing comes holds up the others.
CONNECT_TIMEOUT_MS: Final = 2_000
UNLIMITED: Final = -1

_OPTIONS: Final = [
    # A page of large values, or one fragment of a watch, is above gRPC's 4 MB.
    ("grpc.max_receive_message_length", UNLIMITED),
    ("grpc.max_send_message_length", UNLIMITED),
    ("grpc.keepalive_time_ms", KEEPALIVE_INTERVAL_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.max_reconnect_backoff_ms", RECONNECT_MAX_MS),
    ("grpc.initial_reconnect_backoff_ms", RECONNECT_FIRST_MS),
    # By this name gRPC has the least time that a connection may take, whatever the pauses between them are.
    ("grpc.min_reconnect_backoff_ms", CONNECT_TIMEOUT_MS),
]
# How many bytes etcd may have sent of a watch that have not been read yet. The window that gRPC chooses grows
# to megabytes, thousands of responses with one revision each, and a busy event loop reads some hundreds in a
# second: the watch cache was seconds behind. While etcd must wait, it gathers what happens in one response.
WATCH_WINDOW_BYTES: Final = 64 * 1024
_WATCH_OPTIONS: Final = [
    *_OPTIONS,
    ("grpc.http2.lookahead_bytes", WATCH_WINDOW_BYTES),
    # Measuring the bandwidth would let the window grow.
    ("grpc.http2.bdp_probe", 0),
]
# Without it a watch on a member that lost its leader stays silent; with it, it ends in some seconds.
_REQUIRE_LEADER: Final = (("hasleader", "true"),)

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


class Tls(NamedTuple):
    """PEM contents for connections to etcd."""

    ca: bytes | None = None
    certificate: bytes | None = None
    key: bytes | None = None


class WatchCall(Protocol):
    """A watch stream, which one task reads and any task may write to."""

    async def read(self) -> pb.WatchResponse | None:
        """Returns the next response; None when etcd ended the stream."""
        ...

    async def write(self, request: pb.WatchRequest) -> None:
        """Sends a request. Raises StorageUnavailable if the stream has ended already."""
        ...

    def cancel(self) -> bool: ...


class EtcdClient:
    """Calls the endpoint in use, and fails over as the package's docstring explains.

    After `close`, and whenever it cuts a call short, every method raises StorageUnavailable, or, for a write
    that may have happened, OutcomeUnknown.
    """

    def __init__(self, endpoints: Sequence[str], tls: Tls | None = None) -> None:
        """endpoints: as `http://10.0.0.1:2379` or `https://etcd-1:2379`, at least one."""
        self.endpoints = tuple(endpoints)
        self._channels = [_channel(endpoint, tls or Tls(), _OPTIONS) for endpoint in endpoints]
        # Watches have separate connections: lists need a larger window.
        self._watch_channels = [_channel(endpoint, tls or Tls(), _WATCH_OPTIONS) for endpoint in endpoints]
        # By endpoint and path: to make one takes longer than to look it up.
        self._calls: dict[tuple[int, str], Any] = {}
        self._current = 0
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
        call = self._open_channel(endpoint).stream_stream(
            "/etcdserverpb.Lease/LeaseKeepAlive",
            request_serializer=pb.LeaseKeepAliveRequest.SerializeToString,
            response_deserializer=pb.LeaseKeepAliveResponse.FromString,
        )(iter((request,)), timeout=CALL_TIMEOUT_S)
        # No `write`: while it connects, cancelling the call leaves the task that writes waiting for ever.
        try:
            with self._closed_raises(StorageUnavailable):
                responses = [each async for each in call]
        except grpc.aio.AioRpcError as error:
            raise self._storage_error(endpoint, error, is_write=False) from error
        finally:
            call.cancel()
        if not responses:
            raise StorageUnavailable("etcd ended the lease stream")
        return responses[0]

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
        call = self._open_channel(endpoint).unary_stream(
            "/etcdserverpb.Maintenance/Snapshot",
            request_serializer=pb.SnapshotRequest.SerializeToString,
            response_deserializer=pb.SnapshotResponse.FromString,
        )(pb.SnapshotRequest())
        try:
            while True:
                with self._closed_raises(StorageUnavailable):
                    async with asyncio.timeout(SNAPSHOT_PART_TIMEOUT_S):
                        response = await call.read()
                if response is grpc.aio.EOF:
                    return
                yield cast(pb.SnapshotResponse, response).blob
        except grpc.aio.AioRpcError as error:
            raise self._storage_error(endpoint, error, is_write=False) from error
        except TimeoutError:
            raise StorageUnavailable(
                f"etcd at {self.endpoints[endpoint]}: the snapshot stopped coming"
            ) from None
        finally:
            call.cancel()

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[WatchCall]:
        """Opens a watch stream on the endpoint in use, which is cancelled on leaving the context.

        gRPC's errors inside the block are raised as storage errors.
        """
        endpoint = self._current
        call = self._open_channel(endpoint, self._watch_channels).stream_stream(
            "/etcdserverpb.Watch/Watch",
            request_serializer=pb.WatchRequest.SerializeToString,
            response_deserializer=pb.WatchResponse.FromString,
        )(metadata=_REQUIRE_LEADER)
        try:
            with self._closed_raises(StorageUnavailable):
                yield _WatchCall(call)
        except grpc.aio.AioRpcError as error:
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
            except grpc.aio.AioRpcError as error:
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
            except grpc.aio.AioRpcError as error:
                failure = self._storage_error(endpoint, error, is_write=True)
                if not _was_not_sent(error):
                    raise failure from error
                last, cause = failure, error
        raise last from cause

    async def _call(
        self, endpoint: int, path: str, request: Request, answer: type[Response], *, is_write: bool
    ) -> Response:
        channel = self._open_channel(endpoint)
        call = self._calls.get((endpoint, path))
        if call is None:
            call = self._calls[endpoint, path] = channel.unary_unary(
                path,
                request_serializer=type(request).SerializeToString,
                response_deserializer=answer.FromString,
            )
        began = monotonic()
        try:
            with self._closed_raises(OutcomeUnknown if is_write else StorageUnavailable):
                return cast(Response, await call(request, timeout=CALL_TIMEOUT_S))
        except asyncio.CancelledError:
            # The caller's deadline is shorter than CALL_TIMEOUT_S.
            if monotonic() - began > HANG_AFTER_S:
                self._fail_over_from(endpoint, f"etcd at {self.endpoints[endpoint]} does not answer")
            raise

    @contextmanager
    def _closed_raises(self, kind: type[StorageError]) -> Iterator[None]:
        """Raise `kind` when `close` has cancelled the call, and not the task that awaits it."""
        try:
            yield
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if not self._is_closed or (task is not None and task.cancelling()):
                raise
            raise kind("the store was closed meanwhile") from error

    def _open_channel(
        self, endpoint: int, channels: Sequence[grpc.aio.Channel] | None = None
    ) -> grpc.aio.Channel:
        """Returns an endpoint's channel; those of all calls but watches are `self._channels`.

        Raises StorageUnavailable after `close`, where gRPC would raise a UsageError.
        """
        if self._is_closed:
            raise StorageUnavailable("the store is closed")
        return (self._channels if channels is None else channels)[endpoint]

    def _failover_order(self) -> list[int]:
        """Returns every endpoint once, the one in use first."""
        first, count = self._current, len(self._channels)
        return [(first + offset) % count for offset in range(count)]

    def _storage_error(self, endpoint: int, error: grpc.aio.AioRpcError, *, is_write: bool) -> StorageError:
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
            log.warning("%s; using %s from now on", why, self.endpoints[self._current])


def _translate(where: str, error: grpc.aio.AioRpcError, *, is_write: bool) -> StorageError:
    """Returns the storage error for an error of etcd or gRPC, some of which differ only by their text."""
    code, text = error.code(), error.details() or ""
    for fragment, kind in _ERRORS_BY_TEXT.items():
        if fragment in text:
            return kind(f"etcd at {where}: {text}")
    if "requested lease not found" in text:
        return LeaseNotFound(0)
    if is_write and not _was_not_sent(error) and not _was_refused(error):
        return OutcomeUnknown(f"etcd at {where}: {code.name}: {text}")
    return StorageUnavailable(f"etcd at {where}: {code.name}: {text}")


class _WatchCall:
    def __init__(self, call: Any) -> None:
        self._call = call

    async def read(self) -> pb.WatchResponse | None:
        response = await self._call.read()
        return None if response is grpc.aio.EOF else cast(pb.WatchResponse, response)

    async def write(self, request: pb.WatchRequest) -> None:
        try:
            await self._call.write(request)
        except (asyncio.InvalidStateError, grpc.aio.AioRpcError) as error:
            raise StorageUnavailable("the watch stream has ended") from error
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise StorageUnavailable("the watch stream was ended here") from error

    def cancel(self) -> bool:
        return bool(self._call.cancel())


_ERRORS_BY_TEXT: Final[dict[str, type[StorageError]]] = {
    "required revision has been compacted": EtcdCompacted,
    "required revision is a future revision": EtcdFutureRevision,
    "request is too large": EtcdRequestTooLarge,
    "larger than max": EtcdRequestTooLarge,
    "database space exceeded": StorageFull,
}


def _was_refused(error: grpc.aio.AioRpcError) -> bool:
    """Whether the response is one that etcd gives before it proposes a write to the cluster."""
    if error.code() in _REFUSALS:
        return True
    text = error.details() or ""
    return any(refusal in text for refusal in ("too many requests", "no leader", "permission denied"))


# The codes of requests that etcd refuses as they are.
_REFUSALS: Final = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
)


def _was_not_sent(error: grpc.aio.AioRpcError) -> bool:
    """Whether gRPC gave up while connecting, so that no server has seen the call."""
    text = error.details() or ""
    return error.code() is grpc.StatusCode.UNAVAILABLE and any(
        fragment in text
        for fragment in (
            "failed to connect",
            "Failed to connect",
            "connections to all backends",
            "name resolution",
        )
    )


def _channel(endpoint: str, tls: Tls, options: Sequence[tuple[str, int]]) -> grpc.aio.Channel:
    url = urlsplit(endpoint)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ValueError(
            f"etcd endpoint {endpoint!r} is not of the form http://HOST:PORT or https://HOST:PORT"
        )
    target = f"{url.hostname}:{url.port or 2379}"
    if ":" in url.hostname:
        target = f"[{url.hostname}]:{url.port or 2379}"
    if url.scheme == "http":
        return grpc.aio.insecure_channel(target, options=options)
    credentials = grpc.ssl_channel_credentials(tls.ca, tls.key, tls.certificate)
    return grpc.aio.secure_channel(target, credentials, options=options)
