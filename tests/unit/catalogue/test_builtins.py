"""The built-in types as data: that each entry is whole, and that together they make sense.

Names, scopes, short names and categories are those of Kubernetes' own discovery (release 1.34); rows A01,
C07, I18. What the rules of each type say is told in the tests beside it.
"""

from __future__ import annotations

import copy
import ipaddress
import re
from typing import Any, Final

import pytest

from apiserver.catalogue.builtins import Catalogue
from apiserver.catalogue.core.services.allocation import ServiceAllocator
from apiserver.catalogue.runtime_config import RuntimeConfig
from apiserver.meta import names
from apiserver.meta.brand import Brand
from apiserver.meta.field_errors import FieldError
from apiserver.meta.vocabulary import GroupVersion
from apiserver.registry.served_resource import ALL_VERBS, ServedResource
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.go_fields import go_struct
from apiserver.schema.structural import Schema, ValueKind
from tests import corpus
from tests.corpus import Manifest

SCHEMAS: Final = BuiltinSchemas((1, 34))
TABLE: Final = Catalogue(Brand(), SCHEMAS, event_ttl_s=3600).resources()
RESOURCES: Final = {f"{resource.api_version}/{resource.resource}": resource for resource in TABLE.resources}
NOW: Final = 1_700_000_000.0
UID: Final = "0b9d2c1e-8f3a-4c4d-9a56-2f1f6d7b8c9d"

CLUSTER, NAMESPACED = False, True
# `kubectl api-resources -o wide`: kind, namespaced, short names, categories.
KUBERNETES: Final = {
    "v1/bindings": ("Binding", NAMESPACED, "", ""),
    "v1/componentstatuses": ("ComponentStatus", CLUSTER, "cs", ""),
    "v1/configmaps": ("ConfigMap", NAMESPACED, "cm", ""),
    "v1/endpoints": ("Endpoints", NAMESPACED, "ep", ""),
    "v1/events": ("Event", NAMESPACED, "ev", ""),
    "v1/limitranges": ("LimitRange", NAMESPACED, "limits", ""),
    "v1/namespaces": ("Namespace", CLUSTER, "ns", ""),
    "v1/nodes": ("Node", CLUSTER, "no", ""),
    "v1/persistentvolumeclaims": ("PersistentVolumeClaim", NAMESPACED, "pvc", ""),
    "v1/persistentvolumes": ("PersistentVolume", CLUSTER, "pv", ""),
    "v1/pods": ("Pod", NAMESPACED, "po", "all"),
    "v1/podtemplates": ("PodTemplate", NAMESPACED, "", ""),
    "v1/replicationcontrollers": ("ReplicationController", NAMESPACED, "rc", "all"),
    "v1/resourcequotas": ("ResourceQuota", NAMESPACED, "quota", ""),
    "v1/secrets": ("Secret", NAMESPACED, "", ""),
    "v1/serviceaccounts": ("ServiceAccount", NAMESPACED, "sa", ""),
    "v1/services": ("Service", NAMESPACED, "svc", "all"),
    "admissionregistration.k8s.io/v1/mutatingadmissionpolicies": (
        *("MutatingAdmissionPolicy", CLUSTER, "", "api-extensions"),
    ),
    "admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings": (
        *("MutatingAdmissionPolicyBinding", CLUSTER, "", "api-extensions"),
    ),
    "admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": (
        "MutatingWebhookConfiguration",
        CLUSTER,
        "",
        "api-extensions",
    ),
    "admissionregistration.k8s.io/v1/validatingadmissionpolicies": (
        "ValidatingAdmissionPolicy",
        CLUSTER,
        "",
        "api-extensions",
    ),
    "admissionregistration.k8s.io/v1/validatingadmissionpolicybindings": (
        "ValidatingAdmissionPolicyBinding",
        CLUSTER,
        "",
        "api-extensions",
    ),
    "admissionregistration.k8s.io/v1/validatingwebhookconfigurations": (
        "ValidatingWebhookConfiguration",
        CLUSTER,
        "",
        "api-extensions",
    ),
    "apiextensions.k8s.io/v1/customresourcedefinitions": (
        "CustomResourceDefinition",
        CLUSTER,
        "crd crds",
        "api-extensions",
    ),
    "apiregistration.k8s.io/v1/apiservices": ("APIService", CLUSTER, "", "api-extensions"),
    "apps/v1/controllerrevisions": ("ControllerRevision", NAMESPACED, "", ""),
    "apps/v1/daemonsets": ("DaemonSet", NAMESPACED, "ds", "all"),
    "apps/v1/deployments": ("Deployment", NAMESPACED, "deploy", "all"),
    "apps/v1/replicasets": ("ReplicaSet", NAMESPACED, "rs", "all"),
    "apps/v1/statefulsets": ("StatefulSet", NAMESPACED, "sts", "all"),
    "authentication.k8s.io/v1/selfsubjectreviews": ("SelfSubjectReview", CLUSTER, "", ""),
    "authentication.k8s.io/v1/tokenreviews": ("TokenReview", CLUSTER, "", ""),
    "authorization.k8s.io/v1/localsubjectaccessreviews": ("LocalSubjectAccessReview", NAMESPACED, "", ""),
    "authorization.k8s.io/v1/selfsubjectaccessreviews": ("SelfSubjectAccessReview", CLUSTER, "", ""),
    "authorization.k8s.io/v1/selfsubjectrulesreviews": ("SelfSubjectRulesReview", CLUSTER, "", ""),
    "authorization.k8s.io/v1/subjectaccessreviews": ("SubjectAccessReview", CLUSTER, "", ""),
    "autoscaling/v1/horizontalpodautoscalers": ("HorizontalPodAutoscaler", NAMESPACED, "hpa", "all"),
    "autoscaling/v2/horizontalpodautoscalers": ("HorizontalPodAutoscaler", NAMESPACED, "hpa", "all"),
    "batch/v1/cronjobs": ("CronJob", NAMESPACED, "cj", "all"),
    "batch/v1/jobs": ("Job", NAMESPACED, "", "all"),
    "certificates.k8s.io/v1/certificatesigningrequests": ("CertificateSigningRequest", CLUSTER, "csr", ""),
    "coordination.k8s.io/v1/leases": ("Lease", NAMESPACED, "", ""),
    "discovery.k8s.io/v1/endpointslices": ("EndpointSlice", NAMESPACED, "", ""),
    "events.k8s.io/v1/events": ("Event", NAMESPACED, "ev", ""),
    "flowcontrol.apiserver.k8s.io/v1/flowschemas": ("FlowSchema", CLUSTER, "", ""),
    "flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations": (
        "PriorityLevelConfiguration",
        CLUSTER,
        "",
        "",
    ),
    "networking.k8s.io/v1/ingressclasses": ("IngressClass", CLUSTER, "", ""),
    "networking.k8s.io/v1/ingresses": ("Ingress", NAMESPACED, "ing", ""),
    "networking.k8s.io/v1/ipaddresses": ("IPAddress", CLUSTER, "ip", ""),
    "networking.k8s.io/v1/networkpolicies": ("NetworkPolicy", NAMESPACED, "netpol", ""),
    "networking.k8s.io/v1/servicecidrs": ("ServiceCIDR", CLUSTER, "", ""),
    "node.k8s.io/v1/runtimeclasses": ("RuntimeClass", CLUSTER, "", ""),
    "policy/v1/poddisruptionbudgets": ("PodDisruptionBudget", NAMESPACED, "pdb", ""),
    "rbac.authorization.k8s.io/v1/clusterrolebindings": ("ClusterRoleBinding", CLUSTER, "", ""),
    "rbac.authorization.k8s.io/v1/clusterroles": ("ClusterRole", CLUSTER, "", ""),
    "rbac.authorization.k8s.io/v1/rolebindings": ("RoleBinding", NAMESPACED, "", ""),
    "rbac.authorization.k8s.io/v1/roles": ("Role", NAMESPACED, "", ""),
    "resource.k8s.io/v1/deviceclasses": ("DeviceClass", CLUSTER, "", ""),
    "resource.k8s.io/v1/resourceclaims": ("ResourceClaim", NAMESPACED, "", ""),
    "resource.k8s.io/v1/resourceclaimtemplates": ("ResourceClaimTemplate", NAMESPACED, "", ""),
    "resource.k8s.io/v1/resourceslices": ("ResourceSlice", CLUSTER, "", ""),
    "scheduling.k8s.io/v1/priorityclasses": ("PriorityClass", CLUSTER, "pc", ""),
    "storage.k8s.io/v1/csidrivers": ("CSIDriver", CLUSTER, "", ""),
    "storage.k8s.io/v1/csinodes": ("CSINode", CLUSTER, "", ""),
    "storage.k8s.io/v1/csistoragecapacities": ("CSIStorageCapacity", NAMESPACED, "", ""),
    "storage.k8s.io/v1/storageclasses": ("StorageClass", CLUSTER, "sc", ""),
    "storage.k8s.io/v1/volumeattachments": ("VolumeAttachment", CLUSTER, "", ""),
    "storage.k8s.io/v1/volumeattributesclasses": ("VolumeAttributesClass", CLUSTER, "vac", ""),
}
# Of groups that are not of k8s.io/api.
PACKAGES: Final = {
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis",
    "apiregistration": "io.k8s.kube-aggregator.pkg.apis",
}
# Those that do not have all verbs.
VERBS: Final = {
    "v1/bindings": "create",
    "v1/componentstatuses": "get list",
    "v1/namespaces": "create delete get list patch update watch",
    **{
        name: "create"
        for name in KUBERNETES
        if name.startswith(("authentication.k8s.io/", "authorization.k8s.io/"))
    },
}

each_resource = pytest.mark.parametrize("resource", RESOURCES.values(), ids=RESOURCES)


def test_what_kubernetes_serves_is_served() -> None:
    assert set(RESOURCES) == set(KUBERNETES)


@pytest.mark.parametrize(("name", "facts"), KUBERNETES.items(), ids=KUBERNETES)
def test_types_are_as_kubernetes_serves_them(name: str, facts: tuple[str, bool, str, str]) -> None:
    found = RESOURCES[name]
    short_names, categories = " ".join(found.short_names), " ".join(found.categories)
    assert (found.kind, found.is_namespaced, short_names, categories) == facts
    assert found.singular == found.kind.lower()
    assert " ".join(found.verbs) == VERBS.get(name, " ".join(ALL_VERBS))


# ---- each by itself


def least(resource: ServedResource) -> dict[str, Any]:
    """Clients may leave out everything but the name."""
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "a"}}


def checked(resource: ServedResource) -> dict[str, Any]:
    """The least document after the schema's walk."""
    document = least(resource)
    assert resource.check(document) == []
    return document


def ruled(resource: ServedResource) -> dict[str, Any]:
    """The least document as the rules see it: of the stored version, and with its identity."""
    document = resource.codec.to_hub(checked(resource))
    document["metadata"] |= {"uid": UID, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return document


@each_resource
def test_the_schema_is_the_kinds(resource: ServedResource) -> None:
    schema = resource.schema()
    assert schema.kind is ValueKind.STRUCT
    assert schema.struct_name == resource.kind
    assert schema.definition == resource.definition
    assert schema.fields["metadata"].definition.endswith(".ObjectMeta")
    group = resource.group_version.group.partition(".")[0] or "core"
    package = PACKAGES.get(group, "io.k8s.api")
    assert resource.definition == f"{package}.{group}.{resource.group_version.version}.{resource.kind}"


@each_resource
def test_the_least_object_passes_the_schema(resource: ServedResource) -> None:
    document = least(resource)
    assert resource.check(document) == []
    assert resource.head.startswith(b'{"apiVersion":"')


@each_resource
def test_the_schema_changes_nothing_in_a_complete_document(resource: ServedResource) -> None:
    """What is complete and in its normal form stays as it is."""
    document = least(resource)
    resource.check(document)
    once = copy.deepcopy(document)
    assert resource.check(document) == []
    assert document == once


@each_resource
def test_it_can_be_written_in_protobuf(resource: ServedResource) -> None:
    """Kubernetes' own clients speak so; of a few new types we do not know the numbers of their fields."""
    assert resource.has_protobuf == (go_struct(resource.definition) is not None)
    if resource.has_protobuf:
        assert resource.from_protobuf(b"") == {}
        document = least(resource)
        resource.check(document)
        again = {**least(resource), **resource.from_protobuf(resource.to_protobuf(document))}
        resource.check(again)
        assert again == document


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
def test_verbs_are_known_and_unique(resource: ServedResource) -> None:
    assert set(resource.verbs) <= set(ALL_VERBS)
    assert list(resource.verbs) == sorted(set(resource.verbs))
    for name, subresource in resource.subresources.items():
        assert name == subresource.name
        assert set(subresource.verbs) <= {"create", "delete", "get", "patch", "update"}
        assert subresource.verbs


# Source: AllowUnconditionalUpdate, AllowCreateOnUpdate and ReturnDeletedObject in pkg/registry/*/strategy.go
# and pkg/registry/*/storage/storage.go, for the kinds that are served by default.
CONDITIONAL: Final = {
    *("Lease", "PodDisruptionBudget", "RuntimeClass", "CustomResourceDefinition", "APIService"),
    *("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
    *("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"),
    *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    *("CSIDriver", "CSINode", "CSIStorageCapacity", "VolumeAttachment"),
}
CREATED_BY_PUT: Final = {
    *("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    *("Endpoints", "Event", "Lease", "LimitRange", "RuntimeClass", "Service"),
}
ANSWERED_BY_DELETE: Final = {
    *("PersistentVolume", "PersistentVolumeClaim", "Pod", "PodTemplate", "ResourceQuota"),
    *("Service", "ServiceAccount"),
    *("DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"),
    *("CSIDriver", "CSINode", "StorageClass", "VolumeAttachment", "VolumeAttributesClass"),
}


@each_resource
def test_unconditional_updates_create_on_update_and_answers_to_deletes(resource: ServedResource) -> None:
    """Rows A03, L02, G04: kind by kind as in Kubernetes, in all versions."""
    strategy, kind = resource.strategy, resource.kind
    assert strategy.allows_unconditional_update is (kind not in CONDITIONAL)
    assert strategy.allows_create_on_update is (kind in CREATED_BY_PUT)
    assert strategy.returns_deleted is (kind in ANSWERED_BY_DELETE)


@each_resource
def test_a_status_can_be_written_only_where_there_is_one(resource: ServedResource) -> None:
    if "status" in resource.subresources:
        assert "status" in resource.schema().fields
        assert resource.subresources["status"].update is not None


@each_resource
def test_every_column_has_a_cell_for_an_object_without_anything(resource: ServedResource) -> None:
    """Rows D07, D09: what is not there must not break a table."""
    cells = resource.columns.cells(checked(resource), NOW)
    for cell, definition in zip(cells, resource.columns.definitions, strict=True):
        expected = int if definition["type"] == "integer" else (str, int)
        assert isinstance(cell, expected), definition["name"]
    assert cells[column(resource, "Name")] == "a"


@each_resource
def test_columns_are_described(resource: ServedResource) -> None:
    definitions = resource.columns.definitions
    assert len({definition["name"] for definition in definitions}) == len(definitions)
    for definition in definitions:
        assert definition["type"] in {"string", "integer", "number", "boolean", "date"}
        assert definition["priority"] in {0, 1}
        assert definition["description"].endswith(".")
        assert definition["format"] == ("name" if definition["name"] == "Name" else "")


# Fields that are called otherwise than they are read by, and those of events in their own group, which are
# kept as events of the core group.
READ_AS: Final = {
    "source": "source.component",
    "spec.host": "spec.nodeName",
    "status.successful": "status.succeeded",
    "reportingController": "reportingComponent",
}


@each_resource
def test_selectable_fields_are_fields(resource: ServedResource) -> None:
    """Row I18. Every one of them is a field of the hub version, and absent ones are texts too."""
    always = {"metadata.name"}
    if resource.is_namespaced or not resource.selectable_fields:
        always.add("metadata.namespace")
    assert resource.known_fields == always | set(resource.selectable_fields)
    hub = TABLE.hub(*resource.stored_group_resource)
    assert hub is not None
    for name, get in resource.selectable_fields.items():
        path = READ_AS.get(name, name.replace("regarding.", "involvedObject.")).split(".")
        assert leads_somewhere(hub.schema(), path), name
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
    """They may find that something is missing, and say so; none of them breaks."""
    strategy = resource.strategy
    document = ruled(resource)
    strategy.prepare_create(document)
    found = [*strategy.validate_create(document), *strategy.validate(document)]
    found += strategy.validate_ratcheting(document, None)
    strategy.warn(document, None)
    for update in (strategy.update, *(sub.update for sub in resource.subresources.values() if sub.update)):
        old, new = ruled(resource), ruled(resource)
        update.prepare(new, old)
        found += update.validate(new, old)
        found += strategy.validate_ratcheting(new, old)
        strategy.warn(new, old)
    assert all(isinstance(error, FieldError) for error in found)
    marked = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert list(strategy.blockers(marked)) == []
    if strategy.grace_period_s is not None:
        assert strategy.grace_period_s(document, None) >= 0
    if strategy.mark_deleted is not None:
        strategy.mark_deleted(document, "2026-01-01T00:00:00Z")
    shown = resource.codec.from_hub(document)
    assert resource.check(shown) == []


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
    branded = Catalogue(Brand("example.com", "acme"), SCHEMAS, event_ttl_s=3600).resources()
    groups = {gv.group for gv in branded.group_versions}
    assert {"", "apps", "batch", "coordination.example.com"} <= groups
    assert not any(group.endswith("k8s.io") for group in groups)
    assert len(branded.resources) == len(TABLE.resources)


def test_events_are_kept_as_long_as_the_deployment_says() -> None:
    table = Catalogue(Brand(), SCHEMAS, event_ttl_s=77).resources()
    assert {r.api_version: r.strategy.ttl_s for r in table.resources if r.strategy.ttl_s} == {
        "v1": 77,
        "events.k8s.io/v1": 77,
    }


def test_the_preferred_version_of_a_group_is_its_first() -> None:
    assert TABLE.groups["apps"][0] == GroupVersion("apps", "v1")


# ---- what single types do on their own
# Source: k8s.io/kubernetes, pkg/registry and pkg/printers/internalversion.

WITH_STATUS: Final = [each for each in corpus.manifests() if "status" in each.content]


def written(manifest: Manifest, *, has_status: bool) -> tuple[ServedResource, dict[str, Any]]:
    """Its type, and the document as the rules see it."""
    resource = manifest.type_in(TABLE)
    document = manifest.document
    if not has_status:
        del document["status"]
    resource.check(document)
    document["metadata"]["uid"] = UID
    return resource, resource.codec.to_hub(document)


@pytest.mark.parametrize("manifest", WITH_STATUS, ids=lambda each: each.id)
def test_a_write_of_the_object_keeps_the_stored_status(manifest: Manifest) -> None:
    """Row I13."""
    resource, told = written(manifest, has_status=True)
    _, silent = written(manifest, has_status=False)
    old, without = copy.deepcopy(told), copy.deepcopy(silent)
    resource.strategy.update.prepare(silent, old)
    assert silent["status"] == old["status"]
    resource.strategy.update.prepare(told, without)
    assert told.get("status") == without.get("status")


@pytest.mark.parametrize("manifest", WITH_STATUS, ids=lambda each: each.id)
def test_the_status_of_a_new_object_is_ignored(manifest: Manifest) -> None:
    """Nodes alone tell of themselves when they come."""
    resource, told = written(manifest, has_status=True)
    _, silent = written(manifest, has_status=False)
    resource.strategy.prepare_create(told)
    resource.strategy.prepare_create(silent)
    assert (told.get("status") == silent.get("status")) == (manifest.kind != "Node")


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
def test_the_grace_period_of_a_pod(document: dict[str, Any], asked_s: int | None, grace_s: int) -> None:
    rule = RESOURCES["v1/pods"].strategy.grace_period_s
    assert rule is not None
    assert rule(document, asked_s) == grace_s


def column(resource: ServedResource, name: str) -> int:
    return [definition["name"] for definition in resource.columns.definitions].index(name)


def waiting(reason: str) -> dict[str, Any]:
    return {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": reason}}}]}


CELLS: Final[dict[str, tuple[str, str, dict[str, Any], Any]]] = {
    "entries of both kinds": (
        "v1/configmaps",
        "Data",
        {"data": {"a": "", "b": ""}, "binaryData": {"c": ""}},
        3,
    ),
    "a secret's type": ("v1/secrets", "Type", {"type": "Opaque"}, "Opaque"),
    "a namespace's phase": ("v1/namespaces", "Status", {"status": {"phase": "Active"}}, "Active"),
    "containers that are ready": (
        "v1/pods",
        "Ready",
        {
            "spec": {"containers": [{}, {}]},
            "status": {"containerStatuses": [{"ready": True, "state": {"running": {}}}, {"ready": False}]},
        },
        "1/2",
    ),
    "a pod's phase": ("v1/pods", "Status", {"status": {"phase": "Running"}}, "Running"),
    "what a container waits for": (
        "v1/pods",
        "Status",
        {"status": waiting("ImagePullBackOff")},
        "ImagePullBackOff",
    ),
    "how a container ended": (
        "v1/pods",
        "Status",
        {"status": {"containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]}},
        "ExitCode:3",
    ),
    "a pod on its way out": ("v1/pods", "Status", {"metadata": {"deletionTimestamp": "x"}}, "Terminating"),
    "starts of all containers": (
        "v1/pods",
        "Restarts",
        {"status": {"containerStatuses": [{"restartCount": 2}, {"restartCount": 3}]}},
        "5",
    ),
    "a pod without a node": ("v1/pods", "Node", {}, "<none>"),
    "pods of a deployment": (
        "apps/v1/deployments",
        "Ready",
        {"spec": {"replicas": 3}, "status": {"readyReplicas": 2}},
        "2/3",
    ),
    "pods wanted": ("apps/v1/replicasets", "Desired", {"spec": {"replicas": 0}}, 0),
    "containers of a template": (
        "apps/v1/deployments",
        "Containers",
        {"spec": {"template": {"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}}},
        "a,b",
    ),
    "a selector": (
        "apps/v1/deployments",
        "Selector",
        {"spec": {"selector": {"matchLabels": {"b": "2", "a": "1"}}}},
        "a=1,b=2",
    ),
    "a job's end": (
        "batch/v1/jobs",
        "Status",
        {"status": {"conditions": [{"type": "Complete", "status": "True"}]}},
        "Complete",
    ),
    "a job's pods": (
        "batch/v1/jobs",
        "Completions",
        {"spec": {"completions": 3}, "status": {"succeeded": 1}},
        "1/3",
    ),
    "a job of several at once": ("batch/v1/jobs", "Completions", {"spec": {"parallelism": 2}}, "0/1 of 2"),
    "a job's time": (
        "batch/v1/jobs",
        "Duration",
        {"status": {"startTime": "2023-11-14T22:00:00Z", "completionTime": "2023-11-14T22:01:30Z"}},
        "90s",
    ),
    "a service's ports": (
        "v1/services",
        "Port(s)",
        {"spec": {"ports": [{"port": 80}, {"port": 53, "protocol": "UDP", "nodePort": 30053}]}},
        "80/TCP,53:30053/UDP",
    ),
    "a service that waits": ("v1/services", "External-IP", {"spec": {"type": "LoadBalancer"}}, "<pending>"),
    "a service elsewhere": (
        "v1/services",
        "External-IP",
        {"spec": {"type": "ExternalName", "externalName": "a.example"}},
        "a.example",
    ),
    "many endpoints": (
        "v1/endpoints",
        "Endpoints",
        {"subsets": [{"addresses": [{"ip": f"10.0.0.{n}"} for n in range(5)], "ports": [{"port": 80}]}]},
        "10.0.0.0:80,10.0.0.1:80,10.0.0.2:80 + 2 more...",
    ),
    "a lease's holder": ("coordination.k8s.io/v1/leases", "Holder", {"spec": {"holderIdentity": "me"}}, "me"),
    "what an event is about": (
        "v1/events",
        "Object",
        {"involvedObject": {"kind": "Pod", "name": "p"}},
        "pod/p",
    ),
    "who tells of it": ("v1/events", "Source", {"source": {"component": "c", "host": "h"}}, "c, h"),
    "how often": ("v1/events", "Count", {"series": {"count": 5}, "count": 2}, 5),
    "when, the last time": ("v1/events", "Last Seen", {"lastTimestamp": "2023-11-14T22:12:20Z"}, "60s"),
    "never": ("v1/events", "Last Seen", {}, "<unknown>"),
}


@pytest.mark.parametrize(("name", "head", "document", "cell"), CELLS.values(), ids=CELLS)
def test_cells(name: str, head: str, document: dict[str, Any], cell: Any) -> None:
    resource = RESOURCES[name]
    whole = {"metadata": {"name": "a"}, **document}
    assert resource.columns.cells(whole, NOW)[column(resource, head)] == cell


# ---- servers of one process


def test_what_does_not_depend_on_a_server_is_shared() -> None:
    allocators = [
        ServiceAllocator.for_networks((ipaddress.ip_network("10.0.0.0/24"),), (1, 2), lambda low, _: low)
        for _ in range(2)
    ]
    shared = Catalogue(Brand(), SCHEMAS)
    tables = [shared.for_server(each, None).resources() for each in allocators]
    one, other = (found for table in tables if (found := table.find("", "v1", "services")) is not None)
    assert (one.codec, one.schema_compiler) == (other.codec, other.schema_compiler)
    assert [one.strategy.allocator, other.strategy.allocator] == allocators
    assert one.strategy.allocator is not other.strategy.allocator
    assert one.derived is not other.derived
    assert one.cache_key is not other.cache_key
    assert tables[0].derived("key", lambda _: "one") != tables[1].derived("key", lambda _: "other")
    assert [each.api_version for each in tables[0].resources] == [
        each.api_version for each in TABLE.resources
    ]


def test_each_server_serves_what_its_flags_say() -> None:
    shared = Catalogue(Brand(), SCHEMAS)
    assert shared.resources(RuntimeConfig({"apps/v1": False})).find("apps", "v1", "deployments") is None
    assert shared.resources(RuntimeConfig()).find("apps", "v1", "deployments") is not None
    assert shared.resources(RuntimeConfig({"apps/v1": False})).find("apps", "v1", "deployments") is None
