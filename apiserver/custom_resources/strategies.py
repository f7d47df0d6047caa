"""What is checked and set when custom resources are written. Rows I13, I22.

Documents are of the version that the client uses, whichever they are stored in.
Sources: k8s.io/apiextensions-apiserver, pkg/registry/customresource/{strategy,status_strategy,validator}.go.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final

from apiserver.apiextensions.schema_rules.validator import Rules, blocking_error
from apiserver.field_errors import FieldError, invalid
from apiserver.golang.quoting import go_quote
from apiserver.meta import object_meta
from apiserver.registry.served_resource import ScaleFields
from apiserver.registry.strategy import (
    Strategy,
    TakesLong,
    UpdateStrategy,
    drop_status,
    keep_status,
    others_wait,
)
from apiserver.schema.custom import CustomSchema
from apiserver.vocabulary import Document

_INT32_MAX: Final = (1 << 31) - 1
# Custom resources have no type's own code that checks metadata twice more.
OBJECT_CHECKS: Final = 2


def _keep_all_but_status(new: Document, old: Document) -> None:
    """Update of the status subresource: nothing but the status changes, not even labels."""
    status, meta = new.get("status"), new["metadata"]
    new.clear()
    new.update(copy.deepcopy({field: value for field, value in old.items() if field != "status"}))
    # Whoever holds the metadata looks at this one.
    meta.clear()
    meta.update(new["metadata"])
    meta.pop("managedFields", None)
    new["metadata"] = meta
    if status is not None:
        new["status"] = status


class CustomResourceStrategies:
    """The rules of one version.

    schema, rules: get what they are about; called when it is first needed. There may be no rules.
    """

    def __init__(
        self,
        schema: Callable[[], CustomSchema],
        rules: Callable[[], Rules | None],
        *,
        has_status: bool,
        scale: ScaleFields | None,
    ) -> None:
        self._schema = schema
        self._rules = rules
        self._has_status = has_status
        self._scale = scale
        # What is to be said of an update that may go on, by its document, until somebody asks for it.
        self._told: dict[int, list[str]] = {}

    def strategy(self, *, takes_long: bool) -> Strategy:
        """takes_long: to be checked by them."""
        return Strategy(
            prepare_create=drop_status if self._has_status else _as_it_is,
            validate_create=self._validate_create,
            update=UpdateStrategy(
                prepare=keep_status if self._has_status else _as_it_is,
                validate=self._validate_update,
                object_checks=OBJECT_CHECKS,
            ),
            warn=self._warn,
            has_generation=True,
            # A status that is an ordinary field counts like any other.
            generation_ignores=frozenset({"metadata", "status"} if self._has_status else {"metadata"}),
            allows_unconditional_update=False,
            allows_unqualified_finalizers=True,
            takes_long=takes_long,
        )

    def status(self) -> UpdateStrategy:
        """Of the status subresource."""
        return UpdateStrategy(
            prepare=_keep_all_but_status, validate=self._validate_status, object_checks=OBJECT_CHECKS
        )

    def _validate_create(self, document: Document) -> list[FieldError]:
        errors = self._schema().validate_values(document)
        return self._validate_structure(document, None, errors + self._validate_replicas(document))

    def _validate_update(self, new: Document, old: Document) -> list[FieldError]:
        errors = self._schema().validate_values(new, old)
        return self._validate_structure(new, old, errors + self._validate_replicas(new))

    def _validate_status(self, new: Document, old: Document) -> list[FieldError]:
        errors = []
        if "status" in new:
            errors = self._schema().validate_status(new["status"], old.get("status"))
        if self._scale is not None:
            errors += _count(new, self._scale.status_replicas)
        return self._validate_structure(new, old, errors)

    def _validate_structure(
        self, new: Document, old: Document | None, errors: list[FieldError]
    ) -> list[FieldError]:
        """`errors` of values, and what else there is."""
        schema = self._schema()
        errors += schema.validate_embedded(new) + schema.validate_lists(new, old)
        rules = self._rules()
        if rules is None:
            return errors
        if (instead := blocking_error(errors)) is not None:
            return [*errors, instead]
        found = rules.validate_soon(new, old) if others_wait.get() else rules.validate(new, old)
        if found is None:
            raise TakesLong
        errors += found.errors
        if found.warnings and not errors:
            self._told[id(new)] = [str(each) for each in found.warnings]
        return errors

    def _warn(self, new: Document, old: Document | None) -> list[str]:
        before = set(object_meta.finalizers(old)) if old is not None else set()
        added = sorted(set(object_meta.finalizers(new)) - before)
        bare = [
            f"metadata.finalizers: {go_quote(name)}: prefer a domain-qualified finalizer name including a "
            "path (/) to avoid accidental conflicts with other finalizer writers"
            for name in added
            if object_meta.is_unqualified_finalizer(name)
        ]
        return bare + self._told.pop(id(new), [])

    def _validate_replicas(self, document: Document) -> list[FieldError]:
        if self._scale is None:
            return []
        paths = (self._scale.replicas, self._scale.status_replicas)
        return [error for path in paths for error in _count(document, path)]


def _as_it_is(*_: Document) -> None:
    """Nothing is set."""


def _count(document: Document, path: tuple[str, ...]) -> list[FieldError]:
    """Row R: what a scale shows as a number of pods is one, if it is there."""
    value: Any = document
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    field = f".{'.'.join(path)}"
    if type(value) is not int:
        return []  # Which the schema may allow; then there is no scale.
    if value < 0:
        return [invalid(field, value, "should be a non-negative integer")]
    if value > _INT32_MAX:
        return [invalid(field, value, f"should be less than or equal to {_INT32_MAX}")]
    return []
