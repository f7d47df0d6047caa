"""Which event loop servers run on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Returns what makes uvloop's event loop; None, for asyncio's own, where there is no uvloop."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
