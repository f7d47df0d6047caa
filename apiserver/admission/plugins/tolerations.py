"""Plugins that add tolerations to pods.

Source: kubernetes, plugin/pkg/admission/{defaulttolerationseconds,extendedresourcetoleration,
podtolerationrestriction} and pkg/util/tolerations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from apiserver.admission.chain import AdmissionAttributes, Plugin, writes
from apiserver.admission.configuration.pod_toleration_restriction import TolerationRestriction
from apiserver.admission.listers import Lister, refused
from apiserver.admission.plugins.pod_specs import PODS, containers, work_with
from apiserver.catalogue.core.pods.qos import qos_class
from apiserver.catalogue.pod_specs.resource_requirements import is_extended_resource
from apiserver.meta.vocabulary import Document

# Of PodTolerationRestriction: annotations of namespaces.
DEFAULT: Final = "scheduler.alpha.kubernetes.io/defaultTolerations"
ALLOWED: Final = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
_OF_PODS_WITH_REQUESTS: Final = {
    "key": "node.kubernetes.io/memory-pressure",
    "operator": "Exists",
    "effect": "NoSchedule",
}
# The fields that identify a toleration.
_TEXTS: Final = ("key", "operator", "value", "effect")
_SECONDS: Final = "tolerationSeconds"
SECONDS_MAX: Final = (1 << 63) - 1
# Of a namespace, in one annotation.
TOLERATIONS_MAX: Final = 1_000
# Pairs of tolerations that are compared, which takes some milliseconds.
COMPARED_MAX: Final = 10_000


class DefaultTolerationSeconds(Plugin):
    """Lets pods without such tolerations stay for a while on nodes that are unreachable or not ready."""

    name = "DefaultTolerationSeconds"
    handled = writes(PODS)

    def __init__(self, not_ready_s: int, unreachable_s: int) -> None:
        """Sets how long pods stay on nodes with each of the two taints, in seconds."""
        self._stay_s = {
            "node.kubernetes.io/not-ready": not_ready_s,
            "node.kubernetes.io/unreachable": unreachable_s,
        }

    async def mutate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        add_tolerations(new["spec"], self._stay_s)


def add_tolerations(spec: Document, stay_s: Mapping[str, int]) -> None:
    """Add tolerations of taints that the pod does not tolerate. stay_s: their duration in seconds, by
    taint.
    """
    there = spec.get("tolerations") or []
    tolerated = {each.get("key", "") for each in there if each.get("effect", "") in ("NoExecute", "")}
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
        for key, seconds in stay_s.items()
        if key not in tolerated and "" not in tolerated
    ]
    if added:
        spec["tolerations"] = [*there, *added]


class ExtendedResourceToleration(Plugin):
    """Lets pods that request an extended resource run on nodes that are reserved for such pods."""

    name = "ExtendedResourceToleration"
    handled = writes(PODS)

    async def mutate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        spec = new["spec"]
        await attributes.offload.run_begun(work_with(spec), tolerate_resources, spec)


def tolerate_resources(spec: Document) -> None:
    """Add a toleration for each extended resource that the containers of a pod request."""
    asked = {
        name
        for container in containers(spec, "containers", "initContainers")
        for name in (container.get("resources") or {}).get("requests") or ()
    }
    there = spec.get("tolerations") or []
    known = {tuple(each.get(field, "") for field in _TEXTS) for each in there}
    added = [
        {"key": name, "operator": "Exists", "effect": "NoSchedule"}
        for name in sorted(filter(is_extended_resource, asked))
        if (name, "Exists", "", "NoSchedule") not in known
    ]
    if added:
        spec["tolerations"] = [*there, *added]


class PodTolerationRestriction(Plugin):
    """Gives pods the tolerations of their namespace, and refuses those that the namespace does not allow.

    Both come from annotations of the namespace, or from configuration. Where kube-apiserver responds with
    500, this server responds with 403, as the pod is not allowed.
    """

    name = "PodTolerationRestriction"
    handled = writes(PODS)

    def __init__(self, namespaces: Lister, configured: TolerationRestriction) -> None:
        self._namespaces, self._configured = namespaces, configured

    async def mutate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        spec = new["spec"]
        tolerations: Sequence[Document] = spec.get("tolerations") or ()
        if old is None:
            default = await self._of_namespace(attributes, new, DEFAULT)
            if default is None:
                default = self._configured.default
            if default:
                tolerations = merged(default, tolerations)
        if await attributes.offload.run_begun(work_with(spec), qos_class, spec) != "BestEffort":
            tolerations = merged(tolerations, (_OF_PODS_WITH_REQUESTS,))
        if tolerations:
            spec["tolerations"] = [dict(each) for each in tolerations]
        await self._require_allowed(attributes, new)

    async def validate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        await self._require_allowed(attributes, new)

    async def _require_allowed(self, attributes: AdmissionAttributes, pod: Document) -> None:
        """Require that tolerations are allowed."""
        tolerations = pod["spec"].get("tolerations")
        if not tolerations:
            return
        allowed, whose = await self._of_namespace(attributes, pod, ALLOWED), "namespace"
        if allowed is None:
            allowed, whose = self._configured.allowed, "cluster"
        if not allowed:
            return
        is_too_much = len(tolerations) * len(allowed) > COMPARED_MAX
        if is_too_much or not all(any(includes(wide, each) for wide in allowed) for each in tolerations):
            raise refused(
                attributes,
                pod,
                "pod tolerations (possibly merged with namespace default tolerations) conflict with its "
                f"{whose} whitelist",
            )

    async def _of_namespace(
        self, attributes: AdmissionAttributes, pod: Document, annotation: str
    ) -> Sequence[Document] | None:
        """Returns the tolerations in an annotation of the pod's namespace; None if it is absent.

        Raises Forbidden, NotFound.
        """
        namespace = await self._namespaces.require_document(attributes.namespace)
        text = (namespace["metadata"].get("annotations") or {}).get(annotation)
        if not text:
            return None if text is None else ()
        try:
            return tolerations_of(text)
        except ValueError as error:
            why = f"namespace {attributes.namespace}, annotation {annotation}: {error}"
            raise refused(attributes, pod, why) from None


def tolerations_of(text: str) -> list[Document]:
    """Returns the tolerations in an annotation, without unknown fields. Raises ValueError.

    They are read as in Go: names of fields are case-insensitive, and null counts as absent.
    """
    found = orjson.loads(text)
    if found is None:
        return []
    if not isinstance(found, list):
        raise ValueError("the value is not a list of tolerations")
    if len(found) > TOLERATIONS_MAX:
        raise ValueError(f"the value has more than {TOLERATIONS_MAX} tolerations")
    return [_toleration(each) for each in found]


def _toleration(value: Any) -> Document:
    """Returns a toleration."""
    if not isinstance(value, dict | None):
        raise ValueError("the value is not a list of tolerations")
    given = {name.lower(): each for name, each in (value or {}).items() if each is not None}
    found = {name: given.get(name, "") for name in _TEXTS}
    if not all(isinstance(each, str) for each in found.values()):
        raise ValueError("a toleration has a value that is not a string")
    toleration: Document = {name: each for name, each in found.items() if each}
    seconds = given.get(_SECONDS.lower())
    if seconds is not None:
        if type(seconds) is not int or not -SECONDS_MAX <= seconds <= SECONDS_MAX:
            raise ValueError(f"{_SECONDS} of a toleration is not a whole number of seconds")
        toleration[_SECONDS] = seconds
    return toleration


# ---- comparing


def merged(first: Sequence[Document], second: Sequence[Document]) -> list[Document]:
    """Joins two lists of tolerations, without those that another one includes; of equal ones the first is
    kept.

    If there are too many to compare, redundant ones are kept.
    """
    unique = list({tuple(sorted(each.items())): each for each in (*first, *second)}.values())
    if len(unique) ** 2 > COMPARED_MAX:
        return unique
    kept: list[Document] = []
    for index, each in enumerate(unique):
        others = (*kept, *unique[index + 1 :])
        if not any(_contains(other, each) for other in others):
            kept.append(each)
    return kept


def includes(wide: Document, narrow: Document) -> bool:
    """Returns whether `wide` tolerates everything that `narrow` does."""
    return wide == narrow or _contains(wide, narrow)


def _contains(wide: Document, narrow: Document) -> bool:
    operator, key, effect = (wide.get(field, "") for field in ("operator", "key", "effect"))
    if narrow.get("key", "") != key and (key or operator != "Exists"):
        return False
    if narrow.get("effect", "") != effect and effect:
        return False
    seconds, needed = wide.get("tolerationSeconds"), narrow.get("tolerationSeconds")
    if effect == "NoExecute" and seconds is not None and (needed is None or needed > seconds):
        return False
    if operator in ("Equal", ""):
        return narrow.get("operator") == "Equal" and narrow.get("value", "") == wide.get("value", "")
    return bool(operator == "Exists")
