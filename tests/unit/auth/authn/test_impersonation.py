"""Whom the `Impersonate-*` headers name. Row O08."""

from __future__ import annotations

import re
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.auth.authn.impersonation import impersonated, service_account_of, wanted_user
from apiserver.endpoints.impersonation import is_impersonating
from apiserver.golang.quoting import go_quote
from apiserver.meta.errors import BadRequest
from apiserver.meta.field_errors import VALUE_LENGTH_MAX
from apiserver.meta.vocabulary import UserInfo

Headers = list[tuple[bytes, bytes]]


def headers(*lines: str) -> Headers:
    """As `Impersonate-User: jane`."""
    pairs = (line.partition(":") for line in lines)
    return [(name.encode(), value.encode().removeprefix(b" ")) for name, _, value in pairs]


ORDINARY: Final = headers(
    *("Host: server:6443", "User-Agent: kubectl", "Accept-Encoding: gzip", "If-None-Match: x", "I: x"),
    *("Impersonator-User: x", "Authorization: Bearer x", "X-Impersonate-User: x", "Impersonate: jane"),
)

# k8s.io/apiserver, pkg/endpoints/filters/impersonation.go
NAMED: Final[dict[str, tuple[Headers, UserInfo | None]]] = {
    "nobody": (ORDINARY, None),
    "a user": (headers("Impersonate-User: jane"), UserInfo("jane")),
    "among other headers": ([*ORDINARY, *headers("Impersonate-User: jane")], UserInfo("jane")),
    "in any case": (headers("iMPERSONATE-uSER: Jane", "impersonate-group: G"), UserInfo("Jane", ("G",))),
    "everything, in the order given": (
        headers(
            *("Impersonate-Group: g2", "Impersonate-Extra-Scopes: b", "Impersonate-User: jane"),
            *("Impersonate-Group: g1", "Impersonate-Extra-scopes: a", "Impersonate-Uid: u-1"),
        ),
        UserInfo("jane", ("g2", "g1"), "u-1", (("scopes", ("b", "a")),)),
    ),
    "keys are in order, decoded, and in lower case": (
        headers(
            *("Impersonate-User: jane", "Impersonate-Extra-Z: 1", "Impersonate-Extra-Acme.com%2fProject: 2"),
            "Impersonate-Extra-%E1%9B%84: 3",
        ),
        UserInfo("jane", (), "", (("acme.com/project", ("2",)), ("z", ("1",)), ("ᛄ", ("3",)))),
    ),
    "a key is made small, then decoded": (
        headers("Impersonate-User: jane", "Impersonate-Extra-%41: 1"),
        UserInfo("jane", (), "", (("A", ("1",)),)),
    ),
    "what is no encoding stands for itself": (
        headers("Impersonate-User: jane", "Impersonate-Extra-a%zz%41: 1", "Impersonate-Extra-50%: 2"),
        UserInfo("jane", (), "", (("50%", ("2",)), ("a%zz%41", ("1",)))),
    ),
    "plus is no space": (
        headers("Impersonate-User: jane", "Impersonate-Extra-a+b: c+d"),
        UserInfo("jane", (), "", (("a+b", ("c+d",)),)),
    ),
    "a key may be empty": (
        headers("Impersonate-User: jane", "Impersonate-Extra-: 1"),
        UserInfo("jane", (), "", (("", ("1",)),)),
    ),
    "the first user and the first uid count": (
        headers("Impersonate-User: a", "Impersonate-Uid: 1", "Impersonate-User: b", "Impersonate-Uid: 2"),
        UserInfo("a", (), "1"),
    ),
    "the first user is nobody": (headers("Impersonate-User: ", "Impersonate-User: jane"), None),
    "an empty group is a group": (
        headers("Impersonate-User: jane", "Impersonate-Group:"),
        UserInfo("jane", ("",)),
    ),
    "a comma separates nothing": (
        headers("Impersonate-User: a, b", "Impersonate-Group: c,d"),
        UserInfo("a, b", ("c,d",)),
    ),
    "space around values does not count": (headers("Impersonate-User: \t jane doe \t"), UserInfo("jane doe")),
    "names in any writing": (headers("Impersonate-User: jürgen 漢"), UserInfo("jürgen 漢")),
    "other headers of that prefix mean nothing": (
        headers("Impersonate-Foo: x", "Impersonate-Extra: y"),
        None,
    ),
    "the name of an account is kept": (
        headers("Impersonate-User: system:serviceaccount:ns:a"),
        UserInfo("system:serviceaccount:ns:a"),
    ),
}


@pytest.mark.parametrize(("sent", "wanted"), NAMED.values(), ids=NAMED)
def test_whom_headers_name(sent: Headers, wanted: UserInfo | None) -> None:
    assert wanted_user(sent) == wanted
    assert is_impersonating(sent) or wanted is None


def test_ordinary_headers_are_not_looked_at() -> None:
    assert not is_impersonating(ORDINARY)
    assert not is_impersonating([])
    assert not is_impersonating([(b"", b"jane")])


# The first is recorded (auth/impersonation-forbidden), the others follow from Go's `%#v`.
WITHOUT_USER: Final = {
    "a group": (headers("Impersonate-Group: g"), '[]string{"g"}, Extra:map[string][]string(nil)', ""),
    "an empty user": (
        headers("Impersonate-User:", "Impersonate-Group: g"),
        '[]string{"g"}, Extra:map[string][]string(nil)',
        "",
    ),
    "groups": (
        headers("Impersonate-Group: g", 'Impersonate-Group: "h"\\', "Impersonate-Group: é\u200b"),
        r'[]string{"g", "\"h\"\\", "é\u200b"}, Extra:map[string][]string(nil)',
        "",
    ),
    "a uid": (headers("Impersonate-Uid: u"), "[]string(nil), Extra:map[string][]string(nil)", "u"),
    "extra, its keys in order": (
        headers("Impersonate-Extra-b: 2", "Impersonate-Extra-a: 1", "Impersonate-Extra-b: 3"),
        '[]string(nil), Extra:map[string][]string{"a":[]string{"1"}, "b":[]string{"2", "3"}}',
        "",
    ),
}


@pytest.mark.parametrize(("sent", "rest", "uid"), WITHOUT_USER.values(), ids=WITHOUT_USER)
def test_what_without_who_is_refused(sent: Headers, rest: str, uid: str) -> None:
    assert is_impersonating(sent)
    with pytest.raises(BadRequest) as refused:
        wanted_user(sent)
    user = f'&user.DefaultInfo{{Name:"", UID:"{uid}", Groups:{rest}}}'
    assert refused.value.message == f"requested {user} without impersonating a user name"


def test_little_is_shown_of_much() -> None:
    with pytest.raises(BadRequest, match=r"\.\.\. without impersonating a user name") as refused:
        wanted_user([(b"Impersonate-Group", b"g" * 60_000)] * 50)
    assert len(refused.value.message) < VALUE_LENGTH_MAX + 100


@pytest.mark.parametrize("name", [b"Impersonate-User", b"Impersonate-Group", b"Impersonate-Extra-a"])
def test_what_is_not_utf8_is_refused(name: bytes) -> None:
    with pytest.raises(BadRequest, match="not UTF-8"):
        wanted_user([(b"Impersonate-User", b"jane"), (name, b"j\xfcrgen")])


def test_a_key_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(BadRequest, match="not UTF-8"):
        wanted_user(headers("Impersonate-User: jane", "Impersonate-Extra-%ff: 1"))


ACCOUNT: Final = "system:serviceaccount:ns:a.b"
# Name and groups asked for, and the groups that come of it; the cases of impersonation_test.go.
GROUPS: Final[dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]]] = {
    "somebody has said who they are": ("jane", (), ("system:authenticated",)),
    "after the groups given": ("jane", ("g",), ("g", "system:authenticated")),
    "not twice": ("jane", ("system:authenticated", "g"), ("system:authenticated", "g")),
    "unless they have not": ("jane", ("g", "system:unauthenticated"), ("g", "system:unauthenticated")),
    "anonymous has not": ("system:anonymous", (), ("system:unauthenticated",)),
    "anonymous, with groups": ("system:anonymous", ("g",), ("g", "system:unauthenticated")),
    "anonymous, not twice": ("system:anonymous", ("system:unauthenticated",), ("system:unauthenticated",)),
    "an account": (
        ACCOUNT,
        (),
        ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"),
    ),
    "an account has the groups given instead": (ACCOUNT, ("g",), ("g", "system:authenticated")),
    "masters are not made of names": ("admin", (), ("system:authenticated",)),
}


@pytest.mark.parametrize(("name", "asked", "groups"), GROUPS.values(), ids=GROUPS)
def test_groups_that_come_with_a_user(name: str, asked: tuple[str, ...], groups: tuple[str, ...]) -> None:
    extra = (("a", ("b",)),)
    assert impersonated(UserInfo(name, asked, "u", extra)) == UserInfo(name, groups, "u", extra)


# k8s.io/apiserver, pkg/authentication/serviceaccount/util.go, SplitUsername
ACCOUNTS: Final[dict[str, tuple[str, str] | None]] = {
    "system:serviceaccount:ns:a": ("ns", "a"),
    "system:serviceaccount:ns:a.b": ("ns", "a.b"),
    "system:serviceaccount:ns": None,
    "system:serviceaccount:ns:": None,
    "system:serviceaccount::a": None,
    "system:serviceaccount:ns:a:b": None,
    "system:serviceaccount:n.s:a": None,
    "system:serviceaccount:NS:a": None,
    "system:serviceaccount:ns:a/b": None,
    "system:serviceaccounts:ns:a": None,
    "jane": None,
    "": None,
}


@pytest.mark.parametrize(("name", "account"), ACCOUNTS.items(), ids=ACCOUNTS)
def test_which_users_are_accounts(name: str, account: tuple[str, str] | None) -> None:
    assert service_account_of(name) == account


_names: Final = st.one_of(
    st.sampled_from([b"Impersonate-User", b"Impersonate-Uid", b"Impersonate-Group", b"Impersonate-Extra-"]),
    st.binary(max_size=12).map(lambda key: b"Impersonate-Extra-" + key),
    st.text("%0aFz", max_size=8).map(lambda key: b"impersonate-extra-" + key.encode()),
    st.binary(max_size=20),
)


@given(
    st.lists(
        st.tuples(_names, st.one_of(st.binary(max_size=9), st.text(max_size=9).map(str.encode))), max_size=6
    )
)
def test_any_headers_name_somebody_or_nobody_or_are_refused(sent: Headers) -> None:
    try:
        wanted = wanted_user(sent)
    except BadRequest as refused:
        assert is_impersonating(sent)
        refused.message.encode()  # It can be told.
        return
    if wanted is None:
        return
    assert is_impersonating(sent)
    assert wanted.name
    user = impersonated(wanted)
    assert user.groups[: len(wanted.groups)] == wanted.groups or not wanted.groups
    assert {"system:authenticated", "system:unauthenticated"} & set(user.groups)
    assert [key for key, _ in wanted.extra] == sorted({key for key, _ in wanted.extra})


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=12))
def test_any_key_can_be_sent(key: str) -> None:
    encoded = "".join(f"%{byte:02x}" for byte in key.encode())
    wanted = wanted_user(headers("Impersonate-User: jane", f"Impersonate-Extra-{encoded}: v"))
    assert wanted == UserInfo("jane", (), "", ((key, ("v",)),))


@given(st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), min_size=1, max_size=12))
def test_any_group_can_be_told(group: str) -> None:
    with pytest.raises(BadRequest, match=re.escape(f"Groups:[]string{{{go_quote(group)}}}")):
        wanted_user([(b"Impersonate-Group", group.encode())])
