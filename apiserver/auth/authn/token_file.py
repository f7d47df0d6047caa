"""Authenticates by bearer tokens from a file (`--token-auth-file`)."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from apiserver.auth.authn.chain import authenticated
from apiserver.meta.vocabulary import UserInfo

CACHED_HEADERS_MAX: Final = 1024


class TokenFileError(ValueError):
    """The file does not have the form `token,user,uid[,"group1,group2"]`, with a token per line."""


def read_token_file(path: Path) -> Mapping[bytes, UserInfo]:
    """Returns the users in a token file, by the digests of their tokens. Raises TokenFileError, OSError."""
    users: dict[bytes, UserInfo] = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for number, row in enumerate(csv.reader(file, skipinitialspace=True), 1):
                if not row or row[0].startswith("#"):
                    continue
                if len(row) < 3 or not row[0] or not row[1]:
                    # The line itself may hold a secret and is not shown.
                    raise TokenFileError(
                        f'{path}, line {number}: expected token,user,uid or token,user,uid,"group1,group2"'
                    )
                groups = [group.strip() for group in row[3].split(",")] if len(row) > 3 and row[3] else []
                users[_digest(row[0])] = authenticated(row[1], groups, row[2])
    except UnicodeDecodeError as error:
        raise TokenFileError(f"{path} is not UTF-8 at byte {error.start}") from None
    except csv.Error as error:
        raise TokenFileError(f"{path} is not a valid CSV file: {error}") from None
    return users


class TokenFileAuthenticator:
    """Looks tokens up by their digest, so that the duration reveals nothing about the token.

    known: returns the user of an Authorization header whose token was accepted before; None for all others.
    """

    def __init__(self, users: Mapping[bytes, UserInfo]) -> None:
        self._users = users
        # Headers that were accepted are remembered. Others are not: anybody can send any number of them, and
        # those of other schemes hold secrets that are not meant for this server.
        self._accepted: dict[str, UserInfo] = {}
        self.known: Callable[[str], UserInfo | None] = self._accepted.get

    def authenticate(self, authorization: str, token: str) -> UserInfo | None:
        """Returns the user of the token in a header; None if it is not in the file."""
        user = self.user_of(token)
        if user is not None and len(self._accepted) < CACHED_HEADERS_MAX:
            self._accepted[authorization] = user
        return user

    def user_of(self, token: str) -> UserInfo | None:
        return self._users.get(_digest(token)) if self._users else None


def bearer_token(authorization: str) -> str:
    """Returns the token in an Authorization header: `Bearer abc` -> `abc`; empty for another scheme.

    Text after a second space is ignored. Source: k8s.io/apiserver, pkg/authentication/request/bearertoken.
    """
    parts = authorization.strip().split(" ", 2)
    return parts[1] if len(parts) > 1 and parts[0].lower() == "bearer" else ""


def is_token_misplaced(authorization: str) -> bool:
    """Returns whether only a second space before the token prevents it from being found."""
    parts = authorization.strip().split(" ", 2)
    return len(parts) == 3 and not parts[1] and parts[0].lower() == "bearer"


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
