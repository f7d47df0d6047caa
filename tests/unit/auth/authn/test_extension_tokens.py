"""The tokens of extensions: who has one, and which are refused."""

from __future__ import annotations

from typing import Final

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from apiserver.auth.authn.chain import Identity
from apiserver.auth.authn.extension_tokens import ExtensionTokens
from apiserver.auth.authn.service_account_keys import PrivateKey
from apiserver.meta.vocabulary import UserInfo

AUDIENCES: Final = ("https://a", "b")
KEY: Final = ec.generate_private_key(ec.SECP256R1())
TOKENS: Final = ExtensionTokens(KEY, AUDIENCES)
SHOP: Final = TOKENS.issue("shop")


@pytest.mark.parametrize("key", [KEY, rsa.generate_private_key(65537, 2048)], ids=["ECDSA", "RSA"])
async def test_servers_with_the_same_key_accept_the_same_tokens(key: PrivateKey) -> None:
    token = ExtensionTokens(key, AUDIENCES).issue("shop")
    groups = ("system:masters", "system:extensions", "system:authenticated")
    assert await ExtensionTokens(key, AUDIENCES)(token, ["b", "c"]) == Identity(
        UserInfo("system:extension:shop", groups), ("b",)
    )


REFUSED: Final = {
    "another key": ExtensionTokens(ec.generate_private_key(ec.SECP256R1()), AUDIENCES).issue("shop"),
    "another name": SHOP.replace("shop", "bank"),
    "a code that is cut": SHOP[:-1],
    "upper case": SHOP.upper(),
    "a name that is none": TOKENS.issue("system:admin"),
    "another kind of token": "abcdef.0123456789abcdef",
    "nothing": "",
}


@pytest.mark.parametrize("token", REFUSED.values(), ids=REFUSED)
async def test_other_tokens_are_left_to_others(token: str) -> None:
    assert await TOKENS(token, AUDIENCES) is None


async def test_tokens_are_for_this_server_only() -> None:
    assert await TOKENS(SHOP, ["c"]) is None
