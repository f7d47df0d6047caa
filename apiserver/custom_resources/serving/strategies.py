"""The strategies of custom resources: set fields and validate when objects are written (rows I13, I22).

Documents are of the client's version, not of the stored one.
Sources: k8s.io/apiextensions-apiserver, pkg/registry/customresource/{strategy,status_strategy,validator}.go.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeVar

from apiserver.custom_resources.rules.validator import blocking_error
from apiserver.custom_resources.schemas.numbers import as_go
from apiserver.custom_resources.serving.version_schema import VersionSchema
from apiserver.golang.formatting import go_text, go_type
from apiserver.golang.quoting import go_quote
from apiserver.meta import object_meta
from apiserver.meta.field_errors import FieldError, invalid
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import (
    STATUS_ALONE,
    Findings,
    Strategy,
    UpdateStrategy,
    drop_status,
    keep_status,
    no_change,
)

Scalar = TypeVar("Scalar", int, str)

_INT32_MAX: Final = (1 << 31) - 1


def _keep_all_but_status(new: Document, old: Document) -> None:
    """Keeps everything but the status in an update of the status subresource, even labels (row I13)."""
    status, meta = new.get("status"), new["metadata"]
    managed_fields = meta.get("managedFields")  # Fields about the change of the status.
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


class ScalePaths(NamedTuple):
    """The paths of the fields that the scale subresource shows. selector: empty if it shows none."""

    replicas: tuple[str, ...]
    status_replicas: tuple[str, ...]
    selector: tuple[str, ...] = ()

    def validate_spec(self, document: Document) -> list[FieldError]:
        return _validate_count(document, self.replicas)

    def validate_status(self, document: Document) -> list[FieldError]:
        errors = _validate_count(document, self.status_replicas)
        if self.selector:
            selector = _scalar_at(document, self.selector, "")
            errors += [selector] if isinstance(selector, FieldError) else []
        return errors


class CustomResourceStrategies:
    """The strategies of one version of a definition: for the resource, and for its status subresource."""

    def __init__(self, schema: VersionSchema, *, has_status: bool, scale: ScalePaths | None) -> None:
        self._schema = schema
        self._has_status = has_status
        self._scale = scale

    def of_resource(self, *, is_costly: bool) -> Strategy:
        """Returns the strategy of the resource.

        is_costly: whether the schema is too large for validation on the event loop.
        """
        return Strategy(
            prepare_create=drop_status if self._has_status else no_change,
            expressions=self._validate,
            update=UpdateStrategy(
                prepare=keep_status if self._has_status else no_change,
                expressions=self._validate,
                compares_old=self._compares_old,
            ),
            has_generation=True,
            # A status that is an ordinary field counts like any other.
            generation_ignores=frozenset({"metadata", "status"} if self._has_status else {"metadata"}),
            allows_unconditional_update=False,
            allows_unqualified_finalizers=True,
            is_costly=is_costly,
            default_bytes=self._schema.default_bytes,
        )

    def of_status(self) -> UpdateStrategy:
        return UpdateStrategy(
            prepare=_keep_all_but_status,
            writes=STATUS_ALONE,
            expressions=self._validate_status,
            compares_old=self._compares_old,
        )

    def _compares_old(self) -> bool:
        rules = self._schema.rules
        return rules is not None and rules.compares_old

    def _validate(
        self, new: Document, old: Document | None, errors: Sequence[FieldError], is_bounded: bool
    ) -> Findings:
        """Returns the errors in an object; see `registry.strategy.ExpressionRules`."""
        found = [*errors, *self._schema.custom.validate_values(new, old)]
        if self._scale is not None:
            found += self._scale.validate_spec(new)
            found += self._scale.validate_status(new)
        return self._with_rules(new, old, found, is_bounded)

    def _validate_status(
        self, new: Document, old: Document | None, errors: Sequence[FieldError], is_bounded: bool
    ) -> Findings:
        found = [*errors]
        if "status" in new:
            before = old.get("status") if old is not None else None
            found += self._schema.custom.validate_status(new["status"], before)
        if self._scale is not None:
            found += self._scale.validate_status(new)
        return self._with_rules(new, old, found, is_bounded)

    def _with_rules(
        self, new: Document, old: Document | None, errors: list[FieldError], is_bounded: bool
    ) -> Findings:
        """Validates embedded resources, and lists that are sets or maps, and then evaluates the rules."""
        errors += self._schema.custom.validate_parts(new, old)
        rules, warnings = self._schema.rules, _finalizer_warnings(new, old)
        if rules is None:
            return Findings(errors, warnings)
        if (error := blocking_error(errors)) is not None:
            return Findings([*errors, error])
        found = rules.validate(new, old, is_bounded=is_bounded)
        return Findings([*errors, *found.errors], [*warnings, *found.warnings])


def _finalizer_warnings(new: Document, old: Document | None) -> list[str]:
    if "finalizers" not in new["metadata"]:
        return []
    before = set(object_meta.finalizers(old)) if old is not None else set()
    added = sorted(set(object_meta.finalizers(new)) - before)
    return [
        f"metadata.finalizers: {go_quote(name)}: prefer a domain-qualified finalizer name including a "
        "path (/) to avoid accidental conflicts with other finalizer writers"
        for name in added
        if object_meta.is_unqualified_finalizer(name)
    ]


def _validate_count(document: Document, path: tuple[str, ...]) -> list[FieldError]:
    """Validates a number of replicas that the scale subresource shows (rows R)."""
    count = _scalar_at(document, path, 0)
    if isinstance(count, FieldError):
        return [count]
    field = f".{'.'.join(path)}"
    if count < 0:
        return [invalid(field, count, "should be a non-negative integer")]
    if count > _INT32_MAX:
        return [invalid(field, count, f"should be less than or equal to {_INT32_MAX}")]
    return []


def _scalar_at(document: Document, path: tuple[str, ...], absent: Scalar) -> Scalar | FieldError:
    """Returns the value at a path, `absent` if there is none, or the error of another type.

    A field of a null object is absent; null itself is a value.
    """
    value: Any = document
    for depth, step in enumerate(path, 1):
        if value is not None and type(value) is not dict:
            return _wrong_type(path, depth, value, absent, "map[string]interface{}")
        if value is None or step not in value:
            return absent
        value = as_go(value[step])
    if type(value) is not type(absent):
        return _wrong_type(path, len(path), value, absent, go_type(absent))
    found: Scalar = value
    return found


def _wrong_type(path: tuple[str, ...], depth: int, value: Any, shown: int | str, expected: str) -> FieldError:
    """Returns the error of a value of a wrong type on the way to a scalar.

    depth: how many steps lead to the place where it is used.
    """
    text = f"{go_text(value)} is of the type {go_type(value)}, expected {expected}"
    where = ".".join(path[:depth])
    return invalid(f".{'.'.join(path)}", shown, f".{where} accessor error: {text}")
