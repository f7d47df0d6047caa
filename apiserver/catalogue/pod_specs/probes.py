"""Probes and lifecycle handlers of containers.

Source: pkg/apis/core/validation, validateProbe, validateLifecycle and validateHandler.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from apiserver.field_errors import Errors, forbidden, invalid, required
from apiserver.validation.checks import in_range, non_negative, one_of, port_number_or_name
from apiserver.vocabulary import Document

_ActionCheck: TypeAlias = Callable[[str, Document, int | None], Errors]

_is_header_name = re.compile(r"[-A-Za-z0-9]+").fullmatch
_HEADER_TEXT: Final = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used "
    "for validation is '[-A-Za-z0-9]+')"
)
_SCHEMES: Final = ("HTTP", "HTTPS")
_NUMBERS: Final = (
    *("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"),
)


def validate_probes(path: str, container: Document, grace_s: int | None) -> Errors:
    """Checks the probes of a container. grace_s: the pod's."""
    errors: Errors = []
    for kind in ("livenessProbe", "readinessProbe", "startupProbe"):
        if kind in container:
            errors += _probe(f"{path}.{kind}", kind, container[kind], grace_s)
    return errors


def _probe(path: str, kind: str, probe: Document, grace_s: int | None) -> Errors:
    actions = {k: v for k, v in probe.items() if k != "sleep"} if "sleep" in probe else probe
    errors = _handler(path, actions, grace_s)
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


def validate_lifecycle(path: str, lifecycle: Document, grace_s: int | None) -> Errors:
    errors: Errors = []
    for moment in ("postStart", "preStop"):
        if moment in lifecycle:
            errors += _handler(f"{path}.{moment}", lifecycle[moment], grace_s)
    return errors


def _handler(path: str, handler: Document, grace_s: int | None) -> Errors:
    """Checks that there is exactly one action."""
    errors: Errors | None = None
    for field, check in _ACTIONS.items():
        if field in handler:
            if errors is None:
                errors = check(f"{path}.{field}", handler[field], grace_s)
            else:
                errors.append(forbidden(f"{path}.{field}", "may not specify more than 1 handler type"))
    return [required(path, "must specify a handler type")] if errors is None else errors


def _exec(path: str, action: Document, grace_s: int | None) -> Errors:
    return [] if action.get("command") else [required(f"{path}.command")]


def _http_get(path: str, action: Document, grace_s: int | None) -> Errors:
    errors = [] if action.get("path") else [required(f"{path}.path")]
    errors += port_number_or_name(f"{path}.port", action.get("port"))
    if (scheme := action.get("scheme")) not in _SCHEMES:
        errors += one_of(f"{path}.scheme", scheme, _SCHEMES)
    for header in action.get("httpHeaders") or ():
        if not _is_header_name(header.get("name", "")):
            errors.append(invalid(f"{path}.httpHeaders", header.get("name", ""), _HEADER_TEXT))
    return errors


def _port(path: str, action: Document, grace_s: int | None) -> Errors:
    return port_number_or_name(f"{path}.port", action.get("port"))


def _grpc(path: str, action: Document, grace_s: int | None) -> Errors:
    return in_range(f"{path}.port", action.get("port", 0), 1, 65_535)


def _sleep(path: str, action: Document, grace_s: int | None) -> Errors:
    seconds = action.get("seconds", 0)
    if grace_s is None or 0 <= seconds <= grace_s:
        return []
    text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_s})"
    return [invalid(path, seconds, text)]


_ACTIONS: Final[Mapping[str, _ActionCheck]] = {
    "exec": _exec,
    "httpGet": _http_get,
    "tcpSocket": _port,
    "grpc": _grpc,
    "sleep": _sleep,
}
