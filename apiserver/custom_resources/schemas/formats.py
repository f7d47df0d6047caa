"""The string formats that are checked; others are ignored.

Sources: k8s.io/apiextensions-apiserver, pkg/apiserver/validation/formats.go (the list of formats);
k8s.io/kube-openapi, pkg/validation/strfmt (their definitions, with all their oddities).
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from apiserver.golang.times import is_date, is_date_time
from apiserver.golang.urls import is_request_uri
from apiserver.meta.quantity import InvalidQuantity, parse_quantity

FormatCheck: TypeAlias = Callable[[str], object]

# In bytes, as the limit of host names is defined.
_HOSTNAME_MAX: Final = 255
_LABEL_MAX: Final = 63
_SHORT_NAME_MAX: Final = 63
_LONG_NAME_MAX: Final = 253


def format_of(kind: str, name: str) -> FormatCheck | None:
    """Returns the test for a format; None if the format is not checked.

    kind: the schema's type, or empty. name: with or without hyphens, as `date-time`.
    """
    return _FORMATS.get(name.replace("-", "")) if kind in ("", "string") else None


def is_recognised(kind: str, name: str) -> bool:
    """Returns whether the format applies to this type; otherwise it is ignored."""
    match kind:
        case "" | "string":
            return name.replace("-", "") in _FORMATS
        case "integer":
            return name in ("int32", "int64")
        case "number":
            return name in ("float", "double")
        case _:
            return False


def _pattern(pattern: str, flags: int = re.ASCII) -> FormatCheck:
    """Returns a pattern that is compiled on first use: all of them take 10 ms, and a server needs few."""
    full_match: FormatCheck | None = None

    def is_match(text: str) -> object:
        nonlocal full_match
        if full_match is None:
            full_match = re.compile(pattern, flags).fullmatch
        return full_match(text)

    return is_match


# ---- names and addresses

# Applied after other letters have become `a` and symbols `0`.
_is_host = _pattern(
    r"[a-zA-Z0-9](?:-?[a-zA-Z0-9]{0,62})|(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)+[a-zA-Z]{2,63}"
)


def _hostname(text: str) -> bool:
    if len(text) > _HOSTNAME_MAX:
        return False
    if not _is_host(text if text.isalnum() and text.isascii() else "".join(map(_host_character, text))):
        return False
    encoded = text.encode(errors="surrogatepass")
    return len(encoded) <= _HOSTNAME_MAX and all(len(label) <= _LABEL_MAX for label in encoded.split(b"."))


def _host_character(character: str) -> str:
    if character.isascii() and (character.isalnum() or character in "-."):
        return character
    match unicodedata.category(character)[0]:
        case "L":
            return "a"
        case "S":
            return "0"
        case _:
            return "!"


_leading_zeros = re.compile(r"(?<![0-9a-fA-F:])0+(?=[0-9])|(?<=:)0+(?=[0-9]+\.)").sub


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Returns whether a text is an address for old versions of Go, which allow leading zeros in IPv4."""
    if not text.isascii() or "%" in text or "/" in text:
        return None
    try:
        return ipaddress.ip_address(_leading_zeros("", text) if "." in text else text)
    except ValueError:
        return None


def _ipv4(text: str) -> bool:
    return "." in text and _ip(text) is not None


def _ipv6(text: str) -> bool:
    try:
        return "%" not in text and ipaddress.IPv6Address(text) is not None
    except ValueError:
        return False


_is_number = re.compile(r"[0-9]{1,6}", re.ASCII).fullmatch


def _cidr(text: str) -> bool:
    address, _, length = text.partition("/")
    ip = _ip(address)
    return ip is not None and _is_number(length) is not None and int(length) <= ip.max_prefixlen


_MAC: Final = "|".join(
    rf"{byte}(?:{separator}{byte}){{{count}}}"
    for byte, separator, counts in (
        ("[0-9a-fA-F]{2}", ":", (5, 7, 19)),
        ("[0-9a-fA-F]{2}", "-", (5, 7, 19)),
        ("[0-9a-fA-F]{4}", r"\.", (2, 3, 9)),
    )
    for count in counts
)

_ATOM: Final = r"[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~\u0080-\U0010ffff]++"
_DOT_ATOM: Final = rf"{_ATOM}(?:\.{_ATOM})*"
_QUOTED: Final = r'"(?:[^"\\\x00-\x08\x0a-\x1f\x7f]|\\[^\x00-\x08\x0a-\x1f\x7f])*"'
_ADDRESS: Final = rf"(?:{_DOT_ATOM}|{_QUOTED})@(?:{_DOT_ATOM}|\[[!-Z^-~]*\])"
_is_address = _pattern(_ADDRESS, re.UNICODE)
_is_phrase = _pattern(rf"(?:(?:{_ATOM}|{_QUOTED}|\.)[ \t]*+)*", re.UNICODE)


def _email(text: str) -> bool:
    text = text.strip(" \t")
    if text.endswith(">"):
        name, bracket, address = text[:-1].rpartition("<")
        return bool(bracket) and _is_address(address) is not None and _is_phrase(name.strip()) is not None
    return _is_address(text) is not None


# ---- ISBN, credit cards and colours

_not_digits = re.compile(r"[^0-9]+").sub
_blanks_and_hyphens = re.compile(r"[\t\n\f\r -]+").sub
_is_card = _pattern(
    r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11}"
)
_is_isbn10 = _pattern(r"[0-9]{9}[0-9X]")
_is_isbn13 = _pattern(r"[0-9]{13}")


def _creditcard(text: str) -> bool:
    digits = _not_digits("", text)
    if not _is_card(digits):
        return False
    numbers = [int(digit) for digit in reversed(digits)]
    return (sum(numbers[::2]) + sum(sum(divmod(2 * each, 10)) for each in numbers[1::2])) % 10 == 0


def _isbn10(text: str) -> bool:
    digits = _blanks_and_hyphens("", text)
    if not _is_isbn10(digits):
        return False
    numbers = [10 if digit == "X" else int(digit) for digit in digits]
    return sum(place * number for place, number in enumerate(numbers, 1)) % 11 == 0


def _isbn13(text: str) -> bool:
    digits = _blanks_and_hyphens("", text)
    return _is_isbn13(digits) is not None and sum(map(int, digits[::2] + digits[1::2] * 3)) % 10 == 0


_BYTE_OF_COLOUR: Final = r"\s*(?:0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*"
_HEX: Final = "[0-9a-fA-F]"


def _uuid(version: str, variant: str) -> FormatCheck:
    return _pattern(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?{version}{_HEX}{{3}}-?{variant}{_HEX}{{3}}-?{_HEX}{{12}}")


# ---- durations and quantities

_is_go_duration = _pattern(
    r"[+-]?(?:0|(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|[\u00b5\u03bc]s|ms|s|m|h))+)"
)
# Possessive, so that a long number is scanned only once.
_scala_parts = re.compile(r"(?<!\d)(\d++)\s*+([A-Za-z\u00b5]++)", re.ASCII).findall
_UNITS: Final = frozenset({"ns", "us", "\u00b5s", "ms", "s", "m", "h", "hr", "d", "w", "wk"})
_UNIT_STARTS: Final = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
_INT64_DIGITS: Final = 18  # so many always fit


def _duration(text: str) -> bool:
    """Returns whether a text is a duration in the syntax of Go or of Scala: `2 days 3 hours`."""
    if _is_go_duration(text):
        return True
    parts = _scala_parts(text)
    return all(len(number.lstrip("0")) <= _INT64_DIGITS for number, _ in parts) and any(
        unit.lower() in _UNITS or unit.lower().startswith(_UNIT_STARTS) for _, unit in parts
    )


def _quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except InvalidQuantity:
        return False
    return True


# ---- all of them

_SHORT_NAME: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_is_short_name = _pattern(_SHORT_NAME)
_is_long_name = _pattern(rf"{_SHORT_NAME}(?:\.{_SHORT_NAME})*")
_FORMATS: Final[Mapping[str, FormatCheck]] = {
    "bsonobjectid": _pattern(rf"{_HEX}{{24}}"),
    "uri": is_request_uri,
    "email": _email,
    "hostname": _hostname,
    "ipv4": _ipv4,
    "ipv6": _ipv6,
    "cidr": _cidr,
    "mac": _pattern(_MAC),
    "uuid": _uuid(_HEX, _HEX),
    "uuid3": _uuid("3", _HEX),
    "uuid4": _uuid("4", "[89abAB]"),
    "uuid5": _uuid("5", "[89abAB]"),
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "creditcard": _creditcard,
    "ssn": _pattern(r"[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}"),
    "hexcolor": _pattern(rf"#?(?:{_HEX}{{3}}|{_HEX}{{6}})"),
    "rgbcolor": _pattern(rf"rgb\({_BYTE_OF_COLOUR},{_BYTE_OF_COLOUR},{_BYTE_OF_COLOUR}\)"),
    "byte": _pattern(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "password": lambda text: True,
    "date": is_date,
    "duration": _duration,
    "datetime": is_date_time,
    "quantity": _quantity,
    "k8sshortname": lambda text: len(text) <= _SHORT_NAME_MAX and _is_short_name(text),
    "k8slongname": lambda text: len(text) <= _LONG_NAME_MAX and _is_long_name(text),
}
