"""Decides where work runs: on the event loop, or in a thread beside it.

A body of 3 MiB, or what is to become of it, takes seconds of Python in the worst case, during which no other
request would be answered. So each stage of a request states how large its input is (`SizeClass`), and one
object, the server's `Offload`, decides where it runs. One thread is enough: more would only take turns with
each other and the event loop.

What is small may take long, too. Such work is *bounded*: on the loop it raises `TakesLong` when it finds
out, and is done again, unbounded, in the thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from apiserver.registry.findings import TakesLong
from apiserver.registry.size_class import SizeClass

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Offload:
    """Runs work on the event loop if it is small, else in the one thread for large work."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="offload")

    async def run(self, size: SizeClass, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Returns or raises what `work` does.

        Cancelled, `work` runs to its end all the same, so it must only compute.
        """
        if size is SizeClass.SMALL:
            return work(*args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(work, *args, **kwargs))

    async def run_bounded(self, size: SizeClass, work: Callable[[bool], _T]) -> _T:
        """As `run`; `work` is told whether it is bounded, which it is on the event loop."""
        if size is SizeClass.SMALL:
            try:
                return work(True)
            except TakesLong:
                pass
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, False)

    def close(self) -> None:
        """Take no more work. What is running ends by itself."""
        self._thread.shutdown(wait=False, cancel_futures=True)
