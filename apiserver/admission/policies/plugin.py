"""The plugin that asks ValidatingAdmissionPolicies.

Source: k8s.io/apiserver, pkg/admission/plugin/policy/validating/{plugin,dispatcher}.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from apiserver.admission.chain import AdmissionAttributes, Operation, Plugin
from apiserver.admission.compiled_objects import CompiledObjects
from apiserver.admission.listers import Lister
from apiserver.admission.policies.evaluation import BOUNDED_COST_MAX, COST_BUDGET, Budget, Denial, denials
from apiserver.admission.policies.params import Params, UnusableParams
from apiserver.admission.policies.policy import Binding, Policy
from apiserver.admission.webhooks.match_conditions import request_variables
from apiserver.admission.webhooks.requests import EquivalentResources, ReviewedWrite
from apiserver.admission.webhooks.webhook import LabelSelector
from apiserver.authz.attributes import AuthorizationChain
from apiserver.authz.expression_authorizer import UserAuthorizer
from apiserver.brand import Brand
from apiserver.cel.admission import NAMESPACE_OBJECT
from apiserver.cel.library.timestamps import parse_timestamp
from apiserver.errors import ApiError, NotFound, details_of
from apiserver.registry.offload import Offload
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.size_class import SizeClass
from apiserver.vocabulary import Document, GroupResource

_CODES: Final = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}
_UNASKED_REVIEWS: Final = frozenset({"tokenreviews", "selfsubjectreviews", "selfsubjectrulesreviews"})
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

    def __init__(
        self,
        policies: Lister,
        bindings: Lister,
        params: Params,
        namespaces: Lister,
        equivalents: EquivalentResources,
        authorize: AuthorizationChain,
        brand: Brand,
        offload: Offload,
    ) -> None:
        self._policies = CompiledObjects(policies, lambda document: [Policy.of(document)], offload)
        self._bindings = CompiledObjects(bindings, lambda document: [Binding.of(document)], offload)
        self._params = params
        self._namespaces = namespaces
        self._equivalents = equivalents
        self._authorize = authorize
        self._offload = offload
        self._meta_group = brand.meta_group
        self._exempt_group = brand.group(_REGISTRATION_GROUP)
        self._authentication_groups = frozenset({brand.group("authentication"), brand.group("authorization")})
        # The bindings of each policy, and the list that they were in.
        self._bound: tuple[object, Mapping[str, Sequence[Binding]]] = (None, {})

    def handles(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        if resource.group == self._exempt_group and resource.resource in _POLICIES:
            return False  # Else a policy could prevent its own removal.
        if resource.group in self._authentication_groups and resource.resource in _UNASKED_REVIEWS:
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
        write = ReviewedWrite(attributes, self._equivalents, new, old)
        found = _Findings()
        request: dict[str, Any] | None = None
        namespace = _Namespace(self._namespaces, write)
        for policy in policies:
            bindings = bound.get(policy.name)
            if not bindings:
                continue
            resource = policy.matches.resource(write)
            if resource is None or not await namespace.is_selected(policy.matches.namespaces):
                continue
            request = None
            for binding in bindings:
                if not await _matches(binding, write, namespace):
                    continue
                try:
                    params = await self._params.of(policy, binding, write.attributes.namespace)
                except UnusableParams as error:
                    found.add_error(policy, binding, error)
                    continue
                if request is None:
                    request = await self._variables(write, resource, namespace)
                for each in params:
                    for denial in await self._evaluated(write, policy, request, each):
                        found.add(policy, binding, denial)
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

    async def _variables(
        self, write: ReviewedWrite, resource: ServedResource, namespace: _Namespace
    ) -> dict[str, Any]:
        """Returns the variables of the request, as of a resource."""
        description = write.description(resource, self._meta_group)
        new, old = await write.documents(resource)
        authorizer = UserAuthorizer(self._authorize, write.attributes.user)
        variables = request_variables(description, new, old, authorizer)
        variables[NAMESPACE_OBJECT] = await namespace.value()
        return variables

    async def _evaluated(
        self,
        write: ReviewedWrite,
        policy: Policy,
        variables: Mapping[str, Any],
        params: Document | None,
    ) -> Sequence[Denial]:
        def evaluate(is_bounded: bool) -> Sequence[Denial]:
            budget = Budget(COST_BUDGET, BOUNDED_COST_MAX if is_bounded else None)
            return denials(policy, variables, params, budget)

        # Iterations over large documents cost what they do; what takes long is evaluated beside the loop.
        offload = self._offload.for_user(write.attributes.user.name)
        return await offload.run_bounded(SizeClass.SMALL, evaluate)


async def _matches(binding: Binding, write: ReviewedWrite, namespace: _Namespace) -> bool:
    matches = binding.matches
    if matches is None:
        return True
    return matches.resource(write) is not None and await namespace.is_selected(matches.namespaces)


class _Namespace:
    """The namespace of a write, which is looked up when it is first needed."""

    def __init__(self, namespaces: Lister, write: ReviewedWrite) -> None:
        self._namespaces = namespaces
        self._write = write
        self._found: Document | None = None

    async def is_selected(self, selector: LabelSelector) -> bool:
        """What belongs to the cluster always is. Raises NotFound, and the storage's errors."""
        if selector.is_empty:
            return True
        write = self._write
        if write.is_namespace and write.new is not None and not write.attributes.subresource:
            return selector.selects(write.new["metadata"].get("labels") or {})
        if not write.namespace:
            return True
        return selector.selects((await self._document())["metadata"].get("labels") or {})

    async def value(self) -> Document | None:
        """Returns what expressions see of it; nothing for requests about Namespaces themselves."""
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
