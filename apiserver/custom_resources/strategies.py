"""The strategies of custom resources: what is set and validated when they are written. Rows I13, I22.

Documents are of the version that the client uses, whichever they are stored in.
Sources: k8s.io/apiextensions-apiserver, pkg/registry/customresource/{strategy,status_strategy,validator}.go.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Final

from apiserver.apiextensions.schema_rules.validator import RuleValidator, blocking_error
from apiserver.field_errors import FieldError, invalid
from apiserver.golang.quoting import go_quote
from apiserver.meta import object_meta
from apiserver.registry.findings import Findings
from apiserver.registry.served_resource import ScaleFields
from apiserver.registry.strategy import STATUS_ALONE, Strategy, UpdateStrategy, drop_status, keep_status
from apiserver.schema.custom import CustomSchema
from apiserver.validation.documents import at
from apiserver.vocabulary import Document

_INT32_MAX: Final = (1 << 31) - 1
# Metadata is checked twice more for built-in types, by their own code. See `UpdateStrategy`.
OBJECT_CHECKS: Final = 2


def _keep_all_but_status(new: Document, old: Document) -> None:
    """Update of the status subresource: nothing but the status changes, not even labels (row I13)."""
    status, meta = new.get("status"), new["metadata"]
    managed_fields = meta.get("managedFields")  # These tell of the change of the status.
    new.clear()
    new.update(copy.deepcopy({field: value for field, value in old.items() if field != "status"}))
    # Callers hold a reference to this dict of metadata: it is changed in place.
    meta.clear()
    meta.update(new["metadata"])
    meta.pop("managedFields", None)
    if managed_fields is not None:
        meta["managedFields"] = managed_fields
    new["metadata"] = meta
    if status is not None:
        new["status"] = status


class CustomResourceStrategies:
    """The strategies of one version of a definition: of the resource, and of its status subresource.

    schema, rules: get the schema, and its validation rules if it has any; called when first needed.
    """

    def __init__(
        self,
        schema: Callable[[], CustomSchema],
        rules: Callable[[], RuleValidator | None],
        *,
        has_status: bool,
        scale: ScaleFields | None,
    ) -> None:
        self._schema = schema
        self._rules = rules
        self._has_status = has_status
        self._scale = scale

    def of_resource(self, *, is_costly: bool) -> Strategy:
        """is_costly: the schema is so large that validation never runs in the event loop."""
        return Strategy(
            prepare_create=drop_status if self._has_status else _no_change,
            validate_create=self._validate_create,
            expressions=self._evaluate,
            update=UpdateStrategy(
                prepare=keep_status if self._has_status else _no_change,
                validate=self._validate_update,
                expressions=self._evaluate,
                compares_old=self._compares_old,
                object_checks=OBJECT_CHECKS,
            ),
            warn=self._warn,
            has_generation=True,
            # A status that is an ordinary field counts like any other.
            generation_ignores=frozenset({"metadata", "status"} if self._has_status else {"metadata"}),
            allows_unconditional_update=False,
            allows_unqualified_finalizers=True,
            is_costly=is_costly,
            default_bytes=lambda: self._schema().default_bytes,
        )

    def of_status(self) -> UpdateStrategy:
        return UpdateStrategy(
            prepare=_keep_all_but_status,
            writes=STATUS_ALONE,
            validate=self._validate_status,
            expressions=self._evaluate,
            compares_old=self._compares_old,
            object_checks=OBJECT_CHECKS,
        )

    def _compares_old(self) -> bool:
        rules = self._rules()
        return rules is not None and rules.compares_old

    def _validate_create(self, document: Document) -> list[FieldError]:
        errors = self._schema().validate_values(document) + self._validate_replicas(document)
        return errors + self._validate_structure(document, None)

    def _validate_update(self, new: Document, old: Document) -> list[FieldError]:
        errors = self._schema().validate_values(new, old) + self._validate_replicas(new)
        return errors + self._validate_structure(new, old)

    def _validate_status(self, new: Document, old: Document) -> list[FieldError]:
        errors = []
        if "status" in new:
            errors = self._schema().validate_status(new["status"], old.get("status"))
        if self._scale is not None:
            errors += _validate_count(new, self._scale.status_replicas)
        return errors + self._validate_structure(new, old)

    def _validate_structure(self, new: Document, old: Document | None) -> list[FieldError]:
        """Validates embedded resources, and lists that are sets or maps."""
        schema = self._schema()
        return schema.validate_embedded(new) + schema.validate_lists(new, old)

    def _evaluate(
        self, new: Document, old: Document | None, errors: Sequence[FieldError], is_bounded: bool
    ) -> Findings:
        """See `registry.strategy.ExpressionRules`."""
        rules = self._rules()
        if rules is None:
            return Findings(errors)
        if (error := blocking_error(errors)) is not None:
            return Findings([*errors, error])
        found = rules.validate(new, old, is_bounded=is_bounded)
        return Findings([*errors, *found.errors], found.warnings)

    def _warn(self, new: Document, old: Document | None) -> list[str]:
        before = set(object_meta.finalizers(old)) if old is not None else set()
        added = sorted(set(object_meta.finalizers(new)) - before)
        return [
            f"metadata.finalizers: {go_quote(name)}: prefer a domain-qualified finalizer name including a "
            "path (/) to avoid accidental conflicts with other finalizer writers"
            for name in added
            if object_meta.is_unqualified_finalizer(name)
        ]

    def _validate_replicas(self, document: Document) -> list[FieldError]:
        if self._scale is None:
            return []
        paths = (self._scale.replicas, self._scale.status_replicas)
        return [error for path in paths for error in _validate_count(document, path)]


def _no_change(*_: Document) -> None:
    """Sets nothing."""


def _validate_count(document: Document, path: tuple[str, ...]) -> list[FieldError]:
    """Validates a number of replicas that the scale subresource shows, if it is there (rows R)."""
    value = at(document, *path)
    field = f".{'.'.join(path)}"
    if type(value) is not int:
        return []  # The schema may allow this; then there is no scale.
    if value < 0:
        return [invalid(field, value, "should be a non-negative integer")]
    if value > _INT32_MAX:
        return [invalid(field, value, f"should be less than or equal to {_INT32_MAX}")]
    return []
