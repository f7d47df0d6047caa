"""What is known of etcd's releases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import grpc
import grpc.aio
import pytest

from apiserver.storage.etcd import etcd_subset_pb2 as pb
from apiserver.storage.etcd.version import EtcdVersion
from tests.support.etcd_stores import ALL, Stores
from tests.support.eventually import WITHIN_S

pytestmark = pytest.mark.etcd

# https://github.com/etcd-io/etcd/issues/15220: before these releases progress reports overtook events.
ORDERED = {
    "3.4.30": False,
    "3.4.31": True,
    "3.4.40": True,
    "3.5.0": False,
    "3.5.1": False,
    "3.5.12": False,
    "3.5.13": True,
    "3.6.0-rc.1": True,
    "3.6.5": True,
    "4.0.0": True,
    "": False,
    "unknown": False,
    "3.5": False,
}


@pytest.mark.parametrize(("release", "is_ordered"), ORDERED.items())
def test_which_releases_have_ordered_progress_reports(release: str, is_ordered: bool) -> None:
    assert EtcdVersion.parse(release).has_ordered_progress is is_ordered


REPORTED_REVISION: Final = 100


def _unary(answer: Callable[..., Any], request: type[Any]) -> Any:
    return grpc.unary_unary_rpc_method_handler(
        answer, request.FromString, lambda response: response.SerializeToString()
    )


class Release:
    """A server that claims to be an etcd of changing releases; its watches send only progress reports."""

    def __init__(self) -> None:
        self.version = ""
        self.url = ""
        self.fences = 0
        self._server = grpc.aio.server()
        methods = {
            "Maintenance": {"Status": _unary(self._status, pb.StatusRequest)},
            "KV": {"Put": _unary(self._put, pb.PutRequest)},
            "Watch": {
                "Watch": grpc.stream_stream_rpc_method_handler(
                    self._watch, pb.WatchRequest.FromString, pb.WatchResponse.SerializeToString
                )
            },
        }
        self._server.add_generic_rpc_handlers(
            [
                grpc.method_handlers_generic_handler(f"etcdserverpb.{name}", its)
                for name, its in methods.items()
            ]
        )

    async def __aenter__(self) -> Release:
        self.url = f"http://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(None)

    async def _status(self, request: pb.StatusRequest, context: object) -> pb.StatusResponse:
        return pb.StatusResponse(version=self.version)

    async def _put(self, request: pb.PutRequest, context: object) -> pb.PutResponse:
        self.fences += 1
        return pb.PutResponse()

    async def _watch(
        self, requests: AsyncIterator[pb.WatchRequest], context: object
    ) -> AsyncIterator[pb.WatchResponse]:
        async for request in requests:
            yield pb.WatchResponse(
                created=request.HasField("create_request"), header=pb.Header(revision=REPORTED_REVISION)
            )


async def test_each_watch_asks_for_the_servers_release(
    open_store: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    """Members are replaced one after another, also by older ones whose progress reports are unreliable."""
    async with Release() as etcd, asyncio.timeout(WITHIN_S):
        store = open_store(etcd.url)
        seen: list[tuple[str, bool, int]] = []
        for etcd.version in ("3.5.13", "3.5.1", "3.5.1", "3.6.0", "3.5.1", "3.5.2"):
            etcd.fences, caplog_before = 0, len(caplog.records)
            watch = store.watch(ALL, after=1)
            batches = aiter(watch)
            await anext(batches)
            await watch.request_progress()
            if not etcd.fences:
                assert (await anext(batches)).revision == REPORTED_REVISION
            await watch.close()
            seen.append((etcd.version, not etcd.fences, len(caplog.records) - caplog_before))
        await store.close()
    # release, whether its progress report was trusted, how many warnings there were
    assert seen == [
        ("3.5.13", True, 0),
        ("3.5.1", False, 1),
        ("3.5.1", False, 0),
        ("3.6.0", True, 0),
        ("3.5.1", False, 1),
        ("3.5.2", False, 1),
    ]


WARNED = {"3.4.30": True, "3.4.31": False, "3.5.2": True, "3.5.12": True, "3.5.13": False, "3.6.0": False}


@pytest.mark.parametrize(("release", "is_warned"), WARNED.items())
def test_which_releases_get_a_warning(release: str, is_warned: bool) -> None:
    assert (EtcdVersion.parse(release).warning is not None) is is_warned
