"""An attack of each kind, for a short time: nobody is refused, no turn is long, and memory stays bounded.

`make attack ARGS=--check` carries out all of them, for longer. Delays are not checked here, as they depend on
what else the machine does.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import pytest

from tests.hostile.attacks import ATTACKS
from tests.hostile.targets import kube_apiserver, this_server
from tests.hostile.trial import Bound, run_trial
from tests.support.etcd_process import etcd_binaries
from tests.support.required import missing

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="Linux is missing: addresses and clocks are its own"
)

# All of them would take longer than all other tests together.
OF_EACH_KIND: Final = (
    "unread openapi",
    "answers read slowly",
    "silent bodies with rights",
    "unfinished bodies",
    "yaml alias bombs",
    "patches that double values",
    "half open handshakes",
    "pipelined requests",
    "expensive rules",
    "large responses of webhooks",
    "retries without pause",
    "four pretty lists",
    "label selectors",
    "lists of the past",
    "differences of large objects",
    "watches with selectors",
    "reviews of many rules",
    "expressions of much work",
    "writes whose webhook is slow",
    "logs of one byte a chunk",
    "unread subscriptions",
    "refused subscriptions",
)
SECONDS: Final = 4.0
# Processor time, too, is longer where processors are slow, or share their caches with others.
SLOWNESS: Final = 3.0
# They depend on what else the machine does, and on when the allocator gives memory back.
NOT_CHECKED: Final = {Bound.DELAY, Bound.RETURNED}


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_EACH_KIND)
async def test_an_attack_harms_nobody_else(name: str, tmp_path: Path) -> None:
    trial = await run_trial(ATTACKS[name], this_server(), tmp_path, seconds=SECONDS, settle_s=0.0)
    assert all(experience.delays_ms for experience in trial.victim.values())
    missed = trial.missed(slowness=SLOWNESS)
    assert {bound: how for bound, how in missed.items() if bound not in NOT_CHECKED} == {}


def test_an_attack_says_what_it_does() -> None:
    assert [name for name, attack in ATTACKS.items() if not attack.description.endswith(".")] == []


@pytest.mark.slow
@pytest.mark.etcd
async def test_a_kube_apiserver_is_attacked_likewise(tmp_path: Path) -> None:
    """By this server under that name: it takes the same flags."""
    if not etcd_binaries():
        missing("etcd")
    binary = tmp_path / "kube-apiserver"
    binary.write_text(
        f"#!{sys.executable}\nimport sys\nfrom apiserver.__main__ import main\nsys.exit(main())\n"
    )
    binary.chmod(0o755)
    trial = await run_trial(ATTACKS["silent bodies"], kube_apiserver(binary), tmp_path, seconds=SECONDS)
    assert trial.is_alive
    assert not trial.refused
    assert trial.memory.before > 0
