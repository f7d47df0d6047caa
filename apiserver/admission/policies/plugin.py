"""The plugin that asks ValidatingAdmissionPolicies.

Source: k8s.io/apiserver, pkg/admission/plugin/policy/validating/{plugin,dispatcher}.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from apiserver.admission.chain import AdmissionAttributes, Operation, Plugin
from apiserver.admission.compiled_objects import CompiledObjects
from apiserver.admission.listers import Lister
from apiserver.admission.plugin_context import PluginContext
from apiserver.admission.policies.evaluation import BOUNDED_COST_MAX, COST_BUDGET, Budget, Denial, denials
from apiserver.admission.policies.params import Params, UnusableParams
from apiserver.admission.policies.policy import Binding, Policy
from apiserver.admission.webhooks.match_conditions import request_variables
from apiserver.admission.webhooks.requests import ReviewedWrite
from apiserver.admission.webhooks.webhook import LabelSelector
from apiserver.authz.attributes import AuthorizationChain
from apiserver.authz.expression_authorizer import UserAuthorizer
from apiserver.cel.admission import NAMESPACE_OBJECT
from apiserver.cel.library.timestamps import parse_timestamp
from apiserver.errors import ApiError, NotFound, details_of
from apiserver.registry.offload import on_event_loop
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.size_class import SizeClass
from apiserver.vocabulary import Document, GroupResource

# So many evaluations for one write are done on the event loop, if they cost little together.
CASES_ON_LOOP_MAX: Final = 100
_CODES: Final = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}
# Else a policy about everything would end authentication and authorization for all who delegate them.
# Source: k8s.io/kubernetes, pkg/kubeapiserver/admission/exclusion/resources.go.
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
_NAMESPACE_FIELDS: Final = (
    *("name", "generateName", "namespace", "labels", "annotations", "deletionGracePeriodSeconds"),
    *("generation", "resourceVersion", "finalizers"),
)


class PolicyDenied(ApiError):
    """A policy has refused a write."""

    def __init__(self, attributes: AdmissionAttributes, why: str, reason: str) -> None:
        resource, name = attributes.resource.group_resource, attributes.name
        subject = f'{resource} "{name}"' if name else f"{resource}"
        super().__init__(
            f"{subject} is forbidden: {why}",
            details={**details_of(resource, name), "causes": [{"message": why}]},
        )
        self.reason = reason
        self.code = _CODES.get(reason, _CODES["Invalid"])


@dataclass(slots=True)
class _Findings:
    """What the policies have found so far. denied: what refuses the write, in words for the client."""

    denied: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add_error(self, policy: Policy, binding: Binding | None, error: Exception) -> None:
        """A policy or a binding cannot be evaluated, which refuses the write whatever its actions are."""
        if policy.is_required:
            what = "policy" if binding is None else "binding"
            self.denied.append((f"{_by(policy, binding)}failed to configure {what}: {error}", "Invalid"))

    def add(self, policy: Policy, binding: Binding, denial: Denial) -> None:
        if "Deny" in binding.actions:
            self.denied.append((f"{_by(policy, binding)}{denial.message}", denial.reason))
        if "Warn" in binding.actions:
            self.warnings.append(
                f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' with binding "
                f"'{binding.name}': {denial.message}"
            )


def _by(policy: Policy, binding: Binding | None) -> str:
    bound = f" with binding '{binding.name}'" if binding is not None else ""
    return f"ValidatingAdmissionPolicy '{policy.name}'{bound} denied request: "


class ValidatingAdmissionPolicy(Plugin):
    """Evaluates policies, ordered by their names, with each of their bindings."""

    name = "ValidatingAdmissionPolicy"

    def __init__(self, context: PluginContext, params: Params) -> None:
        brand, offload = context.brand, context.offload
        self._exempt_group = brand.group(_REGISTRATION_GROUP)
        policies = context.lister(self._exempt_group, "validatingadmissionpolicies")
        bindings = context.lister(self._exempt_group, "validatingadmissionpolicybindings")
        self._policies = CompiledObjects(policies, lambda document: [Policy.of(document)], offload)
        self._bindings = CompiledObjects(bindings, lambda document: [Binding.of(document)], offload)
        self._params = params
        self._namespaces = context.lister("", "namespaces")
        self._equivalents = context.equivalents
        self._authorize = context.authorize
        self._offload = offload
        self._meta_group = brand.meta_group
        self._unasked = frozenset(
            GroupResource(brand.group(group), each)
            for group, all_ in _UNASKED_REVIEWS.items()
            for each in all_
        )
        # The bindings of each policy, and the list that they were in.
        self._bound: tuple[object, Mapping[str, Sequence[Binding]]] = (None, {})

    def handles(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
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

    def stamp(self) -> object:
        return self._policies.stamp(), self._bindings.stamp()

    async def validate(
        self, attributes: AdmissionAttributes, new: Document | None, old: Document | None
    ) -> Sequence[str] | None:
        policies, bound = await self._policies.current(), await self._bindings_by_policy()
        write = ReviewedWrite(attributes, self._equivalents, self._offload, new, old)
        variables = _Variables(write, self._authorize, self._meta_group, self._namespaces)
        cases: list[_Case] = []
        for policy in policies:
            bindings = bound.get(policy.name)
            if not bindings:
                continue
            resource = policy.matches.resource(write)
            if resource is None or not await variables.selects_namespace(policy.matches.namespaces):
                continue
            for binding in bindings:
                if not await _matches(binding, write, variables):
                    continue
                try:
                    params = await self._params.of(policy, binding, write.attributes.namespace)
                except UnusableParams as error:
                    cases.append(_Case(policy, binding, error=error))
                    continue
                known = await variables.of(resource, has_namespace=policy.sees_namespace)
                cases += [_Case(policy, binding, known, each) for each in params]
        if not cases:
            return None
        # Iterations over large documents cost what they do; what takes long is evaluated beside the loop.
        offload = self._offload.for_user(attributes.user.name)
        size = SizeClass.SMALL if len(cases) <= CASES_ON_LOOP_MAX else SizeClass.LARGE
        found = await offload.run_bounded(size, partial(_evaluated, cases))
        if found.denied:
            refusal = PolicyDenied(attributes, *found.denied[0])
            refusal.add_warnings(found.warnings)
            raise refusal
        return found.warnings

    async def _bindings_by_policy(self) -> Mapping[str, Sequence[Binding]]:
        bindings = await self._bindings.current()
        if self._bound[0] is not bindings:
            by_policy: dict[str, list[Binding]] = {}
            for each in bindings:
                by_policy.setdefault(each.policy, []).append(each)
            self._bound = bindings, by_policy
        return self._bound[1]


class _Case(NamedTuple):
    """A policy that has to be evaluated for a write. error: why it cannot be."""

    policy: Policy
    binding: Binding
    variables: Mapping[str, Any] = {}
    params: Document | None = None
    error: UnusableParams | None = None


def _evaluated(cases: Sequence[_Case], is_bounded: bool) -> _Findings:
    """Raises TakesLong, if it is bounded: all cases together are."""
    found = _Findings()
    bounded = BOUNDED_COST_MAX if is_bounded else None
    for policy, binding, variables, params, error in cases:
        if error is not None:
            found.add_error(policy, binding, error)
            continue
        budget = Budget(COST_BUDGET, bounded)
        for denial in denials(policy, variables, params, budget):
            found.add(policy, binding, denial)
        bounded = budget.bounded
    return found


async def _matches(binding: Binding, write: ReviewedWrite, variables: _Variables) -> bool:
    matches = binding.matches
    if matches is None:
        return True
    return matches.resource(write) is not None and await variables.selects_namespace(matches.namespaces)


class _Variables:
    """What expressions see of a write. It is made when it is first needed, once for all policies."""

    def __init__(
        self, write: ReviewedWrite, authorize: AuthorizationChain, meta_group: str, namespaces: Lister
    ) -> None:
        self._write = write
        self._authorize = authorize
        self._meta_group = meta_group
        self._namespaces = namespaces
        self._found: Document | None = None
        self._known: dict[tuple[object, bool], Mapping[str, Any]] = {}

    async def of(self, resource: ServedResource, *, has_namespace: bool) -> Mapping[str, Any]:
        """Returns the variables as of a resource. Raises ApiError where an object cannot be converted."""
        key = resource.cache_key, has_namespace
        known = self._known.get(key)
        if known is None:
            write = self._write
            new, old = await write.documents(resource)
            authorizer = UserAuthorizer(on_event_loop(self._authorize), write.attributes.user)
            description = write.description(resource, self._meta_group)
            made = request_variables(description, new, old, authorizer)
            if has_namespace:
                made[NAMESPACE_OBJECT] = await self._namespace_object()
            known = self._known[key] = made
        return known

    async def selects_namespace(self, selector: LabelSelector) -> bool:
        """What belongs to the cluster is always selected. Raises NotFound, and the storage's errors."""
        if selector.is_empty:
            return True
        write = self._write
        if write.is_namespace and write.new is not None and not write.attributes.subresource:
            return selector.selects(write.new["metadata"].get("labels") or {})
        if not write.namespace:
            return True
        return selector.selects((await self._document())["metadata"].get("labels") or {})

    async def _namespace_object(self) -> Document | None:
        """Returns nothing for requests about Namespaces themselves."""
        if self._write.is_namespace or not self._write.attributes.namespace:
            return None
        document = await self._document()
        meta = document["metadata"]
        seen: Document = {name: meta[name] for name in _NAMESPACE_FIELDS if name in meta}
        seen["UID"] = meta.get("uid", "")
        for name in ("creationTimestamp", "deletionTimestamp"):
            if when := parse_timestamp(meta.get(name) or ""):
                seen[name] = when
        return {"metadata": seen, "spec": document.get("spec") or {}, "status": document.get("status") or {}}

    async def _document(self) -> Document:
        """Raises NotFound."""
        if self._found is None:
            self._found = await self._namespaces.get_document(self._write.namespace)
            if self._found is None:
                raise NotFound(self._namespaces.group_resource, self._write.namespace)
        return self._found
