"""Writes the results of a run as text, an HTML page, JSON, or JUnit's XML.

Texts of the endpoint are escaped: they may have whatever its author likes.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from xml.etree import ElementTree

from apiserver.cli.conformance.conversations import RECORDED_FROM, area_of
from apiserver.cli.conformance.results import Counts, Outcome, Result, Summary, counts_by_area, counts_of
from apiserver.cli.printable_text import printable

_HEADS: Final = ("AREA", *(outcome.upper() for outcome in Outcome))
_TOTAL: Final = "total"
_STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; }
th, td { padding: 0.1rem 1rem; border-bottom: 1px solid #bbb; text-align: right; }
th:first-child, td:first-child { text-align: left; }
tr:last-child { font-weight: bold; }
details { border-bottom: 1px solid #bbb; }
summary { font-family: monospace; padding: 0.2rem 0; cursor: pointer; }
li { font-family: monospace; overflow-wrap: anywhere; }
"""


def text_report(summary: Summary) -> str:
    """Returns the counts by area, the notes, and a line for each conversation that failed."""
    rows = [_HEADS, *((area, *map(str, counts)) for area, counts in _rows(summary).items())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [_title(summary), ""]
    for name, *cells in rows:
        numbers = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        lines.append("   ".join([name.ljust(widths[0]), *numbers]))
    notes = list(_notes(summary))
    failures = [
        f"FAILED {each.name}: {each.details[0]}{_more(each)}" for each in summary.with_outcome(Outcome.FAILED)
    ]
    for section in (notes, failures):
        if section:
            lines += ["", *section]
    return "\n".join(map(printable, lines))


def html_page(summary: Summary) -> str:
    """Returns a page that needs no other file."""
    heads = "".join(f"<th>{head.capitalize()}</th>" for head in _HEADS)
    rows = "\n".join(
        f"<tr><td>{_shown(area)}</td>{''.join(f'<td>{count}</td>' for count in counts)}</tr>"
        for area, counts in _rows(summary).items()
    )
    title = _shown(_title(summary))
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>Conformance of {_shown(summary.server)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>",
        f"<h1>Conformance</h1>\n<p>{title}</p>\n<table>\n<tr>{heads}</tr>\n{rows}\n</table>",
        *(f"<p>{_shown(note)}</p>" for note in _notes(summary)),
    ]
    for outcome in (Outcome.FAILED, Outcome.SKIPPED):
        if found := summary.with_outcome(outcome):
            parts += [f"<h2>{outcome.capitalize()}</h2>", *map(_details, found)]
    return "\n".join([*parts, "</body>\n</html>"])


def _details(result: Result) -> str:
    items = "".join(f"<li>{_shown(text)}</li>" for text in result.details)
    return f"<details><summary>{_shown(result.name)}</summary><ul>{items}</ul></details>"


def _shown(text: str) -> str:
    return html.escape(printable(text))


def json_document(summary: Summary) -> dict[str, Any]:
    """Returns the counts, the notes and all results."""
    return {
        "server": summary.server,
        "version": summary.version,
        "recordedFrom": RECORDED_FROM,
        "total": counts_of(summary.results)._asdict(),
        "areas": {area: counts._asdict() for area, counts in counts_by_area(summary.results).items()},
        "notes": summary.notes,
        "conversations": [each._asdict() for each in summary.results],
    }


def junit_xml(summary: Summary) -> str:
    """Returns a suite for each area, as systems for continuous integration read it."""
    root = ElementTree.Element(
        "testsuites", {"name": "conformance", **_junit_counts(counts_of(summary.results))}
    )
    suites = {
        area: ElementTree.SubElement(root, "testsuite", {"name": area, **_junit_counts(counts)})
        for area, counts in counts_by_area(summary.results).items()
    }
    for each in summary.results:
        area = area_of(each.name)
        name = each.name.removeprefix(f"{area}/")
        case = ElementTree.SubElement(
            suites[area], "testcase", classname=area, name=name, time=f"{each.seconds:.3f}"
        )
        texts = [printable(text) for text in each.details]
        if each.outcome is Outcome.FAILED:
            failure = ElementTree.SubElement(case, "failure", message=texts[0])
            failure.text = "\n".join(texts)
        elif each.outcome is Outcome.SKIPPED:
            ElementTree.SubElement(case, "skipped", message=texts[0])
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode")


def _junit_counts(counts: Counts) -> dict[str, str]:
    return {
        "tests": str(sum(counts)),
        "failures": str(counts.failed),
        "errors": "0",
        "skipped": str(counts.skipped),
    }


def _rows(summary: Summary) -> dict[str, Counts]:
    return {**counts_by_area(summary.results), _TOTAL: counts_of(summary.results)}


def _title(summary: Summary) -> str:
    version = summary.version or "unknown version"
    return f"{summary.server} ({version}), compared with kube-apiserver {RECORDED_FROM}"


def _notes(summary: Summary) -> Iterator[str]:
    reasons: dict[str, int] = {}
    for each in summary.with_outcome(Outcome.SKIPPED):
        reasons[each.details[0]] = reasons.get(each.details[0], 0) + 1
    for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
        yield f"{count} skipped: {reason}"
    texts = sum(bool(each.details) for each in summary.with_outcome(Outcome.PASSED))
    if texts:
        yield f"{texts} passed with different message texts"
    yield from summary.notes


def _more(result: Result) -> str:
    more = len(result.details) - 1
    return f" (and {more} more)" if more else ""


# How each format is written, but for JSON, which is bytes.
TEXTS: Final[Mapping[str, Callable[[Summary], str]]] = {
    "text": text_report,
    "html": html_page,
    "junit": junit_xml,
}
