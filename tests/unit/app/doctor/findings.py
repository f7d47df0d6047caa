"""What tests of checks have in common."""

from __future__ import annotations

from collections.abc import Iterable

from apiserver.app.doctor.report import Finding, Severity


def told(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    """Returns the severities and messages, after a check that each problem has one line of advice."""
    found = list(findings)
    for severity, message, advice in found:
        assert (severity is Severity.OK) is not bool(advice), message
        assert "\n" not in message + advice
    return [(severity.name, message) for severity, message, _ in found]


def problems(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    return [each for each in told(findings) if each[0] != "OK"]
