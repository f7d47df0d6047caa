"""Reads the `Impersonate-*` headers, which name the user whose permissions apply to a request (row O08).

`Impersonate-User` names the user; `Impersonate-Uid`, `Impersonate-Group` and `Impersonate-Extra-<key>`, the
last two any number of times, are its other attributes. If `-User` or `-Uid` is repeated, the first counts.
Keys are percent-encoded where a header name could not hold them, and in lower case; values are UTF-8.

Whether the caller may impersonate is decided elsewhere (`endpoints/impersonation_modes.py`). How many headers
there are and how long each may be is limited where they arrive (`endpoints/connection.py`, HEADERS_MAX and
HEADER_BYTES_MAX).

Source: k8s.io/apiserver, pkg/endpoints/filters/impersonation; the text for headers without a user is that of
1.36.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias
from urllib.parse import unquote_to_bytes

from apiserver.auth.authn.service_account import GROUP, USER_PREFIX
from apiserver.golang.quoting import go_quote
from apiserver.meta import names
from apiserver.meta.errors import BadRequest
from apiserver.meta.field_errors import truncated
from apiserver.meta.vocabulary import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, UserInfo

# Name and value, as they came.
Headers: TypeAlias = Iterable[tuple[bytes, bytes]]
_PREFIX: Final = b"impersonate-"
_USER: Final = b"impersonate-user"
_UID: Final = b"impersonate-uid"
_GROUP: Final = b"impersonate-group"
_EXTRA: Final = b"impersonate-extra-"
_NODE_PREFIX: Final = "system:node:"
_is_encoded = re.compile(rb"(?:[^%]|%[0-9A-Fa-f]{2})*").fullmatch


def wanted_user(headers: Headers) -> UserInfo | None:
    """Returns exactly the user in the headers, with the keys of extra sorted; None if there is none.

    Raises BadRequest if there are attributes without a user name.
    """
    users, uids, groups = [], [], []
    extra: dict[str, list[str]] = {}
    for raw_name, raw_value in headers:
        name = raw_name.lower()
        if not name.startswith(_PREFIX):
            continue
        value = _text(raw_value.strip(b" \t"))
        if name == _USER:
            users.append(value)
        elif name == _UID:
            uids.append(value)
        elif name == _GROUP:
            groups.append(value)
        elif name.startswith(_EXTRA):
            extra.setdefault(_text(unescaped_key(name.removeprefix(_EXTRA))), []).append(value)
    wanted = UserInfo(
        users[0] if users else "",
        tuple(groups),
        uids[0] if uids else "",
        tuple((key, tuple(values)) for key, values in sorted(extra.items())),
    )
    if wanted.name:
        return wanted
    if wanted.groups or wanted.uid or wanted.extra:
        raise BadRequest(f"requested {_shown(wanted)} without impersonating a user name")
    return None


def impersonated(wanted: UserInfo) -> UserInfo:
    """Returns the user with the groups that Kubernetes adds.

    A service account without groups gets those of service accounts; every user gets `system:authenticated`
    or, if it is the anonymous one, `system:unauthenticated`.
    """
    groups = wanted.groups
    account = service_account_of(wanted.name)
    if account is not None and not groups:
        namespace, _ = account
        groups = (GROUP, f"{GROUP}:{namespace}")
    everybody = UNAUTHENTICATED if wanted.name == ANONYMOUS else AUTHENTICATED
    if everybody not in groups and UNAUTHENTICATED not in groups:
        groups = (*groups, everybody)
    return wanted._replace(groups=groups)


def service_account_of(user_name: str) -> tuple[str, str] | None:
    """Returns the namespace and name of the service account with this user name; None for other users."""
    if not user_name.startswith(USER_PREFIX):
        return None
    namespace, _, name = user_name.removeprefix(USER_PREFIX).partition(":")
    # If a part is not valid, it is the name of an ordinary user.
    return None if names.dns_label(namespace) or names.dns_subdomain(name) else (namespace, name)


def node_of(user_name: str) -> str | None:
    """Returns the name of the node with this user name, whatever its groups; None for other users."""
    if not user_name.startswith(_NODE_PREFIX):
        return None
    name = user_name.removeprefix(_NODE_PREFIX)
    return None if names.dns_subdomain(name) else name


def unescaped_key(encoded: bytes) -> bytes:
    """Returns a key of extra from a header, unchanged if it is not percent-encoded."""
    return unquote_to_bytes(encoded) if _is_encoded(encoded) else encoded


def _text(raw: bytes) -> str:
    # Replacing bytes that cannot be decoded could make two users one.
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise BadRequest("the headers for impersonation are not UTF-8") from None


def _shown(user: UserInfo) -> str:
    """Returns the user as Go prints it."""
    groups, extra = "[]string(nil)", "map[string][]string(nil)"
    if user.groups:
        groups = _strings(user.groups)
    if user.extra:
        pairs = ", ".join(f"{go_quote(key)}:{_strings(values)}" for key, values in user.extra)
        extra = f"map[string][]string{{{pairs}}}"
    text = (
        f"&user.DefaultInfo{{Name:{go_quote(user.name)}, UID:{go_quote(user.uid)}, "
        f"Groups:{groups}, Extra:{extra}}}"
    )
    # Headers may fill megabytes, and every character may take ten when it is quoted.
    return truncated(text)


def _strings(values: Sequence[str]) -> str:
    return f"[]string{{{', '.join(map(go_quote, values))}}}"
