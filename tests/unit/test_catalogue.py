"""The built-in types as data: that each entry is whole, and that together they make sense.

Names, scopes and short names are those of Kubernetes' own discovery (release 1.34); rows A01, C07, I18.
"""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from apiserver.brand import Brand
from apiserver.catalogue.builtins import builtin_resources
from apiserver.meta import names
from apiserver.registry.served_resource import ALL_VERBS, ServedResource
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.structural import Kind, Schema
from apiserver.vocabulary import GroupVersion

SCHEMAS: Final = BuiltinSchemas((1, 34))
TABLE: Final = builtin_resources(Brand(), SCHEMAS, event_ttl_s=3600)
RESOURCES: Final = {str(resource.group_resource): resource for resource in TABLE.resources}
NOW: Final = 1_700_000_000.0

# `kubectl api-resources`: apiVersion, kind, namespaced, short names, categories.
KUBERNETES: Final = {
    "configmaps": ("v1", "ConfigMap", True, "cm", ""),
    "endpoints": ("v1", "Endpoints", True, "ep", ""),
    "events": ("v1", "Event", True, "ev", ""),
    "namespaces": ("v1", "Namespace", False, "ns", ""),
    "pods": ("v1", "Pod", True, "po", "all"),
    "secrets": ("v1", "Secret", True, "", ""),
    "serviceaccounts": ("v1", "ServiceAccount", True, "sa", ""),
    "services": ("v1", "Service", True, "svc", "all"),
    "deployments.apps": ("apps/v1", "Deployment", True, "deploy", "all"),
    "replicasets.apps": ("apps/v1", "ReplicaSet", True, "rs", "all"),
    "jobs.batch": ("batch/v1", "Job", True, "", "all"),
    "leases.coordination.k8s.io": ("coordination.k8s.io/v1", "Lease", True, "", ""),
}

each_resource = pytest.mark.parametrize("resource", TABLE.resources, ids=list(RESOURCES))


@pytest.mark.parametrize(("name", "facts"), KUBERNETES.items(), ids=KUBERNETES)
def test_types_are_as_kubernetes_serves_them(name: str, facts: tuple[str, str, bool, str, str]) -> None:
    found = RESOURCES[name]
    short_names, categories = " ".join(found.short_names), " ".join(found.categories)
    assert (found.api_version, found.kind, found.is_namespaced, short_names, categories) == facts
    assert found.singular == found.kind.lower()


# ---- each by itself


@each_resource
def test_the_schema_is_the_kinds(resource: ServedResource) -> None:
    schema = resource.schema()
    assert schema.kind is Kind.STRUCT
    assert schema.struct_name == resource.kind
    assert schema.definition == resource.definition
    assert schema.fields["metadata"].definition.endswith(".ObjectMeta")
    group = resource.group_version.group.partition(".")[0] or "core"
    assert resource.definition == f"io.k8s.api.{group}.{resource.group_version.version}.{resource.kind}"


@each_resource
def test_the_least_object_passes_the_schema(resource: ServedResource) -> None:
    document = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "a"}}
    assert resource.check(dict(document)) == []
    assert resource.head.startswith(b'{"apiVersion":"')


@each_resource
def test_it_can_be_written_in_protobuf(resource: ServedResource) -> None:
    """kubectl writes built-in types so."""
    assert resource.from_protobuf(b"") == {}


@each_resource
def test_names_are_well_formed(resource: ServedResource) -> None:
    assert re.fullmatch(r"[a-z]+", resource.resource)
    assert re.fullmatch(r"[A-Z][A-Za-z]+", resource.kind)
    assert not resource.kind.endswith("List")  # row C07: what a collection is called
    assert resource.kind != "List"
    assert re.fullmatch(r"v[1-9]\d*((alpha|beta)[1-9]\d*)?", resource.group_version.version)
    if group := resource.group_version.group:
        assert names.dns_subdomain(group) == []


@each_resource
def test_verbs_are_known_and_told_once(resource: ServedResource) -> None:
    assert set(resource.verbs) <= set(ALL_VERBS)
    assert list(resource.verbs) == sorted(set(resource.verbs))
    for name, subresource in resource.subresources.items():
        assert name == subresource.name
        assert set(subresource.verbs) <= {"create", "delete", "get", "patch", "update"}
        assert subresource.verbs


@each_resource
def test_a_status_can_be_written_only_where_there_is_one(resource: ServedResource) -> None:
    if "status" in resource.subresources:
        assert "status" in resource.schema().fields
        assert resource.subresources["status"].update is not None


@each_resource
def test_every_column_has_a_cell_for_an_object_without_anything(resource: ServedResource) -> None:
    """Rows D07, D09: what is not there must not break a table."""
    document = {"metadata": {"name": "a"}}
    for empty in (document, document | {"spec": {}, "status": {}}):
        cells = resource.columns.cells(empty, NOW)
        for cell, definition in zip(cells, resource.columns.definitions, strict=True):
            expected = int if definition["type"] == "integer" else (str, int)
            assert isinstance(cell, expected), definition["name"]
    assert resource.columns.cells(document, NOW)[column(resource, "Name")] == "a"


@each_resource
def test_columns_are_described(resource: ServedResource) -> None:
    definitions = resource.columns.definitions
    assert len({definition["name"] for definition in definitions}) == len(definitions)
    for definition in definitions:
        assert definition["type"] in {"string", "integer", "number", "boolean", "date"}
        assert definition["priority"] in {0, 1}
        assert definition["description"].endswith(".")
        assert definition["format"] == ("name" if definition["name"] == "Name" else "")


@each_resource
def test_selectable_fields_are_fields(resource: ServedResource) -> None:
    """Row I18. Every one of them is a field of the schema, and absent ones are texts too."""
    always = {"metadata.name", "metadata.namespace"} if resource.is_namespaced else {"metadata.name"}
    assert resource.known_fields == always | set(resource.selectable_fields)
    renamed = {"source": "source.component", "status.successful": "status.succeeded"}
    for name, get in resource.selectable_fields.items():
        path = renamed.get(name, name).split(".")
        assert leads_somewhere(resource.schema(), path), name
        assert isinstance(get({"metadata": {"name": "a"}}), str)
        assert get(document_with(path, "x")) == "x"
        assert get(document_with(path, True)) == "true"
        assert isinstance(get(document_with(path[:1], "no object")), str)


def leads_somewhere(schema: Schema, path: list[str]) -> bool:
    for step in path:
        if step not in schema.fields:
            return False
        schema = schema.fields[step]
    return True


def document_with(path: list[str], value: Any) -> dict[str, Any]:
    for step in reversed(path):
        value = {step: value}
    return {"metadata": {"name": "a"}, **value}


@each_resource
def test_hooks_take_the_least_object(resource: ServedResource) -> None:
    """Clients may leave out everything but the name."""
    strategy = resource.strategy
    document: dict[str, Any] = {"metadata": {"name": "a"}}
    strategy.prepare_create(document)
    assert strategy.validate(document) == []
    old, new = {"metadata": {"name": "a"}}, {"metadata": {"name": "a"}}
    strategy.update.prepare(new, old)
    assert strategy.update.validate(new, old) == []
    assert list(strategy.blockers({"metadata": {}})) == []
    if strategy.grace_period_s is not None:
        assert strategy.grace_period_s({"metadata": {}}, None) >= 0
    assert resource.check(document) == []


# ---- together


def test_names_lead_to_one_resource() -> None:
    """A short name may be shared between groups, as kubectl prefers the first; not within one."""
    for group_version, resources in TABLE.group_versions.items():
        told = [name for r in resources for name in {r.resource, r.singular, *r.short_names}]
        assert len(set(told)) == len(told), group_version
        kinds = [r.kind for r in resources]
        assert len(set(kinds)) == len(kinds), group_version
        lists = {r.list_kind for r in resources}
        assert not lists & set(kinds), group_version


def test_resources_are_found_by_group_version_and_name() -> None:
    for resource in TABLE.resources:
        assert TABLE.find(*resource.group_version, resource.resource) is resource
    assert TABLE.find("", "v1", "pod") is None
    assert TABLE.find("apps", "v1", "pods") is None
    assert TABLE.find("", "v2", "pods") is None


def test_groups_with_a_domain_follow_the_deployments() -> None:
    branded = builtin_resources(Brand("example.com", "acme"), SCHEMAS, event_ttl_s=3600)
    groups = {gv.group for gv in branded.group_versions}
    assert {"", "apps", "batch", "coordination.example.com"} <= groups
    assert not any(group.endswith("k8s.io") for group in groups)
    assert len(branded.resources) == len(TABLE.resources)


def test_events_are_kept_as_long_as_the_deployment_says() -> None:
    table = builtin_resources(Brand(), SCHEMAS, event_ttl_s=77)
    assert {str(r.group_resource): r.strategy.ttl_s for r in table.resources if r.strategy.ttl_s} == {
        name: 77 for name in RESOURCES if name.partition(".")[0] == "events"
    }


def test_the_preferred_version_of_a_group_is_its_first() -> None:
    assert TABLE.groups["apps"][0] == GroupVersion("apps", "v1")


# ---- what single types do on their own
# Source: k8s.io/kubernetes, pkg/registry and pkg/printers/internalversion.


def created(name: str, **document: Any) -> dict[str, Any]:
    document = {"metadata": {"name": "a"}, **document}
    RESOURCES[name].strategy.prepare_create(document)
    return document


def updated(name: str, new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    document = {"metadata": {"name": "a"}, **new}
    RESOURCES[name].strategy.update.prepare(document, {"metadata": {"name": "a"}, **old})
    return document


def test_a_secrets_texts_become_data() -> None:
    secret = created("secrets", stringData={"a": "é", "b": "2"}, data={"a": "YQ==", "c": "Yw=="})
    assert secret["data"] == {"a": "w6k=", "b": "Mg==", "c": "Yw=="}
    assert "stringData" not in secret


def test_a_namespace_begins_active_with_its_finalizer_and_label() -> None:
    namespace = created("namespaces", status={"phase": "Terminating"})
    assert namespace["status"] == {"phase": "Active"}
    assert namespace["spec"] == {"finalizers": ["kubernetes"]}
    assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": "a"}
    again = created("namespaces", spec={"finalizers": ["kubernetes", "a.example/x"]})
    assert again["spec"] == {"finalizers": ["kubernetes", "a.example/x"]}


def test_a_namespaces_finalizers_are_changed_through_finalize_only() -> None:
    old = {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
    new = {"spec": {"finalizers": []}, "status": {"phase": "Terminating"}}
    assert updated("namespaces", new, old)["spec"] == old["spec"]
    finalize = RESOURCES["namespaces"].subresources["finalize"].update
    assert finalize is not None
    document: dict[str, Any] = {"metadata": {"name": "a"}, **new}
    finalize.prepare(document, {"metadata": {"name": "a"}, **old})
    assert (document["spec"], document["status"]) == (new["spec"], old["status"])


def test_a_namespace_waits_for_both_kinds_of_finalizers() -> None:
    document = {"metadata": {"finalizers": ["a.example/x"]}, "spec": {"finalizers": ["kubernetes"]}}
    assert list(RESOURCES["namespaces"].strategy.blockers(document)) == ["a.example/x", "kubernetes"]


@pytest.mark.parametrize("name", ["pods", "deployments.apps", "replicasets.apps", "jobs.batch", "services"])
def test_who_wants_something_does_not_say_how_it_is(name: str) -> None:
    """Row I13."""
    assert created(name, status={"x": 1})["status"].get("x") is None
    assert updated(name, {"status": {"x": 1}}, {"status": {"y": 2}})["status"] == {"y": 2}
    assert "status" not in updated(name, {"status": {"x": 1}}, {})


GRACE: Final[dict[str, tuple[dict[str, Any], int | None, int]]] = {
    "nobody runs it": ({"spec": {}}, None, 0),
    "nobody runs it, whatever is asked": ({"spec": {}}, 60, 0),
    "the default": ({"spec": {"nodeName": "n"}}, None, 30),
    "what the pod says": ({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 5}}, None, 5),
    "what is asked": ({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 5}}, 7, 7),
    "at once": ({"spec": {"nodeName": "n"}}, 0, 0),
    "below zero is a second": ({"spec": {"nodeName": "n"}}, -1, 1),
    "it has ended": ({"spec": {"nodeName": "n"}, "status": {"phase": "Succeeded"}}, 60, 0),
}


@pytest.mark.parametrize(("document", "asked_s", "grace_s"), GRACE.values(), ids=GRACE)
def test_how_long_a_pod_may_take_to_stop(document: dict[str, Any], asked_s: int | None, grace_s: int) -> None:
    rule = RESOURCES["pods"].strategy.grace_period_s
    assert rule is not None
    assert rule(document, asked_s) == grace_s


def column(resource: ServedResource, name: str) -> int:
    return [definition["name"] for definition in resource.columns.definitions].index(name)


def waiting(reason: str) -> dict[str, Any]:
    return {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": reason}}}]}


CELLS: Final[dict[str, tuple[str, str, dict[str, Any], Any]]] = {
    "entries of both kinds": ("configmaps", "Data", {"data": {"a": "", "b": ""}, "binaryData": {"c": ""}}, 3),
    "a secret's type": ("secrets", "Type", {"type": "Opaque"}, "Opaque"),
    "a namespace's phase": ("namespaces", "Status", {"status": {"phase": "Active"}}, "Active"),
    "containers that are ready": (
        "pods",
        "Ready",
        {
            "spec": {"containers": [{}, {}]},
            "status": {
                "containerStatuses": [{"ready": True, "state": {"running": {}}}, {"ready": False}],
            },
        },
        "1/2",
    ),
    "a pod's phase": ("pods", "Status", {"status": {"phase": "Running"}}, "Running"),
    "what a container waits for": (
        "pods",
        "Status",
        {"status": waiting("ImagePullBackOff")},
        "ImagePullBackOff",
    ),
    "how a container ended": (
        "pods",
        "Status",
        {"status": {"containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]}},
        "ExitCode:3",
    ),
    "a pod on its way out": ("pods", "Status", {"metadata": {"deletionTimestamp": "x"}}, "Terminating"),
    "starts of all containers": (
        "pods",
        "Restarts",
        {"status": {"containerStatuses": [{"restartCount": 2}, {"restartCount": 3}]}},
        "5",
    ),
    "a pod without a node": ("pods", "Node", {}, "<none>"),
    "pods of a deployment": (
        "deployments.apps",
        "Ready",
        {"spec": {"replicas": 3}, "status": {"readyReplicas": 2}},
        "2/3",
    ),
    "pods wanted": ("replicasets.apps", "Desired", {"spec": {"replicas": 0}}, 0),
    "containers of a template": (
        "deployments.apps",
        "Containers",
        {"spec": {"template": {"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}}},
        "a,b",
    ),
    "a selector": (
        "deployments.apps",
        "Selector",
        {"spec": {"selector": {"matchLabels": {"b": "2", "a": "1"}}}},
        "a=1,b=2",
    ),
    "a job's end": (
        "jobs.batch",
        "Status",
        {"status": {"conditions": [{"type": "Complete", "status": "True"}]}},
        "Complete",
    ),
    "a job's pods": (
        "jobs.batch",
        "Completions",
        {"spec": {"completions": 3}, "status": {"succeeded": 1}},
        "1/3",
    ),
    "a job of several at once": ("jobs.batch", "Completions", {"spec": {"parallelism": 2}}, "0/1 of 2"),
    "a job's time": (
        "jobs.batch",
        "Duration",
        {"status": {"startTime": "2023-11-14T22:00:00Z", "completionTime": "2023-11-14T22:01:30Z"}},
        "90s",
    ),
    "a service's ports": (
        "services",
        "Port(s)",
        {"spec": {"ports": [{"port": 80}, {"port": 53, "protocol": "UDP", "nodePort": 30053}]}},
        "80/TCP,53:30053/UDP",
    ),
    "a service that waits": ("services", "External-IP", {"spec": {"type": "LoadBalancer"}}, "<pending>"),
    "a service elsewhere": (
        "services",
        "External-IP",
        {"spec": {"type": "ExternalName", "externalName": "a.example"}},
        "a.example",
    ),
    "many endpoints": (
        "endpoints",
        "Endpoints",
        {"subsets": [{"addresses": [{"ip": f"10.0.0.{n}"} for n in range(5)], "ports": [{"port": 80}]}]},
        "10.0.0.0:80,10.0.0.1:80,10.0.0.2:80 + 2 more...",
    ),
    "a lease's holder": (
        "leases.coordination.k8s.io",
        "Holder",
        {"spec": {"holderIdentity": "me"}},
        "me",
    ),
    "what an event is about": ("events", "Object", {"involvedObject": {"kind": "Pod", "name": "p"}}, "pod/p"),
    "who tells of it": ("events", "Source", {"source": {"component": "c", "host": "h"}}, "c, h"),
    "how often": ("events", "Count", {"series": {"count": 5}, "count": 2}, 5),
    "when, the last time": ("events", "Last Seen", {"lastTimestamp": "2023-11-14T22:12:20Z"}, "60s"),
    "never": ("events", "Last Seen", {}, "<unknown>"),
}


@pytest.mark.parametrize(("name", "head", "document", "cell"), CELLS.values(), ids=CELLS)
def test_cells(name: str, head: str, document: dict[str, Any], cell: Any) -> None:
    resource = RESOURCES[name]
    whole = {"metadata": {"name": "a"}, **document}
    assert resource.columns.cells(whole, NOW)[column(resource, head)] == cell
