"""Has a server write its objects again, and encrypt its history again: what it sends, counts and retries."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, NamedTuple
from urllib.parse import quote

PAGE_OBJECTS: Final = 500
# Objects that are written at the same time.
CONCURRENT_WRITES: Final = 8
ATTEMPTS_MAX: Final = 5
RETRY_FIRST_S: Final = 0.5
RETRY_MAX_S: Final = 10.0
PROGRESS_S: Final = 5.0
FAILURES_SHOWN_MAX: Final = 100
_BUSY: Final = frozenset({429, 500, 502, 503, 504})
_CORRUPT: Final = "StorageReadError"
_METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_MERGE_PATCH: Final = {"Content-Type": "application/merge-patch+json"}
_EVENTS: Final = "events"
# Stands for a resource in positions and lines; no resource without a group is called so.
HISTORY: Final = "history"
HISTORY_PATH: Final = "/history/rewrite"
# Of the past, which only a server with a history has. Users who may read `/apis` may read it, too.
PAST_PATH: Final = "/at/0/apis"


class RewriteFailed(Exception):
    """The command cannot go on. The message is for who has called it."""


class Interrupted(Exception):
    """The command was interrupted. position: what comes next is behind it; empty if nothing was done.

    number: that of the signal.
    """

    def __init__(self, position: str, number: int = signal.SIGINT) -> None:
        super().__init__(position)
        self.position, self.number = position, number


class Resource(NamedTuple):
    """A resource as it is served. name: as users write it. path: of its objects in all namespaces."""

    name: str
    path: str
    is_namespaced: bool

    def object_path(self, namespace: str, name: str) -> str:
        if not self.is_namespaced:
            return f"{self.path}/{name}"
        root, _, resource = self.path.rpartition("/")
        return f"{root}/namespaces/{namespace}/{resource}/{name}"


@dataclass
class Counts:
    """What became of the objects of one resource."""

    rewritten: int = 0
    unchanged: int = 0
    gone: int = 0
    failed: int = 0

    @property
    def done(self) -> int:
        return self.rewritten + self.unchanged + self.gone + self.failed

    def __str__(self) -> str:
        parts = [f"{self.rewritten} rewritten", f"{self.unchanged} up to date"]
        if self.failed:
            parts.append(f"{self.failed} failed")
        return ", ".join(parts)


class ServerResponse(NamedTuple):
    """What the server has answered. retry_after_s: 0 if it does not say."""

    status: int
    document: Mapping[str, Any]
    retry_after_s: float = 0.0

    @property
    def why(self) -> str:
        return str(self.document.get("message") or f"status {self.status}")

    @property
    def is_busy(self) -> bool:
        return self.status in _BUSY and self.document.get("reason") != _CORRUPT


# Sends a request: method, path and query, headers, body. Raises RewriteFailed if there is no answer.
Send = Callable[[str, str, Mapping[str, str], bytes], Awaitable[ServerResponse]]


class Rewriter:
    """Rewrites the objects of a server. tell: prints a line. warn: prints one that is no result."""

    def __init__(
        self,
        send: Send,
        *,
        rate: int,
        tell: Callable[[str], None],
        warn: Callable[[str], None],
        retry_first_s: float = RETRY_FIRST_S,
    ) -> None:
        """rate: how many objects are written in a second at most.

        retry_first_s: after how long what has failed is tried again; after twice as long then, and so on.
        """
        self._retry_first_s = retry_first_s
        self._send = send
        self._interval_s = 1 / rate
        self._tell, self._warn = tell, warn
        self._next_at = 0.0
        self._position = ""
        self.failed = 0
        self._is_stopped = self._has_answered = False
        self._told_at = monotonic()

    @property
    def position(self) -> str:
        """The last object that was written; empty if there is none."""
        return self._position

    def stop(self) -> None:
        """Have the run end after the objects that are being written."""
        self._is_stopped = True

    async def run(self, names: Sequence[str], after: str) -> None:
        """Rewrite the resources of these names, or all; after: as `Interrupted.position`.

        Raises RewriteFailed, Interrupted.
        """
        resources = await self._resources(names)
        first, _, begin = after.partition("/")
        if first == HISTORY:
            resources = []
        elif first:
            if first not in [each.name for each in resources]:
                raise RewriteFailed(f"--after: {first} is not one of the resources to rewrite")
            while resources[0].name != first:
                resources.pop(0)
        for resource in resources:
            if self._is_stopped:
                raise Interrupted(self._position)
            counts = await self._rewrite(resource, begin)
            self._tell(f"{resource.name}: {counts}")
            begin = ""
        await self._rewrite_history(names, begin)

    # ---- what there is

    async def _resources(self, names: Sequence[str]) -> list[Resource]:
        """Returns the resources in the order of their names. Raises RewriteFailed."""
        found = {each.name: each async for each in self._stored()}
        if not names:
            found.pop(_EVENTS, None)
            return [found[name] for name in sorted(found)]
        if unknown := sorted({*names} - found.keys()):
            raise RewriteFailed(f"the server has no resource {', '.join(unknown)} that can be rewritten")
        return [found[name] for name in sorted({*names})]

    async def _stored(self) -> AsyncIterator[Resource]:
        """Yields the resources that are stored here, each in the first version of its group that has it."""
        elsewhere = await self._versions_elsewhere()
        roots = [("", "/api/v1")]
        groups = (await self._get("/apis")).document
        with _valid_response("/apis"):
            for group in groups["groups"]:
                preferred = group["preferredVersion"]["groupVersion"]
                all_versions = [each["groupVersion"] for each in group["versions"]]
                others = [each for each in all_versions if each != preferred]
                roots += [(group["name"], f"/apis/{each}") for each in (preferred, *others)]
        seen: set[str] = set()
        for group, root in roots:
            # Events are stored in the core group alone.
            if root in elsewhere or group == "events.k8s.io":
                continue
            for each in await self._resources_of(group, root):
                if each.name not in seen:
                    seen.add(each.name)
                    yield each

    async def _resources_of(self, group: str, root: str) -> list[Resource]:
        """Returns the resources of a version whose objects can be rewritten. Raises RewriteFailed."""
        document = (await self._get(root)).document
        with _valid_response(root):
            return [
                Resource(f"{name}.{group}" if group else name, f"{root}/{name}", each["namespaced"])
                for each in document["resources"] or ()
                if "/" not in (name := each["name"]) and {"list", "patch"} <= {*each["verbs"]}
            ]

    async def _versions_elsewhere(self) -> set[str]:
        """Returns the roots of the versions that other servers serve: their objects are not here.

        There are none if the server has no such resource, or does not tell this user.
        Raises RewriteFailed.
        """
        path = "/apis/apiregistration.k8s.io/v1/apiservices"
        answer = await self._with_patience("GET", path, {}, b"")
        if answer.status not in (200, 403, 404):
            raise RewriteFailed(f"{path}: {answer.why}")
        with _valid_response(path):
            return {
                f"/apis/{each['spec']['group']}/{each['spec']['version']}"
                for each in answer.document.get("items") or ()
                if each["spec"].get("service")
            }

    # ---- one resource

    async def _rewrite(self, resource: Resource, begin: str) -> Counts:
        """Rewrite the objects of a resource behind `begin`. Raises RewriteFailed, Interrupted."""
        counts = Counts()
        async for page, remaining in self._pages(resource):
            items = [each for each in page if _place(each).encode() > begin.encode()]
            for start in range(0, len(items), CONCURRENT_WRITES):
                if self._is_stopped:
                    raise Interrupted(self._position)
                part = items[start : start + CONCURRENT_WRITES]
                writing = [self._rewrite_one(resource, each, counts) for each in part]
                for failure in await asyncio.gather(*writing, return_exceptions=True):
                    if failure is not None:
                        raise failure
                begin = _place(part[-1])
                self._position = f"{resource.name}/{begin}"
                self._tell_progress(resource, counts, len(items) - start - len(part) + remaining)
        return counts

    async def _pages(self, resource: Resource) -> AsyncIterator[tuple[list[Mapping[str, Any]], int]]:
        """Yields the metadata of objects, and about how many come behind. Raises RewriteFailed.

        If the list expires before its end, it begins again.
        """
        token = ""
        while True:
            query = f"?limit={PAGE_OBJECTS}" + (f"&continue={token}" if token else "")
            answer = await self._with_patience("GET", resource.path + query, {"Accept": _METADATA}, b"")
            if answer.status == 410 and token:
                token = ""
                continue
            if answer.status == 404:
                return  # Its definition was deleted meanwhile.
            if answer.status != 200:
                causes = (answer.document.get("details") or {}).get("causes") or ()
                corrupt = ", ".join(each.get("field", "") for each in causes if each.get("field"))
                self._fail(f"{resource.name}: {answer.why}{corrupt and f': {corrupt}'}")
                return
            with _valid_response(resource.path):
                metadata = answer.document["metadata"]
                page = [each["metadata"] for each in answer.document.get("items") or ()]
                places = [_place(each) for each in page]
                remaining = int(metadata.get("remainingItemCount") or 0)
                before, token = token, str(metadata.get("continue") or "")
            if not all(places):
                raise RewriteFailed(f"{resource.path}: an object has no name")
            if token and token == before:
                raise RewriteFailed(f"{resource.path}: the list does not end")
            yield page, remaining
            if not token:
                return

    async def _rewrite_one(self, resource: Resource, metadata: Mapping[str, Any], counts: Counts) -> None:
        """Write an object unchanged, which the server does only if it would store other bytes."""
        await self._await_turn()
        path = resource.object_path(metadata.get("namespace", ""), metadata["name"])
        answer = await self._with_patience("PATCH", path, _MERGE_PATCH, b"{}")
        if answer.status == 404:
            counts.gone += 1
        elif answer.status >= 300:
            counts.failed += 1
            self._fail(f"{resource.name}/{_place(metadata)}: {answer.why}")
        else:
            with _valid_response(path):
                written = answer.document["metadata"]["resourceVersion"]
            if written != metadata.get("resourceVersion"):
                counts.rewritten += 1
            else:
                counts.unchanged += 1

    # ---- the history

    async def _rewrite_history(self, names: Sequence[str], position: str) -> None:
        """Have the server encrypt what its history keeps of values again, if it keeps one.

        names: of the resources; empty for all. position: where to begin; empty for the beginning.
        Raises RewriteFailed, Interrupted.
        """
        counts = Counts()
        of_names = f"resources={quote(','.join(sorted({*names})), safe='')}&" if names else ""
        while True:
            if self._is_stopped:
                raise Interrupted(self._position)
            path = f"{HISTORY_PATH}?{of_names}continue={position or 0}"
            answer = await self._with_patience("POST", path, {}, b"")
            if answer.status == 404 or (answer.status == 403 and not await self._keeps_history()):
                return
            if answer.status != 200:
                self._fail(f"{HISTORY}: {answer.why}")
                return
            with _valid_response(HISTORY_PATH):
                counts.rewritten += int(answer.document["rewritten"])
                counts.unchanged += int(answer.document["unchanged"])
                counts.failed += int(answer.document["lost"])
                before, position = int(position or 0), str(answer.document.get("continue", ""))
                if position and int(position) <= before:
                    raise RewriteFailed(f"{HISTORY_PATH}: the positions do not increase")
            if not position:
                break
            self._position = f"{HISTORY}/{position}"
            if self._is_progress_due():
                self._warn(f"{HISTORY}: {counts}, at {self._position}")
        if counts.failed:
            self._fail(f"{HISTORY}: {counts.failed} values cannot be decrypted: a key is missing")
        self._tell(f"{HISTORY}: {counts}")

    async def _keeps_history(self) -> bool:
        """Whether the server may keep a history: it forbids users also what it does not have."""
        return (await self._with_patience("GET", PAST_PATH, {}, b"")).status not in (403, 404)

    async def _await_turn(self) -> None:
        now = monotonic()
        at = max(now, self._next_at)
        self._next_at = at + self._interval_s
        if at > now:
            await asyncio.sleep(at - now)

    def _fail(self, line: str) -> None:
        self.failed += 1
        if self.failed <= FAILURES_SHOWN_MAX:
            self._warn(line)
        elif self.failed == FAILURES_SHOWN_MAX + 1:
            self._warn("… and more")

    def _tell_progress(self, resource: Resource, counts: Counts, left: int) -> None:
        if self._is_progress_due():
            total = counts.done + left
            self._warn(f"{resource.name}: {counts.done} of about {total} ({counts}), at {self._position}")

    def _is_progress_due(self) -> bool:
        is_due = monotonic() > self._told_at + PROGRESS_S
        if is_due:
            self._told_at = monotonic()
        return is_due

    # ---- requests

    async def _get(self, path: str) -> ServerResponse:
        """Send a GET. Raises RewriteFailed."""
        answer = await self._with_patience("GET", path, {}, b"")
        if answer.status != 200:
            raise RewriteFailed(f"{path}: {answer.why}")
        return answer

    async def _with_patience(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> ServerResponse:
        """Send a request; again, if the server is busy, or no longer responds.

        Raises RewriteFailed if it does not respond.
        """
        wait_s = self._retry_first_s
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                answer = await self._send(method, path, headers, body)
            except RewriteFailed:
                # A server that has never answered is rather the wrong one.
                if attempt == ATTEMPTS_MAX or not self._has_answered:
                    raise
            else:
                self._has_answered = True
                if not answer.is_busy or attempt == ATTEMPTS_MAX:
                    return answer
                wait_s = max(wait_s, min(answer.retry_after_s, RETRY_MAX_S))
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, RETRY_MAX_S)
        raise AssertionError("the last attempt returns or raises")


@contextmanager
def _valid_response(path: str) -> Iterator[None]:
    """Raises an error that names the path of a response without the expected fields.

    Raises RewriteFailed for a response that is not that of an API server.
    """
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError):
        raise RewriteFailed(f"the server's response to {path} is not valid") from None


def _place(metadata: Mapping[str, Any]) -> str:
    """Returns where an object is among those of its resource; lists have their order."""
    namespace = metadata.get("namespace", "")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])
