"""Requests really visit the files that docs/explanation/architecture.md lists on their ways."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.api import Api
from tests.support.eventually import until
from tests.support.server_process import ServerProcess
from tests.support.webhook_server import Reply, Review, WebhookServer

ARCHITECTURE: Final = (Path(__file__).parent.parent / "docs" / "explanation" / "architecture.md").read_text()
APPLY: Final = "application/apply-patch+yaml"
WRITE_HOPS_MAX: Final = 25

_ITEM: Final = re.compile(r"^\d+\. (.+?)(?=^\d+\. |^\S|\n\n|\Z)", re.MULTILINE | re.DOTALL)
_FILE: Final = re.compile(r"`((?:apiserver|storage)/[\w/]+\.py)")

CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
DEFINITION: Final = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}


REGISTRATION: Final = "/apis/admissionregistration.k8s.io/v1"
CONFIG_MAP_RULES: Final = [
    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
]


class Allowing(WebhookServer):
    """An admission webhook that allows everything."""

    async def answer(self, path: str, review: Review) -> Reply:
        response = {"uid": review["request"]["uid"], "allowed": True}
        return {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}


def config_map(name: str, **data: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def hops(heading: str) -> list[str]:
    """The first file of each item of the numbered list below a heading."""
    _, found, rest = ARCHITECTURE.partition(f"# {heading}\n")
    assert found, heading
    section = re.split(r"^#+ ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    first = [_FILE.search(item) for item in _ITEM.findall(section)]
    return [match[1] for match in first if match is not None]


class TracedServer:
    """A server that tells which of its files were visited; see `tests.support.traced_server`."""

    def __init__(self, process: ServerProcess, api: Api, audit_log: Path) -> None:
        self._process = process
        self.api = api
        self.audit_log = audit_log

    def visited(self) -> set[str]:
        """The files that were visited since the last call."""
        written = self._process.data_dir / "visited"
        os.kill(self._process.pid, signal.SIGUSR1)
        until(written.exists, what="the server writes what was visited")
        files = set(written.read_text().split("\n"))
        written.unlink()
        return files


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TracedServer]:
    directory = tmp_path_factory.mktemp("traced")
    policy = directory / "audit.yaml"
    rules = "omitStages: [RequestReceived], rules: [{level: Request}]"
    policy.write_text(f"{{apiVersion: audit.k8s.io/v1, kind: Policy, {rules}}}")
    audit_log = directory / "audit.log"
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={audit_log}")
    with (
        ServerProcess(directory / "data", *flags, module="tests.support.traced_server") as process,
        Api(process) as api,
    ):
        yield TracedServer(process, api, audit_log)


def test_a_write_has_few_hops() -> None:
    write = hops("The way of a write")
    assert len(write) == len(set(write)) <= WRITE_HOPS_MAX


def test_the_way_of_a_read(traced: TracedServer) -> None:
    path = f"{CONFIG_MAPS}?resourceVersion=0"
    traced.api.get(path).ok()
    traced.visited()
    traced.api.get(path).ok()
    assert set(hops("The way of a read")) - traced.visited() == set()


def test_the_way_of_a_write_to_its_watcher(traced: TracedServer) -> None:
    version = traced.api.post(CONFIG_MAPS, config_map("put")).ok()["metadata"]["resourceVersion"]
    with traced.api.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion={version}") as events:
        assert events.status == 200
        traced.visited()
        traced.api.put(f"{CONFIG_MAPS}/put", config_map("put", k="2")).ok()
        assert events.next()["type"] == "MODIFIED"
        assert set(hops("The way of a write")) - traced.visited() == set()


def test_how_apply_differs(traced: TracedServer) -> None:
    path = f"{CONFIG_MAPS}/applied?fieldManager=m"
    traced.api.patch(path, config_map("applied"), APPLY).ok()
    traced.visited()
    traced.api.patch(path, config_map("applied", k="2"), APPLY).ok()
    assert set(hops("How apply differs")) - traced.visited() == set()


def test_how_a_create_that_others_judge_differs(traced: TracedServer, tmp_path: Path) -> None:
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
        traced.visited()
        api.post(path, config_map("a")).ok()
        until(lambda: f'"requestURI":"{path}",' in traced.audit_log.read_text(), what="the audit event")
        assert set(hops("How a create that others judge differs")) - traced.visited() == set()


def test_the_way_of_a_watch_event(traced: TracedServer) -> None:
    traced.visited()
    with traced.api.watch(f"{CONFIG_MAPS}?watch=true&fieldSelector=metadata.name=watched") as events:
        assert events.status == 200
        traced.api.post(CONFIG_MAPS, config_map("watched")).ok()
        assert events.next()["type"] == "ADDED"
        assert set(hops("The way of a watch event")) - traced.visited() == set()


def test_the_way_of_a_definition(traced: TracedServer) -> None:
    traced.visited()
    traced.api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION).ok()
    until(lambda: traced.api.get("/apis/example.com/v1/widgets").status, lambda status: status == 200)
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}
    traced.api.post("/apis/example.com/v1/namespaces/default/widgets", widget).ok()
    assert set(hops("The way of a definition")) - traced.visited() == set()
