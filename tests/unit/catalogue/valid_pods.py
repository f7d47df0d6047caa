"""Pods as they are once they have been decoded: what the tables of pod rules change."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cache, partial
from typing import Any, Final, TypeAlias

from apiserver.catalogue.builtin_type import DEFAULT_GATES
from apiserver.catalogue.core.pods import preparation, resize, updates, validation
from apiserver.catalogue.core.pods import status as status_rules
from apiserver.catalogue.core.pods.rules import PodRules, pod_rules
from apiserver.catalogue.pod_specs.defaults import DEFAULTS
from apiserver.meta.field_errors import FieldError
from apiserver.meta.releases.gates import gates_of
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.compile import CompiledSchema, SchemaCompiler

Document: TypeAlias = dict[str, Any]
# Field, reason without `FieldValue`, and a part of the message.
Expected: TypeAlias = tuple[str, str, str]

RELEASE = (1, 36)
# The rules of a server of that release whose gates are as they are by default.
RULES: Final = pod_rules(DEFAULT_GATES)


def rules(**gates: bool) -> PodRules:
    """Returns the rules of a server with these gates."""
    return pod_rules(gates_of(RELEASE[1], tuple(gates.items())))


warn_pod: Final = partial(validation.warn_pod, RULES)
validate_pod_create: Final = partial(validation.validate_pod_create, RULES.specs)
prepare_pod_create: Final = partial(preparation.prepare_pod_create, RULES)
validate_pod_update: Final = partial(updates.validate_pod_update, RULES)
validate_ephemeral_containers_update: Final = partial(updates.validate_ephemeral_containers_update, RULES)
validate_pod_status: Final = partial(status_rules.validate_pod_status, RULES)
prepare_resize: Final = partial(resize.prepare_resize, RULES)
validate_resize: Final = partial(resize.validate_resize, RULES)


@cache
def _walk(kind: str) -> CompiledSchema:
    return SchemaCompiler(DEFAULTS).compile(BuiltinSchemas(RELEASE).get(f"io.k8s.api.core.v1.{kind}"))


def decoded(document: Document, kind: str = "Pod") -> Document:
    """With everything set that is set by default."""
    document = copy.deepcopy(document)
    _walk(kind)(document)
    return document


def container(**more: Any) -> Document:
    return {"name": "c", "image": "img:1", **more}


def pod(meta: Document | None = None, status: Document | None = None, **spec: Any) -> Document:
    """A valid pod, decoded, with other metadata and another spec."""
    document = {
        "metadata": {"name": "p", "namespace": "n", **(meta or {})},
        "spec": {"containers": [container()], **spec},
        "status": status or {},
    }
    return decoded(document)


def assert_agree(errors: Sequence[FieldError], expected: Sequence[Expected]) -> None:
    """Fails unless these are the errors, in this order."""
    found = [(each.field, each.reason.removeprefix("FieldValue"), each.message) for each in errors]
    assert len(found) == len(expected), found
    for (*place, message), (field, reason, part) in zip(found, expected, strict=True):
        assert (place, part in message) == ([field, reason], True), found
