"""Bodies of a few megabytes that stand for very many values: refused, or worked on beside the event loop."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Final, NamedTuple

import psutil
import pytest

from apiserver.endpoints.connection import BODY_BYTES_MAX
from tests.hostile.support import longest_turn
from tests.support.api import APPLY, JSON_PATCH, MERGE_PATCH, Api
from tests.support.definitions import Defined, define, definition, new_group, version

YAML: Final = "application/yaml"
JSON: Final = "application/json"
_HEAD_BYTES: Final = 1024


def full_of(item: bytes, count: int) -> bytes:
    return b"[" + b",".join([item] * count) + b"]"


def filled(item: bytes) -> bytes:
    """As many items as fit in a body."""
    return full_of(item, (BODY_BYTES_MAX - _HEAD_BYTES) // (len(item) + 1))


def numbered(item: bytes, count: int) -> bytes:
    """items: with the place for a number."""
    return b",".join(item % n for n in range(count))


class Sent(NamedTuple):
    """fields: makes those of the object beside kind and metadata, as text. statuses: what may be answered."""

    method: str
    fields: Callable[[], bytes]
    statuses: tuple[int, ...]
    media_type: str = JSON
    head: bytes = b""


BODIES: Final = {
    # At the stated size, and with other values.
    "3 MB of empty objects": Sent("POST", lambda: b'"spec":' + filled(b"{}"), (413,)),
    "3 MB of empty lists": Sent("POST", lambda: b'"spec":' + filled(b"[]"), (413,)),
    "3 MB of digits": Sent("POST", lambda: b'"spec":' + filled(b"1"), (413,)),
    "3 MB of objects in objects": Sent("POST", lambda: b'"spec":' + filled(b'{"a":{}}'), (413,)),
    "3 MB in an update": Sent("PUT", lambda: b'"spec":' + filled(b"{}"), (413,)),
    "3 MB in a merge patch": Sent("PATCH", lambda: b'"spec":' + filled(b"{}"), (413,), MERGE_PATCH),
    "3 MB in an apply": Sent("PATCH", lambda: b'"spec":' + filled(b"{}"), (413,), APPLY),
    "3 MB in options of a delete": Sent("DELETE", lambda: b'"spec":' + filled(b"{}"), (413,)),
    "3 MB in YAML": Sent("POST", lambda: b'"spec":' + filled(b"{}"), (400,), YAML),
    "3 MB in an apply in YAML": Sent("PATCH", lambda: b'"spec":' + filled(b"{}"), (400,), APPLY, b"# YAML\n"),
    "3 MB of aliases": Sent("POST", lambda: b'"a": &a {},"spec":' + filled(b"*a"), (400,), YAML),
    # As many values as are parsed.
    "120,000 empty objects": Sent("POST", lambda: b'"spec":' + full_of(b"{}", 120_000), (201,)),
    "240,000 digits": Sent("POST", lambda: b'"spec":' + full_of(b"1", 240_000), (201,)),
    "an update of 120,000 objects": Sent("PUT", lambda: b'"spec":' + full_of(b"{}", 120_000), (200,)),
    "a merge patch of 120,000 objects": Sent(
        "PATCH", lambda: b'"spec":' + full_of(b"{}", 120_000), (200,), MERGE_PATCH
    ),
    "a merge patch of 110,000 members": Sent(
        "PATCH", lambda: b'"spec":{' + numbered(b'"%x":{}', 110_000) + b"}", (200,), MERGE_PATCH
    ),
    "an apply of 120,000 objects": Sent("PATCH", lambda: b'"spec":' + full_of(b"{}", 120_000), (200,), APPLY),
    "an apply of 60,000 members": Sent(
        "PATCH", lambda: b'"spec":{' + numbered(b'"%x":{}', 60_000) + b"}", (200, 413), APPLY
    ),
    "an apply of 100,000 items of a set": Sent(
        "PATCH", lambda: b'"set":[' + numbered(b"%d", 100_000) + b"]", (200, 413), APPLY
    ),
    "an apply of 50,000 items with keys": Sent(
        "PATCH", lambda: b'"map":[' + numbered(b'{"a":%d}', 50_000) + b"]", (200, 413), APPLY
    ),
    "90,000 values in YAML": Sent("POST", lambda: b'"spec":' + full_of(b"{}", 90_000), (201,), YAML),
    "200,000 equal members": Sent(
        "POST", lambda: b'"spec":{' + b",".join([b'"a":1'] * 200_000) + b"}", (201,)
    ),
    "unknown fields": Sent("POST", lambda: b'"no":{' + numbered(b'"%x":{}', 100_000) + b"}", (201,)),
}  # fmt: skip


_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "spec": {"x-kubernetes-preserve-unknown-fields": True},
        "set": {"type": "array", "items": {"type": "integer"}, "x-kubernetes-list-type": "set"},
        "map": {
            "type": "array",
            "items": {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["a"],
        },
    },
}


@pytest.fixture(scope="module")
def group() -> str:
    return new_group()


@pytest.fixture
def widgets(api: Api, group: str) -> Defined:
    if api.get(f"/apis/{group}/v1").status != 200:
        return define(api, definition(group, version(schema=_SCHEMA)))
    return Defined(api, group, f"widgets.{group}", "Widget")


@pytest.mark.parametrize("sent", BODIES.values(), ids=BODIES)
def test_bodies_of_many_values_do_not_hold_the_loop(
    api: Api, namespace: str, widgets: Defined, sent: Sent
) -> None:
    path = widgets.objects(namespace)
    made: dict[str, Any] = widgets.create("a", namespace).ok()
    name = b"b" if sent.method == "POST" else b"a"
    body = b'%b{"apiVersion":"%b/v1","kind":"Widget","metadata":{"name":"%b"%b},%b}' % (
        sent.head,
        widgets.group.encode(),
        name,
        b',"resourceVersion":"%b"' % made["metadata"]["resourceVersion"].encode()
        if sent.method == "PUT"
        else b"",
        sent.fields(),
    )
    url = path if sent.method == "POST" else f"{path}/a"
    with longest_turn(api) as turn:
        answer = api.send(sent.method, f"{url}?dryRun=All&fieldManager=test", body, type=sent.media_type)
        assert answer.status in sent.statuses, answer.body[:300]
    assert turn.thread_cpu_s <= 0.05


def test_a_json_patch_of_many_values_is_refused(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    api.post(path, {"metadata": {"name": "a"}}).ok()
    answer = api.patch(f"{path}/a", b'[{"op":"add","path":"/x","value":' + filled(b"{}") + b"}]", JSON_PATCH)
    assert (answer.status, answer.message) == (
        413,
        "Request entity too large: document has more than 250000 values",
    )


@pytest.mark.slow
def test_parsed_bodies_do_not_pile_up(api: Api, namespace: str, widgets: Defined) -> None:
    """Of many bodies that one user sends, most wait before they are parsed."""
    body = b'{"apiVersion":"%b/v1","kind":"Widget","metadata":{"name":"b"},"spec":%b}' % (
        widgets.group.encode(),
        full_of(b'{"a":{}}', 80_000),
    )
    url = f"{widgets.objects(namespace)}?dryRun=All"

    def send() -> int:
        with Api(api.server) as own:
            return own.post(url, body).status

    assert send() == 201
    process = psutil.Process(api.server.pid)
    before = peak = process.memory_info().rss
    with ThreadPoolExecutor(30) as threads:
        answers = [threads.submit(send) for _ in range(30)]
        while wait(answers, timeout=0.02).not_done:
            peak = max(peak, process.memory_info().rss)
    assert {each.result() for each in answers} == {201}
    # A parsed body takes 40 MB, and 30 would take 1.2 GB. The bodies themselves are 22 MB.
    assert peak - before < 400_000_000
