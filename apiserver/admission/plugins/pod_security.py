"""Labels of a namespace say how secure its pods must be, and from where on clients are warned.

Templates of pods are only warned about: whoever makes pods from them is refused those. There is no audit log:
labels about it are checked, and nothing more.
Source: https://kubernetes.io/docs/concepts/security/pod-security-admission/; k8s.io/pod-security-admission,
admission and api.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from apiserver.admission.chain import Operation, Plugin, Write
from apiserver.admission.plugins.listers import Lister, refused
from apiserver.admission.plugins.pod_security_standards import (
    LATEST_MINOR,
    LEVELS,
    PRIVILEGED,
    RESTRICTED,
    findings,
)
from apiserver.admission.plugins.pod_specs import PODS, containers
from apiserver.errors import Invalid
from apiserver.field_errors import FieldError, invalid, quote
from apiserver.validation.checks import at
from apiserver.vocabulary import Document, GroupResource

_PREFIX: Final = "pod-security.kubernetes.io/"
_NAMESPACES: Final = GroupResource("", "namespaces")
# Where other types have their template of pods.
_TEMPLATES: Final = {
    GroupResource("", "podtemplates"): ("template",),
    GroupResource("", "replicationcontrollers"): ("spec", "template"),
    GroupResource("apps", "daemonsets"): ("spec", "template"),
    GroupResource("apps", "deployments"): ("spec", "template"),
    GroupResource("apps", "replicasets"): ("spec", "template"),
    GroupResource("apps", "statefulsets"): ("spec", "template"),
    GroupResource("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
    GroupResource("batch", "jobs"): ("spec", "template"),
}
# Subresources of pods that change what they run.
_POD_SUBRESOURCES: Final = ("", "ephemeralcontainers", "resize")
# When a namespace gets stricter its pods are looked at, these at the most, and so many before others' turns.
EXISTING_PODS_MAX: Final = 3_000
PODS_AT_ONCE: Final = 50


@dataclass(frozen=True, slots=True)
class Standard:
    """A level, as one version of Kubernetes has it."""

    level: str = PRIVILEGED
    version: str = "latest"

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"

    def violations(self, pod: Document, *, in_detail: bool = True) -> str:
        """What a pod, or a template of pods, violates, in one line; empty if nothing."""
        minor = LATEST_MINOR if self.version == "latest" else int(self.version.partition(".")[2])
        annotations = (pod.get("metadata") or {}).get("annotations") or {}
        found = findings(self.level, minor, annotations, pod.get("spec") or {})
        return ", ".join(str(each) if in_detail else each.reason for each in found)


@dataclass(frozen=True, slots=True)
class Policy:
    enforced: Standard
    warned: Standard
    errors: tuple[FieldError, ...] = ()

    @property
    def is_privileged(self) -> bool:
        return self.enforced.level == self.warned.level == PRIVILEGED


_PRIVILEGED: Final = Policy(Standard(), Standard())


def policy_of(namespace: Document) -> Policy:
    """What the labels ask for. One that cannot be understood enforces everything, and warns of nothing."""
    return _policy_of_labels(namespace["metadata"].get("labels") or {})


def _policy_of_labels(labels: Mapping[str, str]) -> Policy:
    if not any(key.startswith(_PREFIX) for key in labels):
        return _PRIVILEGED
    errors: list[FieldError] = []

    def standard(mode: str, otherwise: str) -> Standard:
        level = labels.get(f"{_PREFIX}{mode}", PRIVILEGED)
        version = labels.get(f"{_PREFIX}{mode}-version", "latest")
        if level not in LEVELS:
            text = f"must be one of {', '.join(LEVELS)}"
            errors.append(invalid(f"metadata.labels[{_PREFIX}{mode}]", level, text))
            level = otherwise
        if version != "latest" and not _VERSION.fullmatch(version):
            text = 'must be "latest" or "v1.x"'
            errors.append(invalid(f"metadata.labels[{_PREFIX}{mode}-version]", version, text))
            version = "latest"
        return Standard(level, version)

    enforced = standard("enforce", RESTRICTED)
    standard("audit", PRIVILEGED)
    warned = standard("warn", PRIVILEGED)
    has_level, has_version = (f"{_PREFIX}{name}" in labels for name in ("warn", "warn-version"))
    if not has_level and enforced.level != PRIVILEGED:
        # Whoever makes pods by way of a template is to hear of it at once.
        warned = Standard(enforced.level, warned.version if has_version else enforced.version)
    return Policy(enforced, warned, tuple(errors))


_VERSION: Final = re.compile(r"v1\.(0|[1-9][0-9]{0,8})", re.ASCII)


class PodSecurity(Plugin):
    name = "PodSecurity"

    def __init__(self, namespaces: Lister, pods: Lister) -> None:
        self._namespaces = namespaces
        self._pods = pods

    def concerns(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        if operation not in (Operation.CREATE, Operation.UPDATE):
            return False
        if resource == PODS:
            return subresource in _POD_SUBRESOURCES
        return not subresource and (resource == _NAMESPACES or resource in _TEMPLATES)

    async def validate(self, write: Write, new: Document | None, old: Document | None) -> None:
        if new is None:
            return
        resource = write.resource.stored_group_resource
        if resource == _NAMESPACES:
            await self._validate_namespace(write, new, old)
            return
        namespace = await self._namespaces.find_kept(write.namespace)
        policy = _policy_of_labels(namespace.labels()) if namespace is not None else None
        if policy is None or policy.is_privileged:
            return
        if resource != PODS:
            template = at(new, *_TEMPLATES[resource])
            if template is not None:
                _warn(write, policy, template)
        elif old is None or _runs_something_else(new, old):
            if problem := policy.enforced.violations(new):
                raise refused(write, new, f"violates PodSecurity {quote(str(policy.enforced))}: {problem}")
            _warn(write, policy, new)

    async def _validate_namespace(self, write: Write, new: Document, old: Document | None) -> None:
        policy, before = policy_of(new), policy_of(old) if old is not None else None
        if policy.errors and (before is None or policy.errors != before.errors):
            raise Invalid(write.resource.group_kind, new["metadata"]["name"], policy.errors)
        if before is None:
            return
        enforced, relaxed = policy.enforced, before.enforced
        is_stricter = LEVELS.index(enforced.level) > LEVELS.index(relaxed.level)
        if enforced.level != PRIVILEGED and (enforced.version != relaxed.version or is_stricter):
            for text in await self._existing(new["metadata"]["name"], enforced):
                if text not in write.warnings:
                    write.warnings.append(text)

    async def _existing(self, namespace: str, enforced: Standard) -> list[str]:
        """Warnings of the pods that could not be made any more."""
        pods = await self._pods.all(namespace)
        found: defaultdict[str, list[str]] = defaultdict(list)
        for index, each in enumerate(pods[:EXISTING_PODS_MAX]):
            if index % PODS_AT_ONCE == PODS_AT_ONCE - 1:
                await asyncio.sleep(0)
            pod = each.document()
            if problem := enforced.violations(pod, in_detail=False):
                found[problem].append(pod["metadata"]["name"])
        warnings = []
        if len(pods) > EXISTING_PODS_MAX:
            warnings.append(
                f"new PodSecurity enforce level only checked against the first {EXISTING_PODS_MAX} of "
                f"{len(pods)} existing pods"
            )
        if found:
            warnings.append(
                f"existing pods in namespace {quote(namespace)} violate the new PodSecurity enforce level "
                f"{quote(str(enforced))}"
            )
        return warnings + sorted(f"{_told(names)}: {problem}" for problem, names in found.items())


def _warn(write: Write, policy: Policy, pod: Document) -> None:
    if problem := policy.warned.violations(pod):
        text = f"would violate PodSecurity {quote(str(policy.warned))}: {problem}"
        if text not in write.warnings:  # Another attempt may have told already.
            write.warnings.append(text)


def _told(names: list[str]) -> str:
    """names: in order."""
    others = len(names) - 1
    return f"{names[0]} (and {others} other pod{'s' * (others > 1)})" if others else names[0]


def _runs_something_else(new: Document, old: Document) -> bool:
    """Whether an update may change what a pod does: another image, or another container."""
    after, before = (
        [(each.get("name"), each.get("image")) for each in containers(pod["spec"])] for pod in (new, old)
    )
    return after != before
