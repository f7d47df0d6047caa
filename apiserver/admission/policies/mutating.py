"""The admission plugin for MutatingAdmissionPolicies.

Source: k8s.io/apiserver, pkg/admission/plugin/policy/mutating/{plugin,dispatcher}.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from time import perf_counter
from typing import Final

from apiserver.admission.chain import AdmissionAttributes, Operation, Plugin
from apiserver.admission.listers import refused_name
from apiserver.admission.plugin_context import PluginContext
from apiserver.admission.policies.bound_policies import BoundPolicies, PolicyInvocation
from apiserver.admission.policies.mutation import MutationTarget, mutated
from apiserver.admission.policies.params import Params
from apiserver.admission.policies.policy import MutatingPolicy
from apiserver.admission.policies.request_variables import RequestVariables
from apiserver.admission.reviewed_write import ReviewedWrite
from apiserver.auth.authz.expression_authorizer import evaluated
from apiserver.load.size_class import SizeClass, size_class
from apiserver.meta.errors import ApiError, details_of
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.metrics.policies import PolicyMetrics
from apiserver.registry.patch.apply.type_defs import KEY_DEFAULTS, TypeDef, TypeDefs
from apiserver.registry.served_resource import ServedResource
from apiserver.storage.event_loop_turns import in_turns

# So many mutations of a policy are made on the event loop: each works on the whole object, for which it takes
# up to 0.3 ms if that is small.
MUTATIONS_ON_LOOP_MAX: Final = 20
# More would not be read, and each of a thousand parameters may fail.
CAUSES_MAX: Final = 100


class MutationRefused(ApiError):
    """Failed policies refuse a write."""

    code = 403

    def __init__(
        self, attributes: AdmissionAttributes, new: Document, whys: Sequence[str], reason: str
    ) -> None:
        name = refused_name(attributes, new)
        causes = [{"message": why} for why in whys[:CAUSES_MAX]]
        details = {**details_of(attributes.resource.group_resource, name), "causes": causes}
        super().__init__(whys[0], details=details)
        self.reason = reason


class MutatingAdmissionPolicy(Plugin):
    """Evaluates policies in the order of their names; each sees the changes of those before it.

    A policy with `reinvocationPolicy: IfNeeded` is evaluated again if a later one or another plugin has
    changed the object. Matching uses the object as it arrived.
    """

    name = "MutatingAdmissionPolicy"
    has_rounds = True

    def __init__(self, context: PluginContext, params: Params, metrics: PolicyMetrics) -> None:
        self._policies = BoundPolicies(context, params, "mutating", MutatingPolicy.of)
        self.configurations = self._policies.configurations
        self._metrics = metrics
        self._type_defs = TypeDefs(KEY_DEFAULTS)

    def handles(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        return operation is not Operation.DELETE and self._policies.may_concern(
            resource, subresource, operation
        )

    async def mutate(
        self, attributes: AdmissionAttributes, new: Document, old: Document | None
    ) -> Sequence[str] | None:
        assert attributes.rounds is not None
        rounds = attributes.rounds.of(self)
        write, variables = self._policies.write(attributes, new, old)
        cases = await self._policies.cases(write, variables)
        unusable = [
            f"{_by(case)}failed to configure binding: {case.error}"
            for case in cases
            if case.error is not None and case.policy.is_required
        ]
        if unusable:
            raise MutationRefused(attributes, new, unusable, "Forbidden")
        await rounds.enter(new, write.offload)
        whys: list[str] = []
        has_changed = False
        async for case in in_turns(cases):
            key = _key(case)
            if case.error is not None or (rounds.is_second and key not in rounds.due):
                continue
            if await self._mutate(case, write, variables, whys):
                has_changed = True
            if case.policy.is_called_again:
                rounds.called.add(key)
        if whys:
            raise MutationRefused(attributes, new, whys, "Invalid")
        if has_changed:
            rounds.on_change()
        rounds.leave(new)
        return None

    async def _mutate(
        self,
        case: PolicyInvocation[MutatingPolicy],
        write: ReviewedWrite,
        variables: RequestVariables,
        whys: list[str],
    ) -> bool:
        """Apply the mutations of one policy. Returns whether the object has changed.

        whys: receives the errors that refuse the write. Raises ApiError if the result is not a valid object
            of its kind.
        """
        policy, resource = case.policy, case.resource
        known = await variables.of(resource, policy.sees)
        document, _ = await write.documents(resource)
        assert document is not None
        view = write.attributes.view
        kind = resource if view is None else view.kind
        kind.compile()
        target = MutationTarget(document, kind, self._type_def(kind))
        size = size_class(await write.size(resource))
        if len(policy.mutations) > MUTATIONS_ON_LOOP_MAX:
            size = max(size, SizeClass.LARGE)
        work = partial(mutated, policy, known, case.params, target, perf_counter)
        outcome = await evaluated(partial(write.offload.run_bounded, size, work))
        if outcome.conditions is not None:
            self._metrics.observe_conditions(write.attributes.operation.value, outcome.conditions)
        for error_type, seconds in outcome.checks:
            self._metrics.observe(policy.name, case.binding.name, (error_type,), seconds)
        if policy.is_required:
            whys += [f"{_by(case)}{why}" for why in outcome.errors]
        if outcome.document is document:
            return False
        write.replace(await write.changed(outcome.document, resource))
        return True

    def _type_def(self, kind: ServedResource) -> TypeDef:
        found: TypeDef | None = kind.derived.get(self)
        if found is None:
            type_defs = self._type_defs if kind.definition else TypeDefs()
            found = kind.derived[self] = type_defs.of(kind.schema())
        return found


def _key(case: PolicyInvocation[MutatingPolicy]) -> tuple[str, ...]:
    """Returns a key that identifies an evaluation of a write in both rounds."""
    meta = (case.params or {}).get("metadata") or {}
    return case.policy.name, case.binding.name, meta.get("namespace", ""), meta.get("name", "")


def _by(case: PolicyInvocation[MutatingPolicy]) -> str:
    return f"policy '{case.policy.name}' with binding '{case.binding.name}' denied request: "
