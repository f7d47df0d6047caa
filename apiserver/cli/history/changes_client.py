"""Reads what the server lists of the changes of all objects."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeAlias

from apiserver.cli.api_client import ApiClient, RequestFailed
from apiserver.cli.argument_parser import UsageError
from apiserver.cli.history.moments import PRESENT, moment_or_ago
from apiserver.cli.history.object_client import PAGE, ListedVersion, ObjectName, listed_version
from apiserver.cli.worker_answers import invalid_response
from apiserver.meta.vocabulary import Document

PATH: Final = "/history"
# Pages that are read: the server looks at thousands of changes for each.
PAGES_MAX: Final = 1_000


class ListedChange(NamedTuple):
    """A change of an object."""

    target: ObjectName
    version: ListedVersion


class Gap(NamedTuple):
    """Changes with revisions above `since`, and up to `until`, are not recorded. document: as it was sent."""

    since: int
    until: int
    document: Document


Entry: TypeAlias = ListedChange | Gap


def add_period_arguments(parser: argparse.ArgumentParser, default: str) -> None:
    """Have a parser take a period, for `period_query`. default: what the help says of no begin."""
    parser.add_argument(
        "--since",
        metavar="MOMENT",
        help="The begin of the period: a duration before now such as 30m, 2h or 7d, a time such as "
        f"2026-11-28T10:00:00Z, or a resource version.{default}",
    )
    parser.add_argument(
        "--until", metavar="MOMENT", help="The end of the period. The default is the present."
    )


def period_query(given: argparse.Namespace, command: str) -> dict[str, str]:
    """Returns the query for the changes that arguments ask for. Raises UsageError."""
    now_s = time.time()
    since, until = ("" if each is None else moment_or_ago(each, now_s) for each in (given.since, given.until))
    if given.since is not None and since == PRESENT:
        raise UsageError(f"{command}: --since must be before now")
    query = {
        "since": since,
        "until": until,
        "by": given.by or "",
        "namespace": given.namespace,
    }
    return {key: value for key, value in query.items() if value}


def listed_changes(client: ApiClient, query: Mapping[str, str], page_size: int = PAGE) -> Iterator[Entry]:
    """Yields the changes that a query selects, and gaps, the newest first. Raises RequestFailed.

    All pages are of the period that the first one has had; what changes meanwhile is in none.
    """
    asked = {**query, "limit": str(page_size)}
    for _ in range(PAGES_MAX):
        page = _page(client, asked)
        try:
            entries = [_entry(each) for each in page["changes"]]
            position = page.get("continue", "")
            asked |= {side: page[side] for side in ("since", "until")} if position else {}
        except (AttributeError, LookupError, TypeError, ValueError):
            raise invalid_response(PATH) from None
        if not isinstance(position, str) or not all(isinstance(each, str) for each in asked.values()):
            raise invalid_response(PATH)
        yield from entries
        if not position:
            return
        asked["continue"] = position
    raise RequestFailed(f"there are more than {PAGES_MAX} pages of changes")


def _page(client: ApiClient, query: Mapping[str, str]) -> Document:
    try:
        answer: Document = client.get(PATH, query)
    except RequestFailed as failed:
        if failed.status == HTTPStatus.NOT_FOUND:
            raise RequestFailed(
                "the server has no history; it must run with --history", failed.status
            ) from None
        raise
    return answer


def _entry(document: Any) -> Entry:
    """Raises AttributeError, LookupError, TypeError, ValueError if a document is neither change nor gap."""
    if "gap" in document:
        gap = document["gap"]
        return Gap(int(gap["since"]), int(gap["until"]), document)
    names = [document.get(field, "") for field in ObjectName._fields]
    if not all(isinstance(each, str) for each in names):
        raise TypeError
    return ListedChange(ObjectName(*names), listed_version(document))
