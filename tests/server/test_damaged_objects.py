"""Stored values that are no objects, on both stores: who reads one is told, and nobody gets a part of it."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.api import Answer, Api
from tests.support.definitions import Defined, define, definition, new_group
from tests.support.etcd_process import wheel_etcd
from tests.support.metrics import metrics_of
from tests.support.server_process import ServerProcess

CONFIGMAPS: Final = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/default/deployments"
PREFIX: Final = "/registry/core/configmaps/default/"
FORMS: Final = {
    "JSON": "application/json",
    "YAML": "application/yaml",
    "protobuf": "application/vnd.kubernetes.protobuf",
    "table": "application/json;as=Table;g=meta.k8s.io;v=v1",
    "metadata": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    "metadata of a list": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
}
CUT: Final = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cut"},"data":{"k":"'


def config_map(name: str, rest: bytes, kind: bytes = b'"apiVersion":"v1","kind":"ConfigMap"') -> bytes:
    return b'{%b,"metadata":{"name":"%b","namespace":"default"%b' % (kind, name.encode(), rest)


# The first are no objects; the others are none of their kind, as Go decodes it.
DAMAGED: Final = {
    "cut": CUT,
    "cut-after-a-brace": b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cut-after-a-brace"}',
    "no-text": CUT + b'\xff"}}',
    "noise": b"\x00garbage!",
    "other-json": b'["metadata":{}]',
    "shape": config_map("shape", b'},"data":{"a":[1]}}'),
    "shape-of-a-field": config_map("shape-of-a-field", b'},"immutable":"yes"}'),
    "shape-of-labels": config_map("shape-of-labels", b',"labels":{"a":1}}}'),
    "shape-of-a-time": config_map("shape-of-a-time", b',"creationTimestamp":"now"}}'),
    "shape-of-a-large-one": config_map(
        "shape-of-a-large-one", b'},"data":{"a":"%b","b":{}}}' % (b"x" * 50_000)
    ),
    "kind": config_map("kind", b'},"type":"Opaque"}', b'"apiVersion":"v1","kind":"Secret"'),
    "unknown-kind": config_map("unknown-kind", b"}}", b'"apiVersion":"v1","kind":"Foo"'),
    "unknown-version": config_map("unknown-version", b"}}", b'"apiVersion":"v2","kind":"ConfigMap"'),
    "custom-kind": config_map("custom-kind", b"}}", b'"apiVersion":"example.com/v1","kind":"ConfigMap"'),
}
# Written past the server, too: Go passes over unknown fields, and null is what is not there.
_NULLS: Final = b',"labels":null},"data":{"a":null,"b":"c"},"unknown":[1],"binaryData":null}'
UNUSUAL: Final = config_map("unusual", _NULLS)


@dataclass
class Damaged:
    """A server whose store has sound objects, and one for each kind of damage."""

    api: Api
    defined: Defined


def fill(api: Api) -> Defined:
    """Objects with the names of DAMAGED, a sound one, and custom resources, all of them sound yet."""
    defined = define(api, definition(new_group()))
    for name in (*DAMAGED, "unusual", "sound"):
        api.post(CONFIGMAPS, {"metadata": {"name": name, "labels": {"damaged": "no"}}}).ok()
    for name in ("cut", "sound"):
        defined.create(name).ok()
    return defined


def values(defined: Defined) -> dict[str, bytes]:
    custom = f"/registry/{defined.group}/widgets/default/cut"
    maps = {**DAMAGED, "unusual": UNUSUAL}
    return {**{PREFIX + name: value for name, value in maps.items()}, custom: CUT}


@contextlib.contextmanager
def on_embedded(directory: Path) -> Iterator[Damaged]:
    """The values are damaged in the file, while no server runs."""
    with ServerProcess(directory / "data") as server:
        with Api(server) as api:
            defined = fill(api)
        server.stop()
        with contextlib.closing(sqlite3.connect(directory / "data" / "store" / "store.db")) as store, store:
            for key, value in values(defined).items():
                assert (
                    store.execute("UPDATE versions SET value = ? WHERE key = ?", (value, key)).rowcount == 1
                )
        server.start()
        with Api(server) as api:
            defined.api = api
            yield Damaged(api, defined)


@contextlib.contextmanager
def on_etcd(directory: Path) -> Iterator[Damaged]:
    """The values are put past the server, which sees them come."""
    with (
        wheel_etcd(directory) as etcd,
        ServerProcess(directory / "data", f"--etcd-servers={etcd.url}") as server,
        Api(server) as api,
    ):
        defined = fill(api)
        for key, value in values(defined).items():
            etcd.put(key, value)
        yield Damaged(api, defined)


STORES: Final = {"embedded": on_embedded, "etcd": on_etcd}


@pytest.fixture(scope="module", params=["embedded", pytest.param("etcd", marks=pytest.mark.etcd)])
def damaged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    with STORES[request.param](tmp_path_factory.mktemp("damaged")) as damaged:
        yield damaged


def assert_names(status: dict[str, Any], key: str) -> None:
    """Row G15: a Status of one object."""
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 500, "StorageReadError")
    text = status["message"].removeprefix("Internal error occurred: ")
    assert f"StorageError: corrupt object, Code: 7, Key: {key}, " in text
    assert "object not decodable revision=" in text
    assert status["details"] == {"causes": [{"message": text}]}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("name", DAMAGED)
def test_a_get_says_which_object_is_damaged(damaged: Damaged, name: str, form: str) -> None:
    for query in ("", "?resourceVersion=0"):
        answer = damaged.api.get(f"{CONFIGMAPS}/{name}{query}", headers={"Accept": f"{form}, */*;q=0.1"})
        assert answer.status == 500
        if answer.headers["content-type"].startswith("application/json"):
            assert_names(answer.json, PREFIX + name)
        else:
            assert b"StorageReadError" in answer.body


def assert_names_all(answer: Answer) -> None:
    status = answer.json
    assert (answer.status, status["reason"]) == (500, "StorageReadError")
    assert status["message"] == "failed to read one or more configmaps from the storage"
    details = status["details"]
    assert (details["name"], details["kind"]) == ("list", "configmaps")
    assert answer.causes == [("UnexpectedServerResponse", PREFIX + name) for name in sorted(DAMAGED)]
    for cause in details["causes"]:
        assert f"corrupt object, Code: 7, Key: {cause['field']}, " in cause["message"]


LISTS: Final = {
    "all": "",
    "of any age": "?resourceVersion=0",
    "a page": "?limit=500",
    "by labels": "?labelSelector=damaged=no",
}


@pytest.mark.parametrize("query", LISTS.values(), ids=LISTS)
def test_a_list_names_every_damaged_object(damaged: Damaged, query: str) -> None:
    assert_names_all(damaged.api.get(CONFIGMAPS + query))


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_list_in_no_form_shows_a_part(damaged: Damaged, form: str) -> None:
    answer = damaged.api.get(CONFIGMAPS, headers={"Accept": f"{form}, */*;q=0.1"})
    assert answer.status == 500
    assert b"StorageReadError" in answer.body


def test_sound_objects_are_read_and_written_as_ever(damaged: Damaged) -> None:
    api = damaged.api
    sound = api.get(f"{CONFIGMAPS}/sound").ok()
    assert [
        each["metadata"]["name"]
        for each in api.get(f"{CONFIGMAPS}?fieldSelector=metadata.name=sound").ok()["items"]
    ] == ["sound"]
    assert api.put(f"{CONFIGMAPS}/sound", sound).status == 200
    assert api.get(DEPLOYMENTS).ok()["items"] == []


def test_what_go_would_decode_is_read(damaged: Damaged) -> None:
    found = damaged.api.get(f"{CONFIGMAPS}/unusual").ok()
    assert (found["metadata"]["name"], found["data"]["b"]) == ("unusual", "c")


@pytest.mark.parametrize("verb", ["PUT", "PATCH", "DELETE", "DELETE all"])
def test_a_damaged_object_is_not_written(damaged: Damaged, verb: str) -> None:
    """Nobody knows what a write would destroy."""
    path, api = f"{CONFIGMAPS}/cut", damaged.api
    if verb == "DELETE all":
        assert_names_all(api.delete(CONFIGMAPS))
        return
    body = {"metadata": {"name": "cut"}, "data": {"k": "v"}} if verb != "DELETE" else None
    answer = api.send(verb, path, body, type="merge" if verb == "PATCH" else "json")
    assert_names(answer.json, PREFIX + "cut")
    assert api.get(path).status == 500


def test_a_watch_ends_with_an_error_that_names_it(damaged: Damaged) -> None:
    """In the initial state, and among the changes."""
    with damaged.api.watch(f"{CONFIGMAPS}?watch=1") as events:
        *_, last = events
    assert last["type"] == "ERROR"
    assert_names(last["object"], PREFIX + min(DAMAGED))


def test_damaged_objects_are_counted(damaged: Damaged) -> None:
    """By their resource: each once, when the cache has read it; custom ones before they are served."""
    found = metrics_of(damaged.api).splitlines()
    name = "apiserver_storage_decode_errors_total"
    assert sorted(line for line in found if line.startswith(f"{name}{{")) == [
        f'{name}{{group="",resource="configmaps"}} {len(DAMAGED)}',
        f'{name}{{group="{damaged.defined.group}",resource="widgets"}} 1',
    ]


def test_custom_resources(damaged: Damaged) -> None:
    api, defined = damaged.api, damaged.defined
    path = defined.objects()
    key = f"/registry/{defined.group}/widgets/default/cut"
    assert_names(api.get(f"{path}/cut").json, key)
    listed = api.get(path)
    assert listed.message == f"failed to read one or more widgets.{defined.group} from the storage"
    assert listed.causes == [("UnexpectedServerResponse", key)]
    assert listed.json["details"]["group"] == defined.group
    assert api.get(f"{path}/sound").status == 200


@pytest.mark.etcd
def test_a_value_that_is_damaged_while_it_is_watched(tmp_path: Path) -> None:
    with on_etcd(tmp_path) as damaged:
        api = damaged.api
        start = api.get(f"{CONFIGMAPS}/sound").ok()["metadata"]["resourceVersion"]
        with api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={start}") as events:
            *_, last = events
        assert last["type"] == "ERROR"
        assert_names(last["object"], PREFIX + next(iter(DAMAGED)))


# ---- what the server itself keeps

IDENTITY: Final = ("name", "namespace", "uid")
ALSO_DECODED: Final = ("labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp")


def without_fields(document: dict[str, Any]) -> dict[str, Any]:
    return {name: document[name] for name in ("apiVersion", "kind", "metadata")}


def with_numbers(document: dict[str, Any]) -> dict[str, Any]:
    return {**dict.fromkeys(document, 7), **without_fields(document)}


def with_malformed_metadata(document: dict[str, Any]) -> dict[str, Any]:
    identity = {name: value for name, value in document["metadata"].items() if name in IDENTITY}
    return {**document, "metadata": {**identity, **dict.fromkeys(ALSO_DECODED, 7)}}


def encoded(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[bytes], bytes]:
    return lambda value: json.dumps(change(json.loads(value)), separators=(",", ":")).encode()


OWN_OBJECTS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "are no objects": lambda value: b"\x00garbage!",
    "have metadata only": encoded(without_fields),
    "have numbers where objects should be": encoded(with_numbers),
    "have malformed metadata": encoded(with_malformed_metadata),
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", OWN_OBJECTS.values(), ids=OWN_OBJECTS)
def test_a_server_starts_although_its_own_objects(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    """All of them: what is damaged is logged and left alone, and all else is served."""
    flags = ("--controllers=*", "--advertise-address=192.0.2.1")
    with ServerProcess(tmp_path / "data", *flags) as server:
        server.stop()
        with contextlib.closing(sqlite3.connect(tmp_path / "data" / "store" / "store.db")) as store, store:
            rows = store.execute("SELECT key, value FROM versions WHERE value IS NOT NULL").fetchall()
            found = [(key, value) for key, value in rows if value.startswith(b'{"apiVersion"')]
            assert len(found) > 100
            for key, value in found:
                store.execute("UPDATE versions SET value = ? WHERE key = ?", (damage(value), key))
        server.start()
        with Api(server) as api:
            assert api.get("/readyz").status == 200
            assert api.post("/api/v1/namespaces", {"metadata": {"name": "new"}}).status == 201
            assert api.post("/api/v1/namespaces/new/configmaps", {"metadata": {"name": "a"}}).status == 201
