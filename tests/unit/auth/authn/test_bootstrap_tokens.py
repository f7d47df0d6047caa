"""Who a bootstrap token makes its bearer, and which tokens are not valid."""

from __future__ import annotations

import base64
from typing import Any, Final

import pytest

from apiserver.auth.authn.bootstrap_tokens import BootstrapTokenAuthenticator
from apiserver.auth.authn.chain import Identity
from apiserver.meta.timestamps import to_text
from apiserver.meta.vocabulary import AUTHENTICATED, Document, UserInfo

NOW: Final = 1_700_000_000.0
TOKEN: Final = "abcdef.0123456789abcdef"
AUDIENCES: Final = ("https://a", "b")
DATA: Final = {
    "token-id": "abcdef",
    "token-secret": "0123456789abcdef",
    "usage-bootstrap-authentication": "true",
}


def secret(data: dict[str, str] | None = None, **more: Any) -> Document:
    encoded = {
        key: base64.b64encode(value.encode()).decode() for key, value in {**DATA, **(data or {})}.items()
    }
    return {
        "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"},
        "type": "bootstrap.kubernetes.io/token",
        "data": encoded,
        **more,
    }


async def identity(
    found: Document, token: str = TOKEN, audiences: tuple[str, ...] = AUDIENCES
) -> Identity | None:
    async def get(resource: str, namespace: str, name: str, is_fresh: bool) -> Document | None:
        assert (resource, namespace) == ("secrets", "kube-system")
        return found if name == found["metadata"]["name"] else None

    return await BootstrapTokenAuthenticator(get, AUDIENCES, lambda: NOW)(token, audiences)


VALID: Final = {
    "a user of its own": (secret(), ("system:bootstrappers",)),
    "more groups": (
        secret(
            {"auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token,system:bootstrappers:a"}
        ),
        ("system:bootstrappers", "system:bootstrappers:a", "system:bootstrappers:kubeadm:default-node-token"),
    ),
    "until it expires": (secret({"expiration": to_text(NOW + 1)}), ("system:bootstrappers",)),
}


@pytest.mark.parametrize(("found", "groups"), VALID.values(), ids=VALID)
async def test_a_token_makes_its_bearer_a_bootstrapper(found: Document, groups: tuple[str, ...]) -> None:
    user = UserInfo("system:bootstrap:abcdef", (*groups, AUTHENTICATED))
    assert await identity(found) == Identity(user, AUDIENCES)


async def test_it_is_meant_for_the_audiences_of_the_server() -> None:
    found = await identity(secret(), audiences=("b", "c"))
    assert found is not None
    assert found.audiences == ("b",)
    assert await identity(secret(), audiences=("c",)) is None


NOT_VALID: Final = {
    "another secret part": secret({"token-secret": "0123456789abcdee"}),
    "no secret part": secret({"token-secret": ""}),
    "another id": secret({"token-id": "abcdee"}),
    "another type": secret(type="Opaque"),
    "no data": secret(data=None) | {"data": None},
    "data that is damaged": secret() | {"data": {"token-secret": "*", "token-id": 7}},
    "it has expired": secret({"expiration": to_text(NOW)}),
    "its expiration is no time": secret({"expiration": "tomorrow"}),
    "it may not be used for that": secret({"usage-bootstrap-authentication": "false"}),
    "it is for signing only": secret(
        {"usage-bootstrap-authentication": "", "usage-bootstrap-signing": "true"}
    ),
    "a group of administrators": secret({"auth-extra-groups": "system:masters"}),
    "an empty group": secret({"auth-extra-groups": "system:bootstrappers:a,"}),
    "a group with a line feed": secret({"auth-extra-groups": "system:bootstrappers:a\n"}),
    "it is being deleted": secret(
        metadata={"name": "bootstrap-token-abcdef", "deletionTimestamp": to_text(NOW)}
    ),
    "it is not there": secret(metadata={"name": "bootstrap-token-other0"}),
}


@pytest.mark.parametrize("found", NOT_VALID.values(), ids=NOT_VALID)
async def test_a_token_that_is_not_valid_is_nobodys(found: Document) -> None:
    assert await identity(found) is None


@pytest.mark.parametrize(
    "token", ["", "abcdef", "abcdef.0123456789abcde", "ABCDEF.0123456789abcdef", f"{TOKEN}\n"]
)
async def test_other_tokens_are_not_looked_up(token: str) -> None:
    assert await identity(secret(), token) is None
