"""The options of `--audit-log-*` and `--audit-webhook-*`. Pure.

Source: k8s.io/apiserver, pkg/server/options/audit.go.
"""

from __future__ import annotations

from typing import Final, NamedTuple

BATCH: Final = "batch"
BLOCKING: Final = "blocking"
BLOCKING_STRICT: Final = "blocking-strict"
MODES: Final = (BATCH, BLOCKING, BLOCKING_STRICT)
JSON: Final = "json"
LEGACY: Final = "legacy"
FORMATS: Final = (JSON, LEGACY)


class InvalidOptions(ValueError):
    """The flags contradict each other. The message, one line, is for the operator."""


class DeliveryOptions(NamedTuple):
    """The delivery of events to a backend. Times are in seconds; all but `mode` count in batch mode only.

    buffer_size: the number of events that may wait. max_size: the events of a batch. max_wait_s: the time for
        which its first event waits for more.
    is_throttled: whether at most `qps` batches per second are sent, and `burst` more after a pause.
    """

    mode: str
    buffer_size: int
    max_size: int
    max_wait_s: float
    is_throttled: bool
    qps: float
    burst: int

    def check(self, plugin: str) -> None:
        """Check the mode and, in batch mode, the limits. plugin: log or webhook. Raises InvalidOptions."""
        if self.mode not in MODES:
            allowed = ",".join(MODES)
            raise InvalidOptions(f'invalid audit {plugin} mode {self.mode}, allowed modes are "{allowed}"')
        if self.mode != BATCH:
            return
        amounts: list[tuple[str, float]] = [
            ("buffer size", self.buffer_size),
            ("max batch size", self.max_size),
        ]
        if self.is_throttled:
            amounts += [("throttle QPS", self.qps), ("throttle burst", self.burst)]
        for name, amount in amounts:
            if amount <= 0:
                raise InvalidOptions(
                    f"invalid audit batch {plugin} {name} {amount:g}, must be a positive number"
                )


class TruncateOptions(NamedTuple):
    """The truncation of large events: whether it is on, and the sizes in bytes from which it applies."""

    is_enabled: bool
    max_batch_size: int
    max_event_size: int

    def check(self, plugin: str) -> None:
        """Check the sizes. Raises InvalidOptions."""
        if self.max_event_size <= 0:
            raise InvalidOptions(
                f"invalid audit truncate {plugin} max event size {self.max_event_size}, must be a positive "
                "number"
            )
        if self.max_batch_size < self.max_event_size:
            raise InvalidOptions(
                f"invalid audit truncate {plugin} max batch size {self.max_batch_size}, must be greater than "
                f"max event size ({self.max_event_size})"
            )


class RotationOptions(NamedTuple):
    """The rotation of the audit log's file; 0 for no limit. Sizes are in bytes."""

    max_size: int = 0
    max_age_days: int = 0
    max_backups: int = 0
    compresses: bool = False


class LogOptions(NamedTuple):
    """The options of the audit log. path: `-` for standard output. version: the API version of the events."""

    path: str
    format: str
    version: str
    rotation: RotationOptions
    delivery: DeliveryOptions
    truncation: TruncateOptions


class WebhookOptions(NamedTuple):
    """The options of the audit webhook.

    config_file: in the format of a kubeconfig. initial_backoff_s: the pause before the first retry.
    """

    config_file: str
    version: str
    initial_backoff_s: float
    delivery: DeliveryOptions
    truncation: TruncateOptions


def check_version(version: str, *known: str) -> None:
    """Check the version of audit events. known: the names of the only one. Raises InvalidOptions."""
    if version not in known:
        raise InvalidOptions(f'invalid group version {version}, allowed versions are ["{known[0]}"]')
