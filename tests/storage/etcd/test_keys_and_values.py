"""Keys and values in etcd, and how large they may be."""

from __future__ import annotations

import asyncio
import base64
import json
import warnings
from pathlib import Path

import pytest

from apiserver.storage.etcd import EtcdClient
from apiserver.storage.etcd import etcd_subset_pb2 as pb
from apiserver.storage.etcd.store import PAGE_KEYS
from apiserver.storage.interface import Delete, KeyRange, Put
from apiserver.storage.keys import after, prefix_range
from tests.support.api import Api
from tests.support.etcd_process import EtcdProcess
from tests.support.etcd_stores import Stores, events
from tests.support.eventually import WITHIN_S
from tests.support.required import library
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.etcd


async def test_etcd_holds_the_keys_and_bytes_that_were_written(etcd: EtcdProcess, open_store: Stores) -> None:
    """Row B09: the revision of a write is etcd's own mod_revision. Read with etcdctl and with etcd3-py."""
    store = open_store(etcd.url)
    lease = await store.grant_lease(600)
    value = b'{"a":"\xc3\xa9"}\x00\xff'
    created = await store.create("/outside/core/configmaps/ns/é", value, lease=lease)
    changed = await store.compare_and_put("/outside/core/configmaps/ns/é", value * 2, expected=created)
    (kv,) = json.loads(etcd.ctl("get", "--prefix", "/outside/", "--write-out=json"))["kvs"]
    assert base64.b64decode(kv["key"]) == "/outside/core/configmaps/ns/é".encode()
    assert base64.b64decode(kv["value"]) == value * 2
    assert (kv["create_revision"], kv["mod_revision"], kv["version"]) == (created, changed, 2)
    assert "lease" not in kv

    etcd3 = library("etcd3")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        client = etcd3.Client("127.0.0.1", int(etcd.url.rsplit(":", 1)[1]))
        found = await asyncio.to_thread(client.range, "/outside/", prefix=True)
        client.close()
    assert [(kv.key, kv.value, kv.mod_revision) for kv in found.kvs] == [
        ("/outside/core/configmaps/ns/é".encode(), value * 2, changed)
    ]


def test_objects_have_the_documented_keys_and_form(etcd: EtcdProcess, tmp_path: Path) -> None:
    """Compact JSON without resourceVersion, under {prefix}/{group}/{resource}/{namespace}/{name}."""
    flags = (f"--etcd-servers={etcd.url}", "--etcd-prefix=/design", "--controllers=-*")
    with ServerProcess(tmp_path / "data", *flags) as server, Api(server) as api:
        answer = api.post(
            "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "a"}, "data": {"k": "v"}}
        ).ok()
        kvs = json.loads(etcd.ctl("get", "/design/core/configmaps/default/a", "--write-out=json"))["kvs"]
    value = base64.b64decode(kvs[0]["value"])
    stored = json.loads(value)
    assert str(kvs[0]["mod_revision"]) == answer["metadata"].pop("resourceVersion")
    assert stored == answer
    assert list(stored)[:3] == ["apiVersion", "kind", "metadata"]
    assert value == json.dumps(stored, separators=(",", ":"), ensure_ascii=False).encode()


async def test_writes_of_other_clients_are_seen(etcd: EtcdProcess, open_store: Stores) -> None:
    store = open_store(etcd.url)
    start = await store.current_revision()
    etcd.ctl("put", "/others/a", "1")
    etcd.ctl("del", "/others/a")
    seen = await events(store, prefix_range("/others/"), after=start, count=2)
    assert [(event.key, event.value) for event in seen] == [("/others/a", b"1"), ("/others/a", None)]


async def test_keys_that_are_not_utf_8_do_not_stop_a_list(etcd: EtcdProcess, open_store: Stores) -> None:
    """The next page of a list begins after any key."""
    store, client = open_store(etcd.url), EtcdClient([etcd.url])
    await store.create("/bytes/a", b"")
    await client.put_repeatedly(pb.PutRequest(key=b"/bytes/b\xff", value=b""))
    await store.create("/bytes/c", b"")
    await client.close()
    start, found = "/bytes/", []
    while True:
        page = await store.list(KeyRange(start, "/bytes0"), limit=1)
        found += [item.key.encode(errors="surrogateescape") for item in page.items]
        if not page.more:
            break
        start = after(page.items[-1].key)
    assert found == [b"/bytes/a", b"/bytes/b\xff", b"/bytes/c"]


async def test_stores_with_different_prefixes_are_independent(etcd: EtcdProcess, open_store: Stores) -> None:
    red, blue = (open_store(etcd.url, prefix=f"/{colour}") for colour in ("red", "blue"))
    start = await red.current_revision()
    await red.create("/red/core/configmaps/a", b"red")
    await blue.create("/blue/core/configmaps/a", b"blue")
    for store in (red, blue):  # progress may take a key of their own
        watch = store.watch(prefix_range("/nothing/"), after=start)
        async with asyncio.timeout(WITHIN_S):
            await anext(aiter(watch))
            await watch.request_progress()
        await watch.close()
    for store, colour, other in ((red, "red", "blue"), (blue, "blue", "red")):
        keys = prefix_range(f"/{colour}/core/")
        assert [item.value for item in (await store.list(keys)).items] == [colour.encode()]
        seen = await events(store, keys, after=start, count=1)
        assert [event.value for event in seen] == [colour.encode()]
        below = json.loads(etcd.ctl("get", "--prefix", f"/{colour}/", "--keys-only", "--write-out=json"))
        assert all(other not in base64.b64decode(kv["key"]).decode() for kv in below["kvs"])


async def test_a_list_of_several_pages_is_of_one_revision(etcd: EtcdProcess, open_store: Stores) -> None:
    store, keys = open_store(etcd.url), prefix_range("/pages/")
    names = [f"/pages/{n:05}" for n in range(2 * PAGE_KEYS + 1)]
    for at in range(0, len(names), 128):
        await store.transact([], [Put(name, b"") for name in names[at : at + 128]])
    whole = await store.list(keys)
    assert [item.key for item in whole.items] == names
    assert not whole.more
    some = await store.list(keys, limit=PAGE_KEYS + 1)
    assert ([item.key for item in some.items], some.more) == (names[: PAGE_KEYS + 1], True)
    listing = asyncio.create_task(store.list(keys))
    await asyncio.sleep(0)
    await store.transact([], [Delete(name) for name in names[-100:]])
    page = await listing
    assert len(page.items) in (len(names), len(names) - 100)


async def test_large_values_pass_lists_and_watches(etcd: EtcdProcess, open_store: Stores) -> None:
    """Ten times 1.4 MB: more than gRPC's 4 MB in a list, more than a fragment in a watch."""
    store, keys = open_store(etcd.url), prefix_range("/large/")
    start = await store.current_revision()
    values = {f"/large/{n}": bytes([65 + n]) * 1_400_000 for n in range(10)}
    for key, value in values.items():
        await store.create(key, value)
    assert {item.key: item.value for item in (await store.list(keys)).items} == values
    seen = await events(store, keys, after=start, count=10)
    assert {event.key: event.value for event in seen} == values
    assert [event.key for event in seen] == list(values)
