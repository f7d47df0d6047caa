"""The `WriteRequest` of a call, and the proposed object of its document. Rows F16, J08."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import pytest

from apiserver.admission.chain import AdmissionAttributes, AdmissionChain, Operation, Plugin
from apiserver.endpoints.handlers.write_requests import WriteRequests, proposed_object_of
from apiserver.load.size_class import SizeClass
from apiserver.meta.brand import Brand
from apiserver.meta.releases.deviations import Deviations
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.write_request import WriteRequest
from tests.unit.endpoints.handlers.calls import (
    ALICE,
    CONFIG_MAPS,
    DEPLOYMENTS,
    FIELD_MANAGERS,
    NAMESPACES,
    call,
)


class Recorder(Plugin):
    """Notes what it is asked about, and has a warning."""

    def __init__(self) -> None:
        self.asked: list[AdmissionAttributes] = []

    async def mutate(
        self, attributes: AdmissionAttributes, new: Document, old: Document | None
    ) -> Sequence[str]:
        self.asked.append(attributes)
        return ["recorded"]


def requests(*plugins: Plugin) -> WriteRequests:
    return WriteRequests(Brand(), Deviations(), AdmissionChain(plugins), FIELD_MANAGERS)


def request_of(method: str, target: str, plugin: Plugin) -> WriteRequest:
    """Returns the request as the handlers of POST and PUT have it made."""
    built, request = requests(plugin), call(method, target)
    options = built.options(request, "CreateOptions" if method == "POST" else "UpdateOptions")
    if method == "POST":
        return built.create(request, "from-body", options, SizeClass.SMALL, None)
    return built.update(request, options, SizeClass.SMALL, checks_uid=True)


class Expected(NamedTuple):
    resource: ServedResource
    namespace: str
    name: str
    operation: Operation
    subresource: str = ""
    path_name: str = ""
    admission_namespace: str = ""
    is_dry_run: bool = False


DEFAULT: Final = "/api/v1/namespaces/default/configmaps"
DEPLOYMENT: Final = "/apis/apps/v1/namespaces/default/deployments/d"
REQUESTS = {
    "a POST names the object by its body": (
        ("POST", DEFAULT),
        Expected(CONFIG_MAPS, "default", "from-body", Operation.CREATE, admission_namespace="default"),
    ),
    "a PUT names the object by its path": (
        ("PUT", f"{DEFAULT}/a"),
        Expected(CONFIG_MAPS, "default", "a", Operation.UPDATE, "", "a", "default"),
    ),
    "a PUT of a subresource": (
        ("PUT", f"{DEPLOYMENT}/status"),
        Expected(DEPLOYMENTS, "default", "d", Operation.UPDATE, "status", "d", "default"),
    ),
    "a dry run": (
        ("PUT", f"{DEFAULT}/a?dryRun=All"),
        Expected(CONFIG_MAPS, "default", "a", Operation.UPDATE, "", "a", "default", is_dry_run=True),
    ),
    "a cluster-scoped object has no namespace for plugins": (
        ("PUT", "/api/v1/namespaces/n"),
        Expected(NAMESPACES, "n", "n", Operation.UPDATE, "", "n", admission_namespace=""),
    ),
}


@pytest.mark.parametrize(("line", "expected"), REQUESTS.values(), ids=REQUESTS)
async def test_what_a_request_has_of_its_call(line: tuple[str, str], expected: Expected) -> None:
    plugin = Recorder()
    request = request_of(*line, plugin)
    assert (request.resource, request.namespace, request.name) == expected[:3]
    assert (request.user, request.options.dry_run) == (ALICE, expected.is_dry_run)
    assert request.checks_uid is (line[0] == "PUT")
    assert request.admission is not None
    assert await request.admission.mutate({}, None) == ["recorded"]
    (asked,) = plugin.asked
    assert asked.request is not None
    asked.waited("mutating-webhook", 0.5)
    assert asked.request.waited_s == 0.5
    assert [asked._replace(request=None)] == [
        AdmissionAttributes(
            expected.operation,
            expected.resource,
            namespace=expected.admission_namespace,
            name=expected.name,
            user=ALICE,
            offload=asked.offload,
            subresource=expected.subresource,
            is_dry_run=expected.is_dry_run,
            path_name=expected.path_name,
            options=request.options,
            verb=expected.operation.value.lower(),
        )
    ]


def test_a_subresource_is_updated_by_rules_of_its_own() -> None:
    own = DEPLOYMENTS.subresources["status"].update
    assert own is not None
    assert request_of("PUT", f"{DEPLOYMENT}/status", Recorder()).update is own
    assert request_of("PUT", DEPLOYMENT, Recorder()).update is None  # those of the resource


MANAGERS = {
    "by the option": ("?fieldManager=me", "curl/8.0", "me"),
    "else by the user agent up to its version": ("", "curl/8.0 (linux)", "curl"),
}


@pytest.mark.parametrize(("query", "agent", "manager"), MANAGERS.values(), ids=MANAGERS)
def test_the_field_manager_is_named(query: str, agent: str, manager: str) -> None:
    post, built = call("POST", DEFAULT + query, user_agent=agent), requests()
    request = built.create(post, "a", built.options(post, "CreateOptions"), SizeClass.SMALL, None)
    assert request.manage_fields is not None
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1"}}
    (entry,) = request.manage_fields(document, None, None) or ()
    assert (entry["manager"], entry["operation"]) == (manager, "Update")


def test_warnings_of_options_are_warnings_of_the_call() -> None:
    put = call("PUT", f"{DEFAULT}/a?dryRun")
    options = requests().options(put, "UpdateOptions")
    assert options.dry_run
    assert put.warnings == [*options.warnings]
    assert put.warnings


def owner(uid: str) -> Document:
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": uid}


def test_repeated_owner_references_are_dropped_with_a_warning() -> None:
    meta = {"name": "a", "ownerReferences": [owner("u1"), owner("u1"), owner("u2")]}
    proposed = proposed_object_of({"metadata": meta}, ["from the schema"])
    assert proposed.document["metadata"]["ownerReferences"] == [owner("u1"), owner("u2")]
    first, second = proposed.warnings
    assert first == "from the schema"
    assert second.endswith("duplicate UID(s) observed: u1")


def test_a_draft_without_repeated_owners_has_the_warnings_of_its_document_only() -> None:
    meta = {"name": "a", "ownerReferences": [owner("u1"), owner("u2")]}
    assert proposed_object_of({"metadata": meta}, ["from the schema"]).warnings == ["from the schema"]
