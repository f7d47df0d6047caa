"""Probes and lifecycle handlers of containers.

Source: pkg/apis/core/validation, validateProbe, validateLifecycle and validateHandler.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from apiserver.meta.field_errors import Errors, forbidden, invalid, not_supported, required
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.checks import in_range, non_negative, one_of, port_number_or_name


class LifecycleContext(NamedTuple):
    """The facts that the rules of lifecycle handlers use.

    grace_s: the pod's grace period. may_be_zero: whether a sleep may take no time. system: the pod's
    operating system, if it names one.
    """

    grace_s: int | None
    may_be_zero: bool
    system: str | None


_ActionCheck: TypeAlias = Callable[[str, Document, LifecycleContext], Errors]

_is_header_name = re.compile(r"[-A-Za-z0-9]+").fullmatch
_HEADER_TEXT: Final = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used "
    "for validation is '[-A-Za-z0-9]+')"
)
_SCHEMES: Final = ("HTTP", "HTTPS")
_NUMBERS: Final = (
    *("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"),
)


# Probes have no handlers that depend on it.
_NO_CONTEXT: Final = LifecycleContext(None, True, None)
_LINUX_SIGNALS: Final = (
    *("ABRT", "ALRM", "BUS", "CHLD", "CLD", "CONT", "FPE", "HUP", "ILL", "INT", "IO", "IOT", "KILL", "PIPE"),
    *("POLL", "PROF", "PWR", "QUIT", "SEGV", "STKFLT", "STOP", "SYS", "TERM", "TRAP", "TSTP", "TTIN", "TTOU"),
    *("URG", "USR1", "USR2", "VTALRM", "WINCH", "XCPU", "XFSZ", "RTMIN", "RTMAX"),
    *(f"RTMIN+{number}" for number in range(1, 16)),
    *(f"RTMAX-{number}" for number in range(1, 15)),
)
_SIGNALS: Final = {
    "linux": tuple(sorted(f"SIG{name}" for name in _LINUX_SIGNALS)),
    "windows": ("SIGKILL", "SIGTERM"),
}


def validate_probes(path: str, container: Document) -> Errors:
    errors: Errors = []
    for kind in ("livenessProbe", "readinessProbe", "startupProbe"):
        if kind in container:
            errors += _probe(f"{path}.{kind}", kind, container[kind])
    return errors


def _probe(path: str, kind: str, probe: Document) -> Errors:
    actions = {k: v for k, v in probe.items() if k != "sleep"} if "sleep" in probe else probe
    errors = _handler(path, actions, _NO_CONTEXT)
    for field in _NUMBERS:
        if probe.get(field, 0) < 0:
            errors += non_negative(f"{path}.{field}", probe[field])
    own_grace_s = probe.get("terminationGracePeriodSeconds")
    if own_grace_s is not None:
        where = f"{path}.terminationGracePeriodSeconds"
        if own_grace_s <= 0:
            errors.append(invalid(where, own_grace_s, "must be greater than 0"))
        if kind == "readinessProbe":
            errors.append(invalid(where, own_grace_s, "must not be set for readinessProbes"))
    if kind != "readinessProbe" and probe.get("successThreshold", 0) != 1:
        errors.append(invalid(f"{path}.successThreshold", probe.get("successThreshold", 0), "must be 1"))
    return errors


def validate_lifecycle(path: str, lifecycle: Document, context: LifecycleContext) -> Errors:
    errors: Errors = []
    for moment in ("postStart", "preStop"):
        if moment in lifecycle:
            errors += _handler(f"{path}.{moment}", lifecycle[moment], context)
    if "stopSignal" in lifecycle:
        errors += _stop_signal(f"{path}.stopSignal", lifecycle["stopSignal"], context.system)
    return errors


def _stop_signal(path: str, signal: str, system: str | None) -> Errors:
    if system is None:
        return [forbidden(path, "may not be set for containers with empty `spec.os.name`")]
    supported = _SIGNALS.get(system, (signal,))  # Other systems are refused elsewhere.
    return [] if signal in supported else [not_supported(path, signal, supported)]


def _handler(path: str, handler: Document, context: LifecycleContext) -> Errors:
    """Checks that there is exactly one action."""
    errors: Errors | None = None
    for field, check in _ACTIONS.items():
        if field in handler:
            if errors is None:
                errors = check(f"{path}.{field}", handler[field], context)
            else:
                errors.append(forbidden(f"{path}.{field}", "may not specify more than 1 handler type"))
    return [required(path, "must specify a handler type")] if errors is None else errors


def _exec(path: str, action: Document, context: LifecycleContext) -> Errors:
    return [] if action.get("command") else [required(f"{path}.command")]


def _http_get(path: str, action: Document, context: LifecycleContext) -> Errors:
    errors = [] if action.get("path") else [required(f"{path}.path")]
    errors += port_number_or_name(f"{path}.port", action.get("port"))
    if (scheme := action.get("scheme")) not in _SCHEMES:
        errors += one_of(f"{path}.scheme", scheme, _SCHEMES)
    for header in action.get("httpHeaders") or ():
        if not _is_header_name(header.get("name", "")):
            errors.append(invalid(f"{path}.httpHeaders", header.get("name", ""), _HEADER_TEXT))
    return errors


def _port(path: str, action: Document, context: LifecycleContext) -> Errors:
    return port_number_or_name(f"{path}.port", action.get("port"))


def _grpc(path: str, action: Document, context: LifecycleContext) -> Errors:
    return in_range(f"{path}.port", action.get("port", 0), 1, 65_535)


def _sleep(path: str, action: Document, context: LifecycleContext) -> Errors:
    seconds, grace_s = action.get("seconds", 0), context.grace_s
    if grace_s is None or (0 if context.may_be_zero else 1) <= seconds <= grace_s:
        return []
    if context.may_be_zero:
        text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_s})"
    else:
        text = (
            f"must be greater than 0 and less than terminationGracePeriodSeconds ({grace_s}). Enable "
            "AllowPodLifecycleSleepActionZeroValue feature gate for zero sleep."
        )
    return [invalid(path, seconds, text)]


_ACTIONS: Final[Mapping[str, _ActionCheck]] = {
    "exec": _exec,
    "httpGet": _http_get,
    "tcpSocket": _port,
    "grpc": _grpc,
    "sleep": _sleep,
}
