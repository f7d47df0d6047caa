"""Who sees to it that a pod can go, in which order, when somebody asks for its eviction (since 1.37).

Source: k8s.io/api/core/v1, the declarative rules of EvictionResponder; pkg/api/pod, dropDisabledPodFields.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from apiserver.catalogue.builtin_type import CORE, BuiltinType
from apiserver.catalogue.common.participants import validate_own_name
from apiserver.features.gates import FeatureGates
from apiserver.field_errors import Errors, duplicate, invalid, required, too_many
from apiserver.releases.emulation import EmulatedRelease
from apiserver.validation.checks import at_least, at_most
from apiserver.validation.documents import at, items
from apiserver.vocabulary import Document

_GATE: Final = "EvictionRequestAPI"
_SINCE: Final = 37
FIELD: Final = "evictionResponders"
_RESPONDERS_MAX: Final = 10
_PRIORITY_MAX: Final = 100_000
_RESERVED_BELOW: Final = 1000
# Where the specs of pods are in what has some.
_IN_TEMPLATE: Final = ("spec", "template", "spec")
_SPECS: Final[dict[str, tuple[str, ...]]] = {
    f"{CORE}Pod": ("spec",),
    f"{CORE}PodTemplate": ("template", "spec"),
    f"{CORE}ReplicationController": _IN_TEMPLATE,
    "io.k8s.api.apps.v1.DaemonSet": _IN_TEMPLATE,
    "io.k8s.api.apps.v1.Deployment": _IN_TEMPLATE,
    "io.k8s.api.apps.v1.ReplicaSet": _IN_TEMPLATE,
    "io.k8s.api.apps.v1.StatefulSet": _IN_TEMPLATE,
    "io.k8s.api.batch.v1.CronJob": ("spec", "jobTemplate", *_IN_TEMPLATE),
    "io.k8s.api.batch.v1.Job": _IN_TEMPLATE,
}


def validate_eviction_responders(path: str, spec: Document) -> Errors:
    """path: of the spec."""
    count = len(spec.get(FIELD) or ())
    if count > _RESPONDERS_MAX:
        return [too_many(f"{path}.{FIELD}", count, _RESPONDERS_MAX)]
    errors: Errors = []
    seen: set[str] = set()
    for where, responder in items(spec, FIELD, path):
        name, priority = responder.get("name") or "", responder.get("priority")
        if name in seen:
            errors.append(duplicate(where, name))
        seen.add(name)
        errors += validate_own_name(f"{where}.name", name)
        errors += _priority(f"{where}.priority", priority)
    return errors


def _priority(path: str, priority: int | None) -> Errors:
    if priority is None:
        return [required(path)]
    if 0 <= priority < _RESERVED_BELOW:
        reserved = f"priorities 0-{_RESERVED_BELOW - 1} are reserved for responders with *.k8s.io suffix"
        return [invalid(path, priority, reserved)]
    return at_least(path, priority, 0) + at_most(path, priority, _PRIORITY_MAX)


def are_left_out(release: EmulatedRelease, gates: FeatureGates | None) -> bool:
    """Whether a release has the field, but not the feature. gates: None if all are on."""
    return release.minor >= _SINCE and gates is not None and not gates.is_on(_GATE)


def without_responders(builtin: BuiltinType) -> BuiltinType:
    """Returns the type as it is while the feature is off: only what has responders already keeps them."""
    path = _SPECS.get(builtin.definition)
    if path is None:
        return builtin
    strategy = builtin.strategy
    create = partial(_create, path, strategy.prepare_create)
    update = strategy.update._replace(prepare=partial(_update, path, strategy.update.prepare))
    return replace(builtin, strategy=strategy._replace(prepare_create=create, update=update))


def _create(path: tuple[str, ...], prepare: Callable[[Document], None], document: Document) -> None:
    _drop(path, document)
    prepare(document)


def _update(
    path: tuple[str, ...], prepare: Callable[[Document, Document], None], new: Document, old: Document
) -> None:
    if not at(old, *path, FIELD):
        _drop(path, new)
    prepare(new, old)


def _drop(path: tuple[str, ...], document: Document) -> None:
    spec = at(document, *path)
    if spec:
        spec.pop(FIELD, None)
