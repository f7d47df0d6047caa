"""The fields of built-in types that depend on feature gates, and their removal while a gate is off.

The fields and their gates are in gated_fields.txt. The rule is the same for all kinds: the server removes
fields of a disabled feature from a client's object, unless the stored object already uses the feature. Then
the field may also change, so that objects survive a gate that was on for a while. Source: api_changes.md of
the Kubernetes contributor guide, "Alpha, Beta, and Stable Versions", and the files that the table
names.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from apiserver.catalogue.builtin_type import CORE, BuiltinType
from apiserver.meta.releases.gates import FeatureGates, known_gates
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import UpdateStrategy
from apiserver.schema.validation.documents import at

_IN_TEMPLATE: Final = "spec.template.spec"
# Where the pod specs of each kind are that has some.
POD_SPECS: Final[Mapping[str, str]] = MappingProxyType(
    {
        f"{CORE}Pod": "spec",
        f"{CORE}PodTemplate": "template.spec",
        f"{CORE}ReplicationController": _IN_TEMPLATE,
        "io.k8s.api.apps.v1.DaemonSet": _IN_TEMPLATE,
        "io.k8s.api.apps.v1.Deployment": _IN_TEMPLATE,
        "io.k8s.api.apps.v1.ReplicaSet": _IN_TEMPLATE,
        "io.k8s.api.apps.v1.StatefulSet": _IN_TEMPLATE,
        "io.k8s.api.batch.v1.CronJob": f"spec.jobTemplate.{_IN_TEMPLATE}",
        "io.k8s.api.batch.v1.Job": _IN_TEMPLATE,
    }
)
_POD_SPEC: Final = "PodSpec"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution[]"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm"
_LISTS_OF_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
# Names of several paths.
_ALIASES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "@containers": tuple(f"{each}[]" for each in _LISTS_OF_CONTAINERS),
        "@statuses": (*("containerStatuses[]", "initContainerStatuses[]", "ephemeralContainerStatuses[]"),),
        "@affinities": tuple(
            f"affinity.{kind}.{terms}"
            for kind in ("podAffinity", "podAntiAffinity")
            for terms in (_REQUIRED, _PREFERRED)
        ),
    }
)
_BY: Final = "by"
_STEP: Final = re.compile(
    r"(?P<name>[A-Za-z]+)(?P<each>\[\]|\{\})?(?P<prune>\?)?"
    r"(?:\((?P<field>\w+)(?:=(?P<equals>\w+))?\)|!=(?P<other>\w+)|=(?P<becomes>\w+))?"
).fullmatch


class PathStep(NamedTuple):
    """One step of a path. each: `[]`, `{}` or empty. prune: whether to remove an object that becomes empty.

    field, equals: matches only values with this field and value. other: matches only other values. becomes:
    the value that replaces it, instead of a removal; matches only if it differs.
    """

    name: str
    each: str
    prune: bool
    field: str | None
    equals: str | None
    other: str | None
    becomes: str | None

    def counts(self, value: Any) -> bool:
        """Returns whether the path matches a value at its end."""
        if value is None or value == [] or value in (self.other, self.becomes):
            return False
        if self.field is None:
            return True
        found = value.get(self.field) if isinstance(value, dict) else None
        return found not in (None, "") if self.equals is None else found == self.equals


_Path = tuple[PathStep, ...]


class GatedFieldRule(NamedTuple):
    """Fields with the same gates. uses: paths; if the stored object has one of them, the fields are kept."""

    gates: str
    paths: tuple[_Path, ...]
    uses: tuple[_Path, ...]

    def apply(self, new: Document, old: Document | None) -> None:
        """Removes the fields from a new document, unless the old one, if any, allows them."""
        if old is None or not any(_is_set(old, path) for path in self.uses):
            for path in self.paths:
                _remove(new, path)


def gate_names(gates: str) -> list[str]:
    """Returns the names of the gates of a rule."""
    return gates.replace("|", "+").split("+")


def is_off(gates: str, states: FeatureGates) -> bool:
    """Returns whether a rule with some gates removes fields, and the release may have them."""
    names = gate_names(gates)
    if all(_is_unknown(name, states.minor) for name in names):
        return False
    are_on = map(states.is_on, names)
    return not (any(are_on) if "|" in gates else all(are_on))


def _is_unknown(name: str, minor: int) -> bool:
    gate = known_gates()[name]
    return gate.stage(minor) is None and not gate.is_removed_in(minor)


# ---- the table


@cache
def _lines() -> Mapping[str, Sequence[str]]:
    """Returns the lines of the table by definition."""
    text = pkgutil.get_data(__package__, "gated_fields.txt")
    assert text is not None
    lines: dict[str, list[str]] = {}
    sections: list[str] = []
    for line in text.decode().splitlines():
        if line.startswith(" "):
            for section in sections:
                lines.setdefault(section, []).append(line)
        elif not line.startswith("#"):
            sections = line.split()
    return MappingProxyType(lines)


def definitions() -> Iterable[str]:
    """Returns the definitions of all kinds that have gated fields."""
    return dict.fromkeys([*POD_SPECS, *(each for each in _lines() if each != _POD_SPEC)])


def rules_of(
    definition: str, is_wanted: Callable[[str], bool] = lambda gates: True
) -> tuple[GatedFieldRule, ...]:
    """Returns the rules of a kind. is_wanted: selects rules by their gates."""
    in_spec = POD_SPECS.get(definition)
    found = _rules(_POD_SPEC, in_spec, is_wanted) if in_spec is not None else []
    return (*found, *_rules(definition, "", is_wanted))


def _rules(section: str, prefix: str, is_wanted: Callable[[str], bool]) -> list[GatedFieldRule]:
    rules = []
    for line in _lines().get(section, ()):
        gates, *words = line.split()
        if is_wanted(gates):
            end = words.index(_BY) if _BY in words else len(words)
            paths = tuple(_paths(words[:end], prefix))
            rules.append(GatedFieldRule(gates, paths, tuple(_paths(words[end + 1 :], prefix)) or paths))
    return rules


def gates_of_fields(minor: int) -> set[str]:
    """Returns the gates of fields in release 1.`minor`."""
    gates = (line.split(maxsplit=1)[0] for lines in _lines().values() for line in lines)
    return {name for each in gates for name in gate_names(each) if not _is_unknown(name, minor)}


def _paths(words: Sequence[str], prefix: str) -> Iterator[_Path]:
    for word in words:
        text = f"{prefix}.{word}" if prefix else word
        alias = next((each for each in _ALIASES if each in text), None)
        for meaning in _ALIASES[alias] if alias else ("",):
            yield tuple(map(_step, (text.replace(alias, meaning) if alias else text).split(".")))


@cache
def _step(text: str) -> PathStep:
    found = _STEP(text)
    assert found is not None, text
    name, each, prune, *conditions = found.groups()
    return PathStep(name, each or "", prune is not None, *conditions)


# ---- documents


def _is_set(value: Any, path: _Path, depth: int = 0) -> bool:
    if not isinstance(value, dict):
        return False
    step = path[depth]
    inner = value.get(step.name)
    if inner is None:
        return False
    below = _below(inner, step.each)
    if depth == len(path) - 1:
        return any(map(step.counts, below))
    return any(_is_set(each, path, depth + 1) for each in below)


def _below(value: Any, each: str) -> Sequence[Any]:
    if each == "[]":
        return value if isinstance(value, list) else ()
    if each == "{}":
        return list(value.values()) if isinstance(value, dict) else ()
    return (value,)


def _remove(value: Any, path: _Path, depth: int = 0) -> None:
    step = path[depth]
    if not isinstance(value, dict) or (inner := value.get(step.name)) is None:
        return
    if depth < len(path) - 1:
        for each in _below(inner, step.each):
            _remove(each, path, depth + 1)
        if step.prune and not inner:
            del value[step.name]
    elif step.each:
        value[step.name] = [each for each in inner if not step.counts(each)]
    elif step.counts(inner):
        if step.becomes is not None:
            value[step.name] = step.becomes
        else:
            del value[step.name]


class _Node(NamedTuple):
    """A step that several paths share.

    ends: the rules with a path that ends here, and the kind of end. below: the next steps of other paths.
    """

    name: str
    each: str
    ends: list[tuple[GatedFieldRule, PathStep]]
    below: list[_Node]


class DisabledFields:
    """The disabled fields of one kind. One walk shows that a document has none, as nearly all."""

    def __init__(self, rules: Sequence[GatedFieldRule]) -> None:
        """rules: the rules whose gates are off."""
        self._rules, self._nodes = rules, list[_Node]()
        for rule in rules:
            for path in rule.paths:
                self._add(rule, path)

    def _add(self, rule: GatedFieldRule, path: _Path) -> None:
        nodes, ends = self._nodes, list[tuple[GatedFieldRule, PathStep]]()
        for step in path:
            node = next((n for n in nodes if (n.name, n.each) == (step.name, step.each)), None)
            if node is None:
                nodes.append(node := _Node(step.name, step.each, [], []))
            nodes, ends = node.below, node.ends
        ends.append((rule, path[-1]))

    def drop(self, new: Document, old: Document | None) -> None:
        """Removes the disabled fields from a new document, except those that the old one may keep."""
        found: list[GatedFieldRule] = []
        _find(new, self._nodes, found)
        for rule in self._rules:
            if rule in found:
                rule.apply(new, old)


def _find(value: Document, nodes: list[_Node], found: list[GatedFieldRule]) -> None:
    """Adds the rules whose fields a document has to `found`."""
    for name, each, ends, below in nodes:
        inner = value.get(name)
        if inner is None:
            continue
        for item in _below(inner, each) if each else (inner,):
            for rule, step in ends:
                if step.counts(item):
                    found.append(rule)
            if below and isinstance(item, dict):
                _find(item, below, found)


# ---- image volumes


def _drop_image_mounts(path: Sequence[str], new: Document, old: Document | None) -> None:
    """Removes the mounts of image volumes, before these volumes are removed."""
    specs = [at(document, *path) or {} for document in (new, old) if document is not None]
    images = [{v.get("name") for v in spec.get("volumes") or () if v.get("image")} for spec in specs]
    if not images[0] or any(images[1:]):
        return
    for field in _LISTS_OF_CONTAINERS:
        for container in specs[0].get(field) or ():
            if mounts := container.get("volumeMounts"):
                container["volumeMounts"] = [each for each in mounts if each.get("name") not in images[0]]


# ---- strategies


def disabled_by(states: FeatureGates) -> Callable[[str], bool]:
    """Returns a predicate: whether a rule with some gates removes fields."""
    return cache(partial(is_off, states=states))


def without_disabled_fields(
    builtin: BuiltinType, definition: str, is_disabled: Callable[[str], bool]
) -> BuiltinType:
    """Returns a type whose writes lose the fields of disabled features, on all of its endpoints.

    definition: that of its hub, the version of its strategy. is_disabled: see `disabled_by`.
    """
    rules = rules_of(definition, is_disabled)
    if not rules:
        return builtin
    fields, spec_path = DisabledFields(rules), POD_SPECS.get(definition, "").split(".")
    has_image_volumes = definition in POD_SPECS and any(rule.gates == "ImageVolume" for rule in rules)

    def drop(new: Document, old: Document | None) -> None:
        if has_image_volumes:
            _drop_image_mounts(spec_path, new, old)
        fields.drop(new, old)

    def create(document: Document) -> Sequence[str] | None:
        drop(document, None)
        return builtin.strategy.prepare_create(document)

    def dropping(update: UpdateStrategy) -> UpdateStrategy:
        def prepare(new: Document, old: Document) -> None:
            drop(new, old)
            update.prepare(new, old)

        return update._replace(prepare=prepare)

    return replace(
        builtin,
        strategy=builtin.strategy._replace(prepare_create=create, update=dropping(builtin.strategy.update)),
        subresources=tuple(
            sub if sub.update is None else sub._replace(update=dropping(sub.update))
            for sub in builtin.subresources
        ),
    )
