"""Runs functions with `inline=True` on the event loop of the server, on the objects themselves.

Nothing can interrupt them: the whole server waits for such a function. So a thread logs where it is when it
takes longer than its time, and one that does so repeatedly is called like all others from then on.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from apiserver.extensions.hooks import Hook, Mode
from apiserver.extensions.host.runner import CannotLoad, ExtensionInfo, HookFailed, HookInfo
from apiserver.extensions.invocation import Invocation
from apiserver.extensions.outcomes import describe_error, is_own, outcome

log = logging.getLogger(__name__)

# After so many calls that took too long, a function is not called inline any more.
OVERRUNS_MAX: Final = 3
# How often the thread looks whether a function is running.
_LOOK_EVERY_S: Final = 0.02
# So long after the last call the thread ends.
_IDLE_S: Final = 1.0


class Watchdog:
    """Logs the stack of a function that takes longer than its time.

    Its thread runs only while functions are called.
    """

    def __init__(self) -> None:
        # The name of the function that is running, its time, when that ends, and its thread. Set to None when
        # the function has returned.
        self.running: tuple[str, float, float, int] | None = None
        # The process in which the thread runs: it does not run on after a fork.
        self._watching_in = 0

    def begin(self, name: str, timeout_s: float) -> None:
        """Note that a function is called in this thread."""
        self.running = name, timeout_s, time.monotonic() + timeout_s, threading.get_ident()
        if self._watching_in != (pid := os.getpid()):
            self._watching_in = pid
            threading.Thread(target=self._watch, name="inline-watchdog", daemon=True).start()

    def _watch(self) -> None:
        reported: tuple[str, float, float, int] | None = None
        idle_s = 0.0
        while idle_s < _IDLE_S:
            time.sleep(_LOOK_EVERY_S)
            running = self.running
            idle_s = idle_s + _LOOK_EVERY_S if running is None else 0.0
            if running is None or running is reported:
                continue
            name, timeout_s, late_at, thread = running
            if time.monotonic() < late_at:
                continue
            frame = sys._current_frames().get(thread)
            if frame is None or self.running is not running:
                continue
            reported = running
            log.warning(
                "%s has not returned within %g s, and the server waits for it:\n%s",
                name,
                timeout_s,
                "".join(traceback.format_list(_below_own(traceback.extract_stack(frame)))),
            )
        self._watching_in = 0


def _below_own(stack: traceback.StackSummary) -> Sequence[traceback.FrameSummary]:
    """Returns the part of a stack after the last call by this package."""
    last = max((at for at, each in enumerate(stack) if is_own(each.filename)), default=-1)
    return stack[last + 1 :]


class InlineFunction:
    """A function with `inline=True`. name: as in logs.

    overruns: how often it has taken too long. is_too_slow: whether that was too often.
    """

    def __init__(self, hook: Hook, name: str, timeout_s: float, watchdog: Watchdog) -> None:
        self._invocation = Invocation(hook, _no_api)
        self._name, self._timeout_s, self._watchdog = name, timeout_s, watchdog
        self.overruns = 0
        self.is_too_slow = False

    def call(self, info: HookInfo, call: Mapping[str, Any], encoded: bytes) -> tuple[Mapping[str, Any], bool]:
        """Returns the result of the function. See `hooks.ExtensionHook.call_inline`."""
        begun = self._invocation.begin(call, encoded=encoded)
        self._watchdog.begin(self._name, self._timeout_s)
        try:
            found = outcome(begun)
        finally:
            self._watchdog.running = None
        if (error := found.get("error")) is not None:
            raise HookFailed.of(info, error)
        return found["result"], begun.is_intact

    def overran(self, took_s: float) -> None:
        """Count a call that took too long."""
        self.overruns += 1
        self.is_too_slow = self.overruns >= OVERRUNS_MAX
        then = "; from now on it is not called inline" if self.overruns == OVERRUNS_MAX else ""
        log.warning(
            "%s took %.3g s, more than its %g s, %d of %d times%s",
            *(self._name, took_s, self._timeout_s, self.overruns, OVERRUNS_MAX, then),
        )


def load_inline(spec: str, info: ExtensionInfo) -> Sequence[Hook]:
    """Import an extension in this process, for its inline functions. Returns all its functions.

    info: what the worker says of it. Raises CannotLoad.
    """
    # Imported only by servers with inline functions.
    from apiserver.extensions.loading import load

    # As in the worker, which `python -m` runs.
    if not {"", os.getcwd()} & {*sys.path}:
        sys.path.append(os.getcwd())
    try:
        extension = load(spec)
    except BaseException as error:
        raise CannotLoad(describe_error(error)["traceback"]) from None
    if ExtensionInfo.of(orjson.loads(orjson.dumps(extension.describe()))) != info:
        raise CannotLoad("its module has other functions in the server's process than in a worker")
    return extension.hooks


def _no_api(_mode: Mode, _ends_at: float) -> None:
    """Inline functions have no client, as they cannot wait."""
