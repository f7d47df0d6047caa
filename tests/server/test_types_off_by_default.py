"""Types that no release serves by default, over HTTP: with their gates, and their versions switched on.

Their rules are told in `tests/unit/catalogue`. Rows H01, H02, H09, S03.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from tests.support.api import Answer, Api, until_status
from tests.support.certificates import certificate
from tests.support.eventually import until
from tests.support.fixtures import server_with
from tests.support.rbac import RBAC, grant, rule
from tests.support.server_process import ServerProcess

TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
CA: Final = certificate("ca", x509.BasicConstraints(ca=True, path_length=None))
CERTIFICATES: Final = "/apis/certificates.k8s.io"
POD_REQUESTS: Final = f"{CERTIFICATES}/v1beta1/namespaces/default/podcertificaterequests"
POD_KEY: Final = ec.generate_private_key(ec.SECP256R1())
POD_REQUEST: Final = {
    "signerName": "example.com/pods",
    "podName": "web",
    "podUID": "1",
    "serviceAccountName": "default",
    "serviceAccountUID": "2",
    "nodeName": "node",
    "nodeUID": "3",
    "stubPKCS10Request": base64.b64encode(
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([]))
        .sign(POD_KEY, hashes.SHA256())
        .public_bytes(Encoding.DER)
    ).decode(),
}
BUNDLES: Final = f"{CERTIFICATES}/v1beta1/clustertrustbundles"
# Those of types that are off by default.
GATES: Final = (
    *("ClusterTrustBundle", "DRADeviceTaintRules", "DRAResourcePoolStatus"),
    *("GenericWorkload", "PodCertificateRequest"),
)


server = server_with(
    "--runtime-config=api/all=true",
    f"--feature-gates={','.join(f'{gate}=true' for gate in GATES)}",
    "--controllers=*",
    "--authorization-mode=Node,RBAC",
    "--enable-admission-plugins=NodeRestriction",
)


# Where a type is, and an object of it.
OBJECTS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "LeaseCandidate": (
        "/apis/coordination.k8s.io/v1beta1/namespaces/default/leasecandidates",
        {
            "leaseName": "scheduler",
            "binaryVersion": "1.36.0",
            "emulationVersion": "1.36.0",
            "strategy": "OldestEmulationVersion",
        },
    ),
    "StorageVersion": ("/apis/internal.apiserver.k8s.io/v1alpha1/storageversions", {}),
    "ClusterTrustBundle": (BUNDLES, {"trustBundle": CA}),
    "DeviceTaintRule": (
        "/apis/resource.k8s.io/v1beta2/devicetaintrules",
        {"deviceSelector": {"driver": "a.b"}, "taint": {"key": "a", "effect": "NoExecute"}},
    ),
    "ResourcePoolStatusRequest": (
        "/apis/resource.k8s.io/v1alpha3/resourcepoolstatusrequests",
        {"driver": "a.b"},
    ),
    "PodGroup": (
        "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups",
        {"schedulingPolicy": {"gang": {"minCount": 2}}},
    ),
    "Workload": (
        "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/workloads",
        {"podGroupTemplates": [{"name": "workers", "schedulingPolicy": {"basic": {}}}]},
    ),
    "PodCertificateRequest": (POD_REQUESTS, POD_REQUEST),
}


@pytest.mark.parametrize(("path", "spec"), OBJECTS.values(), ids=OBJECTS)
def test_objects_are_kept_and_shown(api: Api, path: str, spec: dict[str, Any]) -> None:
    name = "apps.tests"
    created = api.post(path, {"metadata": {"name": name}, "spec": spec}).ok()
    assert created["spec"].keys() >= spec.keys()
    (row,) = [
        each
        for each in api.get(path, headers={"Accept": TABLE}).ok()["rows"]
        if each["object"]["metadata"]["name"] == name
    ]
    assert row["cells"][0] == name
    as_protobuf = api.get(f"{path}/{name}", headers={"Accept": "application/vnd.kubernetes.protobuf"})
    assert as_protobuf.body.startswith(b"k8s\0")
    assert api.patch(f"{path}/{name}", {"metadata": {"labels": {"a": "b"}}}).ok()["metadata"]["labels"]
    assert api.delete(f"{path}/{name}").status == 200


def test_bundles_are_listed_by_signer(api: Api) -> None:
    api.post(BUNDLES, {"metadata": {"name": "own"}, "spec": {"trustBundle": CA}}).ok()
    found = api.get(f"{BUNDLES}?fieldSelector=spec.signerName=").ok()["items"]
    assert [each["metadata"]["name"] for each in found] == ["own"]


def test_service_accounts_find_the_certificates_of_the_server(server: ServerProcess, api: Api) -> None:
    """KEP-3257: the bundle of the signer of kube-apiserver's certificates, which all of them may read."""
    signer = "kubernetes.io/kube-apiserver-serving"
    headers = {"Impersonate-User": "system:serviceaccount:default:default"}

    def published() -> list[Any]:
        listed = api.get(f"{BUNDLES}?fieldSelector=spec.signerName={signer}", headers=headers)
        found: list[Any] = listed.ok()["items"]
        return found

    (bundle,) = until(published, lambda found: len(found) == 1)
    root_ca = api.get("/api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt").ok()["data"]["ca.crt"]
    assert bundle["spec"]["trustBundle"] == root_ca
    role = api.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node").ok()
    assert any("clustertrustbundles" in rule.get("resources", ()) for rule in role["rules"])


def allow(api: Api, user: str, *rules: dict[str, Any]) -> None:
    """Allow a user some things in the whole cluster; again, others."""
    if api.patch(f"{RBAC}/clusterroles/{user}", {"rules": rules}).status != 200:
        grant(api, "", user, *rules)


def test_who_attests_for_a_signer_must_be_allowed_to(api: Api) -> None:
    """The plugin ClusterTrustBundleAttest."""
    headers = {"Impersonate-User": "attester"}
    bundles = rule("*", "clustertrustbundles", group="certificates.k8s.io")
    allow(api, "attester", bundles)
    bundle = {
        "metadata": {"name": "example.com:signer:a"},
        "spec": {"signerName": "example.com/signer", "trustBundle": CA},
    }
    refused = api.post(BUNDLES, bundle, headers=headers)
    assert refused.status == 403
    assert 'user not permitted to attest for signerName "example.com/signer"' in refused.message
    allow(api, "attester", bundles, rule("attest", "signers", "example.com/*", group="certificates.k8s.io"))
    assert api.post(BUNDLES, bundle, headers=headers).status == 201


def issued(begin: datetime) -> dict[str, Any]:
    """The status of a request with a certificate that is valid for two hours."""
    end, name = begin + timedelta(hours=2), x509.Name([])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).serial_number(1)
    builder = builder.public_key(POD_KEY.public_key()).not_valid_before(begin).not_valid_after(end)
    chain = builder.sign(POD_KEY, hashes.SHA256()).public_bytes(Encoding.PEM).decode()
    times = {"notBefore": begin, "notAfter": end, "beginRefreshAt": begin + timedelta(hours=1)}
    return {
        "conditions": [{"type": "Issued", "status": "True", "reason": "Issued"}],
        "certificateChain": chain,
        **{field: time.strftime("%Y-%m-%dT%H:%M:%SZ") for field, time in times.items()},
    }


def test_who_issues_certificates_of_pods_must_be_allowed_to_sign(api: Api) -> None:
    """KEP-4317: and they are valid from now on."""
    headers = {"Impersonate-User": "signer"}
    statuses = rule("*", "podcertificaterequests/status", group="certificates.k8s.io")
    allow(api, "signer", statuses)
    api.post(POD_REQUESTS, {"metadata": {"name": "web"}, "spec": POD_REQUEST}).ok()
    now = datetime.now(UTC).replace(microsecond=0)

    def issue(begin: datetime) -> Answer:
        return api.patch(f"{POD_REQUESTS}/web/status", {"status": issued(begin)}, headers=headers)

    denied = {"conditions": [{"type": "Denied", "status": "True", "reason": "R", "message": ""}]}
    for refused in (issue(now), api.patch(f"{POD_REQUESTS}/web/status", {"status": denied}, headers=headers)):
        assert (refused.status, refused.causes) == (422, [("FieldValueForbidden", "spec.signerName")])
    assert 'User "signer" is not permitted to "sign" for signer "example.com/pods"' in refused.message
    allow(api, "signer", statuses, rule("sign", "signers", "example.com/pods", group="certificates.k8s.io"))
    refused = issue(now - timedelta(minutes=6))
    assert (refused.status, refused.causes) == (422, [("FieldValueInvalid", "status.notBefore")])
    status = issue(now).ok()["status"]
    assert status["conditions"][0]["lastTransitionTime"] >= status["notBefore"]
    assert issue(now - timedelta(minutes=1)).status == 422, "it has been decided"


# A field of what a node asks for, what stands there, and why it is refused.
NOT_OF_THE_NODE: Final = {
    "another node": ("nodeName", "other", "which is not the requesting node"),
    "a node of before": ("nodeUID", "before", "inconsistent with the running node"),
    "a pod of before": ("podUID", "before", "which differs from running pod"),
    "another account": ("serviceAccountName", "other", "that differs from running pod"),
    "an account of before": ("serviceAccountUID", "before", "which differs from the running service account"),
}


def test_nodes_ask_for_certificates_of_their_own_pods(api: Api) -> None:
    """The plugin NodeRestriction, and the Node authorizer."""
    node = api.post("/api/v1/nodes", {"metadata": {"name": "node"}}).ok()
    account = until_status(200, lambda: api.get("/api/v1/namespaces/default/serviceaccounts/default")).ok()
    containers = [{"name": "c", "image": "i"}]
    pod_spec = {"nodeName": "node", "serviceAccountName": "default", "containers": containers}
    pod = api.post("/api/v1/namespaces/default/pods", {"metadata": {"name": "web"}, "spec": pod_spec}).ok()
    uids = {
        "nodeUID": node["metadata"]["uid"],
        "podUID": pod["metadata"]["uid"],
        "serviceAccountUID": account["metadata"]["uid"],
    }
    headers = {"Impersonate-User": "system:node:node", "Impersonate-Group": "system:nodes"}

    def ask(name: str, **fields: str) -> Answer:
        spec = {**POD_REQUEST, **uids, **fields}
        return api.post(POD_REQUESTS, {"metadata": {"name": name}, "spec": spec}, headers=headers)

    ask("of-node").ok()
    for name, (field, value, why) in NOT_OF_THE_NODE.items():
        refused = ask("refused", **{field: value})
        assert refused.status == 403, name
        assert why in refused.message, name
    assert ask("refused", podName="absent").status == 404
    label = {"metadata": {"labels": {"a": "b"}}}
    assert api.patch(f"{POD_REQUESTS}/of-node", label, headers=headers).status == 403
    everywhere = POD_REQUESTS.replace("/namespaces/default", "")
    assert api.get(everywhere, headers=headers).status == 403
    own = api.get(f"{everywhere}?fieldSelector=spec.nodeName=node", headers=headers).ok()["items"]
    assert "of-node" in [each["metadata"]["name"] for each in own]
    until_status(200, lambda: api.get(f"{POD_REQUESTS}/of-node", headers=headers), "the node is known")
    stranger = {**headers, "Impersonate-User": "system:node:other"}
    assert api.get(f"{POD_REQUESTS}/of-node", headers=stranger).status == 403
    assert api.get(BUNDLES, headers=headers).status == 200
