"""Backends: who waits, what is lost, and what is sent together."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from typing import Any, Final

import orjson
import pytest

from apiserver.audit.backends.batches import HELD_BYTES_MAX, Batches
from apiserver.audit.backends.dropped_events import DroppedEvents
from apiserver.audit.backends.fan_out import Backend, Backends, TruncatingBackend
from apiserver.audit.backends.log_backend import TURNS_MAX, LogBackend, WriterThread
from apiserver.audit.backends.options import DeliveryOptions, TruncateOptions
from apiserver.audit.backends.webhook_backend import WebhookBackend
from apiserver.audit.events import Event, size_of, without_objects
from apiserver.metrics.audit import AuditMetrics
from apiserver.webhooks.client_config import ClientConfig
from apiserver.webhooks.errors import CallFailed
from apiserver.webhooks.kubeconfig import KubeconfigCluster
from apiserver.webhooks.review_server import AuditEventServer
from tests.support.eventually import WITHIN_S, eventually
from tests.support.rounds import some_rounds
from tests.unit.audit.backends.events import event, large_event, process

HEAD: Final = b'{"kind":"Event",'


def delivery(mode: str = "batch", **options: Any) -> DeliveryOptions:
    return DeliveryOptions(
        **{
            "mode": mode,
            "buffer_size": 100,
            "max_size": 1,
            "max_wait_s": 0.0,
            "is_throttled": False,
            "qps": 0.0,
            "burst": 0,
            **options,
        }
    )


class Output:
    """Remembers what is written. Each write waits until it may go on; then it may fail."""

    def __init__(self) -> None:
        self.writes: list[list[str]] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.fails = False
        self.is_closed = False
        self.releases = 0

    @property
    def lines(self) -> list[str]:
        return [line for write in self.writes for line in write]

    def write(self, pieces: Sequence[bytes]) -> None:
        assert self.may_go_on.wait(WITHIN_S)
        if self.fails:
            raise OSError(28, "No space left on device", "audit.log")
        documents = [orjson.loads(line) for line in b"".join(pieces).splitlines()]
        self.writes.append([each["auditID"] for each in documents])

    def release(self) -> None:
        self.releases += 1

    def close(self) -> None:
        self.is_closed = True


def log_backend(
    output: Output, metrics: AuditMetrics, options: DeliveryOptions, flush_s: float = WITHIN_S
) -> LogBackend:
    writer = WriterThread(output, asyncio.get_running_loop())
    return LogBackend(writer, options, metrics, head=HEAD, line_format="json", flush_s=flush_s)


async def test_in_batch_mode_nobody_waits_and_all_is_written_at_the_end() -> None:
    output, metrics = Output(), AuditMetrics()
    output.may_go_on.clear()
    backend = log_backend(output, metrics, delivery())
    for number in range(3):
        assert process(backend, event(f"{number}")) is None
    output.may_go_on.set()
    await backend.close()
    assert output.lines == ["0", "1", "2"]
    assert output.is_closed
    assert not metrics.lost.total()


async def test_what_finds_no_room_is_lost_counted_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    output, metrics = Output(), AuditMetrics()
    output.may_go_on.clear()
    backend = log_backend(output, metrics, delivery(buffer_size=4))
    # Nothing is taken out of the buffer before the event loop runs.
    for number in range(10):
        process(backend, event(f"{number}"))
    assert +metrics.lost == {"buffered": 6}
    said = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    assert said == ["audit plugin buffered has lost 1 events: 4 events are already waiting"]
    output.may_go_on.set()
    await backend.close()
    assert output.lines == ["0", "1", "2", "3"]


async def test_a_disk_that_is_full_loses_events_but_fails_no_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    output, metrics = Output(), AuditMetrics()
    backend = log_backend(output, metrics, delivery("blocking"))
    output.fails = True
    for number in range(3):
        waiting = process(backend, event(f"{number}"))
        assert waiting is not None
        assert await waiting
    output.fails = False
    waiting = process(backend, event("3"))
    assert waiting is not None
    assert await waiting
    await backend.close()
    assert output.lines == ["3"]
    assert +metrics.lost == {"log": 3}
    assert [each.getMessage() for each in caplog.records] == [
        "audit plugin log has lost 1 events: audit.log: No space left on device"
    ]


async def test_in_blocking_mode_each_waits_and_those_that_come_together_are_written_together() -> None:
    output, metrics = Output(), AuditMetrics()
    backend = log_backend(output, metrics, delivery("blocking"))
    output.may_go_on.clear()
    first = process(backend, event("0"))
    await asyncio.sleep(0)
    others = [process(backend, event(f"{number}")) for number in range(1, 50)]
    assert first is not None
    assert not first.done()
    output.may_go_on.set()
    assert all([await each for each in (first, *others) if each is not None])
    assert [len(each) for each in output.writes] == [1, 49]
    await backend.close()


async def test_what_comes_in_the_next_turns_of_the_loop_is_written_with_it_but_not_forever() -> None:
    output = Output()
    backend = log_backend(output, AuditMetrics(), delivery("blocking"))
    output.may_go_on.clear()
    waiting = []
    for number in range(2 * TURNS_MAX):
        waiting += [process(backend, event(f"{number}-{each}")) for each in range(2)]
        await asyncio.sleep(0)
    output.may_go_on.set()
    assert all([await each for each in waiting if each is not None])
    assert [len(each) for each in output.writes] == [2 * TURNS_MAX + 2, 2 * TURNS_MAX - 2]
    await backend.close()


async def test_others_may_write_to_the_file_when_nothing_follows() -> None:
    output = Output()
    backend = log_backend(output, AuditMetrics(), delivery("blocking"))
    waiting = process(backend, event("0"))
    assert waiting is not None
    await waiting
    await eventually(lambda: output.releases > 0)
    await backend.close()


async def test_in_strict_mode_a_failure_is_told() -> None:
    output, metrics = Output(), AuditMetrics()
    output.fails = True
    backend = log_backend(output, metrics, delivery("blocking-strict"))
    waiting = process(backend, event("0"))
    assert waiting is not None
    assert not await waiting
    await backend.close()


async def test_who_gives_up_waiting_does_not_disturb_others() -> None:
    output, metrics = Output(), AuditMetrics()
    output.may_go_on.clear()
    backend = log_backend(output, metrics, delivery("blocking"))
    gone, stays = process(backend, event("0")), process(backend, event("1"))
    assert gone is not None
    assert stays is not None
    gone.cancel()
    output.may_go_on.set()
    assert await stays
    assert output.lines == ["0", "1"]
    await backend.close()


async def test_events_of_requests_that_are_gone_are_written_when_the_server_stops() -> None:
    output, metrics = Output(), AuditMetrics()
    output.may_go_on.clear()
    backend = log_backend(output, metrics, delivery("blocking"))
    process(backend, event("0"))
    await asyncio.sleep(0)
    gone = process(backend, event("1"))
    assert gone is not None
    gone.cancel()
    closing = asyncio.create_task(backend.close())
    await some_rounds()
    assert not closing.done(), "it waits for the disk"
    output.may_go_on.set()
    await closing
    assert output.lines == ["0", "1"]
    assert not metrics.lost.total()


@pytest.mark.parametrize("mode", ["batch", "blocking", "blocking-strict"])
async def test_what_a_disk_does_not_take_until_the_server_has_stopped_is_lost(mode: str) -> None:
    output, metrics = Output(), AuditMetrics()
    output.may_go_on.clear()
    backend = log_backend(output, metrics, delivery(mode), flush_s=0.01)
    process(backend, event("0"))
    await asyncio.sleep(0)
    process(backend, event("1"))
    await backend.close()
    assert sum(metrics.lost.values()) == 2
    output.may_go_on.set()


def test_what_goes_on_is_said_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    times, metrics = [0.0, 1.0, 59.9, 60.0, 61.0], AuditMetrics()
    losses = DroppedEvents("log", metrics, iter(times).__next__)
    for _ in times:
        losses.lost(2, "a\nb")
    assert +metrics.lost == {"log": 10}
    assert [each.getMessage() for each in caplog.records] == [
        "audit plugin log has lost 2 events: a b",
        "audit plugin log has lost 6 events: a b",
    ]


# ---- batches


class Deliveries:
    """Remembers batches, each of which is delivered when it may be."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def __call__(self, batch: Sequence[Any]) -> None:
        self.batches.append(
            [orjson.loads(b"{%b}" % without_objects(each))["auditID"].rstrip(".") for each in batch]
        )
        await self.may_end.wait()


def hold(buffer: Batches, event: Event) -> None:
    buffer.add(lambda: event, size_of(event))


def batches(found: Deliveries, metrics: AuditMetrics, options: DeliveryOptions, **more: int) -> Batches:
    limits = {"deliveries_max": 2, "batch_bytes_max": 10_000, **more}
    return Batches(options, found, DroppedEvents("buffered", metrics), **limits)


async def test_a_batch_is_sent_when_it_is_full_or_its_first_event_has_waited() -> None:
    found = Deliveries()
    buffer = batches(found, AuditMetrics(), delivery(max_size=3, max_wait_s=0.05))
    for number in range(7):
        hold(buffer, event(f"{number}"))
    running = asyncio.create_task(buffer.run())
    await eventually(lambda: len(found.batches) == 3)
    assert found.batches == [["0", "1", "2"], ["3", "4", "5"], ["6"]]
    buffer.close()
    await running


async def test_a_batch_is_bounded_in_bytes_and_one_event_may_be_larger() -> None:
    found = Deliveries()
    buffer = batches(found, AuditMetrics(), delivery(max_size=50), batch_bytes_max=250)
    for name, padding in (("a", 100), ("b", 100), ("c", 100), ("d", 1000), ("e", 0)):
        hold(buffer, event(name, padding))
    running = asyncio.create_task(buffer.run())
    buffer.close()
    await running
    assert found.batches == [["a", "b"], ["c"], ["d"], ["e"]]


async def test_a_batch_is_sent_when_it_has_its_bytes() -> None:
    """Large events are not held for the time in which small ones are collected."""
    found = Deliveries()
    buffer = batches(
        found,
        AuditMetrics(),
        delivery(max_size=400, max_wait_s=60),
        batch_bytes_max=2 * size_of(event("a", 900)),
    )
    running = asyncio.create_task(buffer.run())
    hold(buffer, event("a", 900))
    for _ in range(20):
        await asyncio.sleep(0)
    assert found.batches == []
    hold(buffer, event("b", 900))
    await eventually(lambda: found.batches == [["a", "b"]])
    buffer.close()
    await running


async def test_events_that_are_held_are_bounded_in_bytes() -> None:
    found, metrics = Deliveries(), AuditMetrics()
    buffer = batches(found, metrics, delivery(max_size=50))
    half = large_event("x", HELD_BYTES_MAX // 2)
    for _ in range(3):
        hold(buffer, half)
    assert +metrics.lost == {"buffered": 2}


async def test_as_many_batches_are_under_way_as_may_be() -> None:
    found = Deliveries()
    found.may_end.clear()
    buffer = batches(found, AuditMetrics(), delivery(max_size=2, max_wait_s=0.01))
    for number in range(8):
        hold(buffer, event(f"{number}"))
    running = asyncio.create_task(buffer.run())
    await eventually(lambda: len(found.batches) == 2)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(found.batches) == 2
    assert buffer.abandon() == 8
    running.cancel()


# ---- the webhook


class Server:
    """Remembers what it is told. fails: how many attempts."""

    def __init__(self, fails: int = 0) -> None:
        self.fails, self.attempts = fails, 0
        self.bodies: list[Any] = []

    async def tell(self, client: ClientConfig, body: bytes, timeout_s: int) -> None:
        self.attempts += 1
        if self.attempts <= self.fails:
            raise CallFailed("connection refused")
        self.bodies.append(orjson.loads(body))


def webhook(
    server: Server, metrics: AuditMetrics, options: DeliveryOptions
) -> tuple[WebhookBackend, list[float]]:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    told = AuditEventServer(KubeconfigCluster("https://audit"), server, 10.0, sleep)
    head = b'{"kind":"EventList","items":['
    return WebhookBackend(told, options, metrics, head=head, batch_bytes_max=10_000), pauses


async def test_events_are_posted_as_a_list() -> None:
    server, metrics = Server(), AuditMetrics()
    backend, _ = webhook(server, metrics, delivery(max_size=400, max_wait_s=30))
    process(backend, event("a"))
    process(backend, large_event("b", 10))
    await backend.close()
    assert server.bodies == [
        {"kind": "EventList", "items": [{"auditID": "a"}, {"auditID": "b", "requestObject": "x" * 8}]}
    ]


async def test_what_fails_is_tried_again_after_pauses_that_grow() -> None:
    server, metrics = Server(fails=3), AuditMetrics()
    backend, pauses = webhook(server, metrics, delivery())
    process(backend, event("a"))
    await backend.close()
    assert len(server.bodies) == 1
    for pause, expected in zip(pauses, (10, 15, 22.5), strict=True):
        assert expected <= pause <= expected * 1.2
    assert not metrics.lost.total()


@pytest.mark.parametrize("mode", ["batch", "blocking", "blocking-strict"])
async def test_a_server_that_is_dead_loses_events(mode: str) -> None:
    server, metrics = Server(fails=99), AuditMetrics()
    backend, _ = webhook(server, metrics, delivery(mode))
    waiting = process(backend, event("a"))
    if waiting is not None:
        assert await waiting is (mode == "blocking")
    await backend.close()
    assert server.attempts == 5
    assert +metrics.lost == {"webhook": 1}


class HangingServer:
    """Never answers."""

    async def tell(self, body: bytes) -> None:
        await asyncio.Event().wait()


@pytest.mark.parametrize("mode", ["batch", "blocking", "blocking-strict"])
async def test_what_a_server_does_not_take_until_the_server_has_stopped_is_lost(mode: str) -> None:
    metrics = AuditMetrics()
    backend = WebhookBackend(
        HangingServer(), delivery(mode), metrics, head=b"{", batch_bytes_max=10_000, flush_s=0.01
    )
    process(backend, event("0"))
    await asyncio.sleep(0)
    waiting = process(backend, event("1"))
    await backend.close()
    assert sum(metrics.lost.values()) == 2
    if waiting is not None:
        with pytest.raises(asyncio.CancelledError):
            await waiting


class TakingServer:
    """Takes everything."""

    async def tell(self, body: bytes) -> None:
        pass


@pytest.mark.parametrize("is_hanging", [False, True], ids=["all was sent", "nothing was sent"])
@pytest.mark.parametrize("mode", ["batch", "blocking", "blocking-strict"])
async def test_what_comes_after_the_end_is_lost_and_nobody_waits_for_it(mode: str, is_hanging: bool) -> None:
    """Requests that are cancelled when the server stops have events, too."""
    server = HangingServer() if is_hanging else TakingServer()
    metrics, output = AuditMetrics(), Output()
    flush_s = 0.01 if is_hanging else 60.0
    backends: dict[str, Backend] = {
        "webhook": WebhookBackend(
            server, delivery(mode), metrics, head=b"{", batch_bytes_max=10_000, flush_s=flush_s
        ),
        "log": log_backend(output, metrics, delivery(mode)),
    }
    for plugin, backend in backends.items():
        process(backend, event("0"))
        await backend.close()
        metrics.lost.clear()
        waiting = process(backend, event("1"))
        assert +metrics.lost == {"buffered" if mode == "batch" else plugin: 1}
        if waiting is not None:
            assert waiting.done()
            assert await waiting is (mode == "blocking")
    assert output.lines == ["0"]


@pytest.mark.parametrize("mode", ["blocking", "blocking-strict"])
async def test_what_is_written_without_a_buffer_is_bounded_too(mode: str) -> None:
    """Clients that do not wait for the answer leave their events to a disk that hangs, or a dead server."""
    output, metrics = Output(), AuditMetrics()
    backends: dict[str, Backend] = {
        "log": log_backend(output, metrics, delivery(mode)),
        "webhook": webhook(Server(), metrics, delivery(mode))[0],
    }
    for plugin, backend in backends.items():
        for _ in range(2):
            taken = backend.process(lambda: event("a"), HELD_BYTES_MAX)
            lost = process(backend, event("b"))
            assert isinstance(lost, asyncio.Future)
            assert lost.done()
            assert await lost is (mode == "blocking")
            assert taken is not None
            assert await taken
        assert metrics.lost[plugin] == 2
        await backend.close()


# ---- all of them


async def test_an_event_goes_to_all_and_who_waits_waits_for_all() -> None:
    outputs, metrics = [Output(), Output(), Output()], AuditMetrics()
    modes = ("batch", "blocking", "blocking-strict")
    outputs[2].fails = True
    every = [
        log_backend(output, metrics, delivery(mode)) for output, mode in zip(outputs, modes, strict=True)
    ]
    backends = Backends(every)
    waiting = backends.process(lambda: event("a"), 10)
    assert waiting is not None
    assert not await waiting
    await backends.close()
    assert [output.lines for output in outputs] == [["a"], ["a"], []]


async def test_events_that_are_too_large_are_shortened_or_lost() -> None:
    output, metrics = Output(), AuditMetrics()
    options = TruncateOptions(is_enabled=True, max_batch_size=1000, max_event_size=300)
    backend = TruncatingBackend(log_backend(output, metrics, delivery()), options, "x/truncated", metrics)
    process(backend, large_event("a", 500))
    process(backend, event("b", 500))
    process(backend, event("c"))
    await backend.close()
    assert output.lines == ["a", "c"]
    assert +metrics.lost == {"truncate": 1}
