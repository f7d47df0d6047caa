"""Who may approve and sign requests for certificates: whoever may do it for the signer, or its domain."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from apiserver.admission.chain import AdmissionAttributes, Operation, Plugin
from apiserver.admission.plugins.certificates import CertificateApproval, CertificateSigning
from apiserver.auth.authz.attributes import NO_OPINION, Attributes, Decision, Verdict
from apiserver.auth.authz.chain import AuthorizationChain
from apiserver.load.offload import Offload
from apiserver.meta.brand import Brand
from apiserver.meta.errors import Forbidden
from apiserver.meta.vocabulary import GroupResource, GroupVersion, UserInfo
from apiserver.registry.served_resource import ServedResource
from apiserver.schema.structural import Schema, ValueKind

REQUESTS: Final = ServedResource(
    GroupVersion("certificates.k8s.io", "v1"),
    "certificatesigningrequests",
    "CertificateSigningRequest",
    is_namespaced=False,
    schema=lambda: Schema(ValueKind.ANY_OBJECT, "object"),
)


def allows(verb: str, signer: str) -> AuthorizationChain:
    """Whoever asks may do this, and nothing else."""

    def authorize(asked: Attributes) -> Verdict:
        wanted = (verb, "certificates.k8s.io", "*", "signers", signer)
        told = (asked.verb, asked.group, asked.version, asked.resource, asked.name)
        is_it = told == wanted and asked.is_resource
        return Verdict(Decision.ALLOW) if is_it else NO_OPINION

    return AuthorizationChain((authorize,))


def request(signer: str = "example.com/s", **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "r"}, "spec": {"signerName": signer}, "status": status}


def ask(plugin: Plugin, subresource: str, new: dict[str, Any], old: dict[str, Any]) -> None:
    attributes = AdmissionAttributes(
        Operation.UPDATE, REQUESTS, "", "r", UserInfo("alice"), Offload(), subresource
    )
    assert plugin.handles(REQUESTS.group_resource, subresource, Operation.UPDATE)
    asyncio.run(plugin.validate(attributes, new, old))


@pytest.mark.parametrize("signer", ["example.com/s", "example.com/*"])
def test_who_may(signer: str) -> None:
    ask(CertificateApproval(allows("approve", signer), Brand()), "approval", request(), request())
    ask(CertificateSigning(allows("sign", signer), Brand()), "status", request(certificate="x"), request())


def test_who_may_not() -> None:
    """What counts is the signer of the object that is there, not of the one that is sent."""
    approval = CertificateApproval(allows("approve", "example.com/mine"), Brand())
    with pytest.raises(Forbidden) as raised:
        ask(approval, "approval", request("example.com/mine"), request())
    assert raised.value.message == (
        'certificatesigningrequests.certificates.k8s.io "r" is forbidden: user not permitted to approve '
        'requests with signerName "example.com/s"'
    )
    signing = CertificateSigning(allows("approve", "example.com/s"), Brand())
    for status in ({"certificate": "x"}, {"conditions": [{"type": "Failed"}]}):
        with pytest.raises(Forbidden, match="user not permitted to sign requests with signerName"):
            ask(signing, "status", request(**status), request())


def test_a_status_that_signs_nothing() -> None:
    nobody = CertificateSigning(AuthorizationChain(()), Brand())
    ask(nobody, "status", request(certificate="x"), request(certificate="x"))


def test_other_writes_are_not_asked_about() -> None:
    approval = CertificateApproval(AuthorizationChain(()), Brand())
    assert not approval.handles(REQUESTS.group_resource, "", Operation.UPDATE)
    assert not approval.handles(REQUESTS.group_resource, "status", Operation.UPDATE)
    assert not approval.handles(GroupResource("", "pods"), "approval", Operation.UPDATE)
