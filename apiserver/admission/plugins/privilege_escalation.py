"""Prevents privilege escalation: users can grant only permissions that they hold.

A user who writes a role must hold all permissions in it, or be allowed to `escalate`; a user who writes a
binding must hold all permissions of its role, or be allowed to `bind`. All permissions are checked, as in
Kubernetes, not only those that an update adds.

The check cannot be disabled, but is called like a plugin: after all that change the object, and before the
resource's own rules. Kubernetes checks at the same place, in the storage of these types.
Source: k8s.io/kubernetes, pkg/registry/rbac. Row O08.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from apiserver.admission.chain import AdmissionAttributes, Plugin, writes
from apiserver.admission.plugin_context import PluginContext
from apiserver.auth.authz.attributes import ANY_VERSION, Attributes, is_allowed
from apiserver.auth.authz.rbac import rule_coverage
from apiserver.auth.authz.rbac.policy import CLUSTER_ROLE, ROLE, RbacPolicy
from apiserver.auth.authz.rbac.rule_coverage import TooManyRules
from apiserver.auth.authz.rbac.rules import ANY, PolicyRule, parse_rules
from apiserver.auth.authz.rule_resolver import TooManyWords
from apiserver.catalogue.rbac.roles import GROUP
from apiserver.golang.quoting import aggregate, go_quote, quoted_list
from apiserver.load.size_class import SizeClass, TakesLong, size_class_of_document
from apiserver.meta.errors import Forbidden, NotFound
from apiserver.meta.vocabulary import SYSTEM_MASTERS, Document, GroupResource

# The steps of a comparison that runs on the event loop: some milliseconds.
_STEPS_ON_LOOP_MAX: Final = 50_000
_ALL_PERMISSIONS: Final = (
    PolicyRule(verbs=(ANY,), api_groups=(ANY,), resources=(ANY,)),
    PolicyRule(verbs=(ANY,), urls=(ANY,)),
)
# The garbage collector, which holds no permissions, changes these of every object.
_GC_METADATA: Final = frozenset({"ownerReferences", "finalizers", "selfLink", "managedFields"})


class PrivilegeEscalationCheck(Plugin):
    """Refuses grants of permissions that the user does not hold. policy: finds the permissions of users."""

    def __init__(self, context: PluginContext, policy: RbacPolicy) -> None:
        group = context.brand.group(GROUP)
        self._policy, self._authorize, self._offload = policy, context.authorize, context.offload
        self._roles = GroupResource(group, "roles")
        self._cluster_roles = GroupResource(group, "clusterroles")
        self._role_bindings = GroupResource(group, "rolebindings")
        bindings = (self._role_bindings, GroupResource(group, "clusterrolebindings"))
        self.handled = writes(self._roles, self._cluster_roles, *bindings)
        self._listers = {
            ROLE: context.lister(*self._roles),
            CLUSTER_ROLE: context.lister(*self._cluster_roles),
        }

    async def mutate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        """Checks a role or a binding without changing it.

        Raises Forbidden, NotFound for a binding to no role, and the storage's errors.
        """
        if SYSTEM_MASTERS in attributes.user.groups:
            return
        if attributes.resource.stored_group_resource in (self._roles, self._cluster_roles):
            await self._check_role(attributes, new, old)
        else:
            await self._check_binding(attributes, new, old)

    async def _check_role(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        resource = attributes.resource.stored_group_resource
        # Permissions by name do not apply to a POST, whose path has no name; to a PUT or apply they do.
        if is_only_gc_change(new, old):
            return
        if await self._may(attributes, "escalate", resource, attributes.path_name):
            return
        rules = await self._offload.run_begun(size_class_of_document(new), parse_rules, new)
        await self._require_held(attributes, new, rules)
        if _has_aggregation(new) or (old is not None and _has_aggregation(old)):
            # An aggregated role gets the rules of roles that others write.
            missing, _ = await self._missing(attributes, new, _ALL_PERMISSIONS)
            if missing:
                why = "must have cluster-admin privileges to use the aggregationRule"
                raise _refused(attributes, new, why)

    async def _check_binding(
        self, attributes: AdmissionAttributes, new: Document, old: Document | None
    ) -> None:
        role = new.get("roleRef") or {}
        kind, name = role.get("kind", ""), role.get("name", "")
        if not name or kind not in self._kinds(attributes):
            return  # The resource's own rules refuse it.
        if is_only_gc_change(new, old):
            return
        lister = self._listers[kind]
        # `bind` is needed in the namespace of the binding, for cluster roles, too.
        bound = GroupResource(role.get("apiGroup") or "", lister.group_resource.resource)
        if await self._may(attributes, "bind", bound, name):
            return
        # A cached role may be older than the one that is granted.
        found = await lister.get_live(name, attributes.namespace if kind == ROLE else "")
        if found is None:
            # Kubernetes' stores name the resource of the request.
            raise NotFound(attributes.resource.group_resource, name)
        await self._require_held(attributes, new, await self._offload.read(found, parse_rules))

    def _kinds(self, attributes: AdmissionAttributes) -> Sequence[str]:
        is_namespaced = attributes.resource.stored_group_resource == self._role_bindings
        return (ROLE, CLUSTER_ROLE) if is_namespaced else (CLUSTER_ROLE,)

    async def _may(
        self, attributes: AdmissionAttributes, verb: str, resource: GroupResource, name: str
    ) -> bool:
        asked = Attributes(
            attributes.user,
            verb,
            group=resource.group,
            resource=resource.resource,
            namespace=attributes.namespace,
            name=name,
            version=ANY_VERSION,
        )
        return await is_allowed(self._authorize, asked)

    async def _require_held(
        self, attributes: AdmissionAttributes, new: Document, rules: Sequence[PolicyRule]
    ) -> None:
        """Require that the user holds the permissions."""
        missing, problems = await self._missing(attributes, new, rules)
        if not missing:
            return
        found = "; resolution errors: [" + aggregate(problems) + "]" if problems else ""
        why = "is attempting to grant RBAC permissions not currently held"
        raise _refused(
            attributes, new, f"{_who(attributes)} {why}:\n{rule_coverage.describe(missing)}{found}"
        )

    async def _missing(
        self, attributes: AdmissionAttributes, new: Document, rules: Sequence[PolicyRule]
    ) -> tuple[Sequence[PolicyRule], Sequence[str]]:
        """Returns the rules that the caller does not hold in the namespace, and the errors of finding the
        caller's rules.

        Raises Forbidden if there are too many rules to compare.
        """
        held_by_caller = partial(self._policy.rules_of, attributes.user, attributes.namespace)
        try:
            return await self._offload.run_bounded(
                SizeClass.SMALL, partial(_uncovered, held_by_caller, rules)
            )
        except TooManyRules:
            why = (
                "is attempting to grant more RBAC permissions than can be compared with those currently held"
            )
            raise _refused(attributes, new, f"{_who(attributes)} {why}") from None


def _uncovered(
    held: Callable[[float], tuple[list[PolicyRule], list[str]]],
    rules: Sequence[PolicyRule],
    is_bounded: bool,
) -> tuple[Sequence[PolicyRule], Sequence[str]]:
    """Returns the rules that the caller does not hold, and the errors of finding the caller's rules.

    held: gets the number of words that it may look at. Raises TooManyRules, and TakesLong.
    """
    if not is_bounded:
        owned, problems = held(math.inf)
        return rule_coverage.uncovered_rules(owned, rules), problems
    try:
        owned, problems = held(_STEPS_ON_LOOP_MAX)
        return rule_coverage.uncovered_rules(owned, rules, steps_max=_STEPS_ON_LOOP_MAX), problems
    except (TooManyRules, TooManyWords):
        raise TakesLong from None


def _refused(attributes: AdmissionAttributes, new: Document, why: str) -> Forbidden:
    name = new["metadata"].get("name") or ""
    return Forbidden.to_resource(attributes.resource.stored_group_resource, name, why)


def _who(attributes: AdmissionAttributes) -> str:
    return f"user {go_quote(attributes.user.name)} (groups={quoted_list(attributes.user.groups)})"


def _has_aggregation(role: Document) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def is_only_gc_change(new: Document, old: Document | None) -> bool:
    """Returns whether a write changes only fields that the garbage collector changes."""
    return old is not None and _compared(new) == _compared(old)


def _compared(document: Document) -> Any:
    meta = {field: each for field, each in document["metadata"].items() if field not in _GC_METADATA}
    return _without_empty({**document, "metadata": meta})


def _without_empty(value: Any) -> Any:
    """Returns a value without its empty members, which count as absent."""
    if isinstance(value, dict):
        kept = {field: _without_empty(each) for field, each in value.items()}
        return {field: each for field, each in kept.items() if each not in (None, [], {})}
    if isinstance(value, list):
        return [_without_empty(each) for each in value]
    return value
