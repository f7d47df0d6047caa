"""A plain HTTP client for tests, which shows requests and responses as they are."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

import orjson

from tests.support.eventually import WITHIN_S, until
from tests.support.server_process import ServerProcess

MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
_TYPES: Final = {"merge": MERGE_PATCH, "json-patch": JSON_PATCH, "json": "application/json"}


@dataclass(frozen=True)
class Answer:
    """A response. headers: names in lower case; `all_headers` also has those that are repeated."""

    status: int
    headers: Mapping[str, str]
    all_headers: tuple[tuple[str, str], ...]
    body: bytes

    @cached_property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def reason(self) -> str:
        """The reason of a Status."""
        return str(self.json["reason"])

    @property
    def message(self) -> str:
        return str(self.json["message"])

    @property
    def causes(self) -> list[tuple[str, str]]:
        """Reason and field of each cause of a Status."""
        return [(each["reason"], each["field"]) for each in self.json["details"]["causes"]]

    @property
    def warnings(self) -> list[str]:
        texts = [value for name, value in self.all_headers if name == "warning"]
        return [text.removeprefix('299 - "').removesuffix('"') for text in texts]

    def ok(self) -> Any:
        """Return the document of a response that must be a success."""
        assert self.status < 300, f"{self.status} {self.body.decode()}"
        return self.json


class Api:
    """A client of one server, with one identity and one connection. ca: what it trusts, if not its CA.

    certificate: a file with the client's certificate and its key.
    """

    def __init__(
        self,
        server: ServerProcess,
        token: str = "admin-token",
        *,
        ca: Path | None = None,
        certificate: Path | None = None,
    ) -> None:
        self.server, self._token = server, token
        self._where = urlsplit(server.url)
        self._tls = ssl.create_default_context(cafile=ca or server.ca_path)
        if certificate is not None:
            self._tls.load_cert_chain(certificate)
        self._connection = self._connect()

    def _connect(self) -> http.client.HTTPSConnection:
        assert self._where.hostname is not None
        return http.client.HTTPSConnection(
            self._where.hostname, self._where.port, context=self._tls, timeout=WITHIN_S
        )

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def as_caller(self, token: str) -> Api:
        """Return a client of the same server with another token; an empty one sends no credentials."""
        return Api(self.server, token)

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        type: str = "json",  # noqa: A002  what HTTP calls it
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request. body: bytes, or a document to send as JSON. type: its media type, or short."""
        sent = dict(headers or {})
        if self._token:
            sent.setdefault("Authorization", f"Bearer {self._token}")
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        if data is not None:
            sent.setdefault("Content-Type", _TYPES.get(type, type))
        try:
            self._connection.request(method, path, data, sent)
            response = self._connection.getresponse()
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
            # The server may close a connection between requests; another try is what clients do.
            self._connection.close()
            self._connection.request(method, path, data, sent)
            response = self._connection.getresponse()
        with response:  # read whole or not, so that a broken connection leaves no socket behind
            pairs = tuple((name.lower(), value) for name, value in response.getheaders())
            return Answer(response.status, dict(pairs), pairs, response.read())

    def get(self, path: str, **options: Any) -> Answer:
        return self.send("GET", path, **options)

    def post(self, path: str, body: Any, **options: Any) -> Answer:
        return self.send("POST", path, body, **options)

    def put(self, path: str, body: Any, **options: Any) -> Answer:
        return self.send("PUT", path, body, **options)

    def patch(self, path: str, body: Any, type: str = "merge", **options: Any) -> Answer:  # noqa: A002
        return self.send("PATCH", path, body, type=type, **options)

    def apply(self, path: str, body: Any, **options: Any) -> Answer:
        """Apply on the server's side. path: with the query, which names the field manager."""
        return self.patch(path, body, APPLY, **options)

    def delete(self, path: str, body: Any = None, **options: Any) -> Answer:
        return self.send("DELETE", path, body, **options)

    @contextmanager
    def watch(self, path: str, **headers: str) -> Iterator[WatchEvents]:
        """The events of a watch, on a connection of their own."""
        connection = self._connect()
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self._token}", **headers})
            yield WatchEvents(connection.getresponse())
        finally:
            connection.close()


def assert_refused(answer: Answer, code: int, reason: str, message: str = "") -> None:
    """The answer is a Status with this code and reason, and with this in its message."""
    assert (answer.status, answer.reason) == (code, reason), answer.body
    assert message in answer.message


def assert_forbidden(answer: Answer, why: str) -> None:
    """The answer is the refusal of an admission plugin, for this reason and no other."""
    assert (answer.status, answer.reason) == (403, "Forbidden"), answer.body
    assert answer.message.partition(" is forbidden: ")[2] == why


def until_status(status: int, ask: Callable[[], Answer], what: str = "") -> Answer:
    """Ask until the answer has this status, and return it."""
    return until(ask, lambda answer: answer.status == status, what)


def names_in(api: Api, path: str) -> list[str]:
    return [item["metadata"]["name"] for item in api.get(path).ok()["items"]]


def with_callers(api: Api, count: int, work: Callable[[Api, int], object]) -> None:
    """Let several callers, each on a connection of its own, work at the same time."""
    begin = threading.Barrier(count)

    def run(index: int) -> None:
        with Api(api.server) as caller:
            begin.wait(WITHIN_S)
            work(caller, index)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(run, range(count)))


class WatchEvents:
    """The events of a watch. Iterating waits for the next one, up to the timeout of the connection."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self._response = response

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while line := self._response.readline():
            yield json.loads(line)

    def line(self) -> bytes:
        """The next event as it came."""
        return self._response.readline()

    def next(self) -> dict[str, Any]:
        return next(iter(self))

    def take(self, count: int) -> list[tuple[str, str]]:
        """The type and the object's name of the next events."""
        taken = []
        for event in self:
            taken.append((event["type"], event["object"]["metadata"].get("name", "")))
            if len(taken) == count:
                break
        return taken

    def read_until(self, mark: bytes) -> bytes:
        """Events in any form, up to a piece that ends with or behind `mark`, or to the end of the watch."""
        received, at = bytearray(), -1
        while at < 0 and (piece := self._response.read1(1_000_000)):
            received += piece
            at = received.find(mark, max(0, len(received) - len(piece) - len(mark)))
        return bytes(received)

    def body(self) -> bytes:
        """The rest of the response, whatever it is."""
        return self._response.read()
