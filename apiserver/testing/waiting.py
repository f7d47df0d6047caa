"""Assertions that wait, over a watch: nothing is polled."""

from __future__ import annotations

import contextlib
import http.client
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import orjson

from apiserver.testing.differences import differences, shown
from apiserver.testing.errors import NotInThisProcess, NotInTime, NotQuiet, RequestFailed
from apiserver.testing.resources import Resource

if TYPE_CHECKING:
    from apiserver.testing.server import ApiServer

# What a failure shows.
CHANGES_SHOWN: Final = 5
# Until a watch has begun, on a busy machine.
_ANSWER_S: Final = 60.0
# To read what has come already.
_COME_S: Final = 0.02
_LATE_S: Final = 1.0
FIELDS_SHOWN: Final = 10
# A watch that the server does not end in time is given up.
_GRACE_S: Final = 5.0

# pytest shows no line of a function with this `__tracebackhide__`, if an assertion fails in it: what the test
# waited for is what its reader looks for. Errors of another kind are shown whole.
HIDES_ASSERTIONS: Final = methodcaller("errisinstance", AssertionError)

# What a name may have, as that of a Role, and a field selector has for itself.
_SELECTED: Final = re.compile(r"[\\,=]")
_ESCAPED: Final = r"\\\g<0>"

Document = dict[str, Any]


class _Changes:
    """The last changes of an object, as text."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=CHANGES_SHOWN)
        self._last: Document | None = None
        self._began = time.monotonic()

    def add(self, found: Document | None) -> None:
        at = f"{time.monotonic() - self._began:.3f} s"
        if found is None:
            self._lines.append(f"  {at}: it was deleted")
        elif self._last is None:
            self._lines.append(f"  {at}: {shown(found)}")
        else:
            changed = [str(change) for change in differences(self._last, found)]
            more = f", and {len(changed) - FIELDS_SHOWN} more" if len(changed) > FIELDS_SHOWN else ""
            writer = _writer(found)
            self._lines.append(f"  {at}: {writer}{', '.join(changed[:FIELDS_SHOWN]) or 'no change'}{more}")
        self._last = found

    def __str__(self) -> str:
        return "\n".join(self._lines) or "  it did not exist"


def wait_for(
    server: ApiServer,
    resource: Resource,
    name: str,
    namespace: str = "",
    *,
    until: Callable[[Document], bool] | None,
    timeout_s: float,
) -> Document | None:
    """Returns the object once `until` is true of it; with `until` None, returns None once it is gone.

    Raises NotInTime, which tells of its last changes, RequestFailed, and what `until` raises. But a
    LookupError says that a field is not there yet; NotInTime tells of it.
    """
    __tracebackhide__ = HIDES_ASSERTIONS
    changes, deadline, wanted = _Changes(), time.monotonic() + timeout_s, _Wanted(until)
    selector = {"fieldSelector": f"metadata.name={_SELECTED.sub(_ESCAPED, name)}"}
    path = resource.path(namespace)
    while True:
        code, listing = server.request("GET", path, query=selector)
        if code != 200:
            raise RequestFailed(f"a list of {resource.plural}", code, listing)
        type_meta = {"apiVersion": resource.api_version, "kind": resource.kind}
        found = next(({**type_meta, **item} for item in listing["items"]), None)
        if found is not None or until is None:
            changes.add(found)
        if wanted.is_so(found):
            return found
        query = {**selector, "resourceVersion": listing["metadata"]["resourceVersion"]}
        for event in watch(server, path, query, deadline):
            if event["type"] == "ERROR":
                break
            found = None if event["type"] == "DELETED" else event["object"]
            changes.add(found)
            if wanted.is_so(found):
                return found
        if time.monotonic() >= deadline:
            what = f"{resource.kind} {namespace + '/' if namespace else ''}{name}"
            raise NotInTime(f"{what} was not {wanted} within {timeout_s:g} s; its last changes:\n{changes}")


class _Wanted:
    """How an object should be. until: what is true of it then; None if it should be gone."""

    def __init__(self, until: Callable[[Document], bool] | None) -> None:
        self._until = until
        self._missing = ""  # in the object as it was last

    def is_so(self, found: Document | None) -> bool:
        if self._until is None:
            return found is None
        self._missing = ""
        if found is None:
            return False
        try:
            return self._until(found)
        except LookupError as error:  # What waits for a field of a status often comes before the status.
            self._missing = f" ({type(error).__name__}: {error})"
            return False

    def __str__(self) -> str:
        return "gone" if self._until is None else f"as it should be{self._missing}"


def assert_quiet(
    server: ApiServer, resources: Mapping[str, Resource], namespace: str, *, seconds: float
) -> None:
    """Raises NotQuiet if an object of one of the resources is written in the next seconds.

    They begin when all resources are watched. What is written meanwhile is told, too.
    """
    __tracebackhide__ = HIDES_ASSERTIONS
    written: list[tuple[Resource, Document]] = []
    with contextlib.ExitStack() as stack:
        opened = []
        for kind, resource in resources.items():
            code, listing = server.request("GET", resource.path(namespace), query={"limit": "1"})
            if code != 200:
                raise RequestFailed(f"a list of {kind}", code, listing)
            query = {"resourceVersion": listing["metadata"]["resourceVersion"]}
            watching = _opened(server, resource.path(namespace), query, _ANSWER_S, _ANSWER_S + seconds)
            opened.append((resource, *stack.enter_context(watching)))
        deadline = time.monotonic() + seconds
        for resource, connection, response in opened:
            written += [
                (resource, event)
                for event in _lines(connection, response, deadline)
                if event["type"] in ("ADDED", "MODIFIED", "DELETED")
            ]
    if written:
        users = _users(server)
        lines = "\n".join(_write(resource, event, users) for resource, event in written[:FIELDS_SHOWN])
        raise NotQuiet(f"{len(written)} writes in {seconds:g} s:\n{lines}")


def watch(server: ApiServer, path: str, query: Mapping[str, str], deadline: float) -> Iterator[Document]:
    """Yields the events of a watch until a time of the monotonic clock, or until it ends before."""
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        return
    with contextlib.suppress(TimeoutError), _opened(server, path, query, left_s, left_s) as (one, response):
        yield from _lines(one, response, deadline)


@contextlib.contextmanager
def _opened(
    server: ApiServer, path: str, query: Mapping[str, str], answer_s: float, watch_s: float
) -> Iterator[tuple[http.client.HTTPConnection, http.client.HTTPResponse]]:
    """Opens a watch on a connection of its own, whose end is the end of the watch.

    answer_s: how long is waited until it has begun. watch_s: how long it lasts at least.
    Raises RequestFailed, TimeoutError.
    """
    with contextlib.closing(server.connect(timeout_s=answer_s)) as connection:
        target = f"{path}?{urlencode({**query, 'watch': '1', 'timeoutSeconds': str(int(watch_s) + 1)})}"
        connection.request("GET", target, headers=server.admin_headers)
        response = connection.getresponse()
        if response.status != 200:
            raise RequestFailed(f"a watch of {path}", response.status, response.read().decode())
        yield connection, response


def _lines(
    connection: http.client.HTTPConnection, response: http.client.HTTPResponse, deadline: float
) -> Iterator[Document]:
    """Yields what comes until a time of the monotonic clock, and what has come by then."""
    # Of several watches that are read one after another the last has as much time as the first.
    given_up_at = max(deadline, time.monotonic()) + _LATE_S
    with contextlib.suppress(TimeoutError):
        while (now := time.monotonic()) < given_up_at:
            if connection.sock is not None:
                connection.sock.settimeout(max(deadline - now, _COME_S))
            line = response.readline()
            if not line:
                return
            yield orjson.loads(line)


def _users(server: ApiServer) -> Mapping[str, str]:
    """Returns whose the last writes were, by their resourceVersions, as far as the server tells."""
    try:
        return {str(write.revision): write.user for write in server.writes()}
    except NotInThisProcess:
        return {}


def _write(resource: Resource, event: Document, users: Mapping[str, str]) -> str:
    """Returns a line about a write. Who has deleted an object, it does not say itself."""
    metadata = event["object"]["metadata"]
    namespace = f"{metadata['namespace']}/" if "namespace" in metadata else ""
    writer = "" if event["type"] == "DELETED" else _writer(event["object"])
    user = users.get(metadata["resourceVersion"], "")
    by = writer.removesuffix(": ") or (f"by {user}" if user else "")
    return f"  {event['type']} {resource.kind} {namespace}{metadata['name']} {by}".rstrip()


def _writer(found: Document) -> str:
    """Returns who wrote an object last, as far as it says so."""
    entries = found.get("metadata", {}).get("managedFields") or ()
    last = max(entries, key=lambda each: each.get("time", ""), default=None)
    return f"by {last.get('manager', 'unknown')}: " if last is not None else ""
