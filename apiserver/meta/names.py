"""Rules for names, label keys and label values.

Each function takes a string and returns the problems with it, in the words of Kubernetes; an empty list means
that it is valid. Source: k8s.io/apimachinery, pkg/util/validation/validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import Final, TypeAlias

from apiserver.meta.text_caches import text_cache

NameRule: TypeAlias = Callable[[str], list[str]]

LABEL_MAX: Final = 63
SUBDOMAIN_MAX: Final = 253
# Room for the random suffix of a generated name: 63 - 5.
GENERATE_NAME_PREFIX_MAX: Final = 58
# Consonants and digits that are not easily confused, and form no words.
GENERATED_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
GENERATED_SUFFIX_LENGTH: Final = 5
# Objects have the same keys, values and references, so the results for the last ones are cached, unless these
# are longer than the longest valid one.
CACHED_MAX: Final = 2_048
_CACHED_LENGTH_MAX: Final = SUBDOMAIN_MAX + 1 + LABEL_MAX

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = rf"({_QUALIFIED})?"

_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_dns1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?").fullmatch
_is_qualified = re.compile(_QUALIFIED).fullmatch
_is_value = re.compile(_VALUE).fullmatch

_SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
    "must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    f"'{_SUBDOMAIN}')"
)
_LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    f"'{_LABEL}')"
)
_DNS1035_TEXT: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_NAME_PART_TEXT: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    f"'{_QUALIFIED}')"
)
_TOO_MANY_PARTS_TEXT: Final = (
    f"a valid label key {_NAME_PART_TEXT} with an optional DNS subdomain prefix and '/' "
    "(e.g. 'example.com/MyName')"
)
_VALUE_TEXT: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    f"for validation is '{_VALUE}')"
)


def dns_subdomain(name: str) -> list[str]:
    """Checks the rule for most names: dots allowed, up to 253 characters."""
    if len(name) <= SUBDOMAIN_MAX and _is_subdomain(name):
        return []
    return _too_long(name, SUBDOMAIN_MAX) + ([] if _is_subdomain(name) else [_SUBDOMAIN_TEXT])


def dns_label(name: str) -> list[str]:
    """Checks the rule for names that become part of a host name, as those of Namespaces and Services."""
    if len(name) <= LABEL_MAX and _is_label(name):
        return []
    problems = _too_long(name, LABEL_MAX)
    if not _is_label(name):
        problems.append("must not contain dots" if _is_subdomain(name) else _LABEL_TEXT)
    return problems


def dns1035_label(name: str) -> list[str]:
    """Checks a name as `dns_label` does, and that it starts with a letter."""
    return _too_long(name, LABEL_MAX) + ([] if _is_dns1035(name) else [_DNS1035_TEXT])


def _too_long(text: str, most: int, unit: str = "characters") -> list[str]:
    return [f"must be no more than {most} {unit}"] if byte_length(text) > most else []


def path_segment(name: str) -> list[str]:
    """Checks the rule for names that only have to be a segment of a URL path, as those of roles."""
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return path_segment_part(name)


def path_segment_part(part: str) -> list[str]:
    """Checks the rule for parts of such names."""
    if "/" not in part and "%" not in part:
        return []
    return [f"may not contain '{character}'" for character in "/%" if character in part]


def cached(rule: NameRule) -> NameRule:
    """Cache the results of a rule for the last CACHED_MAX strings."""
    cached_rule = text_cache(CACHED_MAX)(lambda name: tuple(rule(name)))

    def check(name: str) -> list[str]:
        return [*cached_rule(name)] if len(name) <= _CACHED_LENGTH_MAX else rule(name)

    return wraps(rule)(check)


@cached
def qualified_name(name: str) -> list[str]:
    """Checks the rule for keys of labels and annotations, and for finalizers: `example.com/name` or
    `name`.
    """
    prefix, slash, last = name.rpartition("/")
    problems = []
    if slash:
        if "/" in prefix:
            return [_TOO_MANY_PARTS_TEXT]
        if not prefix:
            problems.append("prefix part must be non-empty")
        else:
            problems += [f"prefix part {problem}" for problem in dns_subdomain(prefix)]
    if not last:
        problems.append("name part must be non-empty")
    elif byte_length(last) > LABEL_MAX:
        problems.append(f"name part must be no more than {LABEL_MAX} bytes")
    if not _is_qualified(last):
        problems.append(f"name part {_NAME_PART_TEXT}")
    return problems


@cached
def label_value(value: str) -> list[str]:
    return _too_long(value, LABEL_MAX, "bytes") + ([] if _is_value(value) else [_VALUE_TEXT])


_DATA_KEY: Final = r"[-._a-zA-Z0-9]+"
_is_data_key = re.compile(_DATA_KEY).fullmatch
_DATA_KEY_TEXT: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
    f"'KEY_NAME',  or 'key-name', regex used for validation is '{_DATA_KEY}')"
)


@cached
def config_map_key(key: str) -> list[str]:
    """Checks the rule for keys of ConfigMaps and Secrets, which can become names of files."""
    problems = _too_long(key, SUBDOMAIN_MAX)
    if not _is_data_key(key):
        problems.append(_DATA_KEY_TEXT)
    if key in (".", ".."):
        problems.append(f"must not be '{key}'")
    elif key.startswith(".."):
        problems.append("must not start with '..'")
    return problems


def byte_length(text: str) -> int:
    """Returns the length in bytes, which Go counts, although messages say characters.

    Half a surrogate pair counts as three.
    """
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
