"""Compares what the code of a type's validation finds with what its declared rules find.

Source: k8s.io/apiserver, pkg/registry/rest/validate.go. Errors are the same if they are about the same field
and of the same type, and, where they say that a value is invalid, of the same origin; texts may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from apiserver.meta.field_errors import INVALID, FieldError


def differences(
    coded: Iterable[FieldError], declared: Iterable[FieldError], covers: Callable[[FieldError], bool]
) -> Sequence[str]:
    """Returns what only one way has found, each in a few words; values of objects are not in them.

    covers: whether declared rules look for an error of the code.
    """
    of_code = {_identity(error) for error in coded if covers(error)}
    of_rules = {_identity(error) for error in declared}
    return [
        *(f"only the code finds {each}" for each in sorted(of_code - of_rules)),
        *(f"only the rules find {each}" for each in sorted(of_rules - of_code)),
    ]


def _identity(error: FieldError) -> str:
    origin = f" ({error.origin})" if error.reason == INVALID else ""
    return f"{error.field}: {error.reason}{origin}"
