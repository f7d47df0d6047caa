"""All guarantees under load, on both stores: rows K01-K46, M01-M11 and C02 as clients observe them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.guarantees.checkers import check
from tests.guarantees.history import EventType, History, Outcome, ReadKind, WatchEnd
from tests.guarantees.recorder import REQUEST_TIMEOUT_S, Recorder
from tests.support.etcd_process import wheel_etcd
from tests.support.eventually import WITHIN_S, eventually
from tests.support.server_process import ServerProcess

SHORT_S: Final = 3.0
RESTARTS: Final = 8
WRITES_MIN: Final = 500

Setup = Callable[[Path, ExitStack], list[ServerProcess]]


def embedded(*flags: str) -> Setup:
    def start(directory: Path, stack: ExitStack) -> list[ServerProcess]:
        return [stack.enter_context(server(directory / "data", *flags))]

    return start


def on_etcd(*flags: str, replicas: int = 1) -> Setup:
    def start(directory: Path, stack: ExitStack) -> list[ServerProcess]:
        etcd = stack.enter_context(wheel_etcd(directory))
        given = (f"--etcd-servers={etcd.url}", *flags)
        return [stack.enter_context(server(directory / f"data{n}", *given)) for n in range(replicas)]

    return start


@contextmanager
def server(data_dir: Path, *flags: str) -> Iterator[ServerProcess]:
    with ServerProcess(data_dir, f"--request-timeout={REQUEST_TIMEOUT_S}s", *flags) as process:
        yield process


ETCD: Final = pytest.mark.etcd
FROM_STORE: Final = "--feature-gates=ListFromCacheSnapshot=false"
SETUPS: Final = [
    pytest.param(embedded(), id="embedded"),
    pytest.param(on_etcd(), id="etcd", marks=ETCD),
    # Row K33: exact reads and continuations from the store give the same.
    pytest.param(embedded(FROM_STORE), id="embedded, exact reads from the store", marks=pytest.mark.slow),
    # Each request of a client goes to either server.
    pytest.param(on_etcd(replicas=2), id="two servers on etcd", marks=ETCD),
]


def assert_sound(history: History, directory: Path) -> None:
    found = check(history)
    if found:
        history.save(directory / "history.json")
        shown = "\n".join(f"{name}: {len(all_)}: {all_[:3]}" for name, all_ in found.items())
        pytest.fail(f"{shown}\nthe history is in {directory / 'history.json'}")


def has_all_kinds_of_requests(recorder: Recorder) -> bool:
    """Whether the run has had them; otherwise it proves nothing. A busy machine takes longer over them."""
    history = recorder.history
    return (
        recorder.answered_writes > 50
        and {read.kind for read in history.reads} == set(ReadKind)
        and any(len(set(read.pages)) == 1 and len(read.pages) > 1 for read in history.reads)
        and {event.type for watch in history.watches for event in watch.events} == set(EventType)
        and any(watch.resumes and watch.changes for watch in history.watches)
        # Two clients have conflicted.
        and any(write.status == 409 for write in history.writes)
    )


@pytest.mark.parametrize("setup", SETUPS)
async def test_all_guarantees_hold_under_load(setup: Setup, tmp_path: Path) -> None:
    with ExitStack() as stack:
        recorder = Recorder(setup(tmp_path, stack))
        async with recorder.recording():
            await asyncio.sleep(SHORT_S)
            await eventually(lambda: has_all_kinds_of_requests(recorder))
    history = recorder.history
    assert_sound(history, tmp_path)
    assert not [answer for answer in history.answers if answer.cut or answer.status >= 500]
    assert {watch.end for watch in history.watches} == {WatchEnd.OPEN, WatchEnd.FINISHED}, (
        "no history was lost"
    )


@pytest.mark.slow
@pytest.mark.parametrize("setup", SETUPS)
async def test_all_guarantees_hold_over_restarts(setup: Setup, tmp_path: Path) -> None:
    """Servers are killed, or shut down gracefully, and started again all the time."""
    rng = random.Random(1)
    with ExitStack() as stack:
        servers = setup(tmp_path, stack)
        recorder = Recorder(servers)
        async with recorder.recording():
            for _ in range(RESTARTS):
                await asyncio.sleep(rng.uniform(0.5, 3))
                one = rng.choice(servers)
                await asyncio.to_thread(rng.choice([one.kill, one.stop]))
                await asyncio.to_thread(one.start)
            await eventually(lambda: recorder.answered_writes > WRITES_MIN, within_s=RESTARTS * WITHIN_S)
    assert_sound(recorder.history, tmp_path)
    assert any(write.outcome is not Outcome.ANSWERED for write in recorder.history.writes)
