"""URLs as Go reads them (package net/url): which are wrong, and why; and their parts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote_from_bytes

from apiserver.cel.library.network import address_error, is_ip_literal
from apiserver.cel.library.texts import quoted

_SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_PORT: Final = re.compile(r"(?::[0-9]*)?")
_USER: Final = re.compile(r"[A-Za-z0-9._:~!$&'()*+,;=%@-]*")
_ESCAPE: Final = re.compile(rb"%(?:([0-9a-fA-F]{2}))?")
_UNRESERVED: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~"
_IN_HOST: Final = frozenset(_UNRESERVED + b"!$&'()*+,;=:[]<>\"")
# What need not be escaped in a path, though some of it is.
_PATH_AS_WRITTEN: Final = re.compile(r"[A-Za-z0-9._~$&+,/:;=@!'()*\[\]%-]*")


class InvalidUrl(Exception):
    """The message is Go's, without the URL."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True, slots=True)
class Url:
    """path: unescaped, as bytes. raw_path: as written, where escaping the path would give another one."""

    scheme: str = ""
    opaque: str = ""
    user: str | None = None
    host: str = ""
    path: bytes = b""
    raw_path: str = ""
    query: str = ""
    has_empty_query: bool = False
    fragment: bytes = b""

    @property
    def hostname(self) -> str:
        return self._host_and_port()[0]

    @property
    def port(self) -> str:
        return self._host_and_port()[1]

    def _host_and_port(self) -> tuple[str, str]:
        host, colon, port = self.host.rpartition(":")
        if not colon or not _PORT.fullmatch(colon + port):
            host, port = self.host, ""
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        return host, port

    @property
    def escaped_path(self) -> str:
        if self.raw_path and _PATH_AS_WRITTEN.fullmatch(self.raw_path):
            return self.raw_path
        return "*" if self.path == b"*" else _escaped(self.path)

    @property
    def queries(self) -> Mapping[str, list[str]]:
        """Values by key; what is wrong is left out."""
        found: dict[str, list[str]] = {}
        for part in self.query.split("&"):
            if not part or ";" in part:
                continue
            key, _, value = part.partition("=")
            try:
                pair = [_unescaped(text.replace("+", " ")) for text in (key, value)]
            except InvalidUrl:
                continue
            key, value = (text.decode("utf-8", "replace") for text in pair)
            found.setdefault(key, []).append(value)
        return found


def parse_request_uri(text: str) -> Url:
    """A URL that has a scheme or is a path from the root; `#` is nothing special. Raises InvalidUrl."""
    return _parse(text, of_request=True)


def parse(text: str) -> Url:
    """Raises InvalidUrl."""
    before, _, fragment = text.partition("#")
    url = _parse(before, of_request=False)
    if not fragment:
        return url
    return replace(url, fragment=_unescaped(fragment))


def parse_error(text: str, invalid: InvalidUrl) -> str:
    """As Go prints it."""
    return f"parse {quoted(text)}: {invalid.message}"


def _parse(text: str, *, of_request: bool) -> Url:
    if _CONTROL.search(text):
        raise InvalidUrl("net/url: invalid control character in URL")
    if not text and of_request:
        raise InvalidUrl("empty url")
    if text == "*":
        return Url(path=b"*")
    if text.startswith(":"):
        raise InvalidUrl("missing protocol scheme")
    found = _SCHEME.match(text)
    scheme = found[1].lower() if found else ""
    rest = text[found.end() :] if found else text
    rest, mark, query = rest.partition("?")
    has_empty_query = bool(mark) and not query
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme, rest, query=query, has_empty_query=has_empty_query)
        if of_request:
            raise InvalidUrl("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise InvalidUrl("first path segment in URL cannot contain colon")
    user, host = None, ""
    if rest.startswith("//") and (scheme or (not of_request and not rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        user, host = _authority(authority)
        rest = slash + path
    path_bytes = _unescaped(rest)
    raw_path = "" if _escaped(path_bytes) == rest else rest
    return Url(scheme, "", user, host, path_bytes, raw_path, query, has_empty_query)


def _authority(text: str) -> tuple[str | None, str]:
    user, at, host = text.rpartition("@")
    host = _host(host)
    if not at:
        return None, host
    if not _USER.fullmatch(user):
        raise InvalidUrl("net/url: invalid userinfo")
    _unescaped(user)
    return user, host


def _host(text: str) -> str:
    start = text.rfind("[")
    if start < 0:
        colon = text.rfind(":")
        if colon >= 0:
            _check_port(text[colon:])
        return _unescaped_host(text)
    end = text.rfind("]")
    if end < 0:
        raise InvalidUrl("missing ']' in host")
    port = text[end + 1 :]
    _check_port(port)
    name, zone_mark, zone = text[start + 1 : end].partition("%25")
    literal = _unescaped_host(name) + _unescaped_zone(zone_mark + zone)
    if problem := address_error(literal):
        raise InvalidUrl(f"invalid host: {problem}")
    if not is_ip_literal(literal):
        raise InvalidUrl("invalid IP-literal")
    return f"[{literal}]{port}"


def _check_port(text: str) -> None:
    if not _PORT.fullmatch(text):
        raise InvalidUrl(f"invalid port {quoted(text)} after host")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _unescaped(text: str) -> bytes:
    if "%" not in text:
        return _encoded(text)

    def byte(found: re.Match[bytes]) -> bytes:
        if found[1] is None:
            at = found.string[found.start() : found.start() + 3].decode("utf-8", "replace")
            raise InvalidUrl(f"invalid URL escape {quoted(at)}")
        return bytes.fromhex(found[1].decode())

    return _ESCAPE.sub(byte, _encoded(text))


def _unescaped_host(text: str) -> str:
    """Only what is not ASCII may be escaped there; and `%25`, before a zone."""
    for found in re.finditer("%([0-7]).?", text):
        escape = text[found.start() : found.start() + 3]
        if escape != "%25":
            raise InvalidUrl(f"invalid URL escape {quoted(escape)}")
    return _checked_host(text)


def _unescaped_zone(text: str) -> str:
    for found in re.finditer("%([0-9a-fA-F]{2})", text):
        code = int(found[1], 16)
        if found.group() != "%25" and code != 0x20 and code not in _IN_HOST:
            raise InvalidUrl(f"invalid URL escape {quoted(found.group())}")
    return _checked_host(text)


def _checked_host(text: str) -> str:
    unescaped = _unescaped(text)
    for character in text:
        if character != "%" and ord(character) < 0x80 and ord(character) not in _IN_HOST:
            raise InvalidUrl(f"invalid character {quoted(character)} in host name")
    return unescaped.decode("utf-8", "replace")


def _escaped(path: bytes) -> str:
    return quote_from_bytes(path, safe="$&+,/:;=@")
