"""Enforces the Pod Security Standards that a namespace's labels name, and warns about others.

The defaults and the exemptions are configured (`configuration.pod_security`). Pod templates only cause
warnings: the controller that creates pods from them is refused. Violations of the audit level become an
annotation of the audit event.
Source: https://kubernetes.io/docs/concepts/security/pod-security-admission/; k8s.io/pod-security-admission,
admission and api.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from apiserver.admission.chain import AdmissionAttributes, Operation, Plugin
from apiserver.admission.configuration.pod_security import (
    LATEST,
    LEVELS,
    PRIVILEGED,
    RESTRICTED,
    VERSION,
    LevelVersion,
    PodSecurityConfiguration,
)
from apiserver.admission.listers import refused
from apiserver.admission.plugin_context import PluginContext
from apiserver.admission.plugins.pod_security_standards import LATEST_MINOR, findings
from apiserver.admission.plugins.pod_specs import PODS, containers, work_with
from apiserver.load.offload import Offload
from apiserver.load.size_class import size_class
from apiserver.meta.errors import Invalid
from apiserver.meta.field_errors import FieldError, invalid, quote
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.metrics.pod_security import (
    AUDIT,
    ENFORCE,
    WARN,
    EvaluatedWrite,
    EvaluationCounter,
    PodSecurityMetrics,
)
from apiserver.registry.stored_object import StoredObject
from apiserver.schema.validation.documents import at
from apiserver.storage.event_loop_turns import in_turns

_PREFIX: Final = "pod-security.kubernetes.io/"
# The annotation of audit events that says what was enforced.
_ENFORCED: Final = f"{_PREFIX}enforce-policy"
_NAMESPACES: Final = GroupResource("", "namespaces")
# The paths of the pod templates of other resources.
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
# When a namespace gets stricter, so many of its pods are checked.
EXISTING_PODS_MAX: Final = 3_000


def violations(pod: Document, standard: LevelVersion, *, in_detail: bool = True) -> str:
    """Returns the violations of a pod, or of a pod template, in one line; empty if there are none."""
    minor = LATEST_MINOR if standard.version == LATEST else _minor(standard)
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    found = findings(standard.level, minor, annotations, pod.get("spec") or {})
    return ", ".join(str(each) if in_detail else each.reason for each in found)


def _minor(standard: LevelVersion) -> int:
    return int(standard.version.partition(".")[2])


def _evaluated(attributes: AdmissionAttributes) -> EvaluatedWrite:
    is_pod = attributes.resource.stored_group_resource == PODS
    return EvaluatedWrite(
        attributes.operation.value.lower(), "pod" if is_pod else "controller", attributes.subresource
    )


class Policy(NamedTuple):
    """The policy for a namespace. errors: those in its labels."""

    enforced: LevelVersion = LevelVersion()
    audited: LevelVersion = LevelVersion()
    warned: LevelVersion = LevelVersion()
    errors: tuple[FieldError, ...] = ()

    @property
    def is_privileged(self) -> bool:
        """Whether the policy has no effect."""
        return self.enforced.level == self.audited.level == self.warned.level == PRIVILEGED

    def __str__(self) -> str:
        modes = (("enforce", self.enforced), ("audit", self.audited), ("warn", self.warned))
        return ", ".join(f"{mode}={each}" for mode, each in modes if each.level != PRIVILEGED)

    def warnings(self, pod: Document) -> Sequence[str]:
        """Returns the warnings about a pod, or a pod template, for the client."""
        problem = violations(pod, self.warned)
        return (f"would violate PodSecurity {quote(str(self.warned))}: {problem}",) if problem else ()


PRIVILEGED_POLICY: Final = Policy()


def policy_of(namespace: Document, default: Policy = PRIVILEGED_POLICY) -> Policy:
    """Returns the policy in a namespace's labels; an invalid enforced level becomes `restricted`."""
    return _policy_of_labels(namespace["metadata"].get("labels") or {}, default)


def _policy_of_labels(labels: Mapping[str, str], default: Policy) -> Policy:
    """Returns the policy in labels."""
    if not any(key.startswith(_PREFIX) for key in labels):
        return default
    errors: list[FieldError] = []

    def standard(mode: str, default: LevelVersion, otherwise: str) -> LevelVersion:
        level = labels.get(f"{_PREFIX}{mode}", default.level)
        version = labels.get(f"{_PREFIX}{mode}-version", default.version)
        if level not in LEVELS:
            text = f"must be one of {', '.join(LEVELS)}"
            errors.append(invalid(f"metadata.labels[{_PREFIX}{mode}]", level, text))
            level = otherwise
        if version != LATEST and not VERSION.fullmatch(version):
            text = 'must be "latest" or "v1.x"'
            errors.append(invalid(f"metadata.labels[{_PREFIX}{mode}-version]", version, text))
            version = LATEST
        return LevelVersion(level, version)

    enforced = standard("enforce", default.enforced, RESTRICTED)
    audited = standard("audit", default.audited, PRIVILEGED)
    warned = standard("warn", default.warned, PRIVILEGED)
    is_enforced = labels.get(f"{_PREFIX}enforce") in LEVELS
    has_level, has_version = (f"{_PREFIX}{name}" in labels for name in ("warn", "warn-version"))
    if is_enforced and not has_level and _is_stricter(enforced, warned):
        # Clients that write templates of pods are warned at once.
        warned = LevelVersion(enforced.level, warned.version if has_version else enforced.version)
    return Policy(enforced, audited, warned, tuple(errors))


def _is_stricter(one: LevelVersion, other: LevelVersion) -> bool:
    return LEVELS.index(one.level) > LEVELS.index(other.level)


def _violations(pod: StoredObject, enforced: LevelVersion, exempt: frozenset[str]) -> str:
    """Returns the violations of an existing pod. exempt: runtime classes."""
    document = pod.document()
    if exempt and document["spec"].get("runtimeClassName") in exempt:
        return ""
    return violations(document, enforced, in_detail=False)


class PodSecurity(Plugin):
    name = "PodSecurity"

    def __init__(
        self, context: PluginContext, configured: PodSecurityConfiguration, metrics: PodSecurityMetrics
    ) -> None:
        self._namespaces, self._pods = context.lister(*_NAMESPACES), context.lister(*PODS)
        self._configured = configured
        self._metrics = metrics
        # By operation and subresource.
        self._passed_counts: dict[tuple[str, str], EvaluationCounter] = {}
        self._default = Policy(configured.enforced, configured.audited, configured.warned)

    def handles(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        if operation not in (Operation.CREATE, Operation.UPDATE):
            return False
        if resource == PODS:
            return subresource in _POD_SUBRESOURCES
        return not subresource and (resource == _NAMESPACES or resource in _TEMPLATES)

    async def validate(
        self, attributes: AdmissionAttributes, new: Document, old: Document | None
    ) -> Sequence[str]:
        resource = attributes.resource.stored_group_resource
        if resource == _NAMESPACES:
            return await self._validate_namespace(attributes, new, old)
        configured = self._configured
        if (
            attributes.namespace in configured.exempt_namespaces
            or attributes.user.name in configured.exempt_users
        ):
            is_of_namespace = attributes.namespace in configured.exempt_namespaces
            attributes.annotate(f"{_PREFIX}exempt", "namespace" if is_of_namespace else "user")
            self._metrics.exemptions(_evaluated(attributes)).value += 1
            return ()
        namespace = await self._namespaces.get(attributes.namespace)
        policy = _policy_of_labels(namespace.labels(), self._default) if namespace is not None else None
        if policy is None:
            return ()
        if policy.is_privileged:
            if resource == PODS:
                if attributes.audit is not None:
                    attributes.annotate(_ENFORCED, str(policy.enforced))
                self._passed(attributes, policy).value += 1
            return ()
        template = new if resource == PODS else at(new, *_TEMPLATES[resource])
        if template is None or (resource == PODS and old is not None and not _runs_something_else(new, old)):
            return ()
        spec = template.get("spec") or {}
        if spec.get("runtimeClassName") in configured.exempt_runtime_classes:
            attributes.annotate(f"{_PREFIX}exempt", "runtimeClass")
            self._metrics.exemptions(_evaluated(attributes)).value += 1
            return ()
        if policy.errors:
            told = "; ".join(map(str, policy.errors))
            attributes.annotate(f"{_PREFIX}error", f"Failed to parse policy: {told}")
        offload, size = attributes.offload, work_with(spec)
        if policy.audited.level != PRIVILEGED and (
            found := await offload.run_begun(size, violations, template, policy.audited)
        ):
            told = f"would violate PodSecurity {quote(str(policy.audited))}: {found}"
            attributes.annotate(f"{_PREFIX}audit-violations", told)
            self._evaluations(attributes, AUDIT, policy.audited, is_allowed=False).value += 1
        if resource == PODS:
            attributes.annotate(_ENFORCED, str(policy.enforced))
            problem = await offload.run_begun(size, violations, new, policy.enforced)
            self._evaluations(attributes, ENFORCE, policy.enforced, is_allowed=not problem).value += 1
            if problem:
                why = f"violates PodSecurity {quote(str(policy.enforced))}: {problem}"
                raise refused(attributes, new, why)
        warnings = await offload.run_begun(size, policy.warnings, template)
        if warnings:
            self._evaluations(attributes, WARN, policy.warned, is_allowed=False).value += 1
        return warnings

    def _passed(self, attributes: AdmissionAttributes, policy: Policy) -> EvaluationCounter:
        """Returns the counter of pods in namespaces whose policy has no effect, which are nearly all."""
        if policy is not self._default:
            return self._evaluations(attributes, ENFORCE, policy.enforced, is_allowed=True)
        key = attributes.operation.value, attributes.subresource
        count = self._passed_counts.get(key)
        if count is None:
            count = self._evaluations(attributes, ENFORCE, policy.enforced, is_allowed=True)
            self._passed_counts[key] = count
        return count

    def _evaluations(
        self, attributes: AdmissionAttributes, mode: str, standard: LevelVersion, *, is_allowed: bool
    ) -> EvaluationCounter:
        is_known = standard.version == LATEST or _minor(standard) <= LATEST_MINOR
        version = standard.version if is_known else "future"
        write = _evaluated(attributes)
        return self._metrics.evaluations(write, mode, standard.level, version, is_allowed=is_allowed)

    async def _validate_namespace(
        self, attributes: AdmissionAttributes, new: Document, old: Document | None
    ) -> Sequence[str]:
        policy = policy_of(new, self._default)
        before = policy_of(old, self._default) if old is not None else None
        if policy.errors and (before is None or policy.errors != before.errors):
            raise Invalid(attributes.resource.group_kind, new["metadata"]["name"], policy.errors)
        name = new["metadata"]["name"]
        if before is None:
            return self._exemption(name, policy)
        enforced, relaxed = policy.enforced, before.enforced
        is_stricter = enforced.version != relaxed.version or _is_stricter(enforced, relaxed)
        if enforced.level == PRIVILEGED or enforced == relaxed or not is_stricter:
            return ()
        if name in self._configured.exempt_namespaces:
            return self._exemption(name, policy)
        return await self._existing(name, enforced, attributes.offload)

    def _exemption(self, name: str, policy: Policy) -> Sequence[str]:
        """Returns a warning if the labels of a namespace have no effect."""
        shown = str(policy)
        if name not in self._configured.exempt_namespaces or not shown or shown == str(self._default):
            return ()
        return (
            f"namespace {quote(name)} is exempt from Pod Security, and the policy ({shown}) will be ignored",
        )

    async def _existing(self, namespace: str, enforced: LevelVersion, offload: Offload) -> list[str]:
        """Returns warnings about existing pods that the new level would refuse."""
        pods, exempt = await self._pods.list(namespace), self._configured.exempt_runtime_classes
        found: defaultdict[str, list[str]] = defaultdict(list)
        async for each in in_turns(pods[:EXISTING_PODS_MAX]):
            if problem := await offload.run_begun(
                size_class(len(each.tail)), _violations, each, enforced, exempt
            ):
                found[problem].append(each.key.rpartition("/")[2])
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
        return warnings + sorted(f"{_first_and_others(names)}: {problem}" for problem, names in found.items())


def _first_and_others(names: list[str]) -> str:
    """Returns the first of `names`, and how many others there are."""
    others = len(names) - 1
    return f"{names[0]} (and {others} other pod{'s' * (others > 1)})" if others else names[0]


def _runs_something_else(new: Document, old: Document) -> bool:
    """Returns whether an update changes a container's name or image."""
    after, before = (
        [(each.get("name"), each.get("image")) for each in containers(pod["spec"])] for pod in (new, old)
    )
    return after != before
