"""Applies LimitRanges: containers get default requests and limits, and must keep within bounds.

Source: kubernetes, plugin/pkg/admission/limitranger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from apiserver.admission.chain import AdmissionAttributes, Plugin, creates, updates, writes
from apiserver.admission.listers import Lister, refused
from apiserver.admission.plugins.new_object_defaults import CLAIMS
from apiserver.admission.plugins.pod_specs import CONTAINERS, PODS, containers, work_with
from apiserver.catalogue.pod_specs.resource_totals import quantities, total_of_pod
from apiserver.golang.quoting import aggregate
from apiserver.load.size_class import size_class
from apiserver.meta.quantity import EXACT, Quantity, ratio_text
from apiserver.meta.vocabulary import Document
from apiserver.registry.stored_object import StoredObject
from apiserver.storage.event_loop_turns import in_turns

ANNOTATION: Final = "kubernetes.io/limit-ranger"
# What a bound is compared with: requests and limits.
Needs = tuple[Mapping[str, Quantity], Mapping[str, Quantity]]


class LimitRanger(Plugin):
    name = "LimitRanger"
    handled = creates(PODS) | updates(PODS, subresource="resize") | writes(CLAIMS)

    def __init__(self, limit_ranges: Lister) -> None:
        self._limit_ranges = limit_ranges

    async def mutate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        if attributes.resource.stored_group_resource == PODS and old is None:
            offload, size = attributes.offload, work_with(new["spec"])
            async for each in in_turns(await self._limit_ranges.list(attributes.namespace)):
                await offload.run_begun(max(size, size_class(len(each.tail))), _set_defaults, new, each)

    async def validate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        if old is not None and "deletionTimestamp" in old["metadata"]:
            return
        problems = claim_problems if attributes.resource.stored_group_resource == CLAIMS else pod_problems

        def problems_of(limit_range: StoredObject) -> list[str]:
            # The same one may be wrong with several containers.
            return list(dict.fromkeys(problems(new, limit_range.document())))

        offload, size = attributes.offload, work_with(new["spec"])
        async for each in in_turns(await self._limit_ranges.list(attributes.namespace)):
            if texts := await offload.run_begun(max(size, size_class(len(each.tail))), problems_of, each):
                raise refused(attributes, new, aggregate(texts))


def _set_defaults(pod: Document, limit_range: StoredObject) -> None:
    set_defaults(pod, limit_range.document())


def set_defaults(pod: Document, limit_range: Document) -> None:
    """Set default requests and limits of containers, and list them in an annotation."""
    defaults: dict[str, dict[str, str]] = {"requests": {}, "limits": {}}
    for item in limit_range["spec"].get("limits") or ():
        if item.get("type") == "Container":
            defaults["requests"] |= item.get("defaultRequest") or {}
            defaults["limits"] |= item.get("default") or {}
    told = []
    for field in ("containers", "initContainers"):
        for container in containers(pod["spec"], field):
            resources = container.setdefault("resources", {})
            for needs, values in defaults.items():
                there = resources.get(needs) or {}
                if missing := sorted(values.keys() - there.keys()):
                    resources[needs] = there | {name: values[name] for name in missing}
                    kind = f"{CONTAINERS[field]} {container.get('name', '')}"
                    told.append(f"{', '.join(missing)} {needs.removesuffix('s')} for {kind}")
    if told:
        annotations = pod["metadata"].get("annotations") or {}
        text = f"LimitRanger plugin set: {'; '.join(told)}"
        pod["metadata"]["annotations"] = {**annotations, ANNOTATION: text}


# ---- bounds


def pod_problems(pod: Document, limit_range: Document) -> Iterator[str]:
    spec = pod["spec"]
    for item in limit_range["spec"].get("limits") or ():
        match item.get("type"):
            case "Container":
                for container in containers(spec, "containers", "initContainers"):
                    needed = container.get("resources") or {}
                    needs = quantities(needed.get("requests")), quantities(needed.get("limits"))
                    yield from _outside(item, needs, _min, _max, _ratio)
            case "Pod":
                needs = total_of_pod(spec, "requests"), total_of_pod(spec, "limits")
                yield from _outside(item, needs, _min, _max, _ratio)


def claim_problems(claim: Document, limit_range: Document) -> Iterator[str]:
    """Yields how the requests of a claim violate a LimitRange; only these are bounded."""
    requests = quantities((claim["spec"].get("resources") or {}).get("requests"))
    for item in limit_range["spec"].get("limits") or ():
        if item.get("type") == "PersistentVolumeClaim":
            yield from _outside(item, (requests, {}), _min, _max_request)


# Takes the type of limit, the resource, the bound and the needs; returns what is wrong.
Bound = Callable[[str, str, Quantity, Needs], str | None]


def _outside(item: Document, needs: Needs, *bounds: Bound) -> Iterator[str]:
    for bound, field in zip(bounds, ("min", "max", "maxLimitRequestRatio"), strict=False):
        for name, value in sorted(quantities(item.get(field)).items()):
            if problem := bound(item["type"], name, value, needs):
                yield problem


def _min(kind: str, name: str, least: Quantity, needs: Needs) -> str | None:
    request, limit = (each.get(name) for each in needs)
    text = f"minimum {name} usage per {kind} is {least}"
    if request is None:
        return f"{text}.  No request is specified"
    if request < least:
        return f"{text}, but request is {request}"
    return f"{text}, but limit is {limit}" if limit is not None and limit < least else None


def _max(kind: str, name: str, most: Quantity, needs: Needs) -> str | None:
    request, limit = (each.get(name) for each in needs)
    text = f"maximum {name} usage per {kind} is {most}"
    if limit is None:
        return f"{text}.  No limit is specified"
    if limit > most:
        return f"{text}, but limit is {limit}"
    return f"{text}, but request is {request}" if request is not None and request > most else None


def _max_request(kind: str, name: str, most: Quantity, needs: Needs) -> str | None:
    request = needs[0].get(name)
    text = f"maximum {name} usage per {kind} is {most}"
    if request is None:
        return f"{text}.  No request is specified"
    return f"{text}, but request is {request}" if request > most else None


def _ratio(kind: str, name: str, most: Quantity, needs: Needs) -> str | None:
    request, limit = (each.get(name) for each in needs)
    text = f"{name} max limit to request ratio per {kind} is {most}, but"
    if request is None or not request.value:
        return f"{text} no request is specified or request is 0"
    if limit is None or not limit.value:
        return f"{text} no limit is specified or limit is 0"
    if limit.value > EXACT.multiply(request.value, most.value):
        return f"{text} provided ratio is {ratio_text(limit.value, request.value)}"
    return None
