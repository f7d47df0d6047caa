"""Managers write to objects at random, by every verb, and invariants must hold. Rows F10-F31.

`tests/unit/registry/patch/apply/test_model.py` says what the object and its owners must be. Here, nothing may
be lost, left half done, or malformed on the way from a request to the store.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from tests.support.api import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Answer, Api
from tests.support.definitions import Defined, define, definition, new_group, version
from tests.support.server_process import ServerProcess

STEPS: Final = 100
UPDATE_MANAGERS_MAX: Final = 10
APPLIERS: Final = "ABCD"
UPDATERS: Final = [f"u{number}" for number in range(15)]

TEXT: Final = {"type": "string"}
ITEM: Final = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": TEXT,
        "proto": {"type": "string", "default": "TCP"},
        "any": {"x-kubernetes-preserve-unknown-fields": True},
    },
}
SPEC: Final = {
    "a": TEXT,
    "d": {"type": "string", "default": "x"},
    "either": {"x-kubernetes-int-or-string": True},
    "replicas": {"type": "integer"},
    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
    "atomic": {"type": "array", "items": TEXT},
    "items": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name", "proto"],
        "items": ITEM,
    },
    "map": {"type": "object", "additionalProperties": TEXT},
    "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": TEXT},
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "null": {"type": "string", "nullable": True},
}
SCHEMA: Final = {"type": "object", "properties": {"spec": {"type": "object", "properties": SPEC}}}

Fields = dict[str, Any]
Make = Callable[[random.Random], Fields]


def _some(chance: random.Random, fields: dict[str, Callable[[], Any]]) -> Fields:
    return {name: make() for name, make in fields.items() if chance.random() < 0.3}


def _free(chance: random.Random, levels: int = 2) -> Any:
    if levels and chance.random() < 0.4:
        return {key: _free(chance, levels - 1) for key in chance.sample("xyz", chance.randint(0, 2))}
    return chance.choice([0, 1, True, False, 1.0, "", "q", None, [1], [True]])


def _map(chance: random.Random, least: int = 1) -> dict[str, str]:
    """Empty ones are not kept in what has a Go type: there an owner of one is in conflict with all others."""
    return {key: chance.choice(["1", "2", ""]) for key in chance.sample("klm", chance.randint(least, 2))}


def _items(chance: random.Random) -> list[Fields]:
    keys = chance.sample([("a", "TCP"), ("a", "UDP"), ("b", "TCP")], chance.randint(0, 2))
    items = []
    for name, proto in keys:
        key = {"name": name} if proto == "TCP" else {"name": name, "proto": proto}
        items.append({**key, **_some(chance, {"any": lambda: _free(chance)})})
    return items


def _custom(chance: random.Random) -> Fields:
    spec = _some(
        chance,
        {
            "a": lambda: chance.choice(["1", "2", ""]),
            "d": lambda: chance.choice(["x", "y"]),
            "either": lambda: chance.choice([1, "1", "50%"]),
            "replicas": lambda: chance.randint(0, 2),
            "set": lambda: chance.sample("pqr", chance.randint(0, 3)),
            "atomic": lambda: chance.choices("pq", k=chance.randint(0, 2)),
            "items": lambda: _items(chance),
            "map": lambda: _map(chance, 0),
            "whole": lambda: _map(chance, 0),
            "free": lambda: {key: _free(chance) for key in chance.sample("xyz", chance.randint(0, 2))},
            "null": lambda: chance.choice([None, "1"]),
        },
    )
    return {"spec": spec}


def _config_map(chance: random.Random) -> Fields:
    return _some(chance, {"data": lambda: _map(chance), "immutable": lambda: False})


def _deployment(chance: random.Random) -> Fields:
    labels = {"l": "1"}
    containers = [
        {
            "name": name,
            "image": chance.choice("ij"),
            **_some(
                chance,
                {
                    "env": lambda: [{"name": "E", "value": chance.choice(["", "1"])}],
                    "ports": lambda: [{"containerPort": port} for port in chance.sample([80, 81], 1)],
                    "resources": lambda: {"requests": {"cpu": chance.choice(["1", "1000m", 2])}},
                },
            ),
        }
        for name in chance.sample("cd", chance.randint(1, 2))
    ]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    fields = {"replicas": lambda: chance.randint(0, 2), "paused": lambda: chance.choice([True, False])}
    return {"spec": {"selector": {"matchLabels": labels}, "template": template, **_some(chance, fields)}}


def _scaler(chance: random.Random) -> Fields:
    """A HorizontalPodAutoscaler in v1 or v2."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": chance.choice("de")}
    fields = {"minReplicas": lambda: chance.randint(1, 2)}
    return {"spec": {"maxReplicas": chance.randint(3, 4), "scaleTargetRef": target, **_some(chance, fields)}}


class Written:
    """An object, its paths by version, and the managers that write to it."""

    def __init__(self, api: Api, chance: random.Random, make: Make, kind: str, paths: dict[str, str]) -> None:
        self._api, self._chance, self._make, self._kind, self._paths = api, chance, make, kind, paths
        self.is_custom = "example.com" in next(iter(paths))

    def write(self) -> None:
        """Write once, by a random verb, and check the invariants."""
        chance = self._chance
        api_version, path = chance.choice(list(self._paths.items()))
        before = self._api.get(path)
        how = chance.choice(
            ["apply"] * 5 + ["force", "dry run", "put", "merge", "json", "strategic", "label"]
        )
        if how in ("apply", "force", "dry run"):
            self._apply(api_version, path, before, how)
            return
        answer = self._change(api_version, path, before, how)
        self._check(path, before, answer)

    def _body(self, api_version: str) -> Fields:
        chance = self._chance
        more = _some(chance, {"labels": lambda: _map(chance), "finalizers": lambda: ["example.com/f"]})
        meta = {"name": "a", **more}
        return {"apiVersion": api_version, "kind": self._kind, "metadata": meta, **self._make(chance)}

    def _apply(self, api_version: str, path: str, before: Answer, how: str) -> None:
        body = self._body(api_version)
        query = {"apply": "", "force": "&force=true", "dry run": "&force=true&dryRun=All"}[how]
        query = f"{path}?fieldManager={self._chance.choice(APPLIERS)}{query}"
        answer = self._api.apply(query, body)
        if how == "dry run":
            assert answer.status < 500, answer.body
            assert self._api.get(path).body == before.body
            return
        self._check(path, before, answer)
        if answer.status >= 300:
            assert how == "apply" or not (answer.status == 409 and "conflict" in answer.message)
            return
        # Whoever applies what is there changes nothing, however often.
        for _ in range(2):
            assert self._api.apply(query, body).body == answer.body

    def _change(self, api_version: str, path: str, before: Answer, how: str) -> Answer:
        chance, body = self._chance, self._body(api_version)
        query = f"{path}?fieldManager={chance.choice(UPDATERS)}"
        if how == "put":
            if before.status == 200:
                body["metadata"]["resourceVersion"] = before.json["metadata"]["resourceVersion"]
            return self._api.put(query, body)
        if how == "merge":
            return self._api.patch(query, {key: body[key] for key in body if key != "metadata"}, MERGE_PATCH)
        if how == "json":
            field = next((name for name in ("spec", "data") if name in body), "metadata")
            ops = ["add", "replace", "remove", "test"]
            operations = [
                {"op": chance.choice(ops), "path": f"/{field}/{name}", "value": value}
                for name, value in body[field].items()
            ]
            return self._api.patch(query, operations[:2], JSON_PATCH)
        if how == "strategic" and not self.is_custom:
            return self._api.patch(query, body, STRATEGIC_PATCH)
        return self._api.patch(query, {"metadata": {"labels": {chance.choice("klm"): "3"}}}, MERGE_PATCH)

    def _check(self, path: str, before: Answer, answer: Answer) -> None:
        assert answer.status < 500, answer.body
        after = self._api.get(path)
        if answer.status >= 300:
            assert after.body == before.body
            return
        assert after.body == answer.body
        _check_entries(after.json["metadata"])


def _check_entries(meta: Fields) -> None:
    entries = meta.get("managedFields", [])
    assert entries or "managedFields" not in meta
    managers = [
        (e["manager"], e["operation"], e["apiVersion"] * (e["operation"] == "Update"), e.get("subresource"))
        for e in entries
    ]
    assert len(set(managers)) == len(managers)
    assert sum(entry["operation"] == "Update" for entry in entries) <= UPDATE_MANAGERS_MAX
    places = [
        (e["operation"], "time" not in e, e.get("time", ""), e["manager"], e["apiVersion"]) for e in entries
    ]
    assert places == sorted(places)
    for entry in entries:
        assert entry["fieldsV1"]
        _check_set(entry["fieldsV1"])


def _check_set(fields: Fields) -> None:
    """The elements are in Kubernetes' order, each in its canonical form, and none is redundant."""
    elements = list(fields)
    assert elements == sorted(elements)
    for element, below in fields.items():
        assert below.keys() != {"."}
        if element[:2] in ("k:", "v:"):
            compact = json.dumps(json.loads(element[2:]), separators=(",", ":"), sort_keys=True)
            assert element[2:] == compact
        _check_set(below)


@pytest.fixture(scope="module")
def custom_type(server: ServerProcess) -> Iterator[Defined]:
    api = Api(server)
    older, newer = version("v1", schema=SCHEMA), version("v2", schema=SCHEMA, storage=False)
    yield define(api, definition(new_group(), older, newer))
    api.close()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("what", ["custom resource", "config map", "deployment", "autoscaler"])
def test_random_writes_keep_the_invariants(
    what: str, seed: int, api: Api, namespace: str, custom_type: Defined
) -> None:
    chance = random.Random(seed)
    if what == "custom resource":
        versions = {
            f"{custom_type.group}/{v}": f"{custom_type.objects(namespace, v)}/a" for v in ("v1", "v2")
        }
        written = Written(api, chance, _custom, custom_type.kind, versions)
    elif what == "config map":
        path = f"/api/v1/namespaces/{namespace}/configmaps/a"
        written = Written(api, chance, _config_map, "ConfigMap", {"v1": path})
    elif what == "deployment":
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/a"
        written = Written(api, chance, _deployment, "Deployment", {"apps/v1": path})
    else:
        paths = {
            f"autoscaling/{v}": f"/apis/autoscaling/{v}/namespaces/{namespace}/horizontalpodautoscalers/a"
            for v in ("v1", "v2")
        }
        written = Written(api, chance, _scaler, "HorizontalPodAutoscaler", paths)
    for _ in range(STEPS):
        written.write()
