"""Reports of conformance: counts, reasons, and texts of servers that would like to be more than texts."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Final
from xml.etree import ElementTree

from apiserver.cli.conformance.reports import html_page, json_document, junit_xml, text_report
from apiserver.cli.conformance.results import Outcome, Result, Summary

HOSTILE: Final = '<script>alert(1)</script> & "q" \x1b[31mred\x1b[0m \udc80 \u202e ]]>'
SHOWN: Final = r'<script>alert(1)</script> & "q" \x1b[31mred\x1b[0m \udc80 \u202e ]]>'
SUMMARY: Final = Summary(
    "https://server",
    "v1.36.0",
    (
        Result("rv/a", Outcome.PASSED, seconds=1.5),
        Result("rv/b", Outcome.PASSED, ("step 1: body.message: expected 'x', got 'y'",)),
        Result("rv/c", Outcome.FAILED, (f"step 2: {HOSTILE}", "step 3: status: expected 200, got 500")),
        Result("watch/a", Outcome.SKIPPED, ("needs --features A",)),
        Result("watch/b", Outcome.SKIPPED, ("needs --features B",)),
        Result("watch/c", Outcome.SKIPPED, ("needs --features B",)),
    ),
    ("a note",),
)


def test_text() -> None:
    assert text_report(SUMMARY).splitlines() == [
        "https://server (v1.36.0), compared with kube-apiserver v1.36.2",
        "",
        "AREA    PASSED   FAILED   SKIPPED",
        "rv           2        1         0",
        "watch        0        0         3",
        "total        2        1         3",
        "",
        "2 skipped: needs --features B",
        "1 skipped: needs --features A",
        "1 passed with different message texts",
        "a note",
        "",
        rf"FAILED rv/c: step 2: {SHOWN} (and 1 more)",
    ]


def test_text_of_a_server_that_tells_no_version() -> None:
    assert text_report(SUMMARY._replace(version="")).startswith("https://server (unknown version), ")


class Page(HTMLParser):
    """The tags, the attributes and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_is_escaped_and_needs_no_other_file() -> None:
    text = html_page(SUMMARY)
    page = Page(text)
    assert not page.tags & {"script", "link", "img", "iframe"}
    assert not page.attributes & {"src", "href"}
    assert "url(" not in text
    assert "@import" not in text
    assert SHOWN in page.text
    assert "rv/c" in page.text
    assert "needs --features B" in page.text
    text.encode()  # no lone surrogates


def test_junit() -> None:
    root = ElementTree.fromstring(junit_xml(SUMMARY).encode())
    assert root.attrib == {
        "name": "conformance",
        "tests": "6",
        "failures": "1",
        "errors": "0",
        "skipped": "3",
    }
    assert [suite.get("name") for suite in root] == ["rv", "watch"]
    cases = {f"{case.get('classname')}/{case.get('name')}": case for case in root.iter("testcase")}
    assert [each.name for each in SUMMARY.results] == list(cases)
    assert cases["rv/a"].get("time") == "1.500"
    assert list(cases["rv/b"]) == []
    failure = cases["rv/c"].find("failure")
    assert failure is not None
    assert failure.text is not None
    assert failure.text.endswith("\nstep 3: status: expected 200, got 500")
    skipped = cases["watch/a"].find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "needs --features A"


def test_json() -> None:
    document = json_document(SUMMARY)
    assert document["total"] == {"passed": 2, "failed": 1, "skipped": 3}
    assert document["areas"]["watch"] == {"passed": 0, "failed": 0, "skipped": 3}
    assert document["conversations"][2]["details"][1] == "step 3: status: expected 200, got 500"
