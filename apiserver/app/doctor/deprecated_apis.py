"""Checks which deprecated APIs clients call, as `apiserver deprecations` lists them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from apiserver.app.doctor.report import Finding, note, ok, warning
from apiserver.app.doctor.units import count
from apiserver.cli.deprecations import api_of, ask
from apiserver.cli.server_options import ServerOptions
from apiserver.meta.releases.deprecated_calls import removal_order
from apiserver.meta.vocabulary import Document

CALLERS_MAX: Final = 3
_ADVICE: Final = "Run apiserver deprecations to see all callers and the replacement."


def gather(options: ServerOptions) -> Document:
    """Returns the answer of all workers. Raises RequestFailed."""
    return ask(options)


def examine(answer: Document) -> Iterator[Finding]:
    """Yields a finding for each API: a warning if the next release removes it."""
    release = str(answer.get("release") or "")
    by_api: dict[str, list[Document]] = {}
    for row in answer["requests"]:
        by_api.setdefault(api_of(row), []).append(row)
    for api, rows in by_api.items():
        removed = str(rows[0].get("removedRelease") or "")
        message = f"{api} was called {count(sum(row['count'] for row in rows), 'time')}, by {_callers(rows)}"
        if removed and removal_order(removed) <= _next(release):
            yield warning(f"{message}; Kubernetes {removed} removes it", _ADVICE)
        else:
            until = f"; Kubernetes {removed} removes it" if removed else ""
            yield note(f"{message}{until}", _ADVICE)
    if not by_api:
        yield ok(f"no client has called a deprecated API since {answer.get('since')}")


def _callers(rows: Sequence[Document]) -> str:
    names = list(dict.fromkeys(f"{row.get('user')} ({row.get('userAgent') or '-'})" for row in rows))
    more = len(names) - CALLERS_MAX
    return ", ".join(names[:CALLERS_MAX]) + (f" and {more} more" if more > 0 else "")


def _next(release: str) -> tuple[int, ...]:
    """Returns the order of the release after one such as `1.36`."""
    major, _, minor = release.partition(".")
    return (int(major), int(minor) + 1) if major.isdigit() and minor.isdigit() else ()
