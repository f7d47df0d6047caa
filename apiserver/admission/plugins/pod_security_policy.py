"""Admits pods by the PodSecurityPolicies that who creates them, or their service account, may `use`.

It is for releases up to 1.24 alone, and off by default, as there. A policy that allows a pod as it is goes
before those that fill something in; among several the first by name is taken. Its name becomes the annotation
`kubernetes.io/psp`. What is written later is only checked: nothing is filled in any more, and a change of
owners or finalizers alone is let pass. Without a policy nothing is admitted.

Left out, as in Kubernetes: subresources. Ephemeral containers are checked when the pod itself is changed.
Source: kubernetes, plugin/pkg/admission/security/podsecuritypolicy, release 1.24. Rows T11, T30.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple

from apiserver.admission.chain import AdmissionAttributes, Operation, Plugin
from apiserver.admission.compiled_objects import CompiledObjects
from apiserver.admission.listers import refused
from apiserver.admission.plugin_context import PluginContext
from apiserver.admission.plugins.pod_security_policies import (
    Outcome,
    PodSecurityPolicy,
    UnusablePolicy,
)
from apiserver.admission.plugins.pod_specs import PODS, work_with
from apiserver.admission.plugins.privilege_escalation import is_only_gc_change
from apiserver.authn.service_account import GROUP, USER_PREFIX
from apiserver.authz.attributes import ANY_VERSION, Attributes, Decision
from apiserver.field_errors import Errors, told
from apiserver.vocabulary import Document, GroupResource, UserInfo
from storage.turns import in_turns

VALIDATED: Final = "kubernetes.io/psp"
_POLICIES: Final = "podsecuritypolicies"
# Both have had them; rights may be given in either.
_GROUPS: Final = ("policy", "extensions")


class _Choice(NamedTuple):
    """The policy that is taken, and what it makes of the pod.

    If none is, why: what those do not allow that may be used; without any, there are no errors.
    """

    policy: PodSecurityPolicy | None
    outcome: Outcome


class PodSecurityPolicyAdmission(Plugin):
    name = "PodSecurityPolicy"

    def __init__(self, context: PluginContext, minor: int) -> None:
        """minor: of the release 1.`minor` that is served."""
        self._authorize, self._offload = context.authorize, context.offload
        prefix = f"podsecuritypolicy.{context.brand.group('policy')}"
        self._admitted_by, self._validated_by = f"{prefix}/admit-policy", f"{prefix}/validate-policy"

        def compiled(document: Document) -> Sequence[PodSecurityPolicy]:
            try:
                return (PodSecurityPolicy(document, minor),)
            except UnusablePolicy:
                return ()

        self._policies = CompiledObjects(context.lister("policy", _POLICIES), compiled, context.offload)

    def handles(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        return resource == PODS and not subresource and operation in (Operation.CREATE, Operation.UPDATE)

    async def mutate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        if old is not None:
            return
        found = await self._choose(attributes, new, may_fill_in=True)
        if found.policy is None:
            raise _refusal(attributes, new, "admit", found.outcome.errors)
        filled_in = found.outcome.pod
        annotations = filled_in["metadata"].get("annotations") or {}
        new["metadata"] = {
            **filled_in["metadata"],
            "annotations": {**annotations, VALIDATED: found.policy.name},
        }
        new["spec"] = filled_in["spec"]
        attributes.annotate(self._admitted_by, found.policy.name)

    async def validate(
        self, attributes: AdmissionAttributes, new: Document | None, old: Document | None
    ) -> None:
        if new is None or is_only_gc_change(new, old):
            return
        found = await self._choose(attributes, new, may_fill_in=False)
        if found.policy is None:
            raise _refusal(attributes, new, "validate", found.outcome.errors)
        attributes.annotate(self._validated_by, found.policy.name)

    async def _choose(self, attributes: AdmissionAttributes, pod: Document, *, may_fill_in: bool) -> _Choice:
        """Returns the first policy that allows the pod as it is; else the first that fills something in.

        Raises Forbidden if there is no policy, InternalError, and the storage's errors.
        """
        policies = await self._policies.current()
        if not policies:
            raise refused(
                attributes, pod, "PodSecurityPolicy: no providers available to validate pod request"
            )
        if not may_fill_in:
            hint = (pod["metadata"].get("annotations") or {}).get(VALIDATED)
            # It is nearly always the one that is looked for.
            policies = sorted(policies, key=lambda each: each.name != hint)
        filling: _Choice | None = None
        failed: list[tuple[PodSecurityPolicy, Errors]] = []
        async for policy, outcome in self._outcomes(attributes, pod, policies):
            if outcome.errors:
                failed.append((policy, outcome.errors))
                continue
            is_filled_in = outcome.pod is not pod
            if (is_filled_in and (filling is not None or not may_fill_in)) or not await self._may_use(
                attributes, pod, policy
            ):
                continue
            filling = _Choice(policy, outcome)
            if not is_filled_in:
                return filling
        if filling is not None:
            return filling
        # Nobody is told of policies that are not for them.
        errors = [
            error
            for policy, errors in failed
            if await self._may_use(attributes, pod, policy)
            for error in errors
        ]
        return _Choice(None, Outcome(pod, errors))

    async def _outcomes(
        self, attributes: AdmissionAttributes, pod: Document, policies: Sequence[PodSecurityPolicy]
    ) -> AsyncIterator[tuple[PodSecurityPolicy, Outcome]]:
        """Yields what each policy makes of a pod. Both may be large."""
        offload, size = self._offload.for_user(attributes.user.name), work_with(pod["spec"])
        async for policy in in_turns(policies):
            yield policy, await offload.run_begun(size, policy.applied_to, pod)

    async def _may_use(
        self, attributes: AdmissionAttributes, pod: Document, policy: PodSecurityPolicy
    ) -> bool:
        users = [attributes.user]
        if account := pod["spec"].get("serviceAccountName"):
            # It is asked about first: most pods are created by controllers.
            users.insert(0, _account(attributes.namespace, account))
        for user in users:
            for group in _GROUPS:
                asked = Attributes(
                    user,
                    "use",
                    is_resource=True,
                    path="",
                    group=group,
                    resource=_POLICIES,
                    namespace=attributes.namespace,
                    name=policy.name,
                    version=ANY_VERSION,
                )
                if (await self._authorize.decide(asked)).decision is Decision.ALLOW:
                    return True
        return False


def _account(namespace: str, name: str) -> UserInfo:
    return UserInfo(f"{USER_PREFIX}{namespace}:{name}", (GROUP, f"{GROUP}:{namespace}"))


def _refusal(attributes: AdmissionAttributes, pod: Document, what: str, errors: Errors) -> Exception:
    text = " ".join(map(str, told(errors)))
    return refused(attributes, pod, f"PodSecurityPolicy: unable to {what} pod: [{text}]")
