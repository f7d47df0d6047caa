"""Starts the extensions of a server, and ends them with it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from apiserver.admission.extensions.functions import conditions_of
from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from apiserver.app.background import BackgroundTask
from apiserver.app.core import Core
from apiserver.app.serving.listening import CannotStart, url
from apiserver.app.serving.service_account_tokens import TokenKeys, extension_tokens
from apiserver.app.serving.serving_tls import ServingTls, TlsContent
from apiserver.app.serving.watched_files import WatchedFiles
from apiserver.auth.authn.extension_tokens import ExtensionTokens
from apiserver.controllers.event_recorder import EventRecorder
from apiserver.controllers.extension_events import ExtensionEvents
from apiserver.endpoints.health import Health, HealthCheck, SharedCheck, Unhealthy
from apiserver.extensions import Extension, InvalidExtension
from apiserver.extensions.hooks import Kind
from apiserver.extensions.host.function_metrics import require_free_names
from apiserver.extensions.host.hooks import ExtensionHook
from apiserver.extensions.host.local_runner import LocalRunner
from apiserver.extensions.host.runner import CannotLoad, ExtensionInfo, HookFailed, WorkerEnd
from apiserver.extensions.host.worker_runner import WorkerRunner
from apiserver.extensions.loading import expanded
from apiserver.registry.write_request import KUBE_APISERVER

log = logging.getLogger(__name__)

# Times of files are those of a clock that ticks this often, where it ticks the least.
_FILE_CLOCK_NS: Final = 10_000_000
# No source file has it.
_UNKNOWN_CONTENT: Final = b"\x00"


@asynccontextmanager
async def running_extensions(
    core: Core, health: Health, local: Sequence[Extension], keys: TokenKeys, tls: ServingTls
) -> AsyncIterator[None]:
    """Runs the extensions of the flags and those of tests, and adds them to the core, while in the context.

    local: those that run in this process. keys: those of service account tokens. Raises CannotStart.
    """
    api = partial(_access, core, tls, extension_tokens(core.config, keys))
    async with AsyncExitStack() as stack:
        for spec in expanded(core.config.api.extension):
            runner = _worker_runner(core, spec, api)
            stack.push_async_callback(runner.close)
            try:
                await runner.start()
            except CannotLoad as error:
                raise CannotStart(f"--extension={spec}: {error}") from None
            stack.callback(tls.subscribe(partial(_update_api, runner)))
            core.extensions.runners.append(runner)
        for extension in local:
            local_runner = LocalRunner(extension, api)
            stack.push_async_callback(local_runner.close)
            core.extensions.runners.append(local_runner)
        _require_different_names(core)
        try:
            require_free_names(each.info for each in core.extensions.runners)
        except InvalidExtension as error:
            raise CannotStart(str(error)) from None
        for each in core.extensions.runners:
            core.metrics.extensions.add(each.info.name)
            if isinstance(each, WorkerRunner):
                _add_check(health, f"extension-{each.info.name}", _check(each))
        checks = _FunctionChecks(core, health)
        for each in core.extensions.runners:
            checks.require_different(each.info)
            if isinstance(each, WorkerRunner):
                each.check, each.on_change = partial(_require_valid, core, checks), core.extensions.changed
        core.extensions.call_on_change(checks.replace)
        yield


def _require_valid(core: Core, checks: _FunctionChecks, info: ExtensionInfo) -> None:
    """Raise CannotLoad for new code whose functions the server cannot use."""
    try:
        for each in (*info.of_kind(Kind.MUTATE), *info.of_kind(Kind.VALIDATE)):
            conditions_of(f"{each}", each.options["where"])
        checks.require_different(info)
        others = (each.info for each in core.extensions.runners if each.info.name != info.name)
        require_free_names([*others, info])
    except (InvalidExtension, CannotStart) as error:
        raise CannotLoad(str(error)) from None


class _FunctionChecks:
    """The health checks that are functions of extensions."""

    def __init__(self, core: Core, health: Health) -> None:
        self._core, self._health = core, health
        self._names: set[str] = set()

    def require_different(self, info: ExtensionInfo) -> None:
        """Raise CannotStart if a check of an extension has the name of a check that is no function."""
        others = self._health.readiness.keys() - self._names
        for each in info.of_kind(Kind.HEALTHZ):
            if (name := _name_of_check(info.name, each.name)) in others:
                raise CannotStart(f"two health checks have the name {name}")

    def replace(self) -> None:
        """Use the functions that there are now, also after a reload."""
        hooks = self._core.extensions.of_kind(Kind.HEALTHZ)
        checks = {
            _name_of_check(each.extension, each.info.name): SharedCheck(partial(_probe, each))
            for each in hooks
        }
        others = {name: check for name, check in self._health.readiness.items() if name not in self._names}
        self._names = {*checks}
        self._health.readiness = {**others, **checks}


def _name_of_check(extension: str, function: str) -> str:
    return f"extension-{extension}-{function}"


def extension_tasks(core: Core, lifecycle: NamespaceLifecycle) -> Iterator[BackgroundTask]:
    """Yields the tasks that reload extensions when their files change or SIGHUP says so, and report ended
    workers.
    """
    runners = [each for each in core.extensions.runners if isinstance(each, WorkerRunner)]
    if not runners:
        return
    events = EventRecorder(
        core.registry,
        core.served,
        lifecycle.check_create,
        core.clock,
        component="extensions",
        writer=KUBE_APISERVER,
    )
    reports = ExtensionEvents(core.registry, core.served, events, core.loop_clock)
    core.extensions.on_worker_end = reports.worker_ended
    yield BackgroundTask("extension-events", reports.run)
    extensions = [(each, ExtensionFiles(each)) for each in runners]
    wanted = core.extensions.wants_reload
    yield BackgroundTask("extension-reload", partial(_reload_when_wanted, wanted, extensions))
    for runner, files in extensions:
        if runner.files:
            yield BackgroundTask("extension-files", files.watched.run)


async def _reload_when_wanted(
    wanted: asyncio.Event, extensions: Sequence[tuple[WorkerRunner, ExtensionFiles]]
) -> None:
    """Reload all extensions whenever the event is set, until cancelled."""
    while True:
        await wanted.wait()
        # So it is known that files that were written before are imported, and they are not imported again.
        await asyncio.sleep(_FILE_CLOCK_NS / 1e9)
        wanted.clear()
        for runner, files in extensions:
            name = runner.info.name
            try:
                await runner.reload()
            except ValueError as error:
                log.error("extension %s: keeping the previous code: %s", name, error)
            else:
                log.info("extension %s: reloaded", name)
                files.imported()


class ExtensionFiles:
    """The files of an extension's code, which is reloaded when they change.

    watched: looks for changes. Raises OSError.
    """

    def __init__(self, runner: WorkerRunner) -> None:
        self._runner = runner
        self._contents = [_imported_content(runner, each) for each in runner.files]
        what = f"extension {runner.info.name}"
        self.watched = WatchedFiles(what, runner.files, self._contents, self._reload)

    async def _reload(self, contents: Sequence[bytes]) -> None:
        # Another reload may have imported the files meanwhile.
        await self._runner.reload(lambda: [*contents] != self._contents)
        self.imported()

    def imported(self) -> None:
        """Note that the files were imported, if only because of SIGHUP, and watch those that are new."""
        paths = [each for each in self._runner.files if each.exists()]
        contents = [_imported_content(self._runner, each) for each in paths]
        if contents != self._contents or paths != [*self.watched.paths]:
            self._contents = contents
            self.watched.watch(paths, contents)


def _imported_content(runner: WorkerRunner, path: Path) -> bytes:
    """Returns what a worker has imported from a file; another content if the file may have changed since.

    Then the file counts as changed, and the code is loaded once more. Raises OSError.
    """
    if path.stat().st_mtime_ns > runner.imported_after_ns - _FILE_CLOCK_NS:
        return _UNKNOWN_CONTENT
    return path.read_bytes()


def _worker_runner(core: Core, spec: str, api: Callable[[str], Mapping[str, Any]]) -> WorkerRunner:
    def ended(end: WorkerEnd) -> None:
        name = runner.info.name
        core.metrics.extensions.worker_ended(name, end.hook)
        core.extensions.on_worker_end(name, end)
        log.warning(
            "the worker of extension %s has ended, the next one starts in %.3g s: %s",
            name,
            end.delay_s,
            end.reason,
        )

    runner = WorkerRunner(spec, api, ended)
    return runner


def _update_api(runner: WorkerRunner, _: TlsContent) -> None:
    runner.update_api()


def _check(runner: WorkerRunner) -> HealthCheck:
    async def check() -> None:
        if not runner.is_ready:
            raise Unhealthy(f"the worker of extension {runner.info.name} is not running")

    return check


async def _probe(hook: ExtensionHook) -> None:
    try:
        await hook.call({})
    except HookFailed as failed:
        raise Unhealthy(str(failed)) from None


def _access(core: Core, tls: ServingTls, tokens: ExtensionTokens, name: str) -> Mapping[str, Any]:
    """Returns how an extension reaches the server."""
    return {
        "url": url(core.config, core.serving.port),
        "ca": tls.known.trusted.decode(),
        "token": tokens.issue(name),
        "fieldManager": f"extension-{name}",
    }


def _add_check(health: Health, name: str, check: HealthCheck) -> None:
    if name in health.readiness:
        raise CannotStart(f"two health checks have the name {name}")
    health.readiness = {**health.readiness, name: check}


def _require_different_names(core: Core) -> None:
    names = [each.info.name for each in core.extensions.runners]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise CannotStart(f"two extensions have the name {repeated[0]}")
