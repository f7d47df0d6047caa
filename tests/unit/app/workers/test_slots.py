"""When a worker that has died is started again."""

from __future__ import annotations

import selectors
import socket

from apiserver.app.workers.channel import Channel
from apiserver.app.workers.slots import RESTART_FIRST_S, RESTART_MAX_S, STEADY_S, WorkerSlot


def delay_after_life_of(slot: WorkerSlot, life_s: float) -> float:
    ours, theirs = socket.socketpair()
    with ours, theirs, selectors.DefaultSelector() as selector:
        slot.process_started(1, Channel(ours, selector, slot), 100.0)
    ended_at = 100.0 + life_s
    slot.process_ended(ended_at)
    return slot.starts_at - ended_at


def test_the_delay_doubles_up_to_a_maximum_while_processes_keep_dying() -> None:
    slot = WorkerSlot(1)
    delays = [delay_after_life_of(slot, 1.0) for _ in range(8)]
    assert delays == [min(RESTART_FIRST_S * 2**n, RESTART_MAX_S) for n in range(8)]


def test_a_steady_process_is_replaced_soon() -> None:
    slot = WorkerSlot(1)
    for _ in range(5):
        delay_after_life_of(slot, 1.0)
    assert delay_after_life_of(slot, STEADY_S + 1) == RESTART_FIRST_S
