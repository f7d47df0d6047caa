"""Sealed texts: who can open one, and when."""

from __future__ import annotations

import string
from typing import Final

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from apiserver.auth.authn.console_tokens import CertifiedUser, ConsoleTokens
from apiserver.auth.authn.sealed_texts import LEEWAY_S, TEXT_LENGTH_MAX, NotOpened, SealedTexts
from apiserver.auth.authn.service_account import TokenIssuer
from apiserver.auth.authn.service_account_keys import PrivateKey
from apiserver.meta.errors import Unauthorized
from apiserver.meta.vocabulary import UserInfo

KEY: Final = bytes(range(32))
NOW: Final = 1_700_000_000.0
ENDS: Final = NOW + 60


def at(now: float, kind: str = "thing", key: bytes = KEY) -> SealedTexts:
    return SealedTexts(key, kind, lambda: now)


TEXT: Final = at(NOW).seal({"a": "b"}, ENDS)


@pytest.mark.parametrize("now", [NOW - LEEWAY_S, NOW, ENDS - 1])
def test_a_text_can_be_opened_while_it_is_valid(now: float) -> None:
    document, expires_at = at(now).open(TEXT)
    assert (document["a"], expires_at) == ("b", ENDS)


REFUSED: Final = {
    "when it has expired": (at(ENDS), TEXT),
    "before it was sealed, after the clock went back": (at(NOW - LEEWAY_S - 1), TEXT),
    "with another key": (at(NOW, key=bytes(32)), TEXT),
    "as another kind, with the same key": (at(NOW, "other"), TEXT.replace("thing", "other")),
    "without the kind": (at(NOW), TEXT.partition(".")[2]),
    "as another kind": (at(NOW), TEXT.replace("thing", "other")),
    "if it is cut": (at(NOW), TEXT[:-4]),
    "if it is cut to the nonce": (at(NOW), TEXT[:22]),
    "if it is cut to nothing": (at(NOW), "thing."),
    "if a character is another": (at(NOW), TEXT[:-8] + ("A" if TEXT[-8] != "A" else "B") + TEXT[-7:]),
    "with padding": (at(NOW), TEXT + "="),
    "with a line feed": (at(NOW), TEXT + "\n"),
    "if it is empty": (at(NOW), ""),
    "if it is not ASCII": (at(NOW), "thing.äöü"),
    "if it is too long": (at(NOW), "thing." + "A" * TEXT_LENGTH_MAX),
}


@pytest.mark.parametrize(("texts", "text"), REFUSED.values(), ids=REFUSED)
def test_a_text_cannot_be_opened(texts: SealedTexts, text: str) -> None:
    with pytest.raises(NotOpened):
        texts.open(text)


@given(st.text(alphabet=string.ascii_letters + string.digits + "-_.=/+ \n"))
def test_no_other_text_is_one(text: str) -> None:
    with pytest.raises(NotOpened):
        at(NOW).open(f"thing.{text}")


def test_no_two_texts_of_one_document_are_equal() -> None:
    assert at(NOW).seal({}, ENDS) != at(NOW).seal({}, ENDS)


# ---- keys, and the tokens of sessions

USER: Final = CertifiedUser(
    UserInfo("carol", ("dev", "system:authenticated"), "7", (("a/b", ("c", "d")),)), "the CA"
)


def issuer(key: PrivateKey) -> TokenIssuer:
    return TokenIssuer(lambda: key, issuer="https://a", claim="kubernetes.io")


def tokens(of: TokenIssuer, now: float = NOW, trusted: str = "the CA") -> ConsoleTokens:
    return ConsoleTokens(of.derived_key, ("a", "b"), lambda authority: authority == trusted, lambda: now)


ISSUER: Final = issuer(ec.generate_private_key(ec.SECP256R1()))
OTHER: Final = issuer(rsa.generate_private_key(65537, 2048))
TOKEN: Final = tokens(ISSUER).issue(USER, ENDS)


def test_each_purpose_has_its_own_key() -> None:
    keys = {each.derived_key(purpose) for each in (ISSUER, OTHER) for purpose in ("a", "b")}
    assert len(keys) == 4
    assert {len(key) for key in keys} == {32}


async def test_a_token_has_the_whole_user_and_the_audiences_that_are_asked_for() -> None:
    found = await tokens(ISSUER)(TOKEN, ("b", "c"))
    assert found is not None
    assert (found.user, found.audiences) == (USER.user, ("b",))
    assert tokens(ISSUER).expires_at(TOKEN) == ENDS


OF_OTHERS: Final = {
    "another audience": (TOKEN, ("c",)),
    "another token": (TEXT, ("a",)),
    "no token": ("", ("a",)),
}


@pytest.mark.parametrize(("token", "audiences"), OF_OTHERS.values(), ids=OF_OTHERS)
async def test_other_tokens_are_left_to_others(token: str, audiences: tuple[str, ...]) -> None:
    assert await tokens(ISSUER)(token, audiences) is None


NOT_VALID: Final = {
    "at its end": tokens(ISSUER, ENDS),
    "with another key": tokens(OTHER),
}


@pytest.mark.parametrize("found", NOT_VALID.values(), ids=NOT_VALID)
async def test_a_token_that_is_not_valid_is_refused(found: ConsoleTokens) -> None:
    with pytest.raises(Unauthorized):
        await found(TOKEN, ("a",))
    assert found.expires_at(TOKEN) is None


async def test_a_token_of_a_ca_that_is_not_trusted_any_more_is_refused() -> None:
    with pytest.raises(Unauthorized):
        await tokens(ISSUER, trusted="another CA")(TOKEN, ("a",))
