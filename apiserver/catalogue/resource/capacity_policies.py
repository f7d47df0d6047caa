"""Validation of request policies for a device's capacity, which several allocations can share.

Source: pkg/apis/resource/validation, validateRequestPolicy (release 1.36); KEP-5075.
"""

from __future__ import annotations

from typing import Any, Final

from apiserver.meta.field_errors import Errors, forbidden, invalid, required, too_many
from apiserver.meta.quantity import Quantity
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.checks import quantity_of, uniqueness

_VALUES_MAX: Final = 10
# Kubernetes computes steps with integers of 64 bits.
_WHOLE_MAX: Final = (1 << 63) - 1
_ONE_POLICY: Final = (
    'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
)


def validate_capacity(path: str, capacity: Document, *, is_shared: bool) -> Errors:
    """Checks the policy of a capacity, if it has one.

    is_shared: whether several allocations may share the device: only then a policy is allowed.
    """
    policy = capacity.get("requestPolicy")
    if policy is None:
        return []
    where = f"{path}.requestPolicy"
    if not is_shared:
        return [forbidden(where, "allowMultipleAllocations must be true")]
    return _policy(where, policy, quantity_of(capacity.get("value")))


def _policy(path: str, policy: Document, total: Quantity) -> Errors:
    values, bounds, default = (policy.get(field) for field in ("validValues", "validRange", "default"))
    if values and bounds is not None:
        return [forbidden(path, _ONE_POLICY)]
    if not values and bounds is None:
        return []
    kind = "validValues" if values else "validRange"
    if default is None:
        return [required(f"{path}.default", f"required when {kind} is defined")]
    if values:
        return _values(f"{path}.{kind}", values, quantity_of(default), total)
    return _range(f"{path}.{kind}", bounds or {}, quantity_of(default), total)


def _values(path: str, texts: list[Any], default: Quantity, total: Quantity) -> Errors:
    values = [quantity_of(text) for text in texts]
    text = "values must be sorted in ascending order"
    errors = [
        invalid(f"{path}[{index}]", str(value), text)
        for index, value in enumerate(values)
        if index and values[index - 1] > value
    ]
    has_default = False
    if len(values) > _VALUES_MAX:
        errors.append(too_many(path, len(values), _VALUES_MAX))
    else:
        has_default = default in values
        errors += [
            invalid(f"{path}[{index}]", str(value), f"option is larger than capacity value: {total}")
            for index, value in enumerate(values)
            if value > total
        ]
        errors += _duplicates(path, values)
    if not has_default:
        text = "default value is not valid according to the requestPolicy"
        errors.append(invalid(path, str(default), text))
    return errors


def _duplicates(path: str, values: list[Quantity]) -> Errors:
    """Returns the errors about values that are equal when they are rounded up."""
    errors: Errors = []
    unique = uniqueness()
    for index, value in enumerate(values):
        number = value.rounded_up()
        errors += unique(f"{path}[{index}]", number, str(number))
    return errors


def _range(path: str, bounds: Document, default: Quantity, total: Quantity) -> Errors:
    least, most, step = (
        None if (text := bounds.get(field)) is None else quantity_of(text) for field in ("min", "max", "step")
    )
    if least is None:
        return [required(f"{path}.min", "required when validRange is defined")]
    errors: Errors = []
    if least > total:
        errors.append(invalid(f"{path}.min", str(least), f"min is larger than capacity value: {total}"))
    if default < least:
        errors.append(invalid(f"{path}.min", str(default), f"default is less than min: {least}"))
    if most is not None:
        where = f"{path}.max"
        if least > most:
            errors.append(invalid(where, str(least), f"min is larger than max: {most}"))
        if most > total:
            errors.append(invalid(where, str(most), f"max is larger than capacity value: {total}"))
        if default > most:
            errors.append(invalid(where, str(default), f"default is more than max: {most}"))
    if step is None:
        return errors
    if step.value <= 0:
        return [*errors, invalid(f"{path}.step", str(step), "must be greater than zero")]
    if (second := least + step) > total:
        text = f"one step {second} is larger than capacity value: {total}"
        errors.append(invalid(f"{path}.step", str(step), text))
    named = {"default": default, "min": least, "max": most, "step": step}
    return errors + (_not_whole_numbers(path, named) or _steps(f"{path}.step", (default, most), least, step))


def _not_whole_numbers(path: str, named: dict[str, Quantity | None]) -> Errors:
    """Returns the errors about quantities that are not whole numbers, by the names of their fields."""
    errors: Errors = []
    for name, quantity in named.items():
        if quantity is None or 0 <= quantity.value <= _WHOLE_MAX:
            continue
        problem = "must be greater than or equal to 0"
        if quantity.value > 0:
            problem = f"must not be larger than {_WHOLE_MAX}"
        errors.append(invalid(f"{path}.{name}", str(quantity), problem))
    return errors


def _steps(path: str, values: tuple[Quantity | None, ...], least: Quantity, step: Quantity) -> Errors:
    """Checks that values are whole steps from the minimum. Fractions are rounded up, as in Kubernetes."""
    text = f"value is not a multiple of a given step ({step}) from ({least})"
    return [
        invalid(path, str(value), text)
        for value in values
        if value is not None and (value.rounded_up() - least.rounded_up()) % step.rounded_up()
    ]
