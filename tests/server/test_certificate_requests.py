"""Who asks for a certificate gets one that logs in, once somebody may approve and does; and nobody gets more.

https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/
"""

from __future__ import annotations

import base64
import itertools
import json
import shutil
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.api import Api
from tests.support.eventually import until
from tests.support.fixtures import server_with
from tests.support.kubectl import Kubectl, each_version, program
from tests.support.rbac import bind, grant, rule
from tests.support.server_process import ServerProcess

PATH: Final = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CLIENT: Final = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT: Final = "kubernetes.io/kube-apiserver-client-kubelet"
CONTROLLERS: Final = (
    "namespace-controller,certificatesigningrequest-signing-controller,"
    "certificatesigningrequest-approving-controller,certificatesigningrequest-cleaner-controller"
)
_numbers: Final = itertools.count(1)


class Asked:
    """A request for a certificate, and its key. organizations: the groups that are asked for."""

    def __init__(self, common_name: str, *organizations: str, signer: str = CLIENT, **spec: Any) -> None:
        self.name = f"asked-{next(_numbers)}"
        self._key = ec.generate_private_key(ec.SECP256R1())
        names = [(NameOID.ORGANIZATION_NAME, each) for each in organizations]
        subject = [x509.NameAttribute(*each) for each in (*names, (NameOID.COMMON_NAME, common_name))]
        request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
        pem = request.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        self.document: dict[str, Any] = {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": self.name},
            "spec": {
                "request": base64.b64encode(pem).decode(),
                "signerName": signer,
                "usages": ["client auth", "digital signature"],
                **spec,
            },
        }

    @property
    def path(self) -> str:
        return f"{PATH}/{self.name}"

    def write(self, directory: Path, certificate: str) -> tuple[Path, Path]:
        """Write the certificate, as a status has it, and its key; returns where they are."""
        paths = directory / f"{self.name}.crt", directory / f"{self.name}.key"
        paths[0].write_bytes(base64.b64decode(certificate))
        pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        paths[1].write_bytes(self._key.private_bytes(pem, form, serialization.NoEncryption()))
        return paths


server = server_with(f"--controllers={CONTROLLERS}", "--cluster-signing-duration=2h")


def status_of(api: Api, asked: Asked) -> dict[str, Any]:
    found: dict[str, Any] = api.get(asked.path).ok().get("status") or {}
    return found


def conditions(api: Api, asked: Asked) -> dict[str, str]:
    """The reasons of the conditions, by type."""
    return {each["type"]: each.get("reason", "") for each in status_of(api, asked).get("conditions", ())}


def approve(api: Api, asked: Asked, headers: dict[str, str] | None = None) -> int:
    document = api.get(asked.path).ok()
    condition = {"type": "Approved", "status": "True", "reason": "Test", "message": "approved"}
    document["status"] = {"conditions": [condition]}
    return api.put(f"{asked.path}/approval", document, headers=headers).status


def certificate_of(api: Api, asked: Asked) -> str:
    """The certificate, once there is one."""
    found = until(lambda: status_of(api, asked), lambda status: bool(status.get("certificate")))
    return str(found["certificate"])


def validity_s(certificate: str) -> float:
    found = x509.load_pem_x509_certificate(base64.b64decode(certificate))
    return (found.not_valid_after_utc - found.not_valid_before_utc).total_seconds()


@pytest.mark.parametrize("version", each_version(-1))
def test_an_approved_certificate_logs_in(
    server: ServerProcess, api: Api, tmp_path: Path, version: str
) -> None:
    kubectl = Kubectl(program(version), server.kubeconfig, "default", tmp_path)
    asked = Asked("bob", "dev", "ops")
    kubectl("create", "-f", "-", stdin=json.dumps(asked.document))
    assert f"{asked.name} approved" in kubectl("certificate", "approve", asked.name)
    certificate, key = asked.write(tmp_path, certificate_of(api, asked))
    assert "Approved,Issued" in kubectl("get", "csr", asked.name)

    kubeconfig = tmp_path / "kubeconfig"
    shutil.copy(server.kubeconfig, kubeconfig)
    bob = Kubectl(kubectl.binary, kubeconfig, "default", tmp_path)
    files = f"--client-certificate={certificate}", f"--client-key={key}", "--embed-certs=true"
    bob("config", "set-credentials", "bob", *files)
    bob("config", "set-context", "--current", "--user=bob")
    user = bob.json("auth", "whoami")["status"]["userInfo"]
    assert user["username"] == "bob"
    assert set(user["groups"]) == {"dev", "ops", "system:authenticated"}
    assert "cannot list resource" in bob.run("get", "secrets").stderr


def test_a_request_that_is_denied_is_not_signed(api: Api, server: ServerProcess, tmp_path: Path) -> None:
    denied, approved = Asked("bob"), Asked("carol")
    for each in (denied, approved):
        api.post(PATH, each.document).ok()
    document = api.get(denied.path).ok()
    document["status"] = {"conditions": [{"type": "Denied", "status": "True", "reason": "Test"}]}
    api.put(f"{denied.path}/approval", document).ok()
    assert approve(api, denied) == 422, "what is denied stays so"
    assert approve(api, approved) == 200
    certificate_of(api, approved)  # The other was looked at before.
    assert conditions(api, denied) == {"Denied": "Test"}
    assert "certificate" not in status_of(api, denied)


DURATIONS: Final = {
    "as asked for": ({"expirationSeconds": 3_600}, 3_900.0),
    "not longer than --cluster-signing-duration": ({"expirationSeconds": 999_999}, 7_500.0),
    "without a wish": ({}, 7_500.0),
}


@pytest.mark.parametrize(("spec", "seconds"), DURATIONS.values(), ids=DURATIONS)
def test_how_long_it_is_valid(api: Api, spec: dict[str, Any], seconds: float) -> None:
    """It begins five minutes before it is signed."""
    asked = Asked("bob", **spec)
    api.post(PATH, asked.document).ok()
    approve(api, asked)
    assert validity_s(certificate_of(api, asked)) == seconds


def test_what_a_signer_does_not_sign_fails_and_says_why(api: Api) -> None:
    asked = Asked("bob", usages=["client auth", "server auth"])
    api.post(PATH, asked.document).ok()
    approve(api, asked)
    found = until(lambda: status_of(api, asked), lambda status: len(status["conditions"]) == 2)
    failed = found["conditions"][1]
    assert (failed["type"], failed["reason"]) == ("Failed", "SignerValidationFailure")
    assert failed["message"] == "invalid usage for client certificate: server auth"
    assert failed["lastUpdateTime"]
    assert "certificate" not in found


def as_user(name: str, *groups: str) -> dict[str, str]:
    return {"Impersonate-User": name} | ({"Impersonate-Group": groups[0]} if groups else {})


def test_kubelets_renew_their_own_certificates(api: Api) -> None:
    """And get none for other nodes, until somebody gives them the permission."""
    bind(api, "bootstrapper", "system:node-bootstrapper", "system:nodes", subject_kind="Group")
    role = "system:certificates.k8s.io:certificatesigningrequests"
    bind(api, "own", f"{role}:selfnodeclient", "system:nodes", subject_kind="Group")
    node = as_user("system:node:n1", "system:nodes")
    own, other = (
        Asked(f"system:node:{name}", "system:nodes", signer=KUBELET_CLIENT) for name in ("n1", "n2")
    )
    for each in (other, own):
        api.post(PATH, each.document, headers=node).ok()
    certificate_of(api, own)
    assert conditions(api, own) == {"Approved": "AutoApproved"}
    assert conditions(api, other) == {}
    bind(api, "all", f"{role}:nodeclient", "system:node:n1")
    certificate_of(api, other)
    assert conditions(api, other) == {"Approved": "AutoApproved"}


@pytest.fixture(scope="module")
def mallory(api: Api) -> dict[str, str]:
    """Somebody who may write all of requests, and has no say for any signer."""
    requests = " ".join(f"certificatesigningrequests{each}" for each in ("", "/approval", "/status"))
    return grant(api, "", "mallory", rule("*", requests, group="certificates.k8s.io"))


def test_nobody_asks_in_the_name_of_others(api: Api, mallory: dict[str, str]) -> None:
    forged = {"username": "system:node:n1", "groups": ["system:masters"], "uid": "1"}
    asked = Asked("system:node:n1", "system:nodes", signer=KUBELET_CLIENT, **forged)
    spec = api.post(PATH, asked.document, headers=mallory).ok()["spec"]
    assert spec["username"] == "mallory"
    assert "system:masters" not in spec["groups"]
    assert "uid" not in spec


@pytest.mark.parametrize("groups", [("system:masters",), ("dev", "system:masters")])
def test_nobody_becomes_a_master(api: Api, groups: tuple[str, ...]) -> None:
    answer = api.post(PATH, Asked("mallory", *groups).document)
    assert answer.status == 403
    assert "system:masters group is not allowed" in answer.message


def test_who_may_not_approve_does_not(api: Api, mallory: dict[str, str]) -> None:
    """The permission is one for the signer; that for the subresource is not enough."""
    asked = Asked("mallory", "dev")
    api.post(PATH, asked.document, headers=mallory).ok()
    assert approve(api, asked, mallory) == 403
    ca = (api.server.ca_path).read_bytes()
    document = api.get(asked.path).ok()
    approved = {"type": "Approved", "status": "True", "reason": "Test"}
    for code, status in (
        (403, {"certificate": base64.b64encode(ca).decode()}),
        (403, {"conditions": [{"type": "Failed", "status": "True"}]}),
        (422, {"conditions": [approved]}),
    ):
        answer = api.put(f"{asked.path}/status", {**document, "status": status}, headers=mallory)
        assert answer.status == code, status
    document["status"] = {"conditions": [approved]}
    api.put(asked.path, document, headers=mallory).ok()  # of which nothing of the status is taken
    assert conditions(api, asked) == {}
    patched = api.send(
        "PATCH",
        f"{asked.path}/approval",
        {"status": {"conditions": [approved]}},
        type="merge",
        headers=mallory,
    )
    assert patched.status == 403


def test_what_was_approved_cannot_be_changed_before_it_is_signed(api: Api) -> None:
    asked, other = Asked("bob"), Asked("system:kube-controller-manager")
    document = api.post(PATH, asked.document).ok()
    document["spec"]["request"] = other.document["spec"]["request"]
    document["spec"]["usages"] = ["client auth"]
    api.put(asked.path, document).ok()
    approve(api, asked)
    found = x509.load_pem_x509_certificate(base64.b64decode(certificate_of(api, asked)))
    assert found.subject.rfc4514_string() == "CN=bob"


# Row A15: whatever the rule of a kind is (requests may have any name), it is one segment of a path.
NAMES: Final = {
    "a/b": ["may not contain '/'"],
    "a%b": ["may not contain '%'"],
    "%/": ["may not contain '/'", "may not contain '%'"],
    ".": ["may not be '.'"],
    "..": ["may not be '..'"],
    "...": [],
    "A b_\N{LATIN SMALL LETTER E WITH ACUTE}": [],
}


@pytest.mark.parametrize(("name", "problems"), NAMES.items())
def test_names_are_segments_of_paths(api: Api, name: str, problems: list[str]) -> None:
    document = Asked("someone").document
    answer = api.post(f"{PATH}?dryRun=All", {**document, "metadata": {"name": name}})
    assert answer.status == (422 if problems else 201)
    if problems:
        told = [each["message"] for each in answer.json["details"]["causes"]]
        assert told == [f'Invalid value: "{name}": {each}' for each in problems]


def test_a_prefix_of_names_is_a_part_of_a_segment(api: Api) -> None:
    document = Asked("someone").document
    answer = api.post(PATH, {**document, "metadata": {"generateName": "a/"}})
    assert answer.causes == [
        ("FieldValueInvalid", "metadata.generateName"),
        ("FieldValueInvalid", "metadata.name"),
    ]
