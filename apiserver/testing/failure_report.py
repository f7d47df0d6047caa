"""Describes a server when a test has failed, without secret values."""

from __future__ import annotations

import contextlib
import http.client
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson

from apiserver.testing.errors import ServerStopped

if TYPE_CHECKING:
    from apiserver.testing.server import ApiServer

# Of each kind.
SHOWN: Final = 30
# A server that does not answer may be why the test has failed.
_ANSWER_S: Final = 5.0
_EVENTS: Final = "/api/v1/events"


def sections(name: str, server: ApiServer) -> Iterator[tuple[str, str]]:
    """Yields the sections of a report, each with its title. name: that of the fixture."""
    yield f"the last requests of clients to {name}", _lines([str(each) for each in server.requests()])
    yield f"the last writes to {name}", _lines([str(each) for each in server.writes()])
    yield f"the last events in {name}", _events(server)


def _lines(lines: Sequence[str]) -> str:
    more = [f"... {len(lines) - SHOWN} earlier lines"] if len(lines) > SHOWN else []
    return "\n".join([*more, *lines[-SHOWN:]]) or "none"


def _events(server: ApiServer) -> str:
    try:
        with contextlib.closing(server.connect(timeout_s=_ANSWER_S)) as connection:
            connection.request("GET", _EVENTS, headers=server.admin_headers)
            response = connection.getresponse()
            answer = orjson.loads(response.read())
    except ServerStopped:
        return "the events can no longer be read: the server was stopped"
    except (OSError, ValueError, http.client.HTTPException) as error:
        return f"the events cannot be read: {error!r}"
    if response.status != 200:
        return f"the events cannot be read: {response.status} {answer.get('message', '')}"
    return _lines([_event(each) for each in sorted(answer["items"], key=_last_seen)])


def _last_seen(event: dict[str, Any]) -> str:
    series = event.get("series") or {}
    times = (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event["metadata"].get("creationTimestamp"),
    )
    return str(next(filter(None, times), ""))


def _event(event: dict[str, Any]) -> str:
    involved = event.get("involvedObject", {})
    place = "/".join(filter(None, (involved.get("namespace"), involved.get("name"))))
    count = event.get("count") or (event.get("series") or {}).get("count") or 1
    return " ".join(
        (
            _last_seen(event),
            event.get("type") or "Normal",
            event.get("reason", ""),
            f"{involved.get('kind', '')} {place}:",
            event.get("message", ""),
            *((f"({count} times)",) if count > 1 else ()),
        )
    )
