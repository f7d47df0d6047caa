"""Builds the auditing of requests, if there is a policy that selects them.

The backends are imported in the functions that build them: most servers have none.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from apiserver.app.serving.listening import CannotStart
from apiserver.audit.backends.fan_out import Backend, Backends, TruncatingBackend
from apiserver.audit.backends.options import BATCH, LogOptions, RotationOptions, WebhookOptions
from apiserver.audit.request_audit import AnnotationKeys
from apiserver.cli.config import Config
from apiserver.endpoints.audit_middleware import Auditor
from apiserver.metrics.audit import AuditMetrics
from apiserver.webhooks.caller import AdmissionCaller
from apiserver.webhooks.client import WebhookClient
from apiserver.webhooks.credentials import HostCredentials
from apiserver.webhooks.review_server import AuditEventServer

if TYPE_CHECKING:
    from apiserver.audit.backends.log_file import LogOutput

log = logging.getLogger(__name__)

_STANDARD_OUTPUT: Final = "-"
_LOCK_NAME: Final = "audit-stdout.lock"
# A batch that no flag limits has at most so many bytes, unless one event alone has more.
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024


class Audit(NamedTuple):
    """The auditor, and the backends that it writes to."""

    auditor: Auditor
    backend: Backend


def build_audit(
    config: Config, webhooks: WebhookClient, metrics: AuditMetrics, clock_ns: Callable[[], int]
) -> Audit | None:
    """Build the auditor and its backends; None if no request is recorded.

    clock_ns: nanoseconds since 1970. Raises CannotStart.
    """
    policy = config.auditing.audit_policy
    if policy is None:
        for flag, value in (
            ("audit-log-path", config.auditing.audit_log_path),
            ("audit-webhook-config-file", config.auditing.audit_webhook_config_file),
        ):
            if value:
                log.info("--%s has no effect without --audit-policy-file: no events are recorded", flag)
        return None
    backends: list[Backend] = []
    if (log_options := config.auditing.audit_log) is not None:
        backends.append(_log_backend(config, log_options, metrics))
    if (webhook_options := config.auditing.audit_webhook) is not None:
        backends.append(_webhook_backend(config, webhook_options, webhooks, metrics))
    if not backends:
        return None
    joined = backends[0] if len(backends) == 1 else Backends(backends)
    return Audit(Auditor(policy, joined, config.brand, metrics, clock_ns), joined)


def _log_backend(config: Config, options: LogOptions, metrics: AuditMetrics) -> Backend:
    """Build the backend that writes events to a file. Raises CannotStart."""
    from apiserver.audit.backends.log_backend import LogBackend, WriterThread

    try:
        output = _output(config, options)
    except OSError as error:
        why = error.strerror or error
        raise CannotStart(f"--audit-log-path: cannot open {error.filename or options.path}: {why}") from None
    backend = LogBackend(
        WriterThread(output, asyncio.get_running_loop()),
        options.delivery,
        metrics,
        head=b'{"kind":"Event",%b' % _version(config),
        line_format=options.format,
    )
    return _truncating(config, backend, options, metrics)


def _output(config: Config, options: LogOptions) -> LogOutput:
    """Open the output that events are written to. Raises OSError."""
    from apiserver.audit.backends.log_file import HOLD_S, LogFile, StandardOutput

    if options.path == _STANDARD_OUTPUT:
        return StandardOutput(config.serving.data_dir / _LOCK_NAME if config.serving.workers > 1 else None)
    path = Path(options.path)
    clean = _in_background(partial(_clean, path, options.rotation))
    # Workers would wait for each other, while their clients wait for them.
    is_held = options.delivery.mode != BATCH and config.serving.workers <= 1
    output = LogFile(path, options.rotation, clean, hold_s=HOLD_S if is_held else 0.0)
    clean()  # What was left behind when the server was stopped the last time.
    return output


def _clean(path: Path, rotation: RotationOptions) -> None:
    from apiserver.audit.backends import rotated

    try:
        rotated.clean(path, rotation, time.time())
    except OSError as error:
        log.error("cannot compress or delete rotated files of the audit log %s: %s", path, error)


def _in_background(work: Callable[[], None]) -> Callable[[], None]:
    """Returns a function that has some work done in a thread, one piece after the other."""
    lock = threading.Lock()

    def run() -> None:
        with lock:
            work()

    def begin() -> None:
        # What is not done when the server ends is done after its next start.
        with contextlib.suppress(RuntimeError):
            threading.Thread(target=run, name="audit-rotated", daemon=True).start()

    return begin


def _webhook_backend(
    config: Config, options: WebhookOptions, webhooks: WebhookClient, metrics: AuditMetrics
) -> Backend:
    from apiserver.audit.backends.webhook_backend import WebhookBackend

    assert config.auditing.audit_webhook_server is not None
    cluster, credentials = config.auditing.audit_webhook_server.current()
    caller = AdmissionCaller(webhooks, HostCredentials(otherwise=credentials))
    server = AuditEventServer(cluster, caller, options.initial_backoff_s)
    truncation = options.truncation
    backend = WebhookBackend(
        server,
        options.delivery,
        metrics,
        head=b'{"kind":"EventList",%b"metadata":{},"items":[' % _version(config),
        batch_bytes_max=truncation.max_batch_size if truncation.is_enabled else BATCH_BYTES_MAX,
    )
    return _truncating(config, backend, options, metrics)


def _truncating(
    config: Config, backend: Backend, options: LogOptions | WebhookOptions, metrics: AuditMetrics
) -> Backend:
    if not options.truncation.is_enabled:
        return backend
    return TruncatingBackend(backend, options.truncation, AnnotationKeys.of(config.brand).truncated, metrics)


def _version(config: Config) -> bytes:
    return b'"apiVersion":"%b/v1",' % config.brand.group("audit").encode()
