"""What becomes of documents of a built-in type when they are written, without a store to write them to."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from apiserver.catalogue.apps import daemon_sets, deployments, stateful_sets
from apiserver.catalogue.autoscaling.horizontal_pod_autoscalers import validation
from apiserver.catalogue.batch import cron_jobs, jobs
from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.pod_specs import defaults
from apiserver.field_errors import FieldError
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.compile import SchemaCompiler
from apiserver.vocabulary import Document

_SCHEMAS: Final = BuiltinSchemas((1, 34))
_WALKS: Final = SchemaCompiler(
    {
        **defaults.DEFAULTS,
        **deployments.DEFAULTS,
        **stateful_sets.DEFAULTS,
        **daemon_sets.DEFAULTS,
        **jobs.DEFAULTS,
        **cron_jobs.DEFAULTS,
        **validation.DEFAULTS,
    }
)
UID: Final = "6e1f3f0c-0b8f-4b0e-9b62-0c86a36f8a31"

# Paths, as `spec.ports.0.name`, and what stands there; None takes it away.
Changes = Mapping[str, Any]


class Written(NamedTuple):
    """document: as it would be stored. errors: if it were."""

    document: Document
    errors: list[FieldError]

    @property
    def texts(self) -> list[str]:
        return list(map(str, self.errors))


class Kind:
    """A built-in type. Documents that go in stay as they are."""

    def __init__(self, types: Iterable[BuiltinType], kind: str, version: str = "v1") -> None:
        found = [each for each in types if (each.kind, each.version) == (kind, version)]
        assert len(found) == 1
        self.builtin = found[0]
        self.strategy = self.builtin.strategy
        self._walk = _WALKS.of(_SCHEMAS.get(self.builtin.definition))

    def completed(self, document: Document) -> Document:
        document = copy.deepcopy(document)
        assert self._walk(document) == []
        return document

    def created(self, document: Document, changes: Changes | None = None) -> Written:
        new = self.completed(changed(document, changes or {}))
        new["metadata"]["uid"] = UID
        self.strategy.prepare_create(new)
        return Written(new, self.strategy.validate_create(new) + self.strategy.validate(new))

    def updated(self, old: Document, changes: Changes, subresource: str = "") -> Written:
        new, old = self.completed(changed(old, changes)), copy.deepcopy(old)
        endpoint = {each.name: each.update for each in self.builtin.subresources}
        rules = endpoint[subresource] if subresource else self.strategy.update
        assert rules is not None
        rules.prepare(new, old)
        return Written(new, rules.validate(new, old) + self.strategy.validate(new))

    def cells(self, document: Document, now: float = 0.0) -> dict[str, Any]:
        shown = self.builtin.columns
        names = [column["name"] for column in shown.definitions]
        return dict(zip(names, shown.cells(document, now), strict=True))


def changed(document: Document, changes: Changes) -> Document:
    document = copy.deepcopy(document)
    for path, value in changes.items():
        *way, last = path.split(".")
        inner: Any = document
        for step in way:
            inner = inner[int(step)] if isinstance(inner, list) else inner.setdefault(step, {})
        if value is None:
            inner.pop(last, None)
        else:
            inner[int(last) if isinstance(inner, list) else last] = value
    return document
