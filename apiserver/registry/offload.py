"""Work on what is large is done aside, in a thread, so that nobody else waits for it.

A body of 3 MiB, or what is to become of it, takes seconds of Python in the worst case. One thread is enough:
more would only take turns with each other and the event loop.

What is small may take long, too. Work that finds out that it does, while others wait for it, raises
TakesLong, and is done again, aside.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, TypeVar

from apiserver.registry.strategy import TakesLong, others_wait

# Less is done sooner than handed over. Most objects are smaller.
LARGE_BYTES: Final = 16 * 1024

_P = ParamSpec("_P")
_T = TypeVar("_T")
_thread: Final = ThreadPoolExecutor(1, thread_name_prefix="large-bodies")


async def run(is_large: bool, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """What `work` returns or raises. If it is about something large it runs in a thread, else here and now.

    It runs again, in the thread, if it raises TakesLong here.
    Cancelled, it runs to its end all the same, so it must not act.
    """
    if not is_large:
        token = others_wait.set(True)
        try:
            return work(*args, **kwargs)
        except TakesLong:
            pass  # It has changed nothing.
        finally:
            others_wait.reset(token)
    return await asyncio.get_running_loop().run_in_executor(_thread, partial(work, *args, **kwargs))
