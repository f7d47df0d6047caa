"""Parses URLs as Go's package net/url does, with its errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import quote_from_bytes, unquote_to_bytes

from apiserver.golang.addresses import V6_BITS, InvalidAddress, parse_address
from apiserver.golang.quoting import go_quote

_SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_PORT: Final = re.compile(r"(?::[0-9]*)?")
_USER: Final = re.compile(r"[A-Za-z0-9._:~!$&'()*+,;=%@-]*")
# A path that is valid as it is, though it may have unnecessary escapes.
_VALID_RAW_PATH: Final = re.compile(r"[A-Za-z0-9._~$&+,/:;=@!'()*\[\]%-]*")
_USER_INFO: Final = re.compile(r"//[^/?#\s\],]*@")
_SAFE_IN_PATH: Final = "$&+,/:;=@"
_SAFE_IN_USER: Final = "$&+,;="

_HEX: Final = b"[0-9a-fA-F]"
_HOST_CHARACTERS: Final = (
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~!$&'()*+,;=:[]<>\""
)
_NO_HOST_CHARACTER: Final = b"[^%%\x80-\xff%b]" % re.escape(_HOST_CHARACTERS)
# The first invalid byte sequence.
_INVALID_ESCAPE: Final = re.compile(b"%%(?!%b{2})" % _HEX)
# In a host only bytes that are not ASCII may be escaped, and `%25` before a zone.
_INVALID_IN_HOST: Final = re.compile(b"%%(?!25|[89a-fA-F]%b)|%b" % (_HEX, _NO_HOST_CHARACTER))
_INVALID_IN_ZONE: Final = re.compile(
    b"%%(?!(?i:25|20|%b))|%b" % (b"|".join(b"%02x" % code for code in _HOST_CHARACTERS), _NO_HOST_CHARACTER)
)
# Accepts most valid URLs at once: paths from the root, and URLs with a scheme, an optional user and a host.
_COMMON: Final = re.compile(
    r"(?:(?=/)|[a-zA-Z][a-zA-Z0-9+.-]*+://(?:[A-Za-z0-9._:~!$&'()*+,;=-]*+@)?[A-Za-z0-9.-]*+(?::[0-9]*+)?(?=[/?]|\Z))"
    r"[^%\x00-\x1f\x7f]*+(?:%[0-9a-fA-F]{2}[^%\x00-\x1f\x7f]*+)*"
)


class InvalidUrl(Exception):
    """A text that is not a valid URL. The message is Go's."""


class Url(NamedTuple):
    """A parsed URL.

    user: escaped as Go does it. path: unescaped.
    raw_path: the path in the text, if escaping `path` would give another one; else empty.
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
        """The values of the query by key, without invalid parts."""
        values: dict[str, list[str]] = {}
        for part in self.query.split("&"):
            if not part or ";" in part:
                continue
            key, _, value = part.partition("=")
            try:
                pair = [_unescaped(text.replace("+", " ")) for text in (key, value)]
            except _Invalid:
                continue
            key, value = (text.decode("utf-8", "replace") for text in pair)
            values.setdefault(key, []).append(value)
        return values


class _Invalid(Exception):
    """An invalid part of a URL. The message is Go's, without the URL."""


def parse_request_uri(text: str) -> Url:
    """Parse a URL with a scheme, or a path from the root; `#` has no special meaning. Raises InvalidUrl."""
    try:
        return _parse(text, of_request=True)
    except _Invalid as error:
        raise _invalid_url(text, error) from None


def is_request_uri(text: str) -> bool:
    """Returns whether parse_request_uri accepts the text."""
    if _COMMON.fullmatch(text):
        return True
    try:
        _parse(text, of_request=True)
    except _Invalid:
        return False
    return True


def parse(text: str) -> Url:
    """Parse a URL. Raises InvalidUrl."""
    before, _, fragment = text.partition("#")
    try:
        url = _parse(before, of_request=False)
    except _Invalid as error:
        raise _invalid_url(before, error) from None
    try:
        return url._replace(fragment=_unescaped(fragment)) if fragment else url
    except _Invalid as error:
        raise _invalid_url(text, error) from None


def _invalid_url(text: str, error: _Invalid) -> InvalidUrl:
    return InvalidUrl(f"parse {go_quote(text)}: {error}")


def _parse(text: str, *, of_request: bool) -> Url:
    if _CONTROL.search(text):
        raise _Invalid("net/url: invalid control character in URL")
    if not text and of_request:
        raise _Invalid("empty url")
    if text == "*":
        return Url(path=b"*")
    if text.startswith(":"):
        raise _Invalid("missing protocol scheme")
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match else ""
    rest = text[match.end() :] if match else text
    rest, mark, query = rest.partition("?")
    has_empty_query = bool(mark) and not query
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme, rest, query=query, has_empty_query=has_empty_query)
        if of_request:
            raise _Invalid("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise _Invalid("first path segment in URL cannot contain colon")
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
        raise _Invalid("net/url: invalid userinfo")
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
        raise _Invalid("missing ']' in host")
    port = text[end + 1 :]
    _check_port(port)
    name, zone_mark, zone = text[start + 1 : end].partition("%25")
    unescaped = _unescaped(name, _INVALID_IN_HOST) + _unescaped(zone_mark + zone, _INVALID_IN_ZONE)
    literal = unescaped.decode("utf-8", "replace")
    try:
        address = parse_address(literal)
    except InvalidAddress as invalid:
        raise _Invalid(f"invalid host: {invalid}") from None
    if address.bits != V6_BITS:
        raise _Invalid("invalid IP-literal")
    return f"[{literal}]{port}"


def _check_port(text: str) -> None:
    if not _PORT.fullmatch(text):
        raise _Invalid(f"invalid port {go_quote(text)} after host")


def _unescaped(text: str, invalid: re.Pattern[bytes] = _INVALID_ESCAPE) -> bytes:
    encoded = text.encode("utf-8", "surrogatepass")
    if match := invalid.search(encoded):
        start = match.start()
        if match.group() != b"%":
            raise _Invalid(f"invalid character {go_quote(match.group().decode())} in host name")
        raise _Invalid(
            f"invalid URL escape {go_quote(encoded[start : start + 3].decode('utf-8', 'replace'))}"
        )
    return unquote_to_bytes(encoded)


def redacted_urls(text: str) -> str:
    """Returns a text in whose URLs user names and passwords are replaced, as Kubernetes writes them."""
    return _USER_INFO.sub("//CLASSIFIED@", text)
