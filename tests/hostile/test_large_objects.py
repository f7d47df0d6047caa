"""Large objects in every form, in lists, watches and deletions: the event loop never works long on one.

Clients ask at once for what takes seconds of a processor in all. Meanwhile the server stays ready, and no
turn of its event loop is longer than a small answer may wait.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import pytest

from tests.hostile.support import longest_turn
from tests.support.api import Api
from tests.support.bystander import Bystander
from tests.support.definitions import define, definition, new_group, version
from tests.support.etcd_process import wheel_etcd
from tests.support.eventually import until
from tests.support.server_process import ServerProcess

# Of the loop's thread.
TURN_S: Final = 0.05
KEYS: Final = 44_000
WATCHERS: Final = 10
CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
MEDIA_TYPES: Final = {
    "JSON": "application/json",
    "YAML": "application/yaml",
    "CBOR": "application/cbor",
    "protobuf": "application/vnd.kubernetes.protobuf",
    "table": "application/json;as=Table;v=v1;g=meta.k8s.io",
    "metadata": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "metadata list": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "metadata in protobuf": "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
}
WATCH_LIST: Final = (
    "watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
)


@dataclass(frozen=True)
class Large:
    """A server with large objects. widgets: the path of the custom ones, by their version."""

    server: ServerProcess
    count: int
    clients: int
    widgets: Mapping[str, str]

    def client(self) -> Api:
        return Api(self.server)

    def at_once(self, ask: Callable[[Api, int], Any], clients: int | None = None) -> list[Any]:
        """Returns what each client gets. The server is ready all the time, and no turn is long."""
        clients = clients or self.clients

        def one(number: int) -> Any:
            with self.client() as api:
                return ask(api, number)

        with (
            self.client() as measuring,
            longest_turn(measuring) as turn,
            Bystander(self.server, "/readyz"),
            ThreadPoolExecutor(clients) as threads,
        ):
            answers = list(threads.map(one, range(clients)))
        assert turn.thread_cpu_s <= TURN_S
        return answers


def config_map(name: str, **metadata: Any) -> bytes:
    data = {f"k{n}": "" for n in range(KEYS)}
    return json.dumps({"metadata": {"name": name, **metadata}, "data": data}).encode()


def widget(name: str, group: str, **metadata: Any) -> bytes:
    spec = {f"k{n}": n for n in range(KEYS)}
    document = {
        "apiVersion": f"{group}/v1",
        "kind": "Widget",
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }
    return json.dumps(document).encode()


SCHEMA: Final = {
    "type": "object",
    "properties": {"spec": {"type": "object", "additionalProperties": {"type": "integer"}}},
}


@dataclass(frozen=True)
class Setting:
    count: int
    clients: int
    flags: tuple[str, ...] = ()
    on_etcd: bool = False


WORKERS: Final = Setting(4, 4, ("--workers=2",), on_etcd=True)
SETTINGS: Final = [
    pytest.param(Setting(4, 2), id="4 objects"),
    pytest.param(WORKERS, id="4 objects, 2 workers", marks=(pytest.mark.etcd, pytest.mark.slow)),
    pytest.param(Setting(12, 4), id="12 objects", marks=pytest.mark.slow),
]


@pytest.fixture(scope="module", params=SETTINGS)
def large(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Large]:
    setting: Setting = request.param
    directory = tmp_path_factory.mktemp("large")
    flags = [
        "--feature-gates=CBORServingAndStorage=true",
        "--controllers=namespace-controller,resourcequota-controller",
        *setting.flags,
    ]
    with ExitStack() as stack:
        if setting.on_etcd:
            etcd = stack.enter_context(wheel_etcd(directory))
            flags.append(f"--etcd-servers={etcd.url}")
        server = stack.enter_context(ServerProcess(directory / "data", *flags))
        api = Api(server)
        stack.callback(api.close)
        group = new_group()
        defined = define(
            api,
            definition(
                group, version(schema=SCHEMA), version("v2", schema=SCHEMA, storage=False), plural="widgets"
            ),
        )
        assert defined.group == group
        widgets = {each: f"/apis/{group}/{each}/namespaces/default/widgets" for each in ("v1", "v2")}
        for number in range(setting.count):
            api.post(CONFIG_MAPS, config_map(f"large-{number}")).ok()
        for number in range(setting.count // 4):
            api.post(widgets["v1"], widget(f"large-{number}", group)).ok()
        yield Large(server, setting.count, setting.clients, widgets)


READ: Final = {
    "indented": ("JSON", "JSON", "?pretty=true"),
    "in YAML": ("YAML", "YAML", ""),
    "in CBOR": ("CBOR", "CBOR", ""),
    "in protobuf": ("protobuf", "protobuf", ""),
    "as a table": ("table", "table", ""),
    "as a table of objects": ("table", "table", "?includeObject=Object"),
    "as an indented table": ("table", "table", "?includeObject=Object&pretty=true"),
    "as metadata": ("metadata", "metadata list", ""),
    "as metadata in protobuf": ("metadata in protobuf", "protobuf", ""),
}


@pytest.mark.parametrize(("object_form", "list_form", "query"), READ.values(), ids=READ)
def test_reading(large: Large, object_form: str, list_form: str, query: str) -> None:
    def read(api: Api, number: int) -> tuple[int, int]:
        listed = api.get(CONFIG_MAPS + query, headers={"Accept": MEDIA_TYPES[list_form]})
        one = api.get(f"{CONFIG_MAPS}/large-{number}{query}", headers={"Accept": MEDIA_TYPES[object_form]})
        return listed.status, one.status

    assert large.at_once(read) == [(200, 200)] * large.clients


WATCHED: Final = ("CBOR", "protobuf", "table", "metadata", "metadata in protobuf")


@pytest.mark.parametrize("form", WATCHED)
def test_watching_the_state(large: Large, form: str) -> None:
    """Each client gets all objects, and then the bookmark that says so."""

    def watch(api: Api, number: int) -> list[str]:
        with api.watch(f"{CONFIG_MAPS}?{WATCH_LIST}", Accept=MEDIA_TYPES[form]) as events:
            state = events.read_until(b"initial-events-end")
        return [name for name in names if name.encode() not in state]

    names = ["initial-events-end", *(f"large-{number}" for number in range(large.count))]
    assert large.at_once(watch) == [[]] * large.clients


@pytest.mark.parametrize("form", ["table", pytest.param("metadata", marks=pytest.mark.slow)])
def test_watching_changes(large: Large, form: str) -> None:
    """Each of them gets all changes, in order."""
    changes = 3
    path = f"{CONFIG_MAPS}?watch=1&fieldSelector=metadata.name%3Dlarge-0"
    with large.client() as api, ExitStack() as stack:
        headers = {"Accept": MEDIA_TYPES[form]}
        watches = [stack.enter_context(api.watch(path, **headers)) for _ in range(WATCHERS)]

        def change_or_watch(client: Api, number: int) -> list[str]:
            if number == WATCHERS:
                return [
                    client.patch(f"{CONFIG_MAPS}/large-0", {"data": {"k0": str(n)}}).ok()["metadata"][
                        "resourceVersion"
                    ]
                    for n in range(changes)
                ]
            events = [watches[number].next()["object"] for _ in range(1 + changes)]
            return [each["metadata"]["resourceVersion"] for each in events[1:]]

        versions = large.at_once(change_or_watch, WATCHERS + 1)
    assert versions == [versions[-1]] * (WATCHERS + 1)


@pytest.mark.parametrize("served", [pytest.param("v1", marks=pytest.mark.slow), "v2"])
def test_custom_resources(large: Large, served: str) -> None:
    """Pruned when they are read first, converted, changed and watched."""
    path = large.widgets[served]

    def use(api: Api, number: int) -> list[int]:
        name = f"{path}/large-0"
        return [
            api.patch(name, {"spec": {f"new-{served}-{number}": number}}).status,
            api.get(path).status,
            api.get(path, headers={"Accept": MEDIA_TYPES["table"]}).status,
            api.get(name, headers={"Accept": MEDIA_TYPES["YAML"]}).status,
            api.get(f"{path}?{WATCH_LIST}&timeoutSeconds=1").status,
        ]

    assert large.at_once(use) == [[200] * 5] * large.clients


@pytest.mark.parametrize("kind", ["built-in", "custom"])
def test_deleting(large: Large, kind: str) -> None:
    """One by one, with and without finalizers, and together."""
    each_makes = max(1, large.count // 8)
    path = CONFIG_MAPS if kind == "built-in" else large.widgets["v1"]
    group = large.widgets["v1"].split("/")[2]

    def make(api: Api, name: str, **metadata: Any) -> int:
        made = config_map(name, **metadata) if kind == "built-in" else widget(name, group, **metadata)
        return api.post(path, made).status

    def delete(api: Api, number: int) -> set[int]:
        codes = set()
        for each in range(each_makes):
            name = f"held-{number}-{each}"
            assert make(api, name, finalizers=["example.com/held"]) == 201
            codes.add(api.delete(f"{path}/{name}").status)
            codes.add(api.patch(f"{path}/{name}", {"metadata": {"finalizers": None}}).status)
            assert make(api, name) == 201
            codes.add(api.delete(f"{path}/{name}").status)
            assert make(api, name, labels={"of": f"n{number}"}) == 201
        codes.add(api.delete(f"{path}?labelSelector=of%3Dn{number}").status)
        return codes

    assert large.at_once(delete) == [{200}] * large.clients
    with large.client() as api:
        left = api.get(path, headers={"Accept": MEDIA_TYPES["metadata list"]}).json["items"]
    assert not [each for each in left if not each["metadata"]["name"].startswith("large-")]


CONTAINERS: Final = 1_600
SECURE: Final = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def pod(name: str) -> dict[str, Any]:
    spec = {
        "containers": [{"name": f"c{n}", "image": "a", "securityContext": SECURE} for n in range(CONTAINERS)],
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    }
    return {"metadata": {"name": name}, "spec": spec}


def test_pods_of_many_containers(large: Large) -> None:
    """Where admission looks into each: standards of security, ranges of limits, quotas."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    limits = {"limits": [{"type": "Container", "default": {"cpu": "1m"}}]}
    namespace = "/api/v1/namespaces/pods-of-many-containers"
    with large.client() as api:
        name = namespace.rpartition("/")[2]
        api.post("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}}).ok()
        api.post(f"{namespace}/limitranges", {"metadata": {"name": "a"}, "spec": limits}).ok()
        quota = {"metadata": {"name": "a"}, "spec": {"hard": {"pods": "1000", "requests.cpu": "1000"}}}
        api.post(f"{namespace}/resourcequotas", quota).ok()
        measured = f"{namespace}/resourcequotas/a"
        until(lambda: api.get(measured).json["status"], lambda status: "used" in status, "a measured quota")

    def use(api: Api, number: int) -> list[int]:
        path = f"{namespace}/pods/p{number}"
        state = {"image": "a", "imageID": "", "ready": True, "restartCount": 0}
        states = [{"name": f"c{n}", **state} for n in range(CONTAINERS // 2)]
        return [
            api.post(f"{namespace}/pods", pod(f"p{number}")).status,
            api.patch(path, {"metadata": {"labels": {"a": "b"}}}).status,
            api.patch(f"{path}/status", {"status": {"containerStatuses": states}}).status,
            api.delete(f"{path}?gracePeriodSeconds=0").status,
        ]

    assert large.at_once(use) == [[201, 200, 200, 200]] * large.clients
