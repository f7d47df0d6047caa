"""Requests really visit the files that docs/explanation/architecture.md lists on their ways."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.support.api import Api
from tests.support.audit import audit_flags
from tests.support.definitions import define, definition, version
from tests.support.eventually import until
from tests.support.objects import config_map
from tests.support.server_process import ServerProcess
from tests.support.traced_server import Visits, visits
from tests.support.webhook_server import Reply, Review, WebhookServer

ARCHITECTURE: Final = (Path(__file__).parent.parent / "docs" / "explanation" / "architecture.md").read_text()
WRITE_HOPS_MAX: Final = 25

_ITEM: Final = re.compile(r"^\d+\. (.+?)(?=^\d+\. |^\S|\n\n|\Z)", re.MULTILINE | re.DOTALL)
_FILE: Final = re.compile(r"`((?:apiserver|storage)/[\w/]+\.py)")

CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
REGISTRATION: Final = "/apis/admissionregistration.k8s.io/v1"
CONFIG_MAP_RULES: Final = [
    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
]


class Allowing(WebhookServer):
    """An admission webhook that allows everything."""

    async def answer(self, path: str, review: Review) -> Reply:
        response = {"uid": review["request"]["uid"], "allowed": True}
        return {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}


def hops(heading: str) -> list[str]:
    """The first file of each item of the numbered list below a heading."""
    _, found, rest = ARCHITECTURE.partition(f"# {heading}\n")
    assert found, heading
    section = re.split(r"^#+ ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    first = [_FILE.search(item) for item in _ITEM.findall(section)]
    return [match[1] for match in first if match is not None]


class TracedServer(NamedTuple):
    process: ServerProcess
    api: Api
    audit_log: Path

    def visits(self) -> Visits:
        """What was visited since the last call."""
        return visits(self.process)


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TracedServer]:
    directory = tmp_path_factory.mktemp("traced")
    rules = "omitStages: [RequestReceived], rules: [{level: Request}]"
    flags = audit_flags(directory, f"{{apiVersion: audit.k8s.io/v1, kind: Policy, {rules}}}")
    with (
        ServerProcess(directory / "data", *flags, module="tests.support.traced_server") as process,
        Api(process) as api,
    ):
        yield TracedServer(process, api, directory / "audit.log")


# What requests visit is named on one of the ways, or is a leaf: a module, or all of a package.
_WAYS: Final = ARCHITECTURE.partition("\n## How a read is handled")[2].partition("\n## Where to add")[0]
NAMED: Final = frozenset(_FILE.findall(_WAYS))
LEAVES: Final = tuple(re.findall(r"`((?:apiserver|storage)/(?:\w+/)+)`", _WAYS))


def assert_nothing_is_missing(found: Visits) -> None:
    assert found.by_requests, "nothing was noted"
    assert {each for each in found.by_requests - NAMED if not each.startswith(LEAVES)} == set()


def assert_is_on_page(heading: str, found: Visits) -> None:
    """A way is what is listed below its heading, and what its requests visit is on the page."""
    assert set(hops(heading)) - found.files == set()
    assert_nothing_is_missing(found)


def test_a_write_has_few_hops() -> None:
    write = hops("How a write is handled")
    assert len(write) == len(set(write)) <= WRITE_HOPS_MAX


def test_the_way_of_a_read(traced: TracedServer) -> None:
    path = f"{CONFIG_MAPS}?resourceVersion=0"
    traced.api.get(path).ok()
    traced.visits()
    traced.api.get(path).ok()
    assert_is_on_page("How a read is handled", traced.visits())


def test_the_way_of_a_write_to_its_watcher(traced: TracedServer) -> None:
    version = traced.api.post(CONFIG_MAPS, config_map("put")).ok()["metadata"]["resourceVersion"]
    with traced.api.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion={version}") as events:
        assert events.status == 200
        traced.visits()
        traced.api.put(f"{CONFIG_MAPS}/put", config_map("put", k="2")).ok()
        assert events.next()["type"] == "MODIFIED"
        assert_is_on_page("How a write is handled", traced.visits())


def test_how_apply_differs(traced: TracedServer) -> None:
    path = f"{CONFIG_MAPS}/applied?fieldManager=m"
    traced.api.apply(path, config_map("applied")).ok()
    traced.visits()
    traced.api.apply(path, config_map("applied", k="2")).ok()
    assert_is_on_page("How apply differs", traced.visits())


def test_how_a_reviewed_create_differs(traced: TracedServer, tmp_path: Path) -> None:
    api = traced.api
    path = "/api/v1/namespaces/judged/configmaps"
    api.post("/api/v1/namespaces", {"metadata": {"name": "judged"}}).ok()
    quota = {"metadata": {"name": "a"}, "spec": {"hard": {"configmaps": "10"}}}
    api.post("/api/v1/namespaces/judged/resourcequotas", quota).ok()
    selector = {"matchLabels": {"kubernetes.io/metadata.name": "judged"}}
    matched = {"namespaceSelector": selector, "resourceRules": CONFIG_MAP_RULES}
    validations = [{"expression": "object.metadata.name != 'refused'"}]
    policy = {
        "metadata": {"name": "a"},
        "spec": {"matchConstraints": matched, "validations": validations},
    }
    binding = {"metadata": {"name": "a"}, "spec": {"policyName": "a", "validationActions": ["Deny"]}}
    with Allowing(tmp_path) as webhook:
        hook = {
            "name": "a.example.com",
            "clientConfig": {"url": f"https://127.0.0.1:{webhook.port}/", "caBundle": webhook.ca_bundle},
            "rules": CONFIG_MAP_RULES,
            "namespaceSelector": selector,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        webhooks = {"metadata": {"name": "a"}, "webhooks": [hook]}
        api.post(f"{REGISTRATION}/validatingwebhookconfigurations", webhooks).ok()
        api.post(f"{REGISTRATION}/validatingadmissionpolicies", policy).ok()
        api.post(f"{REGISTRATION}/validatingadmissionpolicybindings", binding).ok()
        until(lambda: api.post(f"{path}?dryRun=All", config_map("refused")).status, lambda it: it == 422)
        traced.visits()
        api.post(path, config_map("a")).ok()
        until(lambda: f'"requestURI":"{path}",' in traced.audit_log.read_text(), what="the audit event")
        assert_is_on_page("How a reviewed create differs", traced.visits())


def test_the_way_of_a_watch_event(traced: TracedServer) -> None:
    traced.visits()
    with traced.api.watch(f"{CONFIG_MAPS}?watch=true&fieldSelector=metadata.name=watched") as events:
        assert events.status == 200
        traced.api.post(CONFIG_MAPS, config_map("watched")).ok()
        assert events.next()["type"] == "ADDED"
        assert_is_on_page("How a watch event is delivered", traced.visits())


def test_the_way_of_a_definition(traced: TracedServer) -> None:
    traced.visits()
    defined = define(traced.api, definition("example.com"))
    defined.create("a").ok()
    assert_is_on_page("How a definition becomes a type", traced.visits())


WITH_A_RULE: Final = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {"n": {"type": "integer", "default": 1}, "m": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "self.m >= self.n"}],
        }
    },
}
NUMBERS: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def test_how_often_a_create_enters_the_package_of_custom_resources(
    traced: TracedServer,
) -> None:
    """Rules and defaults included, once what is compiled at the first use is there."""
    defined = define(traced.api, definition("entered.example.com", version(schema=WITH_A_RULE)))
    for name in ("a", "b"):
        traced.visits()
        defined.create(name, spec={"m": 2}).ok()
    found = traced.visits()
    assert_nothing_is_missing(found)
    (said,) = re.findall(r"`custom_resources`\s+package (\w+) times", ARCHITECTURE)
    assert NUMBERS.index(said) + 1 == len(found.entrances), found.entrances
