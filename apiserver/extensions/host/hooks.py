"""The functions of all extensions, as other parts of the server call them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import orjson

from apiserver.extensions.hooks import Kind
from apiserver.extensions.host.runner import EventSource, Failure, HookFailed, HookInfo, Runner, WorkerEnd
from apiserver.metrics.extensions import ExtensionMetrics

if TYPE_CHECKING:
    from apiserver.extensions.host.inline import InlineFunction, Watchdog

log = logging.getLogger(__name__)

_NO_CONTEXT: Final = nullcontext()


class ExtensionHook:
    """A function of an extension. After a reload, the function that has taken its place.

    key: the same for both, even if a reload makes another `ExtensionHook`.
    """

    def __init__(self, runner: Runner, info: HookInfo, metrics: ExtensionMetrics, watchdog: Watchdog) -> None:
        self.extension = runner.info.name
        self.runner = runner
        self._info, self._extension_info = info, runner.info
        self.key: Hashable = (self.extension, info.kind, info.name, runner.info.place_of(info))
        self._metrics = metrics
        self._inline: InlineFunction | None = None
        if info.inline and runner.functions:
            from apiserver.extensions.host.inline import InlineFunction

            function = runner.functions[info.number]
            self._inline = InlineFunction(function, info, self.extension, metrics, watchdog)

    def __str__(self) -> str:
        return f'extension "{self.extension}": {self.info}'

    @property
    def inline(self) -> InlineFunction | None:
        """The function, if it is to be called on the event loop, rather than by `call`."""
        inline = self._inline
        return None if inline is None or inline.is_too_slow or not self.runner.functions else inline

    @property
    def info(self) -> HookInfo:
        """What is known of the function, with its options. One that a reload has removed is as it was."""
        current = self.runner.info
        if current is not self._extension_info:
            found = current.counterpart(self._extension_info, self._info)
            if found is None:
                return self._info
            self._info, self._extension_info = found, current
        return self._info

    async def call(
        self,
        call: Mapping[str, Any],
        timeout_s: float | None = None,
        *,
        waiting: AbstractContextManager[None] = _NO_CONTEXT,
        is_logged: bool = True,
    ) -> Mapping[str, Any]:
        """Call the function, and return its result; see `extensions.invocation`.

        call: can be written as JSON, and may contain `orjson.Fragment`. timeout_s: if the caller has less
        time than the hook. waiting: entered while the function runs. is_logged: whether an error is logged
        here, with its traceback. Raises HookFailed, with a message for the client.
        """
        began = time.perf_counter()
        failure = ""
        info = self.info
        try:
            if self.runner.info is not self._extension_info:
                raise HookFailed(f"{info} has been removed by a reload", Failure.NOT_RUNNING)
            result = self.runner.call(info, self._encoded(call), timeout_s)
            with waiting:
                return await result
        except HookFailed as failed:
            failure = str(failed.failure)
            raise self._shown(failed, is_logged=is_logged) from None
        finally:
            # A reload gives it no other name.
            self._metrics.called(self.extension, info.name, time.perf_counter() - began, failure)

    async def watch(self, call: Mapping[str, Any], timeout_s: float | None = None) -> EventSource:
        """Call the function for a watch, and return its events once it has begun; see `call`.

        To read them raises HookFailed, to be passed to `failed`.
        """
        began = time.perf_counter()
        failure = ""
        try:
            return await self.runner.watch(self.info, self._encoded(call), timeout_s)
        except HookFailed as failed:
            failure = str(failed.failure)
            raise self._shown(failed) from None
        finally:
            self._metrics.called(self.extension, self.info.name, time.perf_counter() - began, failure)

    def failed(self, failed: HookFailed) -> HookFailed:
        """Count and log a failure after a call. Returns the error with a message for the client."""
        self._metrics.failed(self.extension, self.info.name, str(failed.failure))
        return self._shown(failed)

    def _encoded(self, call: Mapping[str, Any]) -> bytes:
        """Raises HookFailed for text that is not UTF-8, such as a user name from a header."""
        try:
            return orjson.dumps(call)
        except TypeError as error:
            raise HookFailed(f"{self.info} cannot be called: {error}", Failure.ERROR) from None

    def invalid(self, why: str) -> HookFailed:
        """Count and log a result that cannot be used. Returns the error. why: such as `has returned ...`."""
        self._metrics.failed(self.extension, self.info.name, str(Failure.ERROR))
        return self._shown(HookFailed(f"{self.info} {why}", Failure.ERROR))

    def ignored(self) -> None:
        """Count a failure after which the write went on, because of `on_error`."""
        self._metrics.ignored(self.extension, self.info.name)

    def _shown(self, failed: HookFailed, *, is_logged: bool = True) -> HookFailed:
        """Log an error. Returns it as clients see it."""
        shown = f'extension "{self.extension}": {failed}'
        if is_logged:
            log.warning("%s%s", shown, f"\n{failed.traceback}" if failed.traceback else "")
        return HookFailed(shown, failed.failure, failed.traceback)


class ExtensionHooks:
    """The functions of all extensions of a server, in the order of the flags and of the modules.

    on_worker_end: called when a worker has ended, with the name of its extension. changes: how often a reload
    has changed the functions. wants_reload: set to reload all extensions.
    """

    def __init__(self, metrics: ExtensionMetrics) -> None:
        self.runners: list[Runner] = []
        self.on_worker_end: Callable[[str, WorkerEnd], None] = lambda *_: None
        self.changes = 0
        self.wants_reload = asyncio.Event()
        self._subscribers: list[Callable[[], None]] = []
        self._metrics = metrics

    @cached_property
    def _watchdog(self) -> Watchdog:
        # Imported by the first function: servers without extensions have no use for it.
        from apiserver.extensions.host.inline import Watchdog

        return Watchdog()

    def call_on_change(self, subscriber: Callable[[], None]) -> None:
        """Call a function now, and whenever a reload has changed the functions."""
        self._subscribers.append(subscriber)
        subscriber()

    def changed(self) -> None:
        """Note that a reload has changed the functions."""
        self.changes += 1
        for each in self._subscribers:
            each()

    def __bool__(self) -> bool:
        return bool(self.runners)

    def of_kind(self, kind: Kind) -> Sequence[ExtensionHook]:
        return list(self._of_kind(kind))

    def _of_kind(self, kind: Kind) -> Iterator[ExtensionHook]:
        for runner in self.runners:
            for info in runner.info.of_kind(kind):
                yield ExtensionHook(runner, info, self._metrics, self._watchdog)

    @property
    def resources(self) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """The definitions of the virtual resources, with the names of their extensions."""
        return [(each.info.name, document) for each in self.runners for document in each.info.resources]

    @property
    def definitions(self) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """The CustomResourceDefinitions to serve, with the names of their extensions."""
        return [(each.info.name, document) for each in self.runners for document in each.info.definitions]
