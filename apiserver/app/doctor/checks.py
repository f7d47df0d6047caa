"""Runs checks concurrently, each within a bound. A check that fails is itself a finding."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, NamedTuple, TypeVar

from apiserver.app.doctor.report import Finding, Section, bounded, error, unchecked, warning
from apiserver.cli.api_client import RequestFailed
from apiserver.storage.errors import StorageError

T = TypeVar("T")

# How long a check may take. The calls of a check have shorter bounds, so that one server that does not answer
# leaves time for the others.
CHECK_WITHIN_S: Final = 10.0


class Check(NamedTuple):
    """A check. run: gathers facts, and returns the findings about them; it may raise any error."""

    name: str
    run: Callable[[], Awaitable[Iterable[Finding]]]


def within(call: Callable[[], T], within_s: float) -> T:
    """Returns the result of a call, and raises what it raises; TimeoutError if it takes too long.

    The call goes on in a thread that does not keep the process from exiting.
    """
    return _DaemonThreads().submit(call).result(within_s)


def run_checks(checks: Sequence[Check], *, within_s: float = CHECK_WITHIN_S) -> list[Section]:
    """Runs all checks at the same time, and returns their findings in the order of the checks.

    Calls that block in threads when the time is over do not keep the process from exiting.
    """
    return asyncio.run(_run_all(checks, within_s))


async def _run_all(checks: Sequence[Check], within_s: float) -> list[Section]:
    asyncio.get_running_loop().set_default_executor(_DaemonThreads())
    return list(await asyncio.gather(*(_run(check, within_s) for check in checks)))


async def _run(check: Check, within_s: float) -> Section:
    try:
        async with asyncio.timeout(within_s):
            findings = list(await check.run())
    except TimeoutError:
        findings = [
            warning(
                f"the check did not finish in {within_s:g} s",
                "Run the command again. If the problem persists, check for a disk, DNS server or host that "
                "does not respond.",
            )
        ]
    except (OSError, RequestFailed, StorageError) as failure:
        findings = [
            unchecked(
                f"this check was not possible: {failure}",
                "Solve the problems that other checks found, or use a user with more permissions.",
                failure.status if isinstance(failure, RequestFailed) else 0,
            )
        ]
    except Exception as failure:  # a report with a gap is worth more than none
        findings = [
            error(
                f"the check failed: {type(failure).__name__}: {failure}",
                "See the message for the cause, and report this failure as a bug of apiserver doctor.",
            )
        ]
    return Section(check.name, bounded(findings))


class _DaemonThreads(ThreadPoolExecutor):
    """Runs each call in a thread that does not keep the process alive.

    The threads of other executors do: a file system or a DNS server that hangs would hold up the exit.
    """

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()

        def call() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as failure:  # raised where the result is awaited
                future.set_exception(failure)

        # Once running, a call cannot be cancelled; without that its result could not be set.
        future.set_running_or_notify_cancel()
        threading.Thread(target=call, daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        pass
