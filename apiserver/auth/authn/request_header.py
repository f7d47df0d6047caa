"""Authenticates by the headers of front proxies: API servers that forward requests and name the user (row
O02).

A front proxy is identified by its client certificate: a CA in `--requestheader-client-ca-file` has signed it,
and its common name is one of `--requestheader-allowed-names`, if there are any. The headers of other clients
are ignored. Source: k8s.io/apiserver, pkg/authentication/request/headerrequest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from apiserver.auth.authn.chain import Credentials, Headers, authenticated
from apiserver.auth.authn.impersonation import unescaped_key
from apiserver.meta.errors import Unauthorized
from apiserver.meta.vocabulary import UserInfo


class RequestHeaderNames(NamedTuple):
    """The names of the headers, in the order in which they are read.

    users, uids: the first that is not empty counts. groups: all count.
    extra_prefixes: those of the names of headers with extra attributes.
    """

    users: tuple[str, ...] = ("X-Remote-User",)
    uids: tuple[str, ...] = ("X-Remote-Uid",)
    groups: tuple[str, ...] = ("X-Remote-Group",)
    extra_prefixes: tuple[str, ...] = ("X-Remote-Extra-",)


STANDARD_NAMES: Final = RequestHeaderNames()


class RequestHeaderAuthenticator:
    """Authenticates by the headers of front proxies.

    allowed_names: common names of front proxies; any, if there are none. clock: seconds since 1970.
    """

    def __init__(
        self,
        names: RequestHeaderNames,
        allowed_names: tuple[str, ...],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._names = names
        self._prefixes = tuple(each.lower() for each in names.extra_prefixes)
        self._allowed = frozenset(allowed_names)

    def __call__(self, credentials: Credentials) -> UserInfo | None:
        """Returns the user that a front proxy names."""
        _, front_proxy, _, expires_at = credentials.certificate
        if front_proxy is None or (self._allowed and front_proxy not in self._allowed):
            return None
        if expires_at < self._clock():
            return None
        headers = credentials.headers
        name = _first(headers, self._names.users)
        if not name:
            return None
        values = (each for header in self._names.groups for each in headers.getall(header, ()))
        groups = [_utf8(each) for each in values if each]
        user = authenticated(name, groups, _first(headers, self._names.uids))
        return user._replace(extra=self._extra(headers))

    def _extra(self, headers: Headers) -> tuple[tuple[str, tuple[str, ...]], ...]:
        found: dict[str, list[str]] = {}
        for name, value in headers.items():
            lower = name.lower()
            prefix = next((each for each in self._prefixes if lower.startswith(each)), None)
            if prefix is not None:
                found.setdefault(_key(lower.removeprefix(prefix)), []).append(_utf8(value))
        return tuple((key, tuple(values)) for key, values in sorted(found.items()))


def _first(headers: Headers, names: tuple[str, ...]) -> str:
    found = (value for name in names for value in headers.getall(name, ())[:1])
    return _utf8(next(filter(None, found), ""))


def _key(encoded: str) -> str:
    return _decoded(unescaped_key(encoded.encode("utf-8", "surrogateescape")))


def _utf8(value: str) -> str:
    return _decoded(value.encode("utf-8", "surrogateescape"))


def _decoded(raw: bytes) -> str:
    # Replacing bytes that cannot be decoded could make two users one.
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise Unauthorized from None
