"""The flags about service account tokens, and the files that they name."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from apiserver.app.serving import pki
from apiserver.app.serving.listening import CannotStart
from apiserver.app.serving.service_account_tokens import (
    ServiceAccountTokens,
    read_token_keys,
    service_account_tokens,
)
from apiserver.auth.authn.service_account import Claims, Reference
from apiserver.cli.argument_parser import UsageError
from apiserver.cli.command_line import parse
from apiserver.cli.config import Config
from apiserver.meta.vocabulary import Document

NOW: Final = 1_700_000_000.0


async def find(resource: str, namespace: str, name: str, is_fresh: bool) -> Document | None:
    return {"metadata": {"name": name, "uid": "u"}}


def accounts(directory: Path, *flags: str) -> ServiceAccountTokens:
    """As a server on a directory of its own has them."""
    config = parse(flags)
    keys = read_token_keys(config, pki.ensure(directory, ()))
    return service_account_tokens(config, keys, find, lambda: NOW)


def token_of(issuing: ServiceAccountTokens) -> str:
    claims = Claims("ns", Reference("a", "u"), issuing.audiences, int(NOW) + 600, int(NOW), "id")
    return issuing.issuer.issue(claims, now=int(NOW))


async def believes(asked: ServiceAccountTokens, token: str) -> bool:
    claims = asked.authenticator.claims(token)
    return (
        claims is not None and (await asked.authenticator.user(claims)).name == "system:serviceaccount:ns:a"
    )


def test_what_holds_without_flags() -> None:
    config = Config()
    assert parse([]) == config
    assert config.authentication.service_account_issuer == ("https://kubernetes.default.svc",)
    assert config.authentication.service_account_max_token_expiration_s == 0


def test_flags_may_be_given_more_than_once() -> None:
    config = parse(["--service-account-issuer=https://a", "--service-account-issuer=https://b"])
    assert config.authentication.service_account_issuer == ("https://a", "https://b")
    assert parse(["--api-audiences=a, b"]).authentication.api_audiences == ("a", "b")


BAD_FLAGS: Final = {
    "no issuer": "--service-account-issuer=",
    "a life too short for most tokens": "--service-account-max-token-expiration=10m",
    "a key file that is not there": "--service-account-key-file=/none",
    "a signing key file that is not there": "--service-account-signing-key-file=/none",
}


@pytest.mark.parametrize("flag", BAD_FLAGS.values(), ids=BAD_FLAGS)
def test_flags_that_cannot_be_meant(flag: str) -> None:
    with pytest.raises(UsageError, match=flag.partition("=")[0]):
        parse([flag])


async def test_replicas_believe_each_others_tokens_if_they_have_the_keys(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    issuing = accounts(one)
    assert await believes(issuing, token_of(issuing))
    assert not await believes(accounts(other), token_of(issuing))
    for key in (one / "sa.pub", one / "sa.key"):
        assert await believes(accounts(other, f"--service-account-key-file={key}"), token_of(issuing))
    signing = accounts(other, f"--service-account-signing-key-file={one / 'sa.key'}")
    assert await believes(issuing, token_of(signing))


async def test_a_certificate_has_a_key_that_verifies(tmp_path: Path) -> None:
    """As envtest gives it. A file may hold several, of both forms."""
    one, other, both = tmp_path / "one", tmp_path / "other", tmp_path / "both.pem"
    pki.ensure(one, ())
    issuing = accounts(one, f"--service-account-signing-key-file={one / 'ca.key'}")
    both.write_bytes((one / "sa.pub").read_bytes() + (one / "ca.crt").read_bytes())
    assert await believes(accounts(other, f"--service-account-key-file={both}"), token_of(issuing))


async def test_a_new_issuer_does_not_end_the_tokens_of_the_old_one(tmp_path: Path) -> None:
    old = accounts(tmp_path, "--service-account-issuer=https://old")
    assert old.audiences == ("https://old",)
    flags = ("--service-account-issuer=https://new", "--service-account-issuer=https://old")
    assert await believes(accounts(tmp_path, *flags), token_of(old))
    assert not await believes(accounts(tmp_path, "--service-account-issuer=https://new"), token_of(old))


def test_a_file_that_holds_no_key_is_told_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("no key")
    for flag in ("--service-account-key-file", "--service-account-signing-key-file"):
        with pytest.raises(CannotStart, match=str(file)):
            accounts(tmp_path / "pki", f"{flag}={file}")
