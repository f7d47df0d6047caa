"""Requires that writers of policies and bindings may read the parameters that these refer to.

Otherwise a policy's message could reveal their content.
Source: k8s.io/kubernetes, pkg/registry/admissionregistration, authz.go of policies and bindings.
"""

from __future__ import annotations

from typing import Final

from apiserver.admission.chain import AdmissionAttributes, Plugin, writes
from apiserver.admission.listers import Lister
from apiserver.admission.plugin_context import PluginContext
from apiserver.admission.policies.params import Params
from apiserver.admission.policies.policy import ParamKind
from apiserver.auth.authz.attributes import ANY_VERSION, Attributes, is_allowed
from apiserver.meta.errors import Invalid
from apiserver.meta.field_errors import forbidden
from apiserver.meta.vocabulary import Document, GroupResource, UserInfo

_ALL: Final = "*"
# By the resource of bindings: that of their policies.
_POLICIES: Final = {
    "validatingadmissionpolicybindings": "validatingadmissionpolicies",
    "mutatingadmissionpolicybindings": "mutatingadmissionpolicies",
}


class ParamAccess(Plugin):
    """Checks read access to parameters; it has no name by which it could be disabled."""

    def __init__(self, context: PluginContext, params: Params) -> None:
        group = context.brand.group("admissionregistration")
        self._policies = {
            bindings: context.lister(group, policies) for bindings, policies in _POLICIES.items()
        }
        self.handled = writes(*(GroupResource(group, each) for pair in _POLICIES.items() for each in pair))
        self._params = params
        self._authorize = context.authorize

    async def validate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        spec, old_spec = new.get("spec") or {}, (old or {}).get("spec") or {}
        policies = self._policies.get(attributes.resource.resource)
        if policies is None:
            field = "paramKind"
            if spec.get(field) == old_spec.get(field):
                return
            problem = await self._of_policy(attributes.user, spec[field]) if spec.get(field) else ""
        else:
            field = "paramRef"
            if all(spec.get(each) == old_spec.get(each) for each in (field, "policyName")):
                return
            problem = await self._of_binding(attributes.user, spec, policies) if spec.get(field) else ""
        if problem:
            error = forbidden(f"spec.{field}", problem)
            raise Invalid(attributes.resource.group_kind, new["metadata"].get("name", ""), [error])

    async def _of_policy(self, user: UserInfo, kind: Document) -> str:
        api_version, name = kind.get("apiVersion", ""), kind.get("kind", "")
        asked = self._resource(user, ParamKind(api_version, name))
        if await self._may(asked._replace(verb="get", namespace=_ALL, name=_ALL)):
            return ""
        return (
            f'user {_told(user)} must have "get" permission on all objects of the referenced paramKind '
            f"(kind={name}, apiVersion={api_version})"
        )

    async def _of_binding(self, user: UserInfo, spec: Document, policies: Lister) -> str:
        ref, policy_name = spec["paramRef"], spec.get("policyName", "")
        policy = await policies.get_document(policy_name)
        kind = ((policy or {}).get("spec") or {}).get("paramKind")
        if kind:
            asked = self._resource(user, ParamKind(kind.get("apiVersion", ""), kind.get("kind", "")))
        else:
            asked = _asked(user, _ALL, ANY_VERSION, _ALL)
        verb = "get" if ref.get("name") else "list"
        about = asked._replace(verb=verb, namespace=ref.get("namespace") or "", name=ref.get("name") or "")
        if await self._may(about):
            return ""
        if policy is None:
            return (
                f"unable to get policy {policy_name} to determine minimum required permissions and user "
                f'{_told(user)} does not have "{verb}" permission for all groups, versions and resources'
            )
        return f'user {_told(user)} does not have "{verb}" permission on the object referenced by paramRef'

    def _resource(self, user: UserInfo, kind: ParamKind) -> Attributes:
        """Returns the attributes for the resource of a kind, or for its whole version if it is not served."""
        found = self._params.resource(kind)
        group, _, version = kind.api_version.rpartition("/")
        return _asked(user, group, version, _ALL if found is None else found.resource)

    async def _may(self, asked: Attributes) -> bool:
        return await is_allowed(self._authorize, asked)


def _asked(user: UserInfo, group: str, version: str, resource: str) -> Attributes:
    return Attributes(user, "", True, "", group, resource, version=version)


def _told(user: UserInfo) -> str:
    """Returns a user as Go prints one."""
    extra = " ".join(f"{key}:[{' '.join(values)}]" for key, values in sorted(user.extra))
    return f"&{{{user.name} {user.uid} [{' '.join(user.groups)}] map[{extra}]}}"
