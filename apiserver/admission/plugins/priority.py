"""Sets the priority of pods and of their groups from their PriorityClass, and refuses a second default class.

Source: kubernetes, plugin/pkg/admission/priority.
"""

from __future__ import annotations

from typing import Any, Final

from apiserver.admission.chain import AdmissionAttributes, Plugin, writes
from apiserver.admission.listers import Lister, refused
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.storage.event_loop_turns import in_turns

_PODS: Final = GroupResource("", "pods")
# Groups of pods, which have priorities since this release, and what errors call them.
_GROUPS: Final = {"podgroups": "pod group", "compositepodgroups": "composite pod group"}
_GROUPS_SINCE: Final = 37
_PREEMPTS: Final = "PreemptLowerPriority"
# Classes that exist even before they are stored.
_SYSTEM_CLASSES: Final = {
    "system-cluster-critical": {"value": 2_000_000_000, "preemptionPolicy": _PREEMPTS},
    "system-node-critical": {"value": 2_000_001_000, "preemptionPolicy": _PREEMPTS},
}
_NO_CLASS: Final = {"metadata": {"name": ""}, "value": 0, "preemptionPolicy": _PREEMPTS}


class Priority(Plugin):
    name = "Priority"

    def __init__(self, classes: Lister, gates: FeatureGates) -> None:
        self._classes = classes
        group, has_groups = classes.group_resource.group, gates.minor >= _GROUPS_SINCE
        # What has a priority.
        self._owners = {_PODS: "pod"} | {
            GroupResource(group, resource): text for resource, text in _GROUPS.items() if has_groups
        }
        self.handled = writes(*self._owners, classes.group_resource)
        self._groups_preempt = has_groups and gates.is_on("PodGroupPreemptionPolicy")

    async def mutate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        resource = attributes.resource.stored_group_resource
        if (owner := self._owners.get(resource)) is None or self._classes.served is None:
            return
        if old is not None:
            if resource == _PODS:
                self._keep(new["spec"], old["spec"])
            return
        spec = new.setdefault("spec", {})
        if name := spec.get("priorityClassName"):
            found: Any = await self._classes.get_document(name) or _SYSTEM_CLASSES.get(name)
            if found is None:
                raise refused(attributes, new, f"no PriorityClass with name {name} was found")
        else:
            found = await self._default() or _NO_CLASS
            if name := found["metadata"]["name"]:
                spec["priorityClassName"] = name
        value, policy = found.get("value", 0), found.get("preemptionPolicy")
        if spec.get("priority") not in (None, value):
            raise refused(
                attributes,
                new,
                f"the integer value of priority ({spec['priority']}) must not be provided in {owner} spec; "
                f"priority admission controller computed {value} from the given PriorityClass name",
            )
        spec["priority"] = value
        if policy is None or (resource != _PODS and not self._groups_preempt):
            return
        if spec.get("preemptionPolicy") not in (None, policy):
            raise refused(
                attributes,
                new,
                f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in "
                f"{owner} spec; priority admission controller computed {policy} from the given PriorityClass "
                "name",
            )
        spec["preemptionPolicy"] = policy

    @staticmethod
    def _keep(spec: Document, old: Document) -> None:
        """Keep the priority of an updated pod, as clients need not repeat what was added to it."""
        for field in ("priority", "preemptionPolicy"):
            if spec.get(field) is None and old.get(field) is not None:
                spec[field] = old[field]

    async def validate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        resource = attributes.resource.stored_group_resource
        if resource in self._owners or not new.get("globalDefault"):
            return
        default = await self._default()
        if default is not None and default["metadata"]["name"] != new["metadata"].get("name"):
            name = default["metadata"]["name"]
            raise refused(
                attributes,
                new,
                f"PriorityClass {name} is already marked as default. Only one default can exist",
            )

    async def _default(self) -> Document | None:
        """Returns the default class: the one with the lowest value, if there are several."""
        marked = [
            await self._classes.offload.document(each)
            async for each in in_turns(await self._classes.list())
            if b'"globalDefault":true' in each.tail
        ]
        return min(
            (each for each in marked if each.get("globalDefault")),
            key=lambda each: int(each.get("value", 0)),
            default=None,
        )
