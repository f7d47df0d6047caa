"""`python -m tests.hostile.probe SITE`: asks /livez all the time, and how much the server worked meanwhile.

What the thread of the event loop computed between a request and its answer is at most the rest of one turn of
the loop and the turn that answers: the longest is the loop's longest turn, whatever else the machine did
meanwhile. What the whole process computed contains threads beside the loop, which keep the interpreter's lock
from it.

It measures from the first line of its input to the end of its input, and then prints `Turns`.
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
class Turns:
    """longest_ms: of the loop's thread. longest_process_ms: of all threads. health: as the victim's
    delays."""

    longest_ms: float = 0.0
    longest_process_ms: float = 0.0
    longest_wait_ms: float = 0.0
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
    turns = Turns()
    while not ended.wait(PERIOD_S):
        began, process_ms = time.perf_counter(), process_cpu_ms(site.pid)
        loop_ms = thread_cpu_ms(site.pid) if site.tells_turns else 0.0
        problem = client.ask("GET", "/livez")
        if site.tells_turns:
            turns.longest_ms = max(turns.longest_ms, thread_cpu_ms(site.pid) - loop_ms)
        turns.longest_process_ms = max(turns.longest_process_ms, process_cpu_ms(site.pid) - process_ms)
        turns.longest_wait_ms = max(turns.longest_wait_ms, (time.perf_counter() - began) * 1_000)
        if problem:
            turns.refusals.append(problem)
    print(json.dumps(asdict(turns)), flush=True)


if __name__ == "__main__":
    main()
