"""Runs declared rules beside the checks of a type, and compares their errors (rows H05-H07).

Source: k8s.io/apiserver, pkg/registry/rest/validate.go. Errors are the same if they are about the same field
and of the same type, and, where they say that a value is invalid, of the same origin; texts may differ.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from apiserver.meta.field_errors import INVALID, FieldError
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.declarative.rules import DeclaredRules

log = logging.getLogger(__name__)

# A mismatch is a fault of the server, not of a client. The first ones of a write show which.
LOGGED_MAX: Final = 10


class ValidationCounts(Protocol):
    """Counts mismatches and failed rules; may be called from several threads."""

    def count_mismatches(self, identifier: str, count: int) -> None:
        """Counts mismatches. identifier: the kind and the operation, as `pod_create` or `pod_update`."""
        ...

    def count_panic(self) -> None: ...


class DeclarativeValidation:
    """Runs the declared rules of one kind beside its checks.

    takes_over: the rules decide about the fields that they cover, and the checks about all others. If not,
    the checks decide, and the rules are only compared with them.
    """

    def __init__(
        self, kind: str, rules: DeclaredRules, counts: ValidationCounts, *, takes_over: bool
    ) -> None:
        self._kind, self._rules, self._counts = kind, rules, counts
        self._takes_over = takes_over

    def __call__(
        self, errors: Sequence[FieldError], new: Document, old: Document | None
    ) -> Sequence[FieldError]:
        """Returns the errors in a write. errors: those that the checks have found. old: None for a create."""
        try:
            declared = self._rules.errors(new, old)
        except Exception as error:
            self._counts.count_panic()
            log.exception("%s: declarative validation failed", self._kind)
            if not self._takes_over:
                return errors
            text = f"Internal error: panic during declarative validation: {type(error).__name__}"
            return [*errors, FieldError("", "InternalError", text)]
        if not errors and not declared:
            return errors
        found = differences(errors, declared, self._rules.covers)
        if found:
            operation = "create" if old is None else "update"
            self._counts.count_mismatches(f"{self._kind.lower()}_{operation}", len(found))
            log.error(
                "%s: handwritten and declarative validation differ; using %s validation: %s",
                self._kind,
                "declarative" if self._takes_over else "handwritten",
                "; ".join(found[:LOGGED_MAX]),
            )
        if not self._takes_over:
            return errors
        return [*(each for each in errors if not self._rules.covers(each)), *declared]


def differences(
    coded: Iterable[FieldError], declared: Iterable[FieldError], covers: Callable[[FieldError], bool]
) -> Sequence[str]:
    """Returns the errors that only one way has found, each in a few words without values of objects.

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
