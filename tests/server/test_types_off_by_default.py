"""Types that no release serves by default, over HTTP: with their gates, and their versions switched on.

Their rules are told in `tests/unit/catalogue`. Rows H01, H02, H09, S03.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import pytest
from cryptography import x509

from apiserver.cli.config import TYPE_GATES
from tests.support.api import Api
from tests.support.certificates import certificate
from tests.support.eventually import until
from tests.support.server_process import ServerProcess

TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
CA: Final = certificate("ca", x509.BasicConstraints(ca=True, path_length=None))
CERTIFICATES: Final = "/apis/certificates.k8s.io"
BUNDLES: Final = f"{CERTIFICATES}/v1beta1/clustertrustbundles"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    flags = (
        "--runtime-config=api/all=true",
        f"--feature-gates={','.join(f'{gate}=true' for gate in sorted(TYPE_GATES))}",
        "--controllers=*",
    )
    with ServerProcess(tmp_path_factory.mktemp("types"), *flags) as server:
        yield server


@pytest.fixture(scope="module")
def api(server: ServerProcess) -> Iterator[Api]:
    with closing(Api(server)) as api:
        yield api


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
}


@pytest.mark.parametrize(("path", "spec"), OBJECTS.values(), ids=OBJECTS)
def test_objects_are_kept_and_shown(api: Api, path: str, spec: dict[str, Any]) -> None:
    name = "apps.tests"
    created = api.post(path, {"metadata": {"name": name}, "spec": spec}).ok()
    assert created["spec"].items() >= spec.items()
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


def test_who_attests_for_a_signer_must_be_allowed_to(server: ServerProcess, api: Api) -> None:
    """The plugin ClusterTrustBundleAttest."""
    roles, bindings = (
        f"/apis/rbac.authorization.k8s.io/v1/{kind}" for kind in ("clusterroles", "clusterrolebindings")
    )
    group, user = "certificates.k8s.io", "attester"
    rules = [{"apiGroups": [group], "resources": ["clustertrustbundles"], "verbs": ["*"]}]
    api.post(roles, {"metadata": {"name": user}, "rules": rules}).ok()
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user}
    subjects = [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}]
    api.post(bindings, {"metadata": {"name": user}, "roleRef": role, "subjects": subjects}).ok()
    headers = {"Impersonate-User": user}
    bundle = {
        "metadata": {"name": "example.com:signer:a"},
        "spec": {"signerName": "example.com/signer", "trustBundle": CA},
    }
    refused = api.post(BUNDLES, bundle, headers=headers)
    assert refused.status == 403
    assert 'user not permitted to attest for signerName "example.com/signer"' in refused.message
    attest = {
        "apiGroups": [group],
        "resources": ["signers"],
        "resourceNames": ["example.com/*"],
        "verbs": ["attest"],
    }
    api.patch(f"{roles}/{user}", {"rules": [*rules, attest]}).ok()
    assert api.post(BUNDLES, bundle, headers=headers).status == 201
