"""Gives pods the tolerations of their namespace, and refuses those that the namespace does not allow.

Both come from annotations of the namespace, or from configuration. Where kube-apiserver answers 500, a pod is
forbidden here: the client has asked for what it may not have.
Source: kubernetes, plugin/pkg/admission/podtolerationrestriction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson

from apiserver.admission.chain import AdmissionAttributes, Plugin, writes
from apiserver.admission.configuration.pod_toleration_restriction import TolerationRestriction
from apiserver.admission.listers import Lister, refused
from apiserver.admission.plugins.pod_specs import PODS, work_with
from apiserver.admission.plugins.runtime_class import includes, merged
from apiserver.catalogue.core.pods.qos import qos_class
from apiserver.load.offload import Offload
from apiserver.meta.errors import NotFound
from apiserver.meta.vocabulary import Document

DEFAULT: Final = "scheduler.alpha.kubernetes.io/defaultTolerations"
ALLOWED: Final = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
_OF_PODS_WITH_REQUESTS: Final = {
    "key": "node.kubernetes.io/memory-pressure",
    "operator": "Exists",
    "effect": "NoSchedule",
}
_TEXTS: Final = ("key", "operator", "value", "effect")
_SECONDS: Final = "tolerationSeconds"
SECONDS_MAX: Final = (1 << 63) - 1
# Of a namespace, in one annotation.
TOLERATIONS_MAX: Final = 1_000
# Pairs of a pod's tolerations with allowed ones that are compared, which takes some milliseconds.
COMPARED_MAX: Final = 10_000


class PodTolerationRestriction(Plugin):
    name = "PodTolerationRestriction"
    handled = writes(PODS)

    def __init__(self, namespaces: Lister, configured: TolerationRestriction, offload: Offload) -> None:
        self._namespaces = namespaces
        self._offload = offload
        self._configured = configured

    async def mutate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        spec = new["spec"]
        tolerations: Sequence[Document] = spec.get("tolerations") or ()
        if old is None:
            default = await self._of_namespace(attributes, new, DEFAULT)
            if default is None:
                default = self._configured.default
            if default:
                tolerations = merged(default, tolerations)
        offload = self._offload.for_user(attributes.user.name)
        if not await offload.run_begun(work_with(spec), _is_best_effort, spec):
            tolerations = merged(tolerations, (_OF_PODS_WITH_REQUESTS,))
        if tolerations:
            spec["tolerations"] = [dict(each) for each in tolerations]
        await self._require_allowed(attributes, new)

    async def validate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        await self._require_allowed(attributes, new)

    async def _require_allowed(self, attributes: AdmissionAttributes, pod: Document) -> None:
        """Raises Forbidden."""
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
        """Returns what an annotation of the pod's namespace says; None if it is absent.

        Raises Forbidden, NotFound.
        """
        namespace = await self._namespaces.get_document(attributes.namespace)
        if namespace is None:
            raise NotFound(self._namespaces.group_resource, attributes.namespace)
        text = (namespace["metadata"].get("annotations") or {}).get(annotation)
        if not text:
            return None if text is None else ()
        try:
            return tolerations_of(text)
        except ValueError as error:
            why = f"namespace {attributes.namespace}, annotation {annotation}: {error}"
            raise refused(attributes, pod, why) from None


def tolerations_of(text: str) -> list[Document]:
    """Returns the tolerations of an annotation, without what else its objects have. Raises ValueError.

    As Go reads them: letters of fields may be of either case, and null is as if it was absent.
    """
    found = orjson.loads(text)
    if found is None:
        return []
    if not isinstance(found, list):
        raise ValueError("it is not a list of tolerations")
    if len(found) > TOLERATIONS_MAX:
        raise ValueError(f"there are more than {TOLERATIONS_MAX} tolerations")
    return [_toleration(each) for each in found]


def _toleration(value: Any) -> Document:
    """Raises ValueError."""
    if not isinstance(value, dict | None):
        raise ValueError("it is not a list of tolerations")
    given = {name.lower(): each for name, each in (value or {}).items() if each is not None}
    found = {name: given.get(name, "") for name in _TEXTS}
    if not all(isinstance(each, str) for each in found.values()):
        raise ValueError("a toleration has a value that is no text")
    toleration: Document = {name: each for name, each in found.items() if each}
    seconds = given.get(_SECONDS.lower())
    if seconds is not None:
        if type(seconds) is not int or not -SECONDS_MAX <= seconds <= SECONDS_MAX:
            raise ValueError(f"{_SECONDS} of a toleration is no whole number of seconds")
        toleration[_SECONDS] = seconds
    return toleration


def _is_best_effort(spec: Document) -> bool:
    return qos_class(spec) == "BestEffort"
