"""Gives pods the tolerations of their namespace, and refuses those that the namespace does not allow.

Both come from annotations of the namespace, or from configuration. Where kube-apiserver answers 500, a pod is
forbidden here: the client has asked for what it may not have.
Source: kubernetes, plugin/pkg/admission/podtolerationrestriction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson

from apiserver.admission.chain import AdmissionAttributes, Operation, Plugin
from apiserver.admission.configuration.pod_toleration_restriction import TolerationRestriction
from apiserver.admission.listers import Lister, refused
from apiserver.admission.plugins.pod_specs import PODS, containers, work_with
from apiserver.admission.plugins.runtime_class import includes, merged
from apiserver.errors import Forbidden, NotFound
from apiserver.registry.offload import Offload
from apiserver.vocabulary import Document, GroupResource

DEFAULT: Final = "scheduler.alpha.kubernetes.io/defaultTolerations"
ALLOWED: Final = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
_OF_PODS_WITH_REQUESTS: Final = {
    "key": "node.kubernetes.io/memory-pressure",
    "operator": "Exists",
    "effect": "NoSchedule",
}
# Of a namespace, in one annotation.
TOLERATIONS_MAX: Final = 1_000
# Pairs of a pod's tolerations with allowed ones that are compared, which takes some milliseconds.
COMPARED_MAX: Final = 10_000


class PodTolerationRestriction(Plugin):
    name = "PodTolerationRestriction"

    def __init__(self, namespaces: Lister, configured: TolerationRestriction, offload: Offload) -> None:
        self._namespaces = namespaces
        self._offload = offload
        self._configured = configured

    def handles(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        return resource == PODS and not subresource and operation in (Operation.CREATE, Operation.UPDATE)

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

    async def validate(
        self, attributes: AdmissionAttributes, new: Document | None, old: Document | None
    ) -> None:
        if new is not None:
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
            found = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise _unusable(attributes, pod, annotation, str(error)) from None
        if isinstance(found, list) and len(found) > TOLERATIONS_MAX:
            why = f"there are more than {TOLERATIONS_MAX} tolerations"
            raise _unusable(attributes, pod, annotation, why)
        if found is not None and not _are_tolerations(found):
            raise _unusable(attributes, pod, annotation, "it is not a list of tolerations")
        return found or ()


def _are_tolerations(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, dict)
        and all(isinstance(each.get(field, ""), str) for field in ("key", "operator", "value", "effect"))
        and type(each.get("tolerationSeconds", 0)) is int
        for each in value
    )


def _unusable(attributes: AdmissionAttributes, pod: Document, annotation: str, why: str) -> Forbidden:
    return refused(attributes, pod, f"namespace {attributes.namespace}, annotation {annotation}: {why}")


def _is_best_effort(spec: Document) -> bool:
    """Whether nothing in a pod asks for CPU or memory."""
    for each in (spec, *containers(spec, "containers", "initContainers")):
        for field in ("requests", "limits"):
            amounts = (each.get("resources") or {}).get(field) or {}
            if amounts.keys() & {"cpu", "memory"}:
                return False
    return True
