"""Who asks: tokens from a file, client certificates, and the order in which proofs are looked at.

Rows O01, O02.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.authn import client_cert
from apiserver.authn.chain import (
    AuthenticationChain,
    Authenticator,
    Credentials,
    PeerCertificate,
    authenticated,
)
from apiserver.authn.token_file import (
    CACHED_HEADERS_MAX,
    TokenFileAuthenticator,
    TokenFileError,
    bearer_token,
    read_token_file,
)
from apiserver.errors import Unauthorized
from apiserver.vocabulary import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, UserInfo

ALICE: Final = UserInfo("alice", (AUTHENTICATED,), "1")
BOB: Final = UserInfo("bob", ("dev", AUTHENTICATED), "2")
NOBODY: Final = UserInfo(ANONYMOUS, (UNAUTHENTICATED,))


def shown(authorization: str = "", certificate_user: UserInfo | None = None) -> Credentials:
    return Credentials(PeerCertificate(certificate_user), authorization)


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens.csv"
    path.write_text('a-token,alice,1\nb-token,bob,2,"dev"\n')
    return path


@pytest.fixture
def tokens(token_file: Path) -> TokenFileAuthenticator:
    return TokenFileAuthenticator(read_token_file(token_file))


# ---- the file

# https://kubernetes.io/docs/reference/access-authn-authz/authentication/#static-token-file
LINES: Final[dict[str, tuple[str, UserInfo]]] = {
    "three columns": ("t,alice,1", UserInfo("alice", (AUTHENTICATED,), "1")),
    "a group": ("t,alice,1,dev", UserInfo("alice", ("dev", AUTHENTICATED), "1")),
    "several groups": (
        't,alice,1,"dev,ops, qa"',
        UserInfo("alice", ("dev", "ops", "qa", AUTHENTICATED), "1"),
    ),
    "no uid": ("t,alice,", UserInfo("alice", (AUTHENTICATED,), "")),
    "no groups": ('t,alice,1,""', UserInfo("alice", (AUTHENTICATED,), "1")),
    "blanks after commas": ('t, alice, 1, "dev,ops"', UserInfo("alice", ("dev", "ops", AUTHENTICATED), "1")),
    "a comment and an empty line before": ("# who\n\nt,alice,1", UserInfo("alice", (AUTHENTICATED,), "1")),
    "line ends of another system": ("t,alice,1\r\n", UserInfo("alice", (AUTHENTICATED,), "1")),
    "further columns": ("t,alice,1,dev,more", UserInfo("alice", ("dev", AUTHENTICATED), "1")),
    "letters beyond ASCII": ("t,älice,1", UserInfo("älice", (AUTHENTICATED,), "1")),
    "the last line of a token counts": ("t,bob,2\nt,alice,1", UserInfo("alice", (AUTHENTICATED,), "1")),
}


@pytest.mark.parametrize(("text", "user"), LINES.values(), ids=LINES)
def test_lines_of_a_token_file(tmp_path: Path, text: str, user: UserInfo) -> None:
    path = tmp_path / "tokens.csv"
    path.write_bytes(text.encode())
    assert TokenFileAuthenticator(read_token_file(path))(shown("Bearer t")) == user


BAD_LINES: Final = {
    "two columns": "s3cret,alice",
    "a token alone": "s3cret",
    "no user": "s3cret,,1",
    "no token": ",s3cret,1",
}


@pytest.mark.parametrize("text", BAD_LINES.values(), ids=BAD_LINES)
def test_a_bad_line_is_told_by_its_number_and_never_shown(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tokens.csv"
    path.write_text(f"t,alice,1\n{text}\n")
    with pytest.raises(TokenFileError, match=r"tokens\.csv, line 2: expected token,user,uid") as caught:
        read_token_file(path)
    assert "s3cret" not in str(caught.value)


def test_a_token_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_token_file(tmp_path / "none")


@pytest.mark.parametrize(
    "content", [b"t,\xff\xfe,1\n", b"t,alice,1," + b"x" * 200_000], ids=["no UTF-8", "no line ends"]
)
def test_a_token_file_that_is_none(tmp_path: Path, content: bytes) -> None:
    """Of its form, or TokenFileError: whoever starts the server gets one clear line."""
    path = tmp_path / "tokens.csv"
    path.write_bytes(content)
    with pytest.raises(TokenFileError):
        read_token_file(path)


def test_tokens_are_not_kept_in_memory_as_they_are(token_file: Path) -> None:
    assert "a-token" not in repr(read_token_file(token_file))


# ---- bearer tokens

HEADERS: Final = {
    "a token": ("Bearer abc", "abc"),
    "schemes have no case (RFC 9110, 11.1)": ("bEARER abc", "abc"),
    "blanks around it": ("  Bearer abc ", "abc"),
    "two spaces before it, which hide it": ("Bearer  abc", ""),
    "something after it, which does not count": ("Bearer abc def", "abc"),
    "no token": ("Bearer", ""),
    "a blank token": ("Bearer  ", ""),
    "another scheme": ("Basic abc", ""),
    "a scheme that begins alike": ("Bearers abc", ""),
    "nothing": ("", ""),
}


@pytest.mark.parametrize(("header", "token"), HEADERS.values(), ids=HEADERS)
def test_bearer_tokens(header: str, token: str) -> None:
    assert bearer_token(header) == token


def test_a_known_token_is_its_user(tokens: TokenFileAuthenticator) -> None:
    assert tokens(shown("Bearer a-token")) == ALICE
    assert tokens(shown("Bearer b-token")) == BOB
    assert tokens(shown("Bearer a-token")) == ALICE


@pytest.mark.parametrize("header", ["", "Basic YTpi", "Bearer", "nonsense"])
def test_no_bearer_token_is_somebody_elses_business(tokens: TokenFileAuthenticator, header: str) -> None:
    assert tokens(shown(header)) is None


@pytest.mark.parametrize("token", ["A-token", "a-token2", "a-toke", "alice", "a-token,alice", "\udcff"])
def test_an_unknown_token_is_refused_every_time(tokens: TokenFileAuthenticator, token: str) -> None:
    for _ in range(2):
        with pytest.raises(Unauthorized):
            tokens(shown(f"Bearer {token}"))


def test_many_headers_do_not_displace_the_truth(tokens: TokenFileAuthenticator) -> None:
    """More than are remembered, known and unknown ones."""
    for number in range(CACHED_HEADERS_MAX + 10):
        assert tokens(shown("Bearer a-token" + " " * number)) == ALICE
        with pytest.raises(Unauthorized):
            tokens(shown(f"Bearer {number}"))
    assert tokens(shown("Bearer b-token")) == BOB


# ---- client certificates


def subject(*pairs: tuple[str, str]) -> dict[str, Any]:
    """As `ssl` decodes certificates: a sequence of relative names, each a sequence of attributes."""
    return {"subject": tuple((pair,) for pair in pairs), "notAfter": "Jan  1 00:00:00 2030 GMT"}


# https://kubernetes.io/docs/reference/access-authn-authz/authentication/#x509-client-certificates
CERTIFICATES: Final[dict[str, tuple[dict[str, Any] | None, UserInfo | None]]] = {
    "the common name is the user": (
        subject(("commonName", "alice")),
        UserInfo("alice", (AUTHENTICATED,)),
    ),
    "organizations are the groups": (
        subject(("organizationName", "dev"), ("organizationName", "ops"), ("commonName", "alice")),
        UserInfo("alice", ("dev", "ops", AUTHENTICATED)),
    ),
    "several attributes in one relative name": (
        {"subject": ((("organizationName", "dev"), ("commonName", "alice")),)},
        UserInfo("alice", ("dev", AUTHENTICATED)),
    ),
    "other attributes say nothing": (
        subject(("organizationalUnitName", "x"), ("countryName", "NL"), ("commonName", "alice")),
        UserInfo("alice", (AUTHENTICATED,)),
    ),
    # As Go's crypto/x509/pkix, Name.FillFromRDNSequence, has it.
    "of several common names the last": (
        subject(("commonName", "alice"), ("commonName", "bob")),
        UserInfo("bob", (AUTHENTICATED,)),
    ),
    "without a common name nobody": (subject(("organizationName", "dev")), None),
    "without a subject nobody": ({"subject": ()}, None),
    "an empty one is nobody's": ({}, None),
    "none": (None, None),
}


@pytest.mark.parametrize(("certificate", "user"), CERTIFICATES.values(), ids=CERTIFICATES)
def test_users_of_certificates(certificate: dict[str, Any] | None, user: UserInfo | None) -> None:
    assert client_cert.user_of(certificate) == user


def test_an_empty_common_name_is_nobody() -> None:
    """Source: k8s.io/apiserver, pkg/authentication/request/x509, CommonNameUserConversion."""
    assert client_cert.user_of(subject(("organizationName", "system:masters"), ("commonName", ""))) is None


# ---- the chain


def test_whoever_has_shown_who_they_are_is_in_one_more_group_once() -> None:
    assert authenticated("a", ["x", AUTHENTICATED, "y"]).groups == ("x", "y", AUTHENTICATED)


def chain(*authenticators: Authenticator, allows_anonymous: bool = True) -> AuthenticationChain:
    return AuthenticationChain(authenticators, allows_anonymous=allows_anonymous)


async def test_the_first_who_knows_the_caller_wins(tokens: TokenFileAuthenticator) -> None:
    both = shown("Bearer b-token", certificate_user=ALICE)
    assert await chain(client_cert.authenticate, tokens)(both) == ALICE
    assert await chain(tokens, client_cert.authenticate)(both) == BOB


async def test_one_who_knows_nothing_passes_on(tokens: TokenFileAuthenticator) -> None:
    asked = chain(client_cert.authenticate, tokens)
    assert await asked(shown("Bearer a-token")) == ALICE
    assert await asked(shown(certificate_user=BOB)) == BOB


async def test_a_wrong_token_is_never_anonymous(tokens: TokenFileAuthenticator) -> None:
    with pytest.raises(Unauthorized):
        await chain(tokens)(shown("Bearer wrong"))


@pytest.mark.parametrize("header", ["", "Basic YTpi", "Bearer"])
async def test_who_shows_nothing_is_anonymous_if_that_is_allowed(
    tokens: TokenFileAuthenticator, header: str
) -> None:
    assert await chain(tokens)(shown(header)) == NOBODY
    with pytest.raises(Unauthorized):
        await chain(tokens, allows_anonymous=False)(shown(header))


async def test_no_way_of_authentication_at_all() -> None:
    assert await chain()(shown("Bearer x")) == NOBODY
