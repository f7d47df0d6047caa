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
from time import perf_counter
from typing import Any, Final
from weakref import WeakSet

import orjson

from apiserver.extensions.hooks import Hook, Kind, Mode
from apiserver.extensions.host.runner import CannotLoad, ExtensionInfo, HookFailed, HookInfo
from apiserver.extensions.invocation import Call, Invocation
from apiserver.extensions.outcomes import describe_error, failure, is_own
from apiserver.metrics.extensions import ExtensionMetrics

log = logging.getLogger(__name__)

# After so many calls that took too long, a function is not called inline any more.
OVERRUNS_MAX: Final = 3
# How often the thread looks whether a function is running.
_LOOK_EVERY_S: Final = 0.02
# So long after the last call the thread ends.
_IDLE_S: Final = 1.0
_NO_RESULT: Final[Mapping[str, Any]] = {}


class Watchdog:
    """Logs the stack of a function that takes longer than its time.

    Its thread runs only while functions are called.
    running: the name of the function that is running, its time, and when it has begun, by `perf_counter`.
    None when the function has returned.
    is_watching: whether the thread runs.
    """

    def __init__(self) -> None:
        self.running: tuple[str, float, float] | None = None
        self.is_watching = False
        _watchdogs.add(self)

    def start(self) -> None:
        """Watch the functions that are called in this thread."""
        self.is_watching = True
        threading.Thread(
            target=self._watch, args=[threading.get_ident()], name="inline-watchdog", daemon=True
        ).start()

    def _watch(self, thread: int) -> None:
        reported: tuple[str, float, float] | None = None
        idle_s = 0.0
        while idle_s < _IDLE_S:
            time.sleep(_LOOK_EVERY_S)
            running = self.running
            idle_s = idle_s + _LOOK_EVERY_S if running is None else 0.0
            if running is None or running is reported:
                continue
            name, timeout_s, began = running
            if perf_counter() < began + timeout_s:
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
        self.is_watching = False


_watchdogs: Final[WeakSet[Watchdog]] = WeakSet()


def _forget_threads() -> None:
    for each in _watchdogs:
        each.is_watching = False


# A process that was forked has no such thread. To compare process IDs in each call would take a system call.
# The function cannot be unregistered: so it is one for all.
os.register_at_fork(after_in_child=_forget_threads)


def _below_own(stack: traceback.StackSummary) -> Sequence[traceback.FrameSummary]:
    """Returns the part of a stack after the last call by this package."""
    last = max((at for at, each in enumerate(stack) if is_own(each.filename)), default=-1)
    return stack[last + 1 :]


class InlineFunction:
    """A function with `inline=True`.

    info: what the server knows of it. extension: the name of its extension.
    overruns: how often it has taken too long. is_too_slow: whether that was too often.
    """

    def __init__(
        self, hook: Hook, info: HookInfo, extension: str, metrics: ExtensionMetrics, watchdog: Watchdog
    ) -> None:
        self.info = info
        self.overruns = 0
        self.is_too_slow = False
        self._invocation = Invocation(hook, _no_api)
        # Most functions get the object, and return nothing: nothing else has to be prepared or read.
        self._plain = hook.function if self._invocation.takes_only_subject else None
        self._validates = hook.kind is Kind.VALIDATE
        self._name, self._timeout_s = f'extension "{extension}": {info}', info.timeout_s
        self._labels = extension, info.name
        self._metrics, self._watchdog = metrics, watchdog

    def call(self, call: Mapping[str, Any], encoded: bytes) -> tuple[Mapping[str, Any], bool]:
        """Call the function on the event loop, as `Runner.call` does elsewhere. It cannot be interrupted.

        call: with the objects themselves, which the function may change. encoded: the object that it gets
        first. Returns the result, and whether it is known that the function has not changed that object.
        Raises HookFailed, to be passed to `ExtensionHook.failed`.
        """
        watchdog = self._watchdog
        if not watchdog.is_watching:
            watchdog.start()
        began = perf_counter()
        watchdog.running = self._name, self._timeout_s, began
        begun: Call | None = None
        try:
            if self._plain is None:
                begun = self._begin(call, encoded)
                returned = begun.run()
            else:
                subject = call.get("object")
                if subject is None:
                    subject = call.get("oldObject")
                returned = self._plain(subject)
                if returned is None:
                    if self._validates:
                        return _NO_RESULT, False
                    if orjson.dumps(subject) == encoded:
                        return _NO_RESULT, True
                begun = self._begin(call, encoded)
            return begun.result(returned), begun.is_intact
        except BaseException as error:
            found = failure(begun or self._begin(call, encoded), error)
        finally:
            watchdog.running = None
            took_s = perf_counter() - began
            self._metrics.durations[self._labels].observe(took_s)
            if took_s > self._timeout_s:
                self._overran(took_s)
        if (described := found.get("error")) is not None:
            raise HookFailed.of(self.info, described)
        return found["result"], False

    def _begin(self, call: Mapping[str, Any], encoded: bytes) -> Call:
        return Call(self._invocation, call, self._timeout_s, encoded)

    def _overran(self, took_s: float) -> None:
        """Count a call that took too long."""
        self._metrics.overran(*self._labels)
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
