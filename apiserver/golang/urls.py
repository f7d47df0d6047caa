"""URLs as Go reads them (package net/url): which are wrong, and why; and their parts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

from apiserver.golang.addresses import V6_BITS, InvalidAddress, parse_address
from apiserver.golang.quoting import go_quote

_SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_PORT: Final = re.compile(r"(?::[0-9]*)?")
_USER: Final = re.compile(r"[A-Za-z0-9._:~!$&'()*+,;=%@-]*")
# What need not be escaped in a path, though some of it is.
_VALID_RAW_PATH: Final = re.compile(r"[A-Za-z0-9._~$&+,/:;=@!'()*\[\]%-]*")
_SAFE_IN_PATH: Final = "$&+,/:;=@"
_SAFE_IN_USER: Final = "$&+,;="

_HEX: Final = b"[0-9a-fA-F]"
_HOST_CHARACTERS: Final = (
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~!$&'()*+,;=:[]<>\""
)
_NO_HOST_CHARACTER: Final = b"[^%%\x80-\xff%b]" % re.escape(_HOST_CHARACTERS)
# The first of what may not be there.
_INVALID_ESCAPE: Final = re.compile(b"%%(?!%b{2})" % _HEX)
# Only what is not ASCII may be escaped in a host; and `%25`, before a zone.
_INVALID_IN_HOST: Final = re.compile(b"%%(?!25|[89a-fA-F]%b)|%b" % (_HEX, _NO_HOST_CHARACTER))
_INVALID_IN_ZONE: Final = re.compile(
    b"%%(?!(?i:25|20|%b))|%b" % (b"|".join(b"%02x" % code for code in _HOST_CHARACTERS), _NO_HOST_CHARACTER)
)
# Most of those that are right, told at once: from the root, or with a scheme, perhaps a user, and a host.
_PLAIN: Final = re.compile(
    r"(?:(?=/)|[a-zA-Z][a-zA-Z0-9+.-]*+://(?:[A-Za-z0-9._:~!$&'()*+,;=-]*+@)?[A-Za-z0-9.-]*+(?::[0-9]*+)?(?=[/?]|\Z))"
    r"[^%\x00-\x1f\x7f]*+(?:%[0-9a-fA-F]{2}[^%\x00-\x1f\x7f]*+)*+"
)


class InvalidUrl(Exception):
    """The message is Go's."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True, slots=True)
class Url:
    """user: escaped as Go does it. path: unescaped, as bytes.

    raw_path: as written, where escaping the path would give another one.
    """

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
        if self.raw_path and _VALID_RAW_PATH.fullmatch(self.raw_path):
            return self.raw_path
        return "*" if self.path == b"*" else quote_from_bytes(self.path, _SAFE_IN_PATH)

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
            except _Wrong:
                continue
            key, value = (text.decode("utf-8", "replace") for text in pair)
            found.setdefault(key, []).append(value)
        return found


class _Wrong(Exception):
    """The message is Go's, without the URL."""


def parse_request_uri(text: str) -> Url:
    """A URL that has a scheme or is a path from the root; `#` is nothing special. Raises InvalidUrl."""
    try:
        return _parse(text, of_request=True)
    except _Wrong as wrong:
        raise _invalid(text, wrong) from None


def is_request_uri(text: str) -> bool:
    """Whether parse_request_uri takes it."""
    if _PLAIN.fullmatch(text):
        return True
    try:
        _parse(text, of_request=True)
    except _Wrong:
        return False
    return True


def parse(text: str) -> Url:
    """Raises InvalidUrl."""
    before, _, fragment = text.partition("#")
    try:
        url = _parse(before, of_request=False)
    except _Wrong as wrong:
        raise _invalid(before, wrong) from None
    try:
        return replace(url, fragment=_unescaped(fragment)) if fragment else url
    except _Wrong as wrong:
        raise _invalid(text, wrong) from None


def _invalid(text: str, wrong: _Wrong) -> InvalidUrl:
    return InvalidUrl(f"parse {go_quote(text)}: {wrong}")


def _parse(text: str, *, of_request: bool) -> Url:
    if _CONTROL.search(text):
        raise _Wrong("net/url: invalid control character in URL")
    if not text and of_request:
        raise _Wrong("empty url")
    if text == "*":
        return Url(path=b"*")
    if text.startswith(":"):
        raise _Wrong("missing protocol scheme")
    found = _SCHEME.match(text)
    scheme = found[1].lower() if found else ""
    rest = text[found.end() :] if found else text
    rest, mark, query = rest.partition("?")
    has_empty_query = bool(mark) and not query
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme, rest, query=query, has_empty_query=has_empty_query)
        if of_request:
            raise _Wrong("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise _Wrong("first path segment in URL cannot contain colon")
    user, host = None, ""
    if rest.startswith("//") and (scheme or (not of_request and not rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        user, host = _authority(authority)
        rest = slash + path
    path_bytes = _unescaped(rest)
    raw_path = "" if quote_from_bytes(path_bytes, _SAFE_IN_PATH) == rest else rest
    return Url(scheme, "", user, host, path_bytes, raw_path, query, has_empty_query)


def _authority(text: str) -> tuple[str | None, str]:
    user, at, host = text.rpartition("@")
    host = _host(host)
    if not at:
        return None, host
    if not _USER.fullmatch(user):
        raise _Wrong("net/url: invalid userinfo")
    name, colon, password = (
        quote_from_bytes(_unescaped(part), _SAFE_IN_USER) for part in user.partition(":")
    )
    return f"{name}{':' if colon else ''}{password}", host


def _host(text: str) -> str:
    start = text.rfind("[")
    if start < 0:
        colon = text.rfind(":")
        if colon >= 0:
            _check_port(text[colon:])
        return _unescaped(text, _INVALID_IN_HOST).decode("utf-8", "replace")
    end = text.rfind("]")
    if end < 0:
        raise _Wrong("missing ']' in host")
    port = text[end + 1 :]
    _check_port(port)
    name, zone_mark, zone = text[start + 1 : end].partition("%25")
    unescaped = _unescaped(name, _INVALID_IN_HOST) + _unescaped(zone_mark + zone, _INVALID_IN_ZONE)
    literal = unescaped.decode("utf-8", "replace")
    try:
        address = parse_address(literal)
    except InvalidAddress as invalid:
        raise _Wrong(f"invalid host: {invalid.message}") from None
    if address.bits != V6_BITS:
        raise _Wrong("invalid IP-literal")
    return f"[{literal}]{port}"


def _check_port(text: str) -> None:
    if not _PORT.fullmatch(text):
        raise _Wrong(f"invalid port {go_quote(text)} after host")


def _unescaped(text: str, wrong: re.Pattern[bytes] = _INVALID_ESCAPE) -> bytes:
    encoded = text.encode("utf-8", "surrogatepass")
    if found := wrong.search(encoded):
        start = found.start()
        if found.group() != b"%":
            raise _Wrong(f"invalid character {go_quote(found.group().decode())} in host name")
        raise _Wrong(f"invalid URL escape {go_quote(encoded[start : start + 3].decode('utf-8', 'replace'))}")
    return unquote_to_bytes(encoded)
