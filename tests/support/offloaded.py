"""How much work a server has done beside its event loop."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from apiserver.registry.offload import Offload
from apiserver.registry.size_class import HUGE_BYTES
from tests.support.api import Api

# Makes an object a huge one, of whatever kind: its metadata has this annotation.
LARGE: Final[dict[str, Any]] = {"large": "v" * (HUGE_BYTES + 1)}
_DONE: Final = re.compile(r"^apiserver_offload_done_total{.*} (\d+)$", re.MULTILINE)


def pieces_offloaded(api: Api, ask: Callable[[], object]) -> int:
    """Returns how many pieces of work a server does beside its event loop for a request, and to tell of it.

    The least of several: now and then the server does something else meanwhile.
    """

    def done() -> int:
        return sum(map(int, _DONE.findall(api.get("/metrics").body.decode())))

    counts = []
    for _ in range(5):
        before = done()
        ask()
        counts.append(done() - before)
    return min(counts)


def done_by(offload: Offload) -> int:
    """Returns how many pieces of large work were done in the threads of an `Offload`."""
    return sum(lane.done_total for lane in offload.lanes.values())
