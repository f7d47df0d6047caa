"""`apiserver top` adds up the counts of all workers, and reports responses that are none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from apiserver.cli import top
from apiserver.cli.api_client import RequestFailed
from tests.support.json_server import Ask, asking

CLIENT: Final = {
    "user": "alice",
    "userAgent": "tester/1",
    "verb": "get",
    "group": "apps",
    "resource": "deployments",
    "subresource": "scale",
    "requests": 120,
    "seconds": 30.0,
    "sentBytes": 120_000,
    "refused": 1,
    "failed": 2,
    "watches": 3,
}
DOCUMENT: Final = {"seconds": 60.0, "clients": [CLIENT]}


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    with asking(top.run, tmp_path_factory.mktemp("server")) as ask:
        yield ask


def test_a_table_has_rates(ask: Ask) -> None:
    heads, cells = ask(DOCUMENT).splitlines()
    assert heads.split() == [
        *("USER", "AGENT", "VERB", "RESOURCE", "REQUESTS/S", "IN", "FLIGHT", "KB/S", "REFUSED", "FAILED"),
        "WATCHES",
    ]
    assert cells.split() == [
        *("alice", "tester/1", "get", "deployments.apps/scale", "2.0", "0.50", "2.0", "1", "2", "3")
    ]


def test_rates_of_workers_are_added_up(ask: Ask) -> None:
    """Each has counted for another time."""
    workers = [
        {**DOCUMENT, "workers": 2, "worker": name, "seconds": seconds}
        for name, seconds in [("a", 60), ("b", 120)]
    ]
    assert json.loads(ask(*workers, arguments=["-o", "json", "--by=user"])) == {
        "rows": [
            {
                "user": "alice",
                "requestsPerSecond": 3.0,
                "inFlight": 0.75,
                "kilobytesPerSecond": 3.0,
                "refused": 2,
                "failed": 4,
                "watches": 6,
            }
        ],
    }


def test_nothing_was_sent(ask: Ask) -> None:
    assert ask({"seconds": 3.0, "clients": []}) == "No requests in the last two minutes.\n"


INVALID: Final[dict[str, Any]] = {
    "no list": {"seconds": 1.0, "clients": {}},
    "no counts": {"seconds": 1.0, "clients": [{}]},
    "a row that is none": {"seconds": 1.0, "clients": [7]},
    "no seconds": {"clients": []},
    "a text for a number": {"seconds": "soon", "clients": []},
}


@pytest.mark.parametrize("document", INVALID.values(), ids=INVALID)
def test_responses_that_are_invalid(ask: Ask, document: Any) -> None:
    with pytest.raises(RequestFailed, match=r"^the server's response to /debug/clients is not valid$"):
        ask(document)
