"""Policies with their bindings: finds those to evaluate for a write, and their parameters.

Source: k8s.io/apiserver, pkg/admission/plugin/policy/generic/policy_dispatcher.go.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from apiserver.admission.chain import AdmissionAttributes, Operation
from apiserver.admission.compiled_objects import CompiledObjects
from apiserver.admission.plugin_context import PluginContext
from apiserver.admission.policies.params import Params, UnusableParams
from apiserver.admission.policies.policy import Binding, Policy
from apiserver.admission.policies.request_variables import RequestVariables
from apiserver.admission.reviewed_write import ReviewedWrite
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.registry.served_resource import ServedResource
from apiserver.storage.event_loop_turns import in_turns

P = TypeVar("P", bound=Policy)

# Otherwise a policy about everything would end authentication and authorization for all servers that delegate
# them. Source: k8s.io/kubernetes, pkg/kubeapiserver/admission/exclusion/resources.go.
_UNASKED_REVIEWS: Final = {
    "authentication": ("tokenreviews", "selfsubjectreviews"),
    "authorization": (
        *("subjectaccessreviews", "localsubjectaccessreviews"),
        *("selfsubjectaccessreviews", "selfsubjectrulesreviews"),
    ),
}
_POLICIES: Final = frozenset(
    {
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
    }
)
_REGISTRATION_GROUP: Final = "admissionregistration"
# How many kinds of writes are kept with the policies that may match them.
PLANS_MAX: Final = 1_024


class PolicyInvocation(NamedTuple, Generic[P]):
    """A policy that has to be evaluated for a write.

    resource: its version is used. params: the object that the binding refers to, if any.
    error: why the policy cannot be evaluated.
    """

    policy: P
    binding: Binding
    resource: ServedResource
    params: Document | None = None
    error: UnusableParams | None = None


class _UnconditionalPolicies(NamedTuple, Generic[P]):
    """Policies that match every write of a kind."""

    cases: Sequence[PolicyInvocation[P]]


class _ConditionalPolicy(NamedTuple, Generic[P]):
    """A policy that may match a write of a kind."""

    policy: P
    bindings: Sequence[Binding]


class BoundPolicies(Generic[P]):
    """All policies of one kind, ordered by name, each with its bindings.

    configurations: see `chain.Plugin`.
    """

    def __init__(
        self, context: PluginContext, params: Params, kind: str, compile_: Callable[[Document], P]
    ) -> None:
        """kind: the prefix of the names of the two resources. compile_: returns a policy."""
        brand, offload = context.brand, context.offload
        self._exempt_group = brand.group(_REGISTRATION_GROUP)
        policies = context.lister(self._exempt_group, f"{kind}admissionpolicies")
        bindings = context.lister(self._exempt_group, f"{kind}admissionpolicybindings")
        self._policies = CompiledObjects[P](policies, lambda document: [compile_(document)], offload)
        self._bindings = CompiledObjects(bindings, lambda document: [Binding.of(document)], offload)
        self.configurations = (self._policies, self._bindings)
        self._params = params
        self._context = context
        self._equivalents = context.equivalents
        self._namespaces = context.lister("", "namespaces")
        self._unasked = frozenset(
            GroupResource(brand.group(group), each)
            for group, all_ in _UNASKED_REVIEWS.items()
            for each in all_
        )
        # The bindings of each policy, and the list that they were in.
        self._bound: tuple[object, Mapping[str, Sequence[Binding]]] = (None, {})
        # What may match a kind of write, and the policies, bindings and resources for which that holds.
        self._plans: dict[Hashable, Sequence[_UnconditionalPolicies[P] | _ConditionalPolicy[P]]] = {}
        self._planned: tuple[object, object, object] = (None, None, None)

    def may_concern(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        """Returns whether any policy may have to be evaluated for such writes: see `chain.Plugin.handles`."""
        if resource.group == self._exempt_group and resource.resource in _POLICIES:
            return False  # Else a policy could prevent its own removal.
        if resource in self._unasked:
            return False
        policies, bindings = self._policies.known, self._bindings.known
        if policies is None or bindings is None:
            return True
        bound = {each.policy for each in bindings}
        same = {resource, *(each.group_resource for each in self._equivalents.of(resource))}
        return any(
            rule.concerns(group, name, subresource, operation.value)
            for policy in policies
            if policy.name in bound
            for rule in policy.matches.rules
            for group, name in same
        )

    def write(
        self, attributes: AdmissionAttributes, new: Document | None, old: Document | None
    ) -> tuple[ReviewedWrite, RequestVariables]:
        """Returns a write as policies see it, and the variables for their expressions."""
        context = self._context
        write = ReviewedWrite(attributes, self._equivalents, new, old)
        variables = RequestVariables(write, context.authorize, context.brand.meta_group, self._namespaces)
        return write, variables

    async def cases(self, write: ReviewedWrite, variables: RequestVariables) -> Sequence[PolicyInvocation[P]]:
        """Returns the evaluations that a write needs. Raises the storage's errors."""
        steps = await self._steps(write)
        if len(steps) == 1 and isinstance(steps[0], _UnconditionalPolicies):
            return steps[0].cases
        found: list[PolicyInvocation[P]] = []
        # There may be thousands, few of which match.
        async for step in in_turns(steps):
            if isinstance(step, _UnconditionalPolicies):
                found += step.cases
            else:
                found += await self._cases_of(step, write, variables)
        return found

    async def _cases_of(
        self, step: _ConditionalPolicy[P], write: ReviewedWrite, variables: RequestVariables
    ) -> Sequence[PolicyInvocation[P]]:
        policy = step.policy
        resource = policy.matches.resource(write)
        if resource is None or not await variables.selects_namespace(policy.matches.namespaces):
            return ()
        found: list[PolicyInvocation[P]] = []
        for binding in step.bindings:
            if not await _matches(binding, write, variables):
                continue
            try:
                params = await self._params.of(policy, binding, write.attributes.namespace)
            except UnusableParams as error:
                found.append(PolicyInvocation(policy, binding, resource, error=error))
                continue
            found += [PolicyInvocation(policy, binding, resource, each) for each in params]
        return found

    async def _steps(
        self, write: ReviewedWrite
    ) -> Sequence[_UnconditionalPolicies[P] | _ConditionalPolicy[P]]:
        """Returns the policies that may match a write, as far as that depends on its kind.

        The result is cached for each kind of write: policies for other types cost nothing, and those that
        match every object of a type very little.
        """
        policies, bound = await self._policies.current(), await self._bindings_by_policy()
        of = (policies, bound, self._context.served.current)
        if any(now is not before for now, before in zip(of, self._planned, strict=True)):
            self._plans, self._planned = {}, of
        attributes = write.attributes
        resource, is_namespaced = attributes.resource, bool(attributes.namespace)
        key = resource.cache_key, attributes.subresource, attributes.operation, is_namespaced
        plans = self._plans  # It is another one if something has changed by the time that a plan is made.
        steps = plans.get(key)
        if steps is None:
            steps = await self._planned_steps(policies, bound, write)
            if len(plans) >= PLANS_MAX:
                plans.clear()
            plans[key] = steps
        return steps

    async def _planned_steps(
        self, policies: Sequence[P], bound: Mapping[str, Sequence[Binding]], write: ReviewedWrite
    ) -> Sequence[_UnconditionalPolicies[P] | _ConditionalPolicy[P]]:
        steps: list[_UnconditionalPolicies[P] | _ConditionalPolicy[P]] = []
        async for policy in in_turns(policies):
            bindings = bound.get(policy.name)
            if not bindings or not policy.matches.may_match(write):
                continue
            is_settled = policy.params is None and policy.matches.is_about_kinds
            if not is_settled or any(each.matches is not None for each in bindings):
                steps.append(_ConditionalPolicy(policy, bindings))
                continue
            resource = policy.matches.resource(write)
            if resource is None:
                continue
            cases = tuple(PolicyInvocation(policy, each, resource) for each in bindings)
            if steps and isinstance(steps[-1], _UnconditionalPolicies):
                steps[-1] = _UnconditionalPolicies((*steps[-1].cases, *cases))
            else:
                steps.append(_UnconditionalPolicies(cases))
        return steps

    async def _bindings_by_policy(self) -> Mapping[str, Sequence[Binding]]:
        bindings = await self._bindings.current()
        if self._bound[0] is not bindings:
            by_policy: dict[str, list[Binding]] = {}
            for each in bindings:
                by_policy.setdefault(each.policy, []).append(each)
            self._bound = bindings, by_policy
        return self._bound[1]


async def _matches(binding: Binding, write: ReviewedWrite, variables: RequestVariables) -> bool:
    matches = binding.matches
    if matches is None:
        return True
    return matches.resource(write) is not None and await variables.selects_namespace(matches.namespaces)
