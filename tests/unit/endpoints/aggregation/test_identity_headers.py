"""How an extension server is told who asks. Source: k8s.io/client-go, transport/round_trippers_test.go."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.endpoints.aggregation.identity_headers import NotAHeader, identity_headers
from apiserver.meta.vocabulary import UserInfo

USERS: Final = {
    "a name alone": (UserInfo("bob"), [("X-Remote-User", "bob")]),
    "all there is": (
        UserInfo("bob", ("dev", "ops"), "7", (("scopes", ("a", "b")),)),
        [
            ("X-Remote-User", "bob"),
            ("X-Remote-Uid", "7"),
            ("X-Remote-Group", "dev"),
            ("X-Remote-Group", "ops"),
            ("X-Remote-Extra-scopes", "a"),
            ("X-Remote-Extra-scopes", "b"),
        ],
    ),
    "keys that no header's name can hold": (
        UserInfo("bob", extra=(("example.com/a b%", ("c",)), ("ö", ("d",)))),
        [
            ("X-Remote-User", "bob"),
            ("X-Remote-Extra-example.com%2Fa%20b%25", "c"),
            ("X-Remote-Extra-%C3%B6", "d"),
        ],
    ),
}


@pytest.mark.parametrize(("user", "headers"), USERS.values(), ids=USERS)
def test_headers(user: UserInfo, headers: list[tuple[str, str]]) -> None:
    assert identity_headers(user) == headers


INJECTIONS: Final = {
    "a name": UserInfo("bob\r\nX-Remote-Group: system:masters"),
    "a group": UserInfo("bob", ("dev\nops",)),
    "extra": UserInfo("bob", extra=(("key", ("a\0",)),)),
}


@pytest.mark.parametrize("user", INJECTIONS.values(), ids=INJECTIONS)
def test_nothing_is_made_a_header_by_what_a_user_is_called(user: UserInfo) -> None:
    with pytest.raises(NotAHeader):
        identity_headers(user)
