"""Defaults and checks that many kinds share.

Checks take the path of a value and the value, and return what is wrong. A document that is checked has passed
its schema: types are right, fields that Go shows when they are empty are there (`schema.compile`), others may
be absent.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from apiserver import field_errors
from apiserver.field_errors import FieldError, invalid, not_supported, required
from apiserver.meta import names, object_meta
from apiserver.meta.names import NameRule
from apiserver.meta.quantity import Quantity, parse_quantity
from apiserver.schema.compile import Default
from apiserver.vocabulary import Document

Errors: TypeAlias = list[FieldError]

IMMUTABLE: Final = "field is immutable"
CORE: Final = "io.k8s.api.core.v1."


# ---- defaults


_EMPTY: Final = (None, "")


def setting(**values: Any) -> Default:
    """A default that sets fields that are absent or empty texts. Values are scalars."""

    defaults = tuple(values.items())

    def complete(value: Document) -> None:
        for name, default in defaults:
            if name not in value or value[name] in _EMPTY:
                value[name] = default

    return complete


def in_turn(*defaults: Default) -> Default:
    """Several defaults of one definition."""

    def complete(value: Document) -> None:
        for default in defaults:
            default(value)

    return complete


# ---- reading documents


def at(document: Document, *steps: str) -> Any:
    """The value at a path, or None."""
    value: Any = document
    for step in steps:
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


# Of lists as they are commonly long.
_INDEXES: Final = tuple(f"[{index}]" for index in range(32))


def items(value: Document, field: str, path: str) -> Iterable[tuple[str, Any]]:
    """The items of a list, each with its path: `spec.ports[0]`."""
    found = value.get(field)
    if not found:
        return ()
    where = f"{path}.{field}" if path else field
    if len(found) <= len(_INDEXES):
        return zip(map(where.__add__, _INDEXES), found, strict=False)
    return ((f"{where}[{index}]", item) for index, item in enumerate(found))


def join(path: str, field: str) -> str:
    return f"{path}.{field}" if path else field


# ---- checks of scalars


def one_of(
    path: str, value: str | None, supported: Sequence[str], *, required_text: str | None = None
) -> Errors:
    """supported: in the order in which Kubernetes tells them.

    required_text: an empty value is not an unsupported but a missing one, with this text.
    """
    if not value and required_text is not None:
        return [required(path, required_text)]
    return [] if value in supported else [not_supported(path, value or "", supported)]


def named(path: str, value: str | None, rule: NameRule, *, is_required: bool = True) -> Errors:
    """A text that follows a rule for names."""
    if not value:
        return [required(path)] if is_required else []
    problems = rule(value)
    return [invalid(path, value, problem) for problem in problems] if problems else []


def non_negative(path: str, value: int | None) -> Errors:
    if value is not None and value < 0:
        return [invalid(path, value, "must be greater than or equal to 0")]
    return []


def positive(path: str, value: int | None) -> Errors:
    if value is not None and value <= 0:
        return [invalid(path, value, "must be greater than 0")]
    return []


def in_range(path: str, value: int | None, low: int, high: int) -> Errors:
    if value is not None and not low <= value <= high:
        return [invalid(path, value, f"must be between {low} and {high}, inclusive")]
    return []


PORT_MAX: Final = 65_535


def port_number(path: str, value: int | None) -> Errors:
    return in_range(path, value if value is not None else 0, 1, PORT_MAX)


_PORT_NAME_CHARACTERS: Final = re.compile(r"[-a-z0-9]+").fullmatch
_has_letter = re.compile("[a-z]").search


@names.cached
def port_name(name: str) -> list[str]:
    """A service name of IANA's: what is wrong with it. Source: validation.IsValidPortName."""
    problems = []
    if len(name) > 15:
        problems.append("must be no more than 15 characters")
    if not _PORT_NAME_CHARACTERS(name):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _has_letter(name):
        problems.append("must contain at least one letter (a-z)")
    if "--" in name:
        problems.append("must not contain consecutive hyphens")
    if name[:1] == "-" or name[-1:] == "-":
        problems.append("must not begin or end with a hyphen")
    return problems


def port_number_or_name(path: str, value: int | str | None) -> Errors:
    if isinstance(value, str):
        problems = port_name(value)
        return [invalid(path, value, problem) for problem in problems] if problems else []
    return port_number(path, value)


def ip_address(path: str, value: str | None) -> Errors:
    """IPv4 or IPv6, without a zone and without leading zeros."""
    try:
        if not value or "%" in value:
            raise ValueError
        ipaddress.ip_address(value)
    except ValueError:
        return [invalid(path, value or "", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")]
    return []


def cidr(path: str, value: str | None) -> Errors:
    """An IP network; bits of the host may be set."""
    try:
        if not value or "/" not in value or "%" in value or not value.rpartition("/")[2].isdigit():
            raise ValueError
        ipaddress.ip_network(value, strict=False)
    except ValueError:
        text = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
        return [invalid(path, value or "", text)]
    return []


def quantity_of(value: Any) -> Quantity:
    """A quantity in a document that has passed its schema; absent is zero."""
    return parse_quantity(str(value)) if value is not None else parse_quantity("0")


def non_negative_quantity(path: str, value: Any) -> Errors:
    if quantity_of(value).value < 0:
        return [invalid(path, value, "must be greater than or equal to 0")]
    return []


# ---- checks of changes


def immutable(path: str, new: Any, old: Any) -> Errors:
    """The value may not change. None is absent."""
    return [] if new == old else [invalid(path, new, IMMUTABLE)]


# ---- checks of structures that many kinds have


def label_selector(path: str, selector: Document | None, *, allows_invalid_values: bool = False) -> Errors:
    """A LabelSelector. Source: apimachinery, pkg/apis/meta/v1/validation, ValidateLabelSelector."""
    if selector is None:
        return []
    errors = object_meta.validate_labels(selector.get("matchLabels"), join(path, "matchLabels"))
    for where, requirement in items(selector, "matchExpressions", path):
        errors += _label_requirement(where, requirement, allows_invalid_values)
    return errors


def _label_requirement(path: str, requirement: Document, allows_invalid_values: bool) -> Errors:
    errors: Errors = []
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(field_errors.forbidden(f"{path}.values", text))
    else:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    key = requirement.get("key", "")
    errors += [invalid(f"{path}.key", key, problem) for problem in names.qualified_name(key)]
    if not allows_invalid_values:
        for index, value in enumerate(values):
            errors += [invalid(f"{path}.values[{index}]", value, text) for text in names.label_value(value)]
    return errors


def selects(selector: Document, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector that has passed its check selects an object with these labels."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_meets(requirement, labels) for requirement in selector.get("matchExpressions") or ())


def _meets(requirement: Document, labels: Mapping[str, str]) -> bool:
    key, values = requirement.get("key", ""), requirement.get("values") or ()
    match requirement.get("operator"):
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels


def unique(path: str, values: Sequence[Document], key: Callable[[Document], Any], field: str) -> Errors:
    """No two items of a list have the same value of a field; told of all but the first."""
    seen: set[Any] = set()
    errors: Errors = []
    for index, value in enumerate(values):
        identity = key(value)
        if identity in seen:
            errors.append(field_errors.duplicate(f"{path}[{index}].{field}", identity))
        seen.add(identity)
    return errors
