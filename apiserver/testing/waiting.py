"""Assertions that wait by a watch, without polling."""

from __future__ import annotations

import contextlib
import http.client
import re
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from http import HTTPStatus
from operator import methodcaller
from typing import Any, Final, Self, TypeVar
from urllib.parse import urlencode

import orjson

from apiserver.testing.differences import differences, shown
from apiserver.testing.errors import NotInThisProcess, NotInTime, NotQuiet, RequestFailed
from apiserver.testing.resources import Resource, RunningServer

# What a failure shows.
CHANGES_SHOWN: Final = 5
# Until a watch has begun, on a busy machine.
_ANSWER_S: Final = 60.0
# To read what has come already.
_COME_S: Final = 0.02
_LATE_S: Final = 1.0
FIELDS_SHOWN: Final = 10
# A server that is reset ends its connections, and answers again some milliseconds later.
_LOST: Final = (OSError, http.client.HTTPException)
_RETRY_S: Final = 0.005
# A server that is reset answers by then, also on a machine that is busy.
_BEGINS_WITHIN_S: Final = 5.0

# pytest hides the lines of a function with this `__tracebackhide__` if an assertion fails in it, so that the
# report shows the caller's line. Errors of another type are shown in full.
HIDES_ASSERTIONS: Final = methodcaller("errisinstance", AssertionError)

# What a name may have, as that of a Role, and a field selector has for itself.
_SELECTED: Final = re.compile(r"[\\,=]")
_ESCAPED: Final = r"\\\g<0>"

Document = dict[str, Any]
T = TypeVar("T")


class _WatchEnded(Exception):
    """The server has ended a watch."""


class _ObjectsOfName:
    """The current objects of one name, by namespace, and their last changes, as text."""

    def __init__(self) -> None:
        self.objects: dict[str, Document] = {}
        self._lines: deque[str] = deque(maxlen=CHANGES_SHOWN)
        self._began = time.monotonic()

    def list(self, items: Sequence[Document]) -> None:
        for gone in self.objects.keys() - {_namespace(item) for item in items}:
            self.delete(gone)
        for item in items:
            self.write(item)

    def write(self, found: Document) -> None:
        last = self.objects.get(_namespace(found))
        self.objects[_namespace(found)] = found
        if last is None:
            self._tell(shown(found))
            return
        changed = [str(change) for change in differences(last, found)]
        more = f", and {len(changed) - FIELDS_SHOWN} more" if len(changed) > FIELDS_SHOWN else ""
        self._tell(f"{_writer(found)}{', '.join(changed[:FIELDS_SHOWN]) or 'no change'}{more}")

    def delete(self, namespace: str) -> None:
        self.objects.pop(namespace, None)
        self._tell("the object was deleted")

    def _tell(self, what: str) -> None:
        self._lines.append(f"  {time.monotonic() - self._began:.3f} s: {what}")

    def __str__(self) -> str:
        return "\n".join(self._lines) or "  the object did not exist"


def _namespace(found: Document) -> str:
    return str(found["metadata"].get("namespace", ""))


def wait_for(
    server: RunningServer,
    resource: Resource,
    name: str,
    namespace: str = "",
    *,
    until: Callable[[Document], bool] | None,
    timeout_s: float,
) -> Document | None:
    """Returns the object once `until` is true for it; if `until` is None, returns None once it is gone.

    Without a namespace any object of this name will do, and all of them must be gone.
    Raises NotInTime, which shows the last changes, RequestFailed, and the errors of `until`, except
    LookupError, which counts as false; NotInTime shows it.
    """
    __tracebackhide__ = HIDES_ASSERTIONS
    found, deadline, wanted = _ObjectsOfName(), time.monotonic() + timeout_s, _Expectation(until)
    while True:
        with contextlib.closing(_observe(server, resource, namespace, name, found, deadline)) as steps:
            for written in steps:
                if until is None and not found.objects:
                    return None
                if (result := wanted.first_of(written)) is not None:
                    return result
        if time.monotonic() >= deadline:
            what = f"{resource.kind} {namespace + '/' if namespace else ''}{name}"
            raise NotInTime(f"{what} {wanted} after {timeout_s:g} s; its last changes:\n{found}")


def _observe(
    server: RunningServer,
    resource: Resource,
    namespace: str,
    name: str,
    found: _ObjectsOfName,
    deadline: float,
) -> Generator[Sequence[Document]]:
    """Yields the content of a list and then each written object, or nothing for a deletion.

    Ends with the watch, at a time of the monotonic clock at the latest. `found` is up to date before each
    step. Raises RequestFailed.
    """
    selector = {"fieldSelector": f"metadata.name={_SELECTED.sub(_ESCAPED, name)}"}
    path = resource.path(namespace)
    code, listing = until_answered(lambda: server.request("GET", path, query=selector), deadline)
    if code != HTTPStatus.OK:
        raise RequestFailed(f"a list of {resource.plural}", code, listing)
    type_meta = {"apiVersion": resource.api_version, "kind": resource.kind}
    items = [{**type_meta, **item} for item in listing["items"]]
    found.list(items)
    yield items
    query = {**selector, "resourceVersion": listing["metadata"]["resourceVersion"]}
    for event in watch(server, path, query, deadline):
        match event["type"]:
            case "ERROR":
                return
            case "DELETED":
                found.delete(_namespace(event["object"]))
                yield ()
            case _:
                found.write(event["object"])
                yield (event["object"],)


def until_answered(ask: Callable[[], T], deadline: float) -> T:
    """Returns the server's response, repeating the request if the server is reset meanwhile.

    Raises OSError or HTTPException if connections still end at a time of the monotonic clock.
    """
    while True:
        try:
            return ask()
        except _LOST:
            if time.monotonic() >= deadline:
                raise
        time.sleep(_RETRY_S)


class _Expectation:
    """The expected state of an object. until: the condition; None if the object should be gone."""

    def __init__(self, until: Callable[[Document], bool] | None) -> None:
        self._until = until
        self._missing = ""  # in the object as it was last

    def first_of(self, found: Sequence[Document]) -> Document | None:
        """Returns the first object that meets the expectation."""
        self._missing = ""
        return next(filter(self._is_so, found), None) if self._until is not None else None

    def _is_so(self, found: Document) -> bool:
        assert self._until is not None
        try:
            return self._until(found)
        except LookupError as error:  # What waits for a field of a status often comes before the status.
            self._missing = f" ({type(error).__name__}: {error})"
            return False

    def __str__(self) -> str:
        return "still exists" if self._until is None else f"does not meet the condition{self._missing}"


def assert_quiet(
    server: RunningServer, resources: Sequence[Resource], namespace: str, *, seconds: float
) -> None:
    """Checks that no object of some resources is written in the next seconds; raises NotQuiet if one is.

    The seconds begin when all resources are watched; writes until then count, too. NotQuiet is also raised if
    the writes cannot be known, as when the server is reset. Raises RequestFailed, ServerStopped.
    """
    __tracebackhide__ = HIDES_ASSERTIONS
    written: list[tuple[Resource, Document]] = []
    with contextlib.ExitStack() as stack:
        opened = []
        for resource in resources:
            watched = _watched(server, resource, namespace, seconds)
            opened.append((resource, stack.enter_context(contextlib.closing(watched))))
        deadline = time.monotonic() + seconds
        for resource, watched in opened:
            try:
                written += [(resource, event) for event in watched.events(deadline)]
            except _HistoryGone:
                reason = "the server was reset, or its history was compacted"
                raise NotQuiet(f"the writes to {resource.plural} cannot be determined: {reason}") from None
    if written:
        users = _users(server)
        lines = "\n".join(_write(resource, event, users) for resource, event in written[:FIELDS_SHOWN])
        count = "1 write" if len(written) == 1 else f"{len(written)} writes"
        raise NotQuiet(f"{count} in {seconds:g} s:\n{lines}")


def _watched(server: RunningServer, resource: Resource, namespace: str, seconds: float) -> _ResumedWatch:
    """Returns a watch that begins now, also on a server that is being reset.

    Raises RequestFailed, and NotQuiet if the server is reset repeatedly.
    """
    path, ends_at = resource.path(namespace), time.monotonic() + _BEGINS_WITHIN_S

    def begun() -> _ResumedWatch:
        code, listing = server.request("GET", path, query={"limit": "1"})
        if code != HTTPStatus.OK:
            raise RequestFailed(f"a list of {resource.plural}", code, listing)
        return _ResumedWatch(server, path, listing["metadata"]["resourceVersion"]).open(seconds)

    while time.monotonic() < ends_at:
        # A reset between the list and the watch is as one before both: nothing has been looked at yet.
        with contextlib.suppress(_HistoryGone):
            return until_answered(begun, ends_at)
    raise NotQuiet(f"the writes to {resource.plural} cannot be determined: the server is reset repeatedly")


class _HistoryGone(Exception):
    """The server no longer has the writes since a resourceVersion."""


class _ResumedWatch:
    """A watch of a path that resumes where it ended. resource_version: where it begins."""

    def __init__(self, server: RunningServer, path: str, resource_version: str) -> None:
        self._server, self._path, self._resource_version = server, path, resource_version
        self._stack = contextlib.ExitStack()

    def open(self, seconds: float) -> Self:
        """Begin the watch. seconds: its minimum duration. Raises RequestFailed, _HistoryGone."""
        self._stack.close()
        self._seconds = seconds
        query = {"resourceVersion": self._resource_version}
        try:
            watching = _opened(self._server, self._path, query, _ANSWER_S, _ANSWER_S + seconds)
            self._connection, self._response = self._stack.enter_context(watching)
        except RequestFailed as error:
            if error.code == HTTPStatus.GONE:
                raise _HistoryGone from None
            raise
        return self

    def close(self) -> None:
        self._stack.close()

    def events(self, deadline: float) -> Iterator[Document]:
        """Yields the writes until a time of the monotonic clock, with those received by then.

        Raises RequestFailed, _HistoryGone, ServerStopped.
        """
        while True:
            try:
                yield from self._events(deadline)
            except (_WatchEnded, *_LOST):
                until_answered(lambda: self.open(self._seconds), time.monotonic() + _ANSWER_S)
            else:
                return

    def _events(self, deadline: float) -> Iterator[Document]:
        for event in _lines(self._connection, self._response, deadline):
            if event["type"] == "ERROR":
                raise _HistoryGone
            self._resource_version = event["object"]["metadata"]["resourceVersion"]
            yield event


def watch(server: RunningServer, path: str, query: Mapping[str, str], deadline: float) -> Iterator[Document]:
    """Yields the events of a watch until a time of the monotonic clock, or until it ends before."""
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        return
    # A server that is reset ends it as it may.
    with (
        contextlib.suppress(_WatchEnded, *_LOST),
        _opened(server, path, query, left_s, left_s) as (connection, response),
    ):
        yield from _lines(connection, response, deadline)


@contextlib.contextmanager
def _opened(
    server: RunningServer, path: str, query: Mapping[str, str], answer_s: float, watch_s: float
) -> Iterator[tuple[http.client.HTTPConnection, http.client.HTTPResponse]]:
    """Opens a watch on a separate connection, which ends with the watch.

    answer_s: the timeout for its start. watch_s: its minimum duration.
    Raises RequestFailed, TimeoutError.
    """
    with contextlib.closing(server.connect(timeout_s=answer_s)) as connection:
        target = f"{path}?{urlencode({**query, 'watch': '1', 'timeoutSeconds': str(int(watch_s) + 1)})}"
        connection.request("GET", target, headers=server.admin_headers)
        response = connection.getresponse()
        if response.status != HTTPStatus.OK:
            raise RequestFailed(f"a watch of {path}", response.status, response.read().decode())
        yield connection, response


def _lines(
    connection: http.client.HTTPConnection, response: http.client.HTTPResponse, deadline: float
) -> Iterator[Document]:
    """Yields received lines until a time of the monotonic clock, with those received by then.

    Raises _WatchEnded, OSError and HTTPException if it ends before.
    """
    # Of several watches that are read one after another the last has as much time as the first.
    given_up_at = max(deadline, time.monotonic()) + _LATE_S
    with contextlib.suppress(TimeoutError):
        while (now := time.monotonic()) < given_up_at:
            if connection.sock is not None:
                connection.sock.settimeout(max(deadline - now, _COME_S))
            line = response.readline()
            if not line:
                raise _WatchEnded
            yield orjson.loads(line)


def _users(server: RunningServer) -> Mapping[str, str]:
    """Returns the users of the last writes, by resourceVersion, as far as the server knows them."""
    try:
        return {str(write.revision): write.user for write in server.writes()}
    except NotInThisProcess:
        return {}


def _write(resource: Resource, event: Document, users: Mapping[str, str]) -> str:
    """Returns a line about a write; a deleted object does not name the user who deleted it."""
    metadata = event["object"]["metadata"]
    namespace = f"{metadata['namespace']}/" if "namespace" in metadata else ""
    writer = "" if event["type"] == "DELETED" else _writer(event["object"])
    user = users.get(metadata["resourceVersion"], "")
    by = writer.removesuffix(": ") or (f"by {user}" if user else "")
    return f"  {event['type']} {resource.kind} {namespace}{metadata['name']} {by}".rstrip()


def _writer(found: Document) -> str:
    """Returns the writer of an object's last version, as far as the object names it."""
    entries = found.get("metadata", {}).get("managedFields") or ()
    last = max(entries, key=lambda each: each.get("time", ""), default=None)
    return f"by {last.get('manager', 'unknown')}: " if last is not None else ""
