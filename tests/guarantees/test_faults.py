"""Every fault a few times: no answered write is lost, no event is missed, and the server recovers by itself.

Requests meanwhile end with proper answers, too: see `faults`. For more repetitions, as in
docs/explanation/reliability.md, run `python -m tests.guarantees.faults`. Leases when the clock is set:
tests/storage/embedded/test_leases.py.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.guarantees.faults import (
    FAULTS,
    GRPC,
    HTTP2,
    WRITES_PER_FAULT,
    NotPossibleHere,
    Rig,
    run_trials,
)
from tests.support.required import missing

pytestmark = pytest.mark.slow

TIMES: Final = {"server killed": 8, "network stalled for long": 1, "etcd paused for long": 1}
TIMES_OF_OTHERS: Final = 3
# With gRPC's library, too. The default transport has most of the time; there each of them is injected once.
TIMES_ON_GRPC: Final = 1
# These have no etcd, so that they have no transport either.
EMBEDDED: Final = ("server killed", "disk full", "clock set an hour off")


@pytest.mark.parametrize(
    ("name", "transport"),
    [
        pytest.param(name, transport, marks=[pytest.mark.longest] * name.endswith(" for long"))
        for transport in (HTTP2, GRPC)
        for name in FAULTS
        if transport == HTTP2 or name not in EMBEDDED
    ],
)
async def test_a_fault_loses_nothing(name: str, transport: str, tmp_path: Path) -> None:
    times = TIMES.get(name, TIMES_OF_OTHERS) if transport == HTTP2 else TIMES_ON_GRPC
    try:
        row = await run_trials(FAULTS[name], times, tmp_path, etcd_transport=transport)
    except NotPossibleHere as reason:
        missing(str(reason))
    assert not row.problems, row.problems
    assert (row.lost, row.missed) == (0, 0)
    assert row.answered_writes >= WRITES_PER_FAULT * row.times, "there was hardly any load"


async def test_lost_writes_are_reported(tmp_path: Path) -> None:
    """The store is replaced by an earlier copy: writes are lost, and their revisions are used again."""

    async def set_back(rig: Rig) -> None:
        rig.server.kill()
        store, kept = tmp_path / "data" / "store", tmp_path / "kept"
        if kept.exists():
            shutil.rmtree(store)
            shutil.copytree(kept, store)
        else:
            shutil.copytree(store, kept)

    row = await run_trials(replace(FAULTS["server killed"], inject=set_back), 2, tmp_path)
    assert row.lost > 0
    assert "durable" in row.problems


async def test_a_wrong_readyz_is_reported(tmp_path: Path) -> None:
    """The fault is not injected, so that readyz passes where it is expected to fail."""

    async def do_nothing(rig: Rig) -> None:
        pass

    harmless = replace(FAULTS["server killed"], inject=do_nothing, repair=do_nothing, is_ready=False)
    row = await run_trials(replace(harmless, duration_s=(0.1, 0.2)), 1, tmp_path)
    assert "readyz" in row.problems["the fault itself"][0]
