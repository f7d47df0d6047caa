"""The findings of `apiserver doctor`: how serious each is, and how they are printed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from apiserver.app.doctor.units import count
from apiserver.cli.printable_text import printable


class Severity(IntEnum):
    """How serious a finding is. A healthy set-up has only `OK` and `NOTE`."""

    OK = 0
    NOTE = 1
    WARNING = 2
    ERROR = 3


class Finding(NamedTuple):
    """A fact about the set-up. advice: one line that says what to do; empty if there is nothing to do."""

    severity: Severity
    message: str
    advice: str = ""


class Section(NamedTuple):
    """The findings of one check. name: that of the check."""

    name: str
    findings: Sequence[Finding]


# Servers and files may contain messages of megabytes, or thousands of problems.
MESSAGE_LENGTH_MAX: Final = 1_000
FINDINGS_MAX: Final = 50
# Notes need no action, so that a cron job can rely on 0.
_EXIT_CODES: Final = {Severity.OK: 0, Severity.NOTE: 0, Severity.WARNING: 1, Severity.ERROR: 2}


def ok(message: str) -> Finding:
    return Finding(Severity.OK, message)


def note(message: str, advice: str) -> Finding:
    return Finding(Severity.NOTE, message, advice)


def warning(message: str, advice: str) -> Finding:
    return Finding(Severity.WARNING, message, advice)


def error(message: str, advice: str) -> Finding:
    return Finding(Severity.ERROR, message, advice)


def unchecked(message: str, advice: str, status: int = 0) -> Finding:
    """Returns a finding about a gap in the report. status: of the response; 0 if there was none.

    A gap is a warning, so that the exit code shows it, except where the user lacks permission.
    """
    return (note if status == HTTPStatus.FORBIDDEN else warning)(message, advice)


def bounded(findings: Iterable[Finding]) -> list[Finding]:
    """Returns the most serious findings, with short texts, and the number of the others."""
    found = [
        Finding(severity, _shortened(message), _shortened(advice)) for severity, message, advice in findings
    ]
    if len(found) > FINDINGS_MAX:
        found.sort(key=lambda each: -each.severity)
        rest = found[FINDINGS_MAX:]
        advice = "Solve the problems above, and run the command again." if rest[0].severity else ""
        found[FINDINGS_MAX:] = [Finding(rest[0].severity, f"and {count(len(rest), 'more finding')}", advice)]
    return found


def _shortened(text: str) -> str:
    return text if len(text) <= MESSAGE_LENGTH_MAX else f"{text[:MESSAGE_LENGTH_MAX]}..."


def worst(sections: Sequence[Section]) -> Severity:
    """Returns the severity of the most serious finding."""
    found = (finding.severity for section in sections for finding in section.findings)
    return max(found, default=Severity.OK)


def exit_code(sections: Sequence[Section]) -> int:
    return _EXIT_CODES[worst(sections)]


def as_document(sections: Sequence[Section]) -> dict[str, Any]:
    """Returns the report for `-o json`. Its names are stable: scripts read them."""
    return {
        "severity": worst(sections).name.lower(),
        "findings": [
            {
                "check": section.name,
                "severity": finding.severity.name.lower(),
                "message": finding.message,
                "advice": finding.advice,
            }
            for section in sections
            for finding in section.findings
        ],
    }


def as_lines(sections: Sequence[Section]) -> Iterator[str]:
    """Yields the lines of the report: the findings by check, the most serious first, and a summary."""
    for section in sections:
        if section.findings:
            yield section.name
        for finding in sorted(section.findings, key=lambda each: -each.severity):
            yield f"  {finding.severity.name.lower():<7}  {printable(finding.message)}"
            if finding.advice:
                yield f"{'':<11}> {printable(finding.advice)}"
    yield ""
    yield summary(sections)


def summary(sections: Sequence[Section]) -> str:
    """Returns a line with the number of findings of each severity above `OK`."""
    found = [finding.severity for section in sections for finding in section.findings]
    parts = [
        count(amount, severity.name.lower())
        for severity in sorted(Severity, reverse=True)
        if severity is not Severity.OK and (amount := found.count(severity))
    ]
    return f"{count(len(sections), 'check')}: {', '.join(parts) or 'everything is ok'}"
