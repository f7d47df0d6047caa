"""`python -m tests.hostile.probe SITE`: asks for /livez all the time, as an orchestrator does, and tells how
it waits.

While a request waits, other processes may have the processors; so it also tells for how long the server
computed meanwhile. That is no single turn of the event loop: a request passes through three of them.

It measures from the first line of its input to the end of its input, and then prints `Waits`.
"""

from __future__ import annotations

import gc
import json
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from tests.hostile.site import PROBE_ADDRESS, Site
from tests.hostile.victim import Client

PERIOD_S: Final = 0.005


@dataclass
class Waits:
    """The longest wait for an answer, and how much the server computed during a wait, at most.

    loop_ms: of the loop's thread. process_ms: of all threads. refusals: how requests ended that failed.
    """

    wait_ms: float = 0.0
    loop_ms: float = 0.0
    process_ms: float = 0.0
    refusals: list[str] = field(default_factory=list)


def thread_cpu_ms(pid: int) -> float:
    """What the first thread of a process has computed: in ours, it runs the event loop."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1_000_000


def process_cpu_ms(pid: int) -> float:
    """What a process has computed, by the kernel's clock of that process: see clock_getcpuclockid(3)."""
    return time.clock_gettime_ns((~pid << 3) | 2) / 1_000_000


def _await_end(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


def main() -> None:
    site = Site.of_argument(sys.argv[1])
    client = Client(site, "", PROBE_ADDRESS)
    problem = client.ask("GET", "/livez")
    if problem:
        sys.exit(f"/livez does not even work without an attack: {problem}")
    print("ready", flush=True)
    sys.stdin.readline()
    gc.disable()
    ended = threading.Event()
    threading.Thread(target=_await_end, args=(ended,), daemon=True).start()
    waits = Waits()
    while not ended.wait(PERIOD_S):
        began, process_ms = time.perf_counter(), process_cpu_ms(site.pid)
        loop_ms = thread_cpu_ms(site.pid) if site.has_loop else 0.0
        problem = client.ask("GET", "/livez")
        if site.has_loop:
            waits.loop_ms = max(waits.loop_ms, thread_cpu_ms(site.pid) - loop_ms)
        waits.process_ms = max(waits.process_ms, process_cpu_ms(site.pid) - process_ms)
        waits.wait_ms = max(waits.wait_ms, (time.perf_counter() - began) * 1_000)
        if problem:
            waits.refusals.append(problem)
    print(json.dumps(asdict(waits)), flush=True)


if __name__ == "__main__":
    main()
