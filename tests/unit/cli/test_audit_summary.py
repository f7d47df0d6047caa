"""`apiserver audit summary`: who did what to which objects, and what was denied."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from apiserver.audit import summary
from apiserver.audit.summary import NAMES_MAX, Summary
from apiserver.cli import audit
from apiserver.cli.argument_parser import UsageError


def event(user: str = "eve", verb: str = "get", name: str = "a", code: int = 200, **more: Any) -> bytes:
    return orjson.dumps(
        {
            "auditID": "x",
            "stage": "ResponseComplete",
            "requestURI": "/x?y",
            "verb": verb,
            "user": {"username": user},
            "objectRef": {"resource": "pods", "namespace": "n", "name": name},
            "responseStatus": {"metadata": {}, "code": code},
            "requestReceivedTimestamp": "2026-01-01T00:00:00.000000Z",
            **more,
        }
    )


EVENTS: Final = [
    event(stage="RequestReceived"),
    event(),
    event(name="b"),
    event(name="b", code=404),
    event(verb="create", code=403, requestReceivedTimestamp="2026-01-02T00:00:00.000000Z"),
    event("root", impersonatedUser={"username": "bob"}),
    event(
        "robot",
        "update",
        objectRef={"resource": "deployments", "apiGroup": "apps", "subresource": "scale", "name": "web"},
    ),
    event("probe", objectRef=None),
    event("", stage="ResponseStarted", code=401),
    event(stage="ResponseStarted", verb="watch"),
]


def test_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain, rotated = tmp_path / "audit.log", tmp_path / "audit-1.log.gz"
    plain.write_bytes(b"\n".join(EVENTS[:5]) + b"\nnonsense\n\n")
    rotated.write_bytes(gzip.compress(b"\n".join(EVENTS[5:])))
    assert audit.run(["summary", str(plain), str(rotated)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "USER VERB RESOURCE REQUESTS DENIED FAILED OBJECTS",
        "eve get pods 3 0 1 a, b",
        "<unauthenticated> get pods 1 1 0 a",
        "eve create pods 1 1 0 a",
        "probe get /x 1 0 0",
        "robot update deployments.apps/scale 1 0 0 web",
        "root as bob get pods 1 0 0 a",
        "",
        "8 requests, 2 denied, 1 failed; 10 events, 1 malformed lines",
        "from 2026-01-01T00:00:00.000000Z to 2026-01-02T00:00:00.000000Z",
    ]


def test_what_was_denied_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "audit.log"
    file.write_bytes(b"\n".join(EVENTS))
    audit.run(["summary", "--denied", "--by=user,code", "-o", "json", "--top=1", str(file)])
    found = orjson.loads(capsys.readouterr().out)
    assert found["requests"] == found["denied"] == 2
    assert found["rowCount"] == 2
    assert found["rows"] == [
        {
            "user": "<unauthenticated>",
            "code": "401",
            "requests": 1,
            "denied": 1,
            "failed": 0,
            "objects": 1,
            "hasMoreObjects": False,
            "names": ["a"],
            "from": "2026-01-01T00:00:00.000000Z",
            "to": "2026-01-01T00:00:00.000000Z",
        }
    ]


MALFORMED: Final = {
    "no JSON": b"{",
    "no object": b"[]",
    "a number": b"1",
    "no event": b"{}",
    "no stage": b'{"auditID": "x"}',
    "another stage": b'{"auditID": "x", "stage": ["Panic"]}',
    "a user that is none": b'{"auditID": "x", "stage": "Panic", "user": "eve"}',
    "a code that is none": b'{"auditID": "x", "stage": "Panic", "responseStatus": {"code": "y"}}',
    "a code that is infinite": b'{"auditID": "x", "stage": "Panic", "responseStatus": {"code": 1e999}}',
    "no UTF-8": b'{"auditID": "\xff"}',
}


@pytest.mark.parametrize("line", MALFORMED.values(), ids=MALFORMED)
def test_lines_that_are_malformed_are_counted(line: bytes) -> None:
    found = Summary(["user"])
    found.add_line(line)
    assert (found.malformed, found.total.requests) == (1, 0)


@pytest.mark.parametrize("code", [400, 401, 500])
def test_a_request_of_nobody_counts_by_its_only_event(code: int) -> None:
    """It may be malformed, or what identifies users may be broken."""
    found = Summary(["code"])
    found.add_line(event("", stage="ResponseStarted", code=code))
    assert found.total.requests == 1


def test_what_is_kept_is_bounded() -> None:
    found = Summary(["verb"])
    for number in range(NAMES_MAX + 1):
        found.add_line(event(name=f"{number}"))
    [(_, row)] = found.rows(0)
    assert (len(row.names), row.has_more_names) == (NAMES_MAX, True)
    many = Summary(["user"])
    for number in range(summary.ROWS_MAX + 2):
        many.add_line(event(f"u-{number}", name=""))
    assert (many.row_count, many.others.requests) == (summary.ROWS_MAX, 2)


def test_a_terminal_is_told_no_control_characters() -> None:
    found = Summary(["user"])
    found.add_line(event("\x1b[31m" + "x" * 1000))
    [((user,), _)] = found.rows(0)
    assert user == "?[31m" + "x" * 195


def test_a_file_that_is_cut_off_is_summed_up_as_far_as_it_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = tmp_path / "cut.log.gz"
    cut.write_bytes(gzip.compress(b"\n".join(EVENTS))[:-20])
    whole = tmp_path / "whole.log"
    whole.write_bytes(event())
    assert audit.run(["summary", str(cut), str(tmp_path / "none"), str(whole)]) == 1
    printed = capsys.readouterr()
    assert f"{cut}: Compressed file ended" in printed.err
    assert "none: No such file or directory" in printed.err
    assert "eve" in printed.out


@pytest.mark.parametrize("output", ["table", "json"])
def test_no_table_of_files_that_are_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], output: str
) -> None:
    """It would read as if nobody had done anything. An empty log has an empty table."""
    assert audit.run(["summary", str(tmp_path / "none"), "-o", output]) == 1
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"apiserver: {tmp_path}/none: No such file or directory\n")
    (tmp_path / "empty").touch()
    assert audit.run(["summary", str(tmp_path / "empty"), "-o", output]) == 0
    assert capsys.readouterr().out


REFUSED: Final = {
    "no file": ["summary"],
    "no command": [],
    "another column": ["summary", "--by=when", "x"],
    "too few rows": ["summary", "--top=-1", "x"],
    "another form": ["summary", "-o", "yaml", "x"],
}


@pytest.mark.parametrize("arguments", REFUSED.values(), ids=REFUSED)
def test_what_is_refused(arguments: list[str]) -> None:
    with pytest.raises(UsageError):
        audit.run(arguments)
