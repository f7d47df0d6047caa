"""The server's own objects tell who owns their fields: the components that write them in Kubernetes. Row B11.

kube-apiserver writes its own objects by the loopback client, as any client writes, and so conflicts with who
applies other values. Managers and fields are those of kube-apiserver 1.36 and kube-controller-manager.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from apiserver.registry.patch.apply.field_set import paths
from tests.support.api import Api, until_status
from tests.support.definitions import define, definition, new_group
from tests.support.eventually import until
from tests.support.fixtures import api_with
from tests.support.server_process import ServerProcess

APISERVER: Final = "kube-apiserver"
CONTROLLERS: Final = "kube-controller-manager"
FLOW_CONTROL: Final = "/apis/flowcontrol.apiserver.k8s.io/v1"
ADDRESS: Final = "/apis/networking.k8s.io/v1/ipaddresses/10.0.0.1"
CONDITION: Final = '.status.conditions[type="{}"].status'


class Owned(NamedTuple):
    """What somebody owns of an object.

    path: of the object. manager, operation, subresource: of the entry. field: one that is in it.
    """

    path: str
    manager: str
    field: str
    operation: str = "Update"
    subresource: str = ""


OWNED: Final = {
    "a namespace": Owned(
        "/api/v1/namespaces/kube-system", APISERVER, ".metadata.labels.kubernetes.io/metadata.name"
    ),
    "the service kubernetes": Owned(
        "/api/v1/namespaces/default/services/kubernetes",
        APISERVER,
        '.spec.ports[port=443,protocol="TCP"].targetPort',
    ),
    "its endpoints": Owned("/api/v1/namespaces/default/endpoints/kubernetes", APISERVER, ".subsets"),
    "its slice": Owned(
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes", APISERVER, ".endpoints"
    ),
    "the clients' CAs": Owned(
        "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication",
        APISERVER,
        ".data.client-ca-file",
    ),
    "the server's CA": Owned(
        "/api/v1/namespaces/default/configmaps/kube-root-ca.crt", CONTROLLERS, ".data.ca.crt"
    ),
    "a priority class": Owned(
        "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical", APISERVER, ".value"
    ),
    "an APIService": Owned(
        "/apis/apiregistration.k8s.io/v1/apiservices/v1.apps", APISERVER, ".spec.groupPriorityMinimum"
    ),
    "a flow schema": Owned(
        f"{FLOW_CONTROL}/flowschemas/probes", "api-priority-and-fairness-config-producer-v1", ".spec.rules"
    ),
    "the status of a flow schema": Owned(
        f"{FLOW_CONTROL}/flowschemas/probes",
        "api-priority-and-fairness-config-consumer-v1",
        CONDITION.format("Dangling"),
        "Apply",
        "status",
    ),
    "a priority level": Owned(
        f"{FLOW_CONTROL}/prioritylevelconfigurations/system",
        "api-priority-and-fairness-config-producer-v1",
        ".spec.limited.nominalConcurrencyShares",
    ),
    "the service network": Owned(
        "/apis/networking.k8s.io/v1/servicecidrs/kubernetes", APISERVER, ".spec.cidrs"
    ),
    "the status of the service network": Owned(
        "/apis/networking.k8s.io/v1/servicecidrs/kubernetes",
        "kubernetes-service-cidr-controller",
        CONDITION.format("Ready"),
        "Apply",
        "status",
    ),
}


api = api_with("--advertise-address=192.0.2.7", "--controllers=*")


def owners(document: Any) -> set[tuple[str, str, str, str]]:
    """Returns manager, operation, subresource and field of all that is owned."""
    return {
        (entry["manager"], entry["operation"], entry.get("subresource", ""), field)
        for entry in document["metadata"].get("managedFields", ())
        for field in paths(entry["fieldsV1"])
    }


@pytest.mark.parametrize("owned", OWNED.values(), ids=OWNED)
def test_who_owns_a_field_of_the_servers_own_objects(api: Api, owned: Owned) -> None:
    wanted = (owned.manager, owned.operation, owned.subresource, owned.field)
    until(
        lambda: owners(found.json) if (found := api.get(owned.path)).status == 200 else set(),
        lambda found: wanted in found,
        f"{wanted}",
    )


def test_what_has_nothing_but_a_name_has_no_owner(api: Api) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts/default"
    account = until_status(200, lambda: api.get(path)).json
    assert "managedFields" not in account["metadata"]


def test_the_status_of_a_definition_is_the_servers(api: Api) -> None:
    group = new_group()
    define(api, definition(group))
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{group}"
    assert (APISERVER, "Update", "status", CONDITION.format("Established")) in owners(api.get(path).json)


# Objects that a client can create as they are, and the path to create one. The rest of what is in them is set
# by the server, or may be there once only.
CREATED: Final = {
    "the service kubernetes": "/api/v1/namespaces/default/services",
    "the clients' CAs": "/api/v1/namespaces/default/configmaps",
    "a flow schema": f"{FLOW_CONTROL}/flowschemas",
    "a priority level": f"{FLOW_CONTROL}/prioritylevelconfigurations",
    "its endpoints": "/api/v1/namespaces/default/endpoints",
    "its slice": "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
}


@pytest.mark.parametrize("name", CREATED)
def test_owned_is_what_a_client_would_own_who_had_sent_the_same(api: Api, name: str) -> None:
    found = api.get(OWNED[name].path).ok()
    own = next(each for each in found["metadata"]["managedFields"] if each["manager"] == OWNED[name].manager)
    meta = {key: found["metadata"][key] for key in ("labels", "annotations") if key in found["metadata"]}
    found["metadata"] = {**meta, "name": "copied"}
    found.pop("status", None)
    if found["kind"] == "Service":
        # As the server has sent it: these follow from the address, which is taken.
        for field in ("clusterIPs", "ipFamilies"):
            found["spec"].pop(field)
        found["spec"]["clusterIP"] = "None"
    query = f"?dryRun=All&fieldManager={own['manager']}"
    created = api.post(CREATED[name] + query, found).ok()
    assert [each["fieldsV1"] for each in created["metadata"]["managedFields"]] == [own["fieldsV1"]]


def test_the_address_of_a_service_is_owned_as_if_a_client_had_sent_it(api: Api) -> None:
    """It is stored with the Service, in one transaction; kube-apiserver creates it by a client of its own."""
    found = api.get(ADDRESS).ok()
    meta = found["metadata"]
    collection, _, _ = ADDRESS.rpartition("/")
    sent = {"metadata": {"name": "10.0.0.77", "labels": meta["labels"]}, "spec": found["spec"]}
    created = api.post(f"{collection}?dryRun=All&fieldManager={APISERVER}", sent).ok()["metadata"]
    (entry,), (own,) = created["managedFields"], meta["managedFields"]
    assert own == {**entry, "time": meta["creationTimestamp"]}


@pytest.mark.parametrize("minor", [31, 32])
def test_b11_owners_of_addresses_are_told_in_the_version_that_a_release_knows(
    tmp_path: Path, minor: int
) -> None:
    beta = "networking.k8s.io/v1beta1"
    flags = (f"--emulated-version=1.{minor}", f"--runtime-config={beta}=true")
    with ServerProcess(tmp_path, *flags) as server, Api(server) as api:
        found = api.get(f"/apis/{beta}/ipaddresses/10.0.0.1").ok()
        assert [each["apiVersion"] for each in found["metadata"]["managedFields"]] == [beta]
        changed = {"metadata": {"labels": {"a": "b"}}}
        merged = api.patch(f"/apis/{beta}/ipaddresses/10.0.0.1?fieldManager=somebody", changed).ok()
    assert [each["manager"] for each in merged["metadata"]["managedFields"]] == [APISERVER, "somebody"]


def test_who_applies_another_value_conflicts_with_the_server(api: Api) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kubernetes", "labels": {"provider": "somebody"}},
    }
    path = "/api/v1/namespaces/default/services/kubernetes"
    answer = api.apply(f"{path}?fieldManager=gitops", service)
    assert answer.status == 409
    assert answer.json["details"]["causes"] == [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "kube-apiserver" using v1',
            "field": ".metadata.labels.provider",
        }
    ]


def test_what_the_server_mends_is_its_own_again(tmp_path: Path) -> None:
    """The spec of a suggested flow schema, which somebody has changed, is as it was after the next start."""
    path, field = f"{FLOW_CONTROL}/flowschemas/probes", ".spec.matchingPrecedence"
    of_server = ("api-priority-and-fairness-config-producer-v1", "Update", "", field)
    with ServerProcess(tmp_path) as server, Api(server) as api:
        schema = api.get(path).ok()
        assert of_server in owners(schema)
        schema["spec"]["matchingPrecedence"] = 3
        changed = api.put(f"{path}?fieldManager=somebody", schema).ok()
        assert {each for each in owners(changed) if each[3] == field} == {("somebody", "Update", "", field)}
    with ServerProcess(tmp_path) as server, Api(server) as api:
        mended = api.get(path).ok()
    assert mended["spec"]["matchingPrecedence"] == 2
    assert {each for each in owners(mended) if each[3] == field} == {of_server}


def test_clients_see_owners_in_a_version_that_they_are_served(tmp_path: Path) -> None:
    """The server works on v1 of flow control, which release 1.28 does not have."""
    flags = (
        "--emulated-version=1.28",
        "--min-compatibility-version=1.27",
        "--runtime-config=flowcontrol.apiserver.k8s.io/v1beta3=true",
    )
    with ServerProcess(tmp_path, *flags) as server, Api(server) as api:
        groups = api.get("/apis/flowcontrol.apiserver.k8s.io").ok()
        served = {each["groupVersion"] for each in groups["versions"]}
        preferred = groups["preferredVersion"]["groupVersion"]
        assert "flowcontrol.apiserver.k8s.io/v1" not in served
        schema = api.get(f"/apis/{preferred}/flowschemas/probes").ok()
    assert {each["apiVersion"] for each in schema["metadata"]["managedFields"]} <= served
    assert {each["manager"] for each in schema["metadata"]["managedFields"]} == {
        "api-priority-and-fairness-config-producer-v1",
        "api-priority-and-fairness-config-consumer-v1",
    }
