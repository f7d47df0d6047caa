"""The report: its exit code, its text and its JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest

from apiserver.app.doctor.report import (
    Finding,
    Section,
    as_document,
    as_lines,
    bounded,
    error,
    exit_code,
    note,
    ok,
    warning,
)
from apiserver.app.doctor.units import milliseconds, size

EXIT_CODES: Final[dict[str, tuple[Sequence[Finding], int]]] = {
    "nothing": ((), 0),
    "ok": ((ok("a"),), 0),
    "a note": ((ok("a"), note("b", "c")), 0),
    "a warning": ((warning("a", "b"), note("c", "d")), 1),
    "an error": ((error("a", "b"), warning("c", "d")), 2),
}


@pytest.mark.parametrize(("findings", "code"), EXIT_CODES.values(), ids=EXIT_CODES)
def test_the_exit_code_is_that_of_the_most_serious_finding(findings: Sequence[Finding], code: int) -> None:
    assert exit_code([Section("one", findings), Section("other", (ok("z"),))]) == code


SECTIONS: Final = [
    Section("memory", [ok("the limit is 1 GiB"), error("too little", "Buy more.")]),
    Section("silent", []),
    Section("port", [warning("taken", "Free it.")]),
]


def test_the_text_has_the_most_serious_finding_of_each_check_first() -> None:
    assert list(as_lines(SECTIONS)) == [
        "memory",
        "  error    too little",
        "           > Buy more.",
        "  ok       the limit is 1 GiB",
        "port",
        "  warning  taken",
        "           > Free it.",
        "",
        "3 checks: 1 error, 1 warning",
    ]
    assert list(as_lines([Section("a", [ok("b")])]))[-1] == "1 check: everything is ok"


def test_texts_of_others_forge_no_lines() -> None:
    forged = error("a\n  ok       b\x1b[2J", "See c\nd.")
    assert list(as_lines([Section("x", [forged])]))[:3] == [
        "x",
        r"  error    a\n  ok       b\x1b[2J",
        r"           > See c\nd.",
    ]


def test_the_document_has_all_findings() -> None:
    assert as_document(SECTIONS) == {
        "severity": "error",
        "findings": [
            {"check": "memory", "severity": "ok", "message": "the limit is 1 GiB", "advice": ""},
            {"check": "memory", "severity": "error", "message": "too little", "advice": "Buy more."},
            {"check": "port", "severity": "warning", "message": "taken", "advice": "Free it."},
        ],
    }


def test_the_most_serious_findings_are_shown() -> None:
    many = [*(warning(f"w{n}", "a") for n in range(60)), error("e", "b"), ok("o")]
    assert bounded(many) == [
        error("e", "b"),
        *many[:49],
        many[0]._replace(
            message="and 12 more findings", advice="Solve the problems above, and run the command again."
        ),
    ]
    assert bounded([ok("a")] * 51)[-1] == ok("and 1 more finding")
    assert bounded([many[0], many[-1], many[-2]]) == [many[0], many[-1], many[-2]]


def test_texts_of_others_are_short() -> None:
    (found,) = bounded([warning("m" * 1_001, "a" * 2_000_000)])
    assert found == warning("m" * 1_000 + "...", "a" * 1_000 + "...")


SIZES: Final = {0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 512 * 1024**2: "512 MiB", 3 * 1024**5: "3072 TiB"}


@pytest.mark.parametrize(("amount", "text"), SIZES.items())
def test_sizes_have_three_digits(amount: int, text: str) -> None:
    assert size(amount) == text


def test_short_times_have_a_fraction() -> None:
    assert [milliseconds(each) for each in (0.00042, 0.0123, 2.3)] == ["0.4 ms", "12 ms", "2300 ms"]
