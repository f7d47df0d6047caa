"""The library of named formats of strings: `format.dns1123Label().validate(text)`.

Source: k8s.io/apiserver pkg/cel/library/format.go; k8s.io/kube-openapi pkg/validation/strfmt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias

from apiserver.cel import types
from apiserver.cel.costs import regex_cost
from apiserver.cel.declarations import Library, named_types
from apiserver.cel.functions import REGEX_FACTOR, STRING_FACTOR, Argument, CallEstimate, Overload, method
from apiserver.cel.types import STRING, Type
from apiserver.cel.values import NONE, OptionalValue
from apiserver.golang import urls
from apiserver.golang.times import is_date, is_date_time
from apiserver.meta import names

FORMAT: Final = types.opaque("kubernetes.NamedFormat")
FormatValidator: TypeAlias = Callable[[str], list[str]]
# The length of a format's pattern that estimates assume.
_PATTERN_LENGTH_MAX: Final = 128


@dataclass(frozen=True, slots=True)
class Format:
    """A named format. pattern_length: determines the cost of a check, even for a format without a pattern."""

    cel_type: ClassVar[Type] = FORMAT
    name: str
    pattern_length: int
    validate: FormatValidator


_UUID: Final = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.I | re.A)
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")


def _rule(is_valid: Callable[[str], object], complaint: str) -> FormatValidator:
    return lambda text: [] if is_valid(text) else [complaint]


def _uri(text: str) -> list[str]:
    try:
        urls.parse_request_uri(text)
    except urls.InvalidUrl as invalid:
        return [str(invalid)]
    return []


def _as_prefix(rule: FormatValidator) -> FormatValidator:
    """Returns the rule for prefixes of names, which may end with a dash."""

    def check(text: str) -> list[str]:
        return rule(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)

    return check


FORMATS: Final = {
    "dns1123Label": Format("DNS1123Label", 30, names.dns_label),
    "dns1123Subdomain": Format("DNS1123Subdomain", 60, names.dns_subdomain),
    "dns1035Label": Format("DNS1035Label", 30, names.dns1035_label),
    "qualifiedName": Format("QualifiedName", 60, names.qualified_name),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", 30, _as_prefix(names.dns_label)),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", 60, _as_prefix(names.dns_subdomain)),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", 30, _as_prefix(names.dns1035_label)),
    "labelValue": Format("LabelValue", 40, names.label_value),
    # Kubernetes takes the length of a pattern that it does not use, which is about as long.
    "uri": Format("URI", 1100, _uri),
    "uuid": Format("uuid", 72, _rule(_UUID.fullmatch, "does not match the UUID format")),
    "byte": Format("byte", 91, _rule(_BASE64.fullmatch, "invalid base64")),
    "date": Format("date", 77, _rule(is_date, "invalid date")),
    "datetime": Format("datetime", 77, _rule(is_date_time, "invalid datetime")),
}


def _named(name: str) -> OptionalValue:
    found = FORMATS.get(name)
    return NONE if found is None else OptionalValue(found)


def _validate(format_: Format, text: str) -> OptionalValue:
    problems = format_.validate(text)
    return OptionalValue(problems) if problems else NONE


def _call_cost(args: Sequence[Any], result: Any) -> int:
    return regex_cost(len(args[1]), args[0].pattern_length)


def _estimate(args: Sequence[Argument]) -> CallEstimate:
    return CallEstimate(args[1].size.scaled(STRING_FACTOR).scaled(_PATTERN_LENGTH_MAX * REGEX_FACTOR))


def _constant(format_: Format) -> Callable[[], Format]:
    return lambda: format_


FORMAT_LIBRARY: Final = Library(
    "format",
    {
        "validate": method(
            "format-validate",
            (FORMAT, STRING),
            types.optional_of(types.list_of(STRING)),
            _validate,
            _call_cost,
            _estimate,
        ),
        "format.named": (Overload("format-named", (STRING,), types.optional_of(FORMAT), _named),),
        **{
            f"format.{name}": (Overload(f"format.{name}", (), FORMAT, _constant(format_)),)
            for name, format_ in FORMATS.items()
        },
    },
    constants=named_types(FORMAT),
    since=(1, 31),
)
